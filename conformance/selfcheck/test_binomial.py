"""The exact binomial bounds, against exact fractions."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from conformance import binomial


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (7, 0.25), (60, 0.75)])
def test_probabilities(n: int, p: float) -> None:
    exact = [comb(n, k) * Fraction(p) ** k * (1 - Fraction(p)) ** (n - k) for k in range(n + 1)]
    np.testing.assert_allclose(binomial.probabilities(n, p), [float(chance) for chance in exact], rtol=1e-13)


@pytest.mark.parametrize("significance", [0.3, 0.01, 1e-9])
def test_bounds_are_the_narrowest(significance: float) -> None:
    n, p = 60, Fraction(1, 4)
    chances = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    half = Fraction(significance) / 2
    low, high = binomial.bounds(n, float(p), significance)
    assert sum(chances[:low]) <= half < sum(chances[: low + 1])
    assert sum(chances[high + 1 :]) <= half < sum(chances[high:])


def test_collision() -> None:
    """Two tosses each: equal with chance (1 + 4 + 1) / 16."""
    assert binomial.collision(2, 0.5) == pytest.approx(6 / 16)
