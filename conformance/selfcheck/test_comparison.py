"""The comparison and its error budget: what conforms, what differs, and whose fault it is."""

import ast
from pathlib import Path

import numpy as np
import pytest

import conformance
from conformance import tolerance
from conformance.comparison import Comparison, compare
from conformance.verdicts import Verdict

RNG = np.random.default_rng(0)
EXACT = RNG.normal(size=(2, 5, 4))
NOISE = RNG.normal(size=EXACT.shape)
EPS = tolerance.epsilon("float32")


def judge(
    subject: np.ndarray, torch_values: np.ndarray | None, exact: np.ndarray = EXACT, **more: object
) -> Comparison:
    """A float32 output."""
    return compare("output", "output", "float32", subject, torch_values, exact, **more)  # type: ignore[arg-type]


def test_equal_errors_conform() -> None:
    assert judge(EXACT + EPS * NOISE, EXACT - EPS * NOISE).verdict is Verdict.CONFORMS


def test_a_hundred_roundings_differ() -> None:
    found = judge(EXACT + 100 * EPS * NOISE, EXACT + EPS * NOISE)
    assert found.verdict is Verdict.DIFFERS
    assert found.ratio == pytest.approx(100)


def test_torch_may_be_the_one() -> None:
    assert judge(EXACT + EPS * NOISE, EXACT + 0.1 * NOISE).verdict is Verdict.TORCH_DIFFERS


def test_both_may_be_wrong() -> None:
    """A torch that is far off is no yardstick: sharing its error does not help."""
    assert judge(EXACT + 0.1 * NOISE, EXACT + 0.1 * NOISE).verdict is Verdict.BOTH_DIFFER


def test_no_torch() -> None:
    assert judge(EXACT, None).verdict is Verdict.TORCH_DIFFERS
    assert judge(EXACT + 0.1, None).verdict is Verdict.BOTH_DIFFER


def test_torch_without_error_leaves_a_floor() -> None:
    assert judge(EXACT * (1 + EPS), EXACT).verdict is Verdict.CONFORMS


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite_differs(value: float) -> None:
    broken = EXACT.copy()
    broken[1, 3, 2] = value
    found = judge(broken, EXACT)
    assert found.verdict is Verdict.DIFFERS
    assert found.worst == (1, 3, 2)


def test_nan_where_the_oracle_has_it() -> None:
    exact = EXACT.copy()
    exact[0, 0, 0] = np.nan
    assert judge(exact, exact, exact).verdict is Verdict.CONFORMS
    assert judge(EXACT, exact, exact).verdict is Verdict.DIFFERS


def test_one_wrong_element_differs() -> None:
    """The rms of a large tensor would hide it; the worst element does not."""
    exact = np.ones((300, 300))
    one = exact.copy()
    one[7, 9] += 1e-4
    found = judge(one, exact + EPS / 2, exact)
    assert (found.verdict, found.worst) == (Verdict.DIFFERS, (7, 9))


def test_rows_that_do_not_count() -> None:
    """The worst element is named by its place in the whole tensor."""
    rows = np.zeros((2, 5), dtype=bool)
    rows[1, 2:] = True
    spoilt = EXACT.copy()
    spoilt[0] = np.nan
    assert judge(spoilt, EXACT, rows=rows).verdict is Verdict.CONFORMS
    spoilt[1, 4, 3] += 1
    assert judge(spoilt, EXACT, rows=rows).worst == (1, 4, 3)


def test_shapes_and_missing_tensors() -> None:
    found = judge(EXACT[:1], EXACT)
    assert found.verdict is Verdict.DIFFERS
    assert "(2, 5, 4)" in found.describe()
    assert "(1, 5, 4)" in found.describe()


def test_a_zero_gradient_is_measured_by_its_siblings() -> None:
    zero, noise = np.zeros(8), 1e-17 * NOISE.reshape(-1)[:8]
    found = compare("in_proj_bias", "gradient", "float64", noise, -noise, zero, terms=1.0)
    assert (found.verdict, found.ratio) == (Verdict.CONFORMS, None)
    assert (
        compare("in_proj_bias", "gradient", "float64", 1e10 * noise, noise, zero, terms=1.0).verdict is Verdict.DIFFERS
    )


def test_no_overflow_in_the_measure() -> None:
    assert judge(1e200 * EXACT, 1e200 * EXACT, 1e200 * EXACT).verdict is Verdict.CONFORMS


def test_tolerances_stand_in_one_file() -> None:
    """No other module of the suite has a number that small, or asks NumPy or torch for closeness."""
    package = Path(conformance.__file__).parent
    offenders = []
    for path in package.rglob("*.py"):
        if path.name == "tolerance.py" or "selfcheck" in path.parts or "benchmarks" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # A tiny eps of a layer norm is an input of a case, not a tolerance.
            number = node.value if isinstance(node, ast.Constant) and isinstance(node.value, float) else 1.0
            if 0 < number < 1e-6 and number not in (1e-12, 1e-30):
                offenders.append(f"{path.relative_to(package)}: {number}")
            if isinstance(node, ast.Attribute) and node.attr in ("allclose", "isclose", "assert_close", "approx"):
                offenders.append(f"{path.relative_to(package)}: {node.attr}")
    assert not offenders
