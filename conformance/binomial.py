"""Exact bounds on counts of independent events."""

import numpy as np


def probabilities(n: int, p: float) -> np.ndarray:
    """The probabilities of 0 … n successes in n independent trials with chance p, 0 < p < 1."""
    count = np.arange(n + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    log_choices = log_factorial[n] - log_factorial - log_factorial[::-1]
    return np.exp(log_choices + count * np.log(p) + (n - count) * np.log1p(-p))


def bounds(n: int, p: float, significance: float) -> tuple[int, int]:
    """The narrowest counts low ≤ high with P(X < low) ≤ significance / 2 and P(X > high) ≤ significance / 2."""
    chance = probabilities(n, p)
    low = np.searchsorted(np.cumsum(chance), significance / 2, side="right")
    high = n - np.searchsorted(np.cumsum(chance[::-1]), significance / 2, side="right")
    return int(low), int(high)


def collision(n: int, p: float) -> float:
    """The probability that two independent counts of n trials are equal."""
    return float((probabilities(n, p) ** 2).sum())
