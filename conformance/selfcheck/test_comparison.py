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


def test_where_torch_has_nothing_a_few_roundings_conform() -> None:
    """The oracle alone is the yardstick then, and nobody is blamed for torch."""
    assert judge(EXACT + EPS * NOISE, None, alone=True).verdict is Verdict.CONFORMS
    assert judge(EXACT + 20 * EPS * NOISE, None, alone=True).verdict is Verdict.DIFFERS
    assert "torch" not in judge(EXACT + 20 * EPS * NOISE, None, alone=True).describe()
    assert judge(EXACT + EPS * NOISE, None).verdict is Verdict.TORCH_DIFFERS


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


def test_a_common_factor_does_not_average_out() -> None:
    """Ten thousand elements too large by one rounding each are no rounding."""
    exact = RNG.normal(size=10000)
    noise = EPS / 2 * exact * RNG.choice([-1, 1], size=exact.shape)
    assert judge(exact + noise, exact - noise, exact).verdict is Verdict.CONFORMS
    assert judge(exact * (1 + EPS / 2), exact - noise, exact).verdict is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("dtype", "kind", "conforming", "differing"),
    [
        ("float64", "output", 1e-13, 1e-11),
        ("float64", "gradient", 1e-13, 1e-11),
        ("float32", "output", 2e-7, 6e-7),
        ("float32", "gradient", 2e-7, 8e-7),
        ("float16", "output", 5e-4, 4e-3),
        ("float16", "gradient", 5e-4, 5e-3),
        ("bfloat16", "output", 4e-3, 3e-2),
        ("bfloat16", "gradient", 4e-3, 4e-2),
    ],
)
def test_what_the_budget_lets_pass(dtype: str, kind: str, conforming: float, differing: float) -> None:
    """Relative errors on both sides of the budget, beside a torch that is off by a third of a rounding."""
    signs = RNG.choice([-1, 1], size=EXACT.shape)
    torch_values = EXACT * (1 + tolerance.epsilon(dtype) / 3 * signs)
    for error, verdict in ((conforming, Verdict.CONFORMS), (differing, Verdict.DIFFERS)):
        assert compare("x", kind, dtype, EXACT * (1 - error * signs), torch_values, EXACT).verdict is verdict


def test_no_overflow_in_the_measure() -> None:
    assert judge(1e200 * EXACT, 1e200 * EXACT, 1e200 * EXACT).verdict is Verdict.CONFORMS


def test_tolerances_stand_in_one_file() -> None:
    """No other module of the clauses has a number that small, or asks NumPy or torch for closeness."""
    package = Path(conformance.__file__).parent
    offenders = []
    for path in package.rglob("*.py"):
        if path.name == "tolerance.py" or {"selfcheck", "benchmarks", "claims"} & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # A tiny eps of a layer norm is an input of a case, not a tolerance.
            number = node.value if isinstance(node, ast.Constant) and isinstance(node.value, float) else 1.0
            if 0 < number < 1e-6 and number not in (1e-12, 1e-30):
                offenders.append(f"{path.relative_to(package)}: {number}")
            if isinstance(node, ast.Attribute) and node.attr in ("allclose", "isclose", "assert_close", "approx"):
                offenders.append(f"{path.relative_to(package)}: {node.attr}")
    assert not offenders
