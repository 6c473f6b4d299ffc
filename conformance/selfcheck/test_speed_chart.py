"""The chart and the table of speed by version, of made-up figures: nothing is lost, joined or compared that must not be."""

import dataclasses
import re
from itertools import pairwise

import pytest

from conformance.selfcheck.test_matrix import Page
from conformance.selfcheck.test_results import version
from conformance.selfcheck.test_speed import CELL, MACHINE, MODULE, PLAIN, made
from conformance.versions import matrix_html, matrix_markdown, speed, speed_chart
from conformance.versions.matrix import Matrix, matrix
from conformance.versions.speed_chart import STYLES, draw, panels, ticks
from conformance.versions.speed_figures import Ratio, Speed
from conformance.versions.speed_table import ABOUT, notes, rows

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0")
TORCH = tuple(name for name in speed.JUDGED if name.startswith("torch-"))


def lacking() -> Speed:
    """A version that has the module alone."""
    return made(cells={MODULE: made().cells[MODULE]}, unsupported=dict.fromkeys(TORCH, "AttributeError: <no>"))


def speeds() -> tuple[Speed | None, ...]:
    """The first lacks attention, the second is not measured."""
    return lacking(), None, made(ratio=0.8), made(ratio=0.5)


def shown(found: tuple[Speed | None, ...] | None = None) -> Matrix:
    stored = [
        dataclasses.replace(version(name), speed=one) for name, one in zip(VERSIONS, found or speeds(), strict=True)
    ]
    return matrix(stored, VERSIONS)


def panel(text: str) -> Page:
    """A panel as parsed; that its tags close is asserted on the way."""
    page = Page(text)
    assert not page.open
    return page


def drawn(found: tuple[Speed | None, ...], which: int = 0) -> str:
    return draw(panels(found)[which], VERSIONS, found, "x")


def markers(text: str) -> list[str]:
    """What fills the markers of the points, without those of the labels."""
    return re.findall(r'class="bar"/>\n<path d="M\S+ \S+m\S* ?.*?" fill="([^"]+)"', text)


def test_a_panel_for_each_shape() -> None:
    """Four lines each, the module by itself and at the end; what no version supports has its panel all the same."""
    found = panels(speeds())
    assert [one.core for one in found] == ["torch"] * 3 + ["multihead"]
    assert [len(one.lines) for one in found] == [4, 4, 4, 1]
    assert set(found[0].lines) == set(STYLES)
    assert found[0].lines["both", "causal"] == (None, None, Ratio(0.8, 0.792, 0.808), Ratio(0.5, 0.495, 0.505))
    assert found[0].title == "Attention: 16 × 8 heads of 64, length 32"
    assert len(panels([lacking()])) == 4
    assert panels([None]) == []


def test_lines_are_told_apart_without_colour() -> None:
    for part in ("words", "colour", "dashes", "shape"):
        assert len({getattr(style, part) for style in STYLES.values()}) == len(STYLES)


def test_points_and_gaps() -> None:
    """A point and an interval for each figure; lines join neighbours only; versions without figures are marked."""
    text = drawn(speeds())
    panel(text)
    assert text.count('class="bar"') == len(markers(text)) == 8
    assert text.count('stroke-width="1.6"') == 4
    assert "<title>torch 0.1.0: not supported</title>" in text
    assert "<title>torch 0.2.0: not measured</title>" in text
    gap = drawn((made(), None, made(), None))
    assert gap.count('class="bar"') == 8
    assert 'stroke-width="1.6"' not in gap


def test_below_is_faster() -> None:
    """Figures stand by their logarithm: the same factor is the same distance."""
    text = drawn((made(ratio=0.4), made(ratio=0.8), made(ratio=1.6), None))
    heights = [float(y) for y in re.findall(r'class="bar"/>\n<path d="M\S+ ([\d.]+)m', text)][:3]
    assert heights[0] > heights[1] > heights[2]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)
    (one,) = re.findall(r'class="one" d="M\S+ ([\d.]+)H', text)
    assert heights[2] < float(one) < heights[1]


def test_the_line_of_equal_times() -> None:
    """Shown where figures are near it; where all are far it would take their room."""
    for ratio, there in ((0.8, 1), (0.6, 1), (1.9, 1), (0.4, 0), (3.0, 0)):
        assert drawn((made(ratio=ratio), None, None, None)).count('class="one"') == there


