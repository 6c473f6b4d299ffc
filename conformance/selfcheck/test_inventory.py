"""The page on how the suite is built: every clause and file that it names exists, and it names every module."""

import re
from pathlib import Path

import pytest

import conformance
from conformance.clauses import load_all

FOLDER = Path(conformance.__file__).parent
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
CLAUSE = re.compile(r"\b[A-Z]+-\d+\b")
# An id that stands for one yet to be written, in the advice on adding a clause.
EXAMPLES = {"MASK-99"}


def section(heading: str) -> str:
    """The text below a heading of the page."""
    (found,) = (part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith(f"{heading}\n"))
    return found


def rows(heading: str) -> list[list[str]]:
    """The cells of the rows of all tables below a heading, without their head."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {i + shift for i, row in enumerate(cells) if set("".join(row)) <= set("-:") for shift in (-1, 0)}
    return [row for i, row in enumerate(cells) if i not in heads]


FILES = [path for row in rows("Files") for path in re.findall(r"`([^`]+)`", row[0])]
NOUNS = [path for row in rows("The nouns") for path in re.findall(r"`([^`]+)`", row[-1])]


def test_every_clause_named_exists() -> None:
    named = set(CLAUSE.findall(PAGE))
    assert named - set(load_all()) == EXAMPLES


@pytest.mark.parametrize("path", sorted({*FILES, *NOUNS}))
def test_every_file_named_exists(path: str) -> None:
    assert list(FOLDER.glob(path)) if "*" in path else (FOLDER / path).exists()


def test_every_module_is_named_once() -> None:
    """All modules but the tests and the folders' `__init__.py`."""
    modules = {
        path.relative_to(FOLDER).as_posix()
        for path in FOLDER.rglob("*.py")
        if path.name != "__init__.py" and not path.name.startswith("test_")
    }
    named = [path for path in FILES if "*" not in path]
    assert sorted(named) == sorted(modules)


def test_every_row_of_the_inventory_has_an_answer() -> None:
    """A clause, or why there is none."""
    reasons = ("torch's own", "tests nothing", "does not apply", "cannot call it")
    table = rows("What PyTorch itself tests, and the clauses that cover it")
    assert len(table) > 60
    unanswered = [
        row for row in table if len(row) != 2 or not (CLAUSE.search(row[1]) or any(r in row[1] for r in reasons))
    ]
    assert not unanswered
