"""The oracle's values, against mpmath's with fifty digits."""

from collections.abc import Sequence
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from conformance.selfcheck.oracle_checks import Array, random_arrays, relative
from reference.oracle import evaluate, sinusoidal_positions
from reference.oracle.activations import gelu, normal_cdf


def exactly(array: Array) -> list[Any]:
    return [mpmath.mpf(float(entry)) for entry in array]


def as_floats(numbers: Sequence[Any]) -> Array:
    return np.array([float(number) for number in numbers])


@pytest.fixture(autouse=True)
def many_digits() -> Any:
    with mpmath.workdps(50):
        yield


@pytest.mark.parametrize("size", [1.0, 30.0, 1e8])
def test_attention_has_the_exact_value(size: float) -> None:
    query, key, value = random_arrays(3, (1, 3), (4, 3), (4, 2))
    query *= size
    found = evaluate("attention", {}, {}, {"query": query, "key": key, "value": value}, [None]).outputs[0]
    scores = [sum(a * b for a, b in zip(exactly(query[0]), exactly(row), strict=True)) / mpmath.sqrt(3) for row in key]
    powers = [mpmath.exp(score) for score in scores]
    expected = [sum(p * v for p, v in zip(powers, exactly(column), strict=True)) / sum(powers) for column in value.T]
    assert found is not None
    # A score of size s carries the rounding of s, unless one key wins outright.
    tolerance = 1e-15 if size == 1e8 else 1e-15 * (1 + size)
    assert relative(found[0], as_floats(expected)) < tolerance


def test_softmax_is_exact_at_scores_of_a_hundred_million() -> None:
    query, key = np.array([[1.0]]), np.array([[1e8], [1e8 - 1], [-1e8]])
    arguments = {"query": query, "key": key, "value": np.eye(3), "scale": 1.0}
    found = evaluate("attention", {}, {}, arguments, [None]).outputs[0]
    low = float(1 / (1 + mpmath.e))
    assert found is not None
    assert relative(found, np.array([[1 - low, low, 0.0]])) < 2e-16


def test_layer_norm_has_the_exact_value_far_from_zero() -> None:
    spread, weight, bias = random_arrays(4, (1, 6), (6,), (6,))
    x = np.round(spread * 2.0**20) / 2.0**20 + 2.0**20
    found = evaluate(
        "layer_norm",
        {"normalized_shape": 6},
        {"weight": weight, "bias": bias},
        {"input": x},
        [None],
    ).outputs[0]
    exact = exactly(x[0])
    mean = sum(exact) / 6
    variance = sum((entry - mean) ** 2 for entry in exact) / 6
    root = mpmath.sqrt(variance + mpmath.mpf(1e-5))
    affine = zip(exact, exactly(weight), exactly(bias), strict=True)
    expected = [(entry - mean) / root * w + b for entry, w, b in affine]
    assert found is not None
    # The mean is rounded to half a unit of 2^20; one pass over x^2 would leave four digits.
    assert relative(found[0], as_floats(expected)) < 1e-9


def test_gelu_has_the_exact_value_in_both_tails() -> None:
    x = np.linspace(-12, 12, 97)
    expected = as_floats([entry * mpmath.ncdf(entry) for entry in exactly(x)])
    error = np.abs(gelu(x)[0] - expected)
    # The tail's relative condition is x^2.
    assert (error <= 4e-16 * (1 + x * x) * np.abs(expected)).all()


def test_the_series_of_the_normal_distribution_agrees_with_erfc() -> None:
    x = np.linspace(-5, 5, 41)
    series = normal_cdf(x.astype(np.longdouble))
    assert np.abs(series - normal_cdf(x)).max() < 3e-16


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_has_the_exact_value(smoothing: float) -> None:
    (logits,) = random_arrays(5, (5,))
    logits *= 20
    found = evaluate(
        "cross_entropy",
        {"label_smoothing": smoothing},
        {},
        {"input": logits, "target": np.array(3)},
        [None],
    ).outputs[0]
    exact = exactly(logits)
    norm = mpmath.log(sum(mpmath.exp(entry) for entry in exact))
    logs = [entry - norm for entry in exact]
    part = mpmath.mpf(smoothing)
    expected = -(1 - part) * logs[3] - part / 5 * sum(logs)
    assert found is not None
    assert abs(float(found) - float(expected)) < 1e-14 * abs(float(expected))


def test_sinusoidal_positions_have_the_exact_value() -> None:
    table = sinusoidal_positions(5, 7)
    for position, feature in np.ndindex(5, 7):
        power = mpmath.mpf(10000) ** (mpmath.mpf(feature - feature % 2) / 7)
        wave = mpmath.cos if feature % 2 else mpmath.sin
        assert abs(table[position, feature] - float(wave(position / power))) < 1e-15
