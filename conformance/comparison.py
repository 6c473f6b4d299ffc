"""Subject, reference and oracle side by side for one tensor: errors, ratio, worst element, verdict."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from . import tolerance
from .tolerance import Measure
from .verdicts import Verdict


@dataclass(frozen=True)
class Comparison:
    """One tensor of one case.

    Attributes:
        tensor: its name.
        kind: "output" or "gradient".
        error: rms(subject − oracle).
        torch_error: rms(torch − oracle), NaN where torch gave nothing.
        ratio: error as a multiple of torch's, or of what half a rounding of the inputs makes where that is more (see
            `tolerance`); or None.
        worst: index of the subject's worst element.
        value, torch_value, oracle_value: there.
        relative: max|subject − torch|, relative to max|torch| and to the terms of a gradient; None without torch.
        verdict: who is right.
        reason: set where the values were not compared (a shape, a missing tensor).
        hint: what an error of this size is like.
    """

    tensor: str
    kind: str
    error: float
    torch_error: float
    ratio: float | None
    worst: tuple[int, ...]
    value: float
    torch_value: float
    oracle_value: float
    relative: float | None
    verdict: Verdict
    reason: str = ""
    hint: str = ""

    def describe(self) -> str:
        """One or two lines for a failure message."""
        if self.reason:
            return f"{self.tensor}: {self.reason}"
        # Against a torch that is right to the last digit, a multiple of its error says little.
        telling = self.ratio is not None and self.ratio < 1000
        torch = "" if math.isnan(self.torch_error) else f"torch {self.torch_value:.9g}, "
        place = f"{self.tensor}{list(self.worst)}: subject {self.value:.9g}, {torch}oracle {self.oracle_value:.9g}; "
        if math.isinf(self.error):
            return f"{place}not finite where it should be, or the reverse ({self.verdict.value})"
        apart = ""
        if telling:
            apart = f", {self.ratio:.3g} times torch's"
        elif self.relative is not None:
            apart = f", {self.relative:.2g} of the largest value apart from torch"
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}rms error {self.error:.3g}{apart} ({self.verdict.value}{hint})"


def compare(
    tensor: str,
    kind: str,
    dtype: str,
    subject: np.ndarray | None,
    reference: np.ndarray | None,
    oracle: np.ndarray,
    rows: np.ndarray | None = None,
    terms: float = 0.0,
    typical: float = 0.0,
    neighbours: Sequence[np.ndarray] = (),
    alone: bool = False,
) -> Comparison:
    """Compare one tensor.

    Args:
        tensor: its name.
        kind: "output" or "gradient".
        dtype: of the case.
        subject: the subject's values, or None.
        reference: torch's values, or None where torch could not.
        oracle: the exact values.
        rows: True for the leading positions that count; None for all.
        terms: the size of the terms that a gradient is a difference of.
        typical: torch's relative error in the other tensors of the run; its error in one small tensor may be
            small by chance.
        neighbours: the exact values for inputs half a rounding away.
        alone: torch has no such component, so that it cannot be wrong.
    """
    for name, found in (("the subject", subject), ("torch", reference)):
        if found is None or found.shape != oracle.shape:
            got = "nothing" if found is None else str(found.shape)
            if name == "the subject":
                return _incomparable(tensor, kind, f"expected shape {oracle.shape}, got {got} from {name}")
            reference = None
    assert subject is not None
    columns = _columns(rows)
    a, o = _select(subject, rows), _select(oracle, rows)
    b = None if reference is None else _select(reference, rows)
    if a.size == 0:
        return Comparison(tensor, kind, 0.0, 0.0, None, (), 0.0, 0.0, 0.0, None, Verdict.CONFORMS)

    scale = rms(o)
    maximum = float(np.abs(np.where(np.isfinite(o), o, 0)).max())
    error, worst_error, worst = _errors(a, o)
    torch_error, torch_worst = math.nan, math.nan
    if b is not None:
        torch_error, torch_worst, _ = _errors(b, o)
    yardsticks = [_errors(_select(value, rows), o)[:2] for value in neighbours]
    torch_fits = alone or (b is not None and torch_error <= tolerance.trusted(kind, dtype, scale, terms))
    if alone or b is None:
        yardsticks.append((tolerance.assumed(dtype, scale), tolerance.assumed(dtype, maximum)))
    elif torch_fits:
        yardsticks.append((torch_error, torch_worst))
    believed = Measure(max((y[0] for y in yardsticks), default=0.0), max((y[1] for y in yardsticks), default=0.0))
    limit = tolerance.budget(kind, dtype, believed, Measure(scale, maximum), terms, typical)
    fits = error <= limit.rms and worst_error <= limit.worst
    if kind == "output":
        fits = fits and _slope(a, o) <= tolerance.slope(limit.rms, scale, a.size)

    ratio = None if b is None else tolerance.ratio(dtype, error, believed.rms, scale, terms, typical)
    flat = int(np.ravel_multi_index(worst, a.shape)) if worst else 0
    return Comparison(
        tensor,
        kind,
        error,
        torch_error,
        ratio,
        tuple(int(i) for i in columns(worst)),
        float(a.reshape(-1)[flat]),
        math.nan if b is None else float(b.reshape(-1)[flat]),
        float(o.reshape(-1)[flat]),
        None if b is None else _relative(a, b, terms),
        _verdict(fits, torch_fits),
        hint="" if fits else _hint(dtype, error, scale),
    )


def relative_error(reference: np.ndarray, oracle: np.ndarray) -> float:
    """rms(reference − oracle) / rms(oracle); 0 where that is not a number that says anything."""
    scale = rms(oracle)
    if scale == 0.0 or reference.shape != oracle.shape or not np.isfinite(reference).all():
        return 0.0
    return rms(reference - oracle) / scale


def rms(values: np.ndarray) -> float:
    """Root of the mean square of the finite values; 0 for none. Scaled, so that it cannot overflow."""
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    if largest == 0.0:
        return 0.0
    return largest * float(np.sqrt(np.mean((finite / largest) ** 2)))


def _errors(values: np.ndarray, exact: np.ndarray) -> tuple[float, float, tuple[int, ...]]:
    """Rms and largest distance, and where it is; not finite where the exact value is finite counts as infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(values - exact)
    same = (values == exact) | (np.isnan(values) & np.isnan(exact))
    distance = np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
    worst = tuple(int(i) for i in np.unravel_index(int(distance.argmax()), distance.shape))
    largest = float(distance[worst])
    return (largest if math.isinf(largest) else rms(distance)), largest, worst