def test_intervals() -> None:
    cells = {CELL: {PLAIN: Ratio(1.0, 0.5, 2.0)}}
    text = drawn((made(cells=cells), made(cells=cells), None, None))
    low, high = map(float, re.findall(r'<path d="M\S+ ([\d.]+)V([\d.]+)" stroke', text)[0])
    (one,) = re.findall(r'class="one" d="M\S+ ([\d.]+)H', text)
    assert low > float(one) > high
    assert low - float(one) == pytest.approx(float(one) - high, abs=0.2)


def test_other_machines_are_apart() -> None:
    """Hollow, not joined with the others, and said."""
    other = made(environment={**MACHINE, "cpu": "two"})
    found = (made(), made(), other, made())
    text = drawn(found)
    assert markers(text).count("#fff") == 4
    assert len(markers(text)) == 16
    assert text.count('stroke-width="1.6"') == 4
    assert text.count("measured on another machine") == 4
    both = shown(found)
    said = list(notes(both))
    assert said[1].startswith("Measured on another machine, system Linux, ")
    assert said[1].endswith(
        "cpu two, cpus 2, threads 1 (°, hollow in the chart): not to be compared with the others: 0.3.0"
    )
    (row,) = [row for row in rows(both) if row[0] == CELL]
    assert [cell.endswith("°") for cell in row[2:]] == [False, False, True, False]


def test_accessible() -> None:
    """A title and a description with ids of their own, which the drawing is labelled by."""
    page = panel(drawn(speeds()))
    (attributes,) = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert attributes["role"] == "img"
    ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert set((attributes["aria-labelledby"] or "").split()) == ids
    text = " ".join(page.texts)
    assert "both, causal: 0.80 times the plain core's time on 0.3.0, 0.50 on 0.4.0, between 0.50 and 0.80." in text
    assert "forward: no figures." in " ".join(panel(drawn((lacking(), None, None, None))).texts)


@pytest.mark.parametrize("ratios", [(0.5, 0.5, 0.5, 0.5), (0.1, 0.1, 30.0, 30.0), (6.0, 6.1, 6.2, 6.3)])
def test_labels_stay_apart(ratios: tuple[float, ...]) -> None:
    """However near the lines end, their labels can be read and stay inside; at least three numbers are on the axis."""
    found = tuple(made(ratio=ratio) for ratio in ratios)
    text = drawn(found)
    heights = sorted(
        float(y) for y in re.findall(rf'<text x="{speed_chart.WIDTH - speed_chart.RIGHT + 17}" y="([\d.]+)', text)
    )
    assert len(heights) == 4
    assert all(after - before >= 13.9 for before, after in pairwise(heights))
    assert heights[0] > 0
    assert heights[-1] < speed_chart.HEIGHT - speed_chart.BOTTOM + 5
    assert text.count('class="tick"') + text.count('class="one"') >= 3


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0.09, 11, [0.1, 0.2, 0.5, 1, 2, 5, 10]),
        (0.38, 1.06, [0.4, 0.5, 0.7, 1]),
        (5.9, 9.1, [6, 7, 8, 9]),
        (0.97, 1.13, [1.0, 1.05, 1.1]),
        (2.05, 3.07, [2.2, 2.4, 2.6, 2.8, 3.0]),
    ],
)  # fmt: skip
def test_ticks(low: float, high: float, found: list[float]) -> None:
    assert ticks(low, high) == found


def test_pages() -> None:
    """Chart and table in the HTML page, which leads nowhere else; the table in Markdown; both say what is missing."""
    html, markdown = matrix_html.page(shown()), matrix_markdown.page(shown())
    page = panel(html)
    assert sum(tag == "figure" for tag, _ in page.tags) == 4
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(names)) == len(names)
    for text in (" ".join(page.texts), markdown):
        assert ABOUT in text
        assert "Not measured: 0.2.0" in text
    figures = "| – | ? | 0.80 (0.79–0.81) | 0.50 (0.49–0.51) |"
    assert f"| {CELL} | plain core {figures}" in markdown
    assert f"| {PLAIN} | matrix product | 4.00 (3.90–4.10) | ? | 4.00 (3.90–4.10) |" in markdown
    cells = "".join(f"<td>{cell.strip()}</td>" for cell in figures.strip("| ").split("|"))
    assert f'<th scope="row">{CELL}</th><td>plain core</td>{cells}</tr>' in html


def test_no_speed_at_all() -> None:
    """Pages of results without speed say so, and draw nothing."""
    none = shown((None,) * 4)
    assert "Not measured: 0.1.0, 0.2.0, 0.3.0, 0.4.0" in matrix_markdown.page(none)
    assert "| cell | over |" not in matrix_markdown.page(none)
    assert "<svg" not in matrix_html.page(none)
