"""matrix.html: the whole matrix on one page without anything outside of it, readable without scripts."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from ..clauses import CHAPTERS
from ..report.model import count
from . import speed_chart
from .matrix import MISSING, SIGNS, Matrix, Row, described, rerun, sentence
from .matrix_markdown import BUILDS, CAPABILITIES, issue_name
from .results import SUBJECTS, Counts
from .speed_table import ABOUT, notes, rows

HERE = Path(__file__).parent
CLASSES = {"conforms": "c", "differs": "d", "not supported": "n", MISSING: "m"}


def page(matrix: Matrix) -> str:
    """The matrix as an HTML page."""
    return "\n".join(_lines(matrix)) + "\n"


def _lines(matrix: Matrix) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<title>torch.nn's Transformer by version of torch</title>"
    yield f"<style>\n{(HERE / 'matrix.css').read_text(encoding='utf-8')}</style></head><body>"
    yield "<h1>What torch.nn's Transformer does, by version of torch</h1>"
    yield "<p>Each row is a clause of the specification as one subject meets it: the handmade model, torch where gradients"
    yield " are recorded (torch), in eval mode without gradients (torch-fast), torch's attention with one implementation alone"
    yield " (torch-math, torch-flash). Open a cell that differs for what was found, on which cases, and the line that repeats"
    yield " it; rest on any other for its numbers.</p>"
    legend = " ".join(f'<span class="{CLASSES[w]} key">{sign} {w}</span>' for w, sign in SIGNS.items())
    places = {
        "clauses": "Clauses",
        "behaviours": "Behaviours",
        "capabilities": "Capabilities",
        "speed": "Speed",
        "transitions": "From version to version",
    }
    links = " · ".join(f'<a href="#{place}">{name}</a>' for place, name in places.items())
    yield f"<p>{links}</p>"
    yield f"<p>{legend}</p><ul>"
    for machine, versions in matrix.machines:
        yield f"<li>Measured on {escape(described(machine))}: {escape(', '.join(versions))}</li>"
    if len(matrix.machines) > 1:
        yield "<li>Several machines: what was measured on one is not compared with what was measured on another.</li>"
    yield f"<li>{BUILDS}: {escape(', '.join(matrix.builds))}</li>"
    if matrix.missing:
        yield f"<li>Missing, no results are stored: {escape(', '.join(matrix.missing))}</li>"
    if matrix.incomplete:
        yield f"<li>Not complete: {escape(', '.join(matrix.incomplete))}</li>"
    yield "</ul>"
    yield from _filters(matrix)
    yield '<h2 id="clauses">Clauses</h2><div class="scroll" tabindex="0"><table class="grid" id="grid">'
    yield from _head(matrix, "clause")
    for chapter, title in CHAPTERS.items():
        rows = matrix.chapter(chapter)
        if rows:
            yield f'<tbody data-chapter="{chapter}"><tr class="chapter"><th colspan="{len(matrix.versions) + 1}">'
            yield f"<span>{chapter}: {escape(title)}</span></th></tr>"
            yield from (_row(matrix, row) for row in rows)
            yield "</tbody>"
    yield "</table></div>"
    yield from _behaviours(matrix)
    yield from _capabilities(matrix)
    yield from _speed(matrix)
    yield from _steps(matrix)
    yield '<output id="value" hidden></output>'
    yield f"<script>\n{(HERE / 'matrix.js').read_text(encoding='utf-8')}</script></body></html>"


def _filters(matrix: Matrix) -> Iterator[str]:
    """Choices that scripts need; shown by the script alone."""
    chapters = [chapter for chapter in CHAPTERS if matrix.chapter(chapter)]
    verdicts = [word for word in SIGNS if word != MISSING]
    yield '<form id="filters" hidden>'
    yield _choice("chapter", "chapter", ["", *chapters], "")
    yield _choice("subject", "subject", ["", *SUBJECTS], "")
    yield _choice("verdict", "some version", ["", *verdicts], "")
    yield _choice("from", "from torch", list(matrix.versions), matrix.versions[0])
    yield _choice("to", "to torch", list(matrix.versions), matrix.versions[-1])
    yield '<output id="shown"></output></form>'


def _choice(name: str, label: str, values: list[str], chosen: str) -> str:
    options = "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{escape(value) or "all"}</option>'
        for value in values
    )
    return f'<label>{label} <select name="{name}">{options}</select></label>'


def _head(matrix: Matrix, first: str) -> Iterator[str]:
    columns = "".join(f'<th scope="col">{escape(version)}</th>' for version in matrix.versions)
    yield f'<thead><tr><th scope="col">{first}</th>{columns}</tr></thead>'


def _row(matrix: Matrix, row: Row) -> str:
    letters = "".join(CLASSES[state] for state in row.states)
    cells = "".join(_cell(row, *pair) for pair in zip(matrix.versions, row.cells, row.states, strict=True))
    sentence = f"<details><summary>{escape(row.clause)}</summary><p>{escape(row.sentence)}</p></details>"
    name = f"{sentence if row.sentence else escape(row.clause)} <small>{row.subject}</small>"
    return f'<tr data-subject="{row.subject}" data-states="{letters}"><th scope="row">{name}</th>{cells}</tr>'


def _cell(row: Row, version: str, cell: Counts | None, state: str) -> str:
    sign, kind = SIGNS[state], CLASSES[state]
    if cell is None:
        return f'<td class="{kind}" title="torch {version}: nothing stored">{sign}</td>'
    if not cell.wrong:
        return f'<td class="{kind}" title="{escape(_numbers(version, cell))}">{sign}</td>'
    line = rerun(row, cell.differs[0]) if cell.differs else ""
    more = f"<li>and {len(cell.rest)} more</li>" if cell.rest else ""
    cases = "".join(f"<li>{escape(case)}</li>" for case in cell.differs) + more
    numbers = escape(_numbers(version, cell))
    return (
        f'<td class="{kind}"><details><summary title="{numbers}">{sign}<small>{cell.wrong}</small></summary>'
        f'<div class="found"><b>{escape(row.clause)}, {row.subject}, torch {escape(version)}</b> {escape(row.sentence)}<p>{numbers}</p>'
        f"<p>{escape(cell.message)}</p><pre>{escape(line)}</pre><ul>{cases}</ul></div></details></td>"
    )


def _numbers(version: str, cell: Counts) -> str:
    """Verdicts, kinds, policies and error ratios in words."""
    parts = [
        f"{number} {name}" for counts in (cell.verdicts, cell.kinds, cell.policies) for name, number in counts.items()
    ]
    if cell.ratio is not None:
        parts.append(f"error {cell.ratio:g} times torch's slow path's (median), {cell.largest:g} (largest)")
    return f"torch {version}: {', '.join(parts)}"


def _behaviours(matrix: Matrix) -> Iterator[str]:
    yield '<h2 id="behaviours">Behaviours</h2><p>What torch does, on which checks it shows, and what should come of it.</p>'
    yield '<div class="scroll" tabindex="0"><table class="grid wide">'
    yield from _head(matrix, "behaviour")
    yield "<tbody>"
    for behaviour, states in matrix.behaviours:
        cells = "".join(
            f'<td class="{CLASSES[state]}" title="torch {escape(version)}: {state}">{SIGNS[state]}</td>'
            for version, state in zip(matrix.versions, states, strict=True)
        )
        shown = f"{', '.join(behaviour.clauses)} as {', '.join(behaviour.subjects)}"
        about = f"{escape(behaviour.name)} <small>right: {escape(behaviour.right)} ({escape(shown)}) {_link(behaviour.issue)}</small>"
        yield f'<tr><th scope="row">{about}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _capabilities(matrix: Matrix) -> Iterator[str]:
    yield f'<h2 id="capabilities">Capabilities</h2><p>{CAPABILITIES}</p>'
    yield '<div class="scroll" tabindex="0"><table class="grid wide">'
    yield from _head(matrix, "capability")
    yield "<tbody>"
    for name, states in matrix.capabilities:
        cells = "".join(f'<td class="{CLASSES[state]}">{SIGNS[state]}</td>' for state in states)
        yield f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _speed(matrix: Matrix) -> Iterator[str]:
    yield f'<h2 id="speed">Speed</h2><p>{escape(ABOUT)}</p><ul>'
    yield from (f"<li>{escape(note)}</li>" for note in notes(matrix))
    yield "</ul>"
    if not any(matrix.speeds):
        return
    keys = (f"<li>{speed_chart.sample(style)} {escape(style.words)}</li>" for style in speed_chart.STYLES.values())
    yield f'<ul class="keys">{"".join(keys)}<li>| interval</li><li>{SIGNS[MISSING]} not measured</li><li>– not supported</li></ul>'
    yield '<div class="panels">'
    for number, panel in enumerate(speed_chart.panels(matrix.speeds)):
        drawing = speed_chart.draw(panel, matrix.versions, matrix.speeds, f"speed-{number}")
        yield f"<figure><figcaption>{escape(panel.title)}</figcaption>{drawing}</figure>"
    yield '</div><details><summary>The figures</summary><div class="scroll" tabindex="0"><table class="figures">'
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("cell", "over", *matrix.versions))
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for name, *cells in rows(matrix):
        yield f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
    yield "</tbody></table></div></details>"


def _steps(matrix: Matrix) -> Iterator[str]:
    yield '<h2 id="transitions">From version to version</h2>'
    for step in matrix.steps:
        counts = count(one.change.value for one in step.transitions)
        said = step.refusal or ", ".join(f"{number} {change}" for change, number in counts.items())
        yield f"<details><summary>{escape(step.before)} → {escape(step.after)}: {escape(said)}</summary>"
        heads = "".join(f'<th scope="col">{name}</th>' for name in ("change", "clause", "subject", "what", "issues"))
        yield f'<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>'
        for one in step.noted():
            issues = " ".join(map(_link, one.issues))
            cells = "".join(f"<td>{escape(text)}</td>" for text in (one.change.value, one.name, one.subject))
            what = f"{escape(one.detail)} <small>{escape(sentence(one.name))}</small>"
            yield f"<tr>{cells}<td>{what}</td><td>{issues}</td></tr>"
        yield "</tbody></table></div></details>"


def _link(issue: str) -> str:
    if not issue.startswith("https://"):
        return ""
    return f'<a href="{escape(issue)}">{escape(issue_name(issue))}</a>'
