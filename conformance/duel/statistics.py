"""The statistics of a duel: pure functions on log ratios.

A round times each worker twice, in an order and back (A B C C B A), so that what changes steadily while it lasts cancels.
The estimate is the median over rounds. Its bootstrap distribution over rounds needs no drawing: with n odd, the median of n
values drawn from the n seen is at most the k-th smallest of them with probability P(Binomial(n, k / n) ≥ (n + 1) / 2).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Verdict(str, Enum):
    """What is said of a cell."""

    SLOWER = "slower"
    FASTER = "faster"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Interval:
    """A median and its confidence interval, of logarithms of ratios."""

    middle: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """The end that is farther from 0."""
        return max(abs(self.low), abs(self.high))


@lru_cache(maxsize=64)
def weights(n: int) -> tuple[float, ...]:
    """The probability of each of n sorted values to be the median of n drawn from them with replacement.

    Args:
        n: odd.
    """
    if n % 2 == 0:
        raise ValueError(f"n: expected an odd number, got {n}")
    log_choose = np.array([math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1) for j in range(n + 1)])
    upper = np.arange((n + 1) // 2, n + 1)
    below = np.zeros(n + 1)
    below[n] = 1.0
    for k in range(1, n):
        chance = k / n
        below[k] = np.exp(log_choose[upper] + upper * math.log(chance) + (n - upper) * math.log1p(-chance)).sum()
    found = np.diff(below)
    # Symmetrical but for rounding, which must not make a far value impossible or less.
    return tuple(float(max(0.0, one)) for one in (found + found[::-1]) / 2)


def sample(values: Sequence[float]) -> tuple[Array, Array]:
    """The values sorted, and how probable each is as the bootstrap's median; of an even number the first is left out."""
    kept = np.sort(np.asarray(values[1:] if len(values) % 2 == 0 else values, dtype=np.float64))
    return kept, np.asarray(weights(len(kept)))


def interval(values: Sequence[float], alpha: float) -> Interval:
    """The median and its percentile bootstrap interval.

    Args:
        values: of rounds, at least one.
        alpha: the probability left outside, half of it on each side.
    """
    ordered, probability = sample(values)
    below = np.cumsum(probability)
    low = ordered[np.searchsorted(below, alpha / 2)]
    high = ordered[len(ordered) - 1 - np.searchsorted(np.cumsum(probability[::-1]), alpha / 2)]
    return Interval(float(ordered[len(ordered) // 2]), float(low), float(high))


def judge(found: Interval, delta: float, floor: float) -> Verdict:
    """Slower above δ, faster below −δ, equivalent within the floor; else inconclusive.

    δ is wide while little is known of the control, and must not make a slowdown equivalent.
    """
    if found.low > delta:
        return Verdict.SLOWER
    if found.high < -delta:
        return Verdict.FASTER
    return Verdict.EQUIVALENT if found.reach < floor else Verdict.INCONCLUSIVE


def claim_level(values: Sequence[float], delta: float, floor: float) -> float:
    """The smallest α at which the interval allows a verdict: twice the bootstrap's probability of its contrary."""
    ordered, probability = sample(values)
    slower, faster, above, below = (
        float(probability[chosen].sum())
        for chosen in (ordered <= delta, ordered >= -delta, ordered >= floor, ordered <= -floor)
    )
    return min(1.0, 2 * min(slower, faster, max(above, below)))


def holm(levels: Mapping[str, float], alpha: float) -> dict[str, float]:
    """The α of each of several claims, so that all of them are right with probability 1 − α.

    The most certain gets α / m, the next α / (m − 1), …; behind the first that fails all get the same as it.

    Args:
        levels: the smallest α at which each could be claimed.
        alpha: of the family.
    """
    granted: dict[str, float] = {}
    failed = None
    for place, name in enumerate(sorted(levels, key=lambda one: levels[one])):
        granted[name] = failed if failed is not None else alpha / (len(levels) - place)
        if failed is None and levels[name] > granted[name]:
            failed = granted[name]
    return granted


def spread(control: Interval, floor: float) -> float:
    """δ: what a difference must exceed to be claimed.

    Two workers of one environment are not equally fast: each has its own addresses. How far they may be apart is seen
    between the two of A.

    Args:
        control: A's second worker against its first, on the cell that is judged.
        floor: the least δ.
    """
    return max(floor, control.reach)
