"""MATRIX.md: the behaviours and the clauses that differ anywhere, by version of torch, and what changes between versions."""

from collections.abc import Iterator, Sequence

from ..clauses import CHAPTERS
from ..report.model import count
from .matrix import SIGNS, Matrix, Row, described
from .speed_table import ABOUT, notes, rows
from .transitions import Change, Transition

BUILDS = "Builds of torch"
CAPABILITIES = "What each version can do, found out by trying: ✓ it can, – it cannot, ? not tried."


def page(matrix: Matrix) -> str:
    """The matrix in Markdown."""
    return "\n".join(_lines(matrix)) + "\n"


def _lines(matrix: Matrix) -> Iterator[str]:
    yield "# What torch.nn's Transformer does, by version"
    yield ""
    yield "Made by `python -m conformance matrix` from the stored results; matrix.html has every clause, with values and cases."
    yield f"{', '.join(f'{sign} {word}' for word, sign in SIGNS.items())}; a number says how many checks differ."
    yield ""
    for machine, versions in matrix.machines:
        yield f"- Measured on {_text(described(machine))}: {', '.join(versions)}"
    if len(matrix.machines) > 1:
        yield "- Several machines: what was measured on one is not compared with what was measured on another."
    yield f"- {BUILDS}: {', '.join(matrix.builds)}"
    if matrix.missing:
        yield f"- Missing, no results are stored: {', '.join(matrix.missing)}"
    if matrix.incomplete:
        yield f"- Not complete: {', '.join(matrix.incomplete)}"
    yield from _behaviours(matrix)
    yield from _capabilities(matrix)
    yield from _clauses(matrix)
    yield from _speed(matrix)
    yield from _steps(matrix)


def _behaviours(matrix: Matrix) -> Iterator[str]:
    yield from (
        "",
        "## Behaviours",
        "",
        "What torch does on its slow or its fast path, and what should come of it.",
        "",
    )
    yield from _head(["behaviour", "right", *matrix.versions, "issue"])
    for behaviour, states in matrix.behaviours:
        signs = [SIGNS[state] for state in states]
        yield _row([behaviour.name, behaviour.right, *signs, link(behaviour.issue)])


def _capabilities(matrix: Matrix) -> Iterator[str]:
    yield from ("", "## Capabilities", "", CAPABILITIES, "")
    yield from _head(["capability", *matrix.versions])
    for name, states in matrix.capabilities:
        yield _row([name, *(SIGNS[state] for state in states)])


def _clauses(matrix: Matrix) -> Iterator[str]:
    yield from ("", "## Clauses that differ anywhere", "")
    yield from _head(["clause", "subject", *matrix.versions, "sentence"])
    for chapter in CHAPTERS:
        for row in matrix.chapter(chapter):
            if "differs" in row.states:
                yield _row(
                    [row.clause, row.subject, *map(_cell, range(len(row.cells)), [row] * len(row.cells)), row.sentence]
                )
    agreeing = count(row.subject for row in matrix.rows if "differs" not in row.states)
    yield ""
    yield f"Clauses without a difference on any version: {', '.join(f'{n} {name}' for name, n in agreeing.items()) or 'none'}."


def _speed(matrix: Matrix) -> Iterator[str]:
    yield from ("", "## Speed", "", ABOUT, "")
    yield from (f"- {note}" for note in notes(matrix))
    if any(matrix.speeds):
        yield ""
        yield from _head(["cell", "over", *matrix.versions])
        yield from (_row(row) for row in rows(matrix))


def _steps(matrix: Matrix) -> Iterator[str]:
    yield from ("", "## From version to version")
    for step in matrix.steps:
        yield from ("", f"### {step.before} → {step.after}", "")
        if step.refusal:
            yield f"Not compared: {step.refusal}."
            continue
        counts = count(one.change.value for one in step.transitions)
        yield f"{', '.join(f'{number} {change}' for change, number in counts.items())}."
        noted = [one for one in step.noted() if one.change is not Change.ADDED or one.detail]
        if noted:
            yield ""
            yield from _head(["change", "clause", "subject", "what", "issues"])
        yield from (_row(_transition(one)) for one in noted)


def _transition(one: Transition) -> list[str]:
    return [one.change.value, one.name, one.subject, one.detail, " ".join(map(link, one.issues))]


def _cell(column: int, row: Row) -> str:
    cell, state = row.cells[column], row.states[column]
    return f"{SIGNS[state]} {cell.wrong}" if cell is not None and cell.wrong else SIGNS[state]


def _head(names: Sequence[str]) -> Iterator[str]:
    yield _row(names)
    yield "|" + "---|" * len(names)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_text(cell).replace("|", "\\|") for cell in cells) + " |"


def _text(text: str) -> str:
    """On one line, and no markup."""
    return " ".join(text.replace("<", "&lt;").split())


def link(issue: str) -> str:
    """An issue as a link, its number the text."""
    return f"[{issue_name(issue)}]({issue})" if issue.startswith("https://") else issue


def issue_name(issue: str) -> str:
    """The number of an issue or a pull request, or the text that stands for one."""
    return f"#{issue.rstrip('/').rpartition('/')[2]}" if issue.startswith("https://") else issue
