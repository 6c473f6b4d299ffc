"""The chart of speed by version: a small SVG for each shape, made of text, which needs neither scripts nor anything else."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from .speed_figures import Ratio, Speed, elsewhere, over_plain, parts, timed

WIDTH, HEIGHT = 400, 300
LEFT, RIGHT, TOP, BOTTOM = 34, 112, 22, 52
# Between two labels at least so much.
APART = 14.0
# An axis spans at least this factor, so that what is nothing but noise does not fill it.
SPAN = 1.5
# Numbers that axes have, the coarsest first.
TICKS = (
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9),
)
# Markers around the point where a path stands.
CIRCLE = "m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z"
SQUARE = "m-3.3-3.3h6.6v6.6h-6.6z"
TRIANGLE = "m0-4.4l4.4 7.6h-8.8z"
DIAMOND = "m0-4.7l4.7 4.7l-4.7 4.7l-4.7-4.7z"


@dataclass(frozen=True)
class Style:
    """How a line looks: its colour (of Okabe and Ito, which the colour-blind tell apart), dashes and markers without it."""

    words: str
    colour: str
    dashes: str
    shape: str


STYLES = {
    ("forward", "none"): Style("forward", "#0072B2", "", CIRCLE),
    ("forward", "causal"): Style("forward, causal", "#D55E00", "7 3", SQUARE),
    ("both", "none"): Style("both", "#009E73", "2 3", TRIANGLE),
    ("both", "causal"): Style("both, causal", "#000000", "8 3 2 3", DIAMOND),
}


@dataclass(frozen=True)
class Panel:
    """What is drawn together: one core on one shape, by direction and mask on each version."""

    core: str
    shape: str
    lines: dict[tuple[str, str], tuple[Ratio | None, ...]]

    @property
    def title(self) -> str:
        """In words."""
        batch, heads, length, width = self.shape.split("x")
        what = "Multi-head module" if self.core == "multihead" else "Attention"
        return f"{what}: {batch} × {heads} heads of {width}, length {length}"


def panels(speeds: Sequence[Speed | None]) -> list[Panel]:
    """The panels of the speeds of all versions, None where one was not measured."""
    found: dict[tuple[str, str], dict[tuple[str, str], tuple[Ratio | None, ...]]] = {}
    for name in timed(speeds):
        core, shape, mask, direction = parts(name)
        if (direction, mask) in STYLES:
            ratios = tuple(over_plain(speed, name) for speed in speeds)
            found.setdefault((core, shape), {})[direction, mask] = ratios
    made = [Panel(core, shape, lines) for (core, shape), lines in found.items()]
    return sorted(made, key=lambda panel: panel.core == "multihead")


def draw(panel: Panel, versions: Sequence[str], speeds: Sequence[Speed | None], name: str) -> str:
    """One panel as SVG.

    Args:
        panel: of the speeds.
        versions: the columns.
        speeds: of each, None where it was not measured.
        name: what its ids begin with, unlike any other on the page.
    """
    return "\n".join(_lines(panel, versions, speeds, name))


def sample(style: Style) -> str:
    """A piece of a line with its marker, for the legend."""
    return (
        f'<svg width="44" height="14" viewBox="0 0 44 14" aria-hidden="true">{_stroke("M2 7H42", style)}'
        f"{_marker(22, 7, style, False)}</svg>"
    )


def _lines(panel: Panel, versions: Sequence[str], speeds: Sequence[Speed | None], name: str) -> Iterator[str]:
    low, high = _range([one for ratios in panel.lines.values() for one in ratios if one is not None])
    step = (WIDTH - LEFT - RIGHT) / len(versions)
    floor = HEIGHT - BOTTOM

    def x(column: int) -> float:
        return LEFT + (column + 0.5) * step

    def y(ratio: float) -> float:
        return TOP + (floor - TOP) * math.log(high / ratio) / math.log(high / low)

    yield f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-title {name}-about">'
    yield f'<title id="{name}-title">{escape(panel.title)}: time by version of torch</title>'
    yield f'<desc id="{name}-about">{escape(described(panel, versions))}</desc>'
    yield '<text x="2" y="12">times the plain core\'s time, logarithmic</text>'
    for column, version in enumerate(versions):
        there = any(ratios[column] is not None for ratios in panel.lines.values())
        if not there:
            words, sign = ("not measured", "?") if speeds[column] is None else ("not supported", "–")
            yield f'<g class="none"><title>torch {escape(version)}: {words}</title>'
            yield f'<rect x="{x(column) - step / 2:.1f}" y="{TOP}" width="{step:.1f}" height="{floor - TOP}"/>'
            yield f'<text x="{x(column):.1f}" y="{floor - 6}" text-anchor="middle">{sign}</text></g>'
        foot = f"{x(column) + 4:.1f} {floor + 8}"
        yield f'<text transform="translate({foot}) rotate(-90)" text-anchor="end">{escape(version)}</text>'
    for tick in ticks(low, high):
        kind = "one" if tick == 1 else "tick"
        yield f'<path class="{kind}" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 4}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
    yield f'<path class="frame" d="M{LEFT} {TOP}V{floor}H{WIDTH - RIGHT}"/>'
    hollow, machines = elsewhere(speeds), [speed and speed.machine for speed in speeds]
    ends = []
    for place, (key, ratios) in enumerate(panel.lines.items()):
        style, aside = STYLES[key], (place - (len(panel.lines) - 1) / 2) * min(2.5, step / 5)
        points = [None if one is None else (x(i) + aside, y(one.middle)) for i, one in enumerate(ratios)]
        for (i, one), (j, other) in pairwise(enumerate(points)):
            if one is not None and other is not None and machines[i] == machines[j]:
                yield _stroke(f"M{one[0]:.1f} {one[1]:.1f}L{other[0]:.1f} {other[1]:.1f}", style)
        for column, (point, ratio) in enumerate(zip(points, ratios, strict=True)):
            if point is not None and ratio is not None:
                bar = f"M{point[0]:.1f} {y(ratio.low):.1f}V{y(ratio.high):.1f}"
                where = ", measured on another machine" if hollow[column] else ""
                said = f"torch {versions[column]}, {style.words}: {shown(ratio)} times the plain core's time{where}"
                yield f'<g><title>{escape(said)}</title><path d="{bar}" stroke="{style.colour}" class="bar"/>'
                yield f"{_marker(*point, style, hollow[column])}</g>"
        seen = [point for point in points if point is not None]
        if seen:
            ends.append((seen[-1][1], style))
    for height, style in _spread(ends, TOP, floor):
        yield _marker(WIDTH - RIGHT + 10, height, style, False)
        yield f'<text x="{WIDTH - RIGHT + 17}" y="{height + 4:.1f}">{style.words}</text>'
    yield "</svg>"


def described(panel: Panel, versions: Sequence[str]) -> str:
    """The panel's lines in words: where each begins and ends, its least and its most."""
    said = []
    for key, ratios in panel.lines.items():
        found = [(ratio.middle, version) for ratio, version in zip(ratios, versions, strict=True) if ratio is not None]
        if found:
            (first, oldest), (last, newest) = found[0], found[-1]
            least, most = min(found)[0], max(found)[0]
            said.append(
                f"{STYLES[key].words}: {first:.2f} times the plain core's time on {oldest}, {last:.2f} on {newest}, "
                f"between {least:.2f} and {most:.2f}."
            )
        else:
            said.append(f"{STYLES[key].words}: no figures.")
    return " ".join(said)