def _slope(values: np.ndarray, exact: np.ndarray) -> float:
    """The error along the exact values, as a part of them; 0 where they are not all finite."""
    largest = float(np.abs(exact).max())
    if not np.isfinite(values).all() or not np.isfinite(largest) or largest == 0.0:
        return 0.0
    unit = exact / largest
    return abs(float(((values - exact) / largest * unit).sum())) / float((unit * unit).sum())


def _relative(a: np.ndarray, b: np.ndarray, terms: float) -> float:
    with np.errstate(invalid="ignore"):
        distance = np.abs(a - b)
    distance = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.where(np.isnan(distance), np.inf, distance))
    finite = np.abs(b[np.isfinite(b)])
    largest = max(float(finite.max()) if finite.size else 0.0, terms)
    return 0.0 if distance.max() == 0 else float(distance.max() / largest) if largest else math.inf


def _hint(dtype: str, error: float, scale: float) -> str:
    if dtype == "float64" and scale > 0 and tolerance.like_float32(error / scale):
        return "an error like float32's: is something computed in it?"
    return ""


def _verdict(fits: bool, torch_fits: bool) -> Verdict:
    if fits:
        return Verdict.CONFORMS if torch_fits else Verdict.TORCH_DIFFERS
    return Verdict.DIFFERS if torch_fits else Verdict.BOTH_DIFFER


def _select(values: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    return values if rows is None else values[rows]


def _columns(rows: np.ndarray | None) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """From an index into the selected rows to one into the whole tensor."""
    if rows is None:
        return lambda index: index
    positions = np.argwhere(rows)
    return lambda index: (*positions[index[0]], *index[1:]) if index else index


def _incomparable(tensor: str, kind: str, reason: str) -> Comparison:
    nan = math.nan
    return Comparison(tensor, kind, math.inf, nan, None, (), nan, nan, nan, None, Verdict.DIFFERS, reason)
