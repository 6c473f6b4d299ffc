"""The specification: every clause has cases, a source and its line on the page."""

from pathlib import Path

import pytest

import conformance
from conformance.clauses import CHAPTERS, MUST, REGISTRY, clause, load_all
from conformance.report.specification import page
from conformance.subjects.load import load

CLAUSES = load_all()


def test_page_is_current() -> None:
    """SPECIFICATION.md is what `python -m conformance specification` prints."""
    path = Path(conformance.__file__).parent / "SPECIFICATION.md"
    assert path.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_has_clauses(chapter: str) -> None:
    assert [one for one in CLAUSES.values() if one.chapter == chapter]


@pytest.mark.parametrize("name", CLAUSES)
def test_every_clause_has_cases_and_a_source(name: str) -> None:
    assert CLAUSES[name].cases
    assert CLAUSES[name].source
    assert CLAUSES[name].sentence.endswith((".", ";"))


def test_handmade_declares_nothing() -> None:
    """The handmade model takes every option, and has no policy but the specification's own."""
    for adapter in load("handmade").adapters.values():
        assert adapter.unsupported == ()
        assert (adapter.dead_rows, adapter.padded_rows) == ("zero", "computed")


def test_a_clause_is_registered_once() -> None:
    def other(trial: object) -> None:
        """Something else."""

    with pytest.raises(ValueError, match="clause VALUE-01: already"):
        clause("VALUE-01", MUST, "nowhere", [])(other)
    with pytest.raises(ValueError, match="expected a chapter"):
        clause("POETRY-01", MUST, "nowhere", [])(other)
    other.__doc__ = None
    with pytest.raises(ValueError, match="expected a docstring"):
        clause("VALUE-99", MUST, "nowhere", [])(other)
    assert "VALUE-99" not in REGISTRY
