"""Speed by version in words and figures: for MATRIX.md, and beside the chart."""

from collections.abc import Iterator, Sequence

from .matrix import MISSING, SIGNS, Matrix, described
from .speed_chart import shown
from .speed_figures import Ratio, Speed, elsewhere, over_plain, timed

# Behind a figure of another machine than the most.
APART = "°"
ABOUT = (
    "Processor time of torch's attention on one thread, as a multiple of the plain handmade core's on the same shape, mask and "
    "direction in the same run: below 1 torch is faster. Its module for multi-head attention has projections besides, which the "
    'core has not. Medians over rounds, with 95 % intervals; "both" is forward and backward. For information: whether a version '
    "is slower is for a duel of two environments to say."
)


def rows(matrix: Matrix) -> Iterator[list[str]]:
    """For each cell its name, what its time is divided by, and a figure for each version; then the plain core's."""
    speeds = matrix.speeds
    apart = elsewhere(speeds)
    for name in timed(speeds):
        figures = [_figure(over_plain(one, name), one, name) for one in speeds]
        yield [name, "plain core", *_marked(figures, apart)]
    for name in dict.fromkeys(name for one in speeds if one for name, anchor in one.anchors.items() if anchor.to):
        found = [next(iter(one.anchors[name].to.values())) if one and name in one.anchors else None for one in speeds]
        figures = [_figure(ratio, one, name) for ratio, one in zip(found, speeds, strict=True)]
        yield [name, "matrix product", *_marked(figures, apart)]


def notes(matrix: Matrix) -> Iterator[str]:
    """What must be known beside the figures: machines, and versions without them."""
    apart = elsewhere(matrix.speeds)
    machines: dict[tuple[bool, str], list[str]] = {}
    for version, speed, other in zip(matrix.versions, matrix.speeds, apart, strict=True):
        if speed is not None:
            machines.setdefault((other, described(speed.machine)), []).append(version)
    for (other, machine), versions in sorted(machines.items()):
        hollow = f" ({APART}, hollow in the chart): not to be compared with the others" if other else ""
        yield f"Measured on {'another machine, ' if other else ''}{machine}{hollow}: {', '.join(versions)}"
    missing = [version for version, speed in zip(matrix.versions, matrix.speeds, strict=True) if speed is None]
    if missing:
        yield f"Not measured: {', '.join(missing)}"


def _figure(ratio: Ratio | None, speed: Speed | None, name: str) -> str:
    if ratio is not None:
        return shown(ratio)
    return SIGNS["not supported" if speed is not None and name in speed.unsupported else MISSING]


def _marked(figures: Sequence[str], apart: Sequence[bool]) -> list[str]:
    return [f"{figure} {APART}" if other else figure for figure, other in zip(figures, apart, strict=True)]