def shown(ratio: Ratio) -> str:
    """A ratio and its interval."""
    return f"{ratio.middle:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


def ticks(low: float, high: float) -> list[float]:
    """Round numbers within a range: at least three, which a narrow one has at equal distances."""
    for mantissas in TICKS:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [float(f"{m * 10.0**power:.6g}") for power in powers for m in mantissas]
        found = [one for one in found if low <= one <= high]
        if len(found) >= 3:
            return found
    wanted = (high - low) / 3
    power = 10.0 ** math.floor(math.log10(wanted))
    step = power * max(m for m in TICKS[0] if m * power <= wanted)
    return [float(f"{n * step:.6g}") for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _range(ratios: Sequence[Ratio]) -> tuple[float, float]:
    """What the axis spans: all intervals, some room, and 1 where that is near."""
    if not ratios:
        return 1 / SPAN, SPAN
    low, high = min(one.low for one in ratios), max(one.high for one in ratios)
    if low / 2 <= 1 <= high * 2:
        low, high = min(low, 1.0), max(high, 1.0)
    room = max(1.06, math.sqrt(SPAN * low / high))
    return low / room, high * room


def _spread(ends: Sequence[tuple[float, Style]], top: float, floor: float) -> list[tuple[float, Style]]:
    """The heights of labels, moved apart where they would cover one another."""
    ordered = sorted(ends, key=lambda end: end[0])
    heights: list[float] = []
    for wanted, _ in ordered:
        heights.append(max(wanted, heights[-1] + APART) if heights else max(wanted, top))
    limit = floor
    for place in range(len(heights) - 1, -1, -1):
        heights[place] = min(heights[place], limit)
        limit = heights[place] - APART
    return [(height, style) for height, (_, style) in zip(heights, ordered, strict=True)]


def _stroke(path: str, style: Style) -> str:
    dashes = f' stroke-dasharray="{style.dashes}"' if style.dashes else ""
    return f'<path d="{path}" fill="none" stroke="{style.colour}" stroke-width="1.6"{dashes}/>'


def _marker(x: float, y: float, style: Style, hollow: bool) -> str:
    fill = "#fff" if hollow else style.colour
    return f'<path d="M{x:.1f} {y:.1f}{style.shape}" fill="{fill}" stroke="{style.colour}" stroke-width="1.4"/>'
