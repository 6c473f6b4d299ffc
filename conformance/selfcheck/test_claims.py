"""The claims: each has its test, its figures and its place on the page; and the documents' modules have theirs."""

import ast
import importlib
import importlib.util
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

import handmade
from conformance.__main__ import main
from conformance.claims.claim import FOLDER, THEMES, Claim, Said, load_claims
from conformance.claims.figures import FIGURES
from conformance.claims.page import page
from conformance.claims.pictures import description
from conformance.selfcheck.test_inventory import CLAUSE, rows

CLAIMS = {claim.id: claim for claim in load_claims()}
TESTS = {
    (theme, node.name)
    for theme in THEMES
    for node in ast.parse((FOLDER / f"test_{theme}.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
}
MODULES = rows("The documents' modules, and the clauses on them")


def test_page_is_current() -> None:
    """CLAIMS.md is what `python -m conformance claims` prints."""
    assert (FOLDER / "CLAIMS.md").read_text(encoding="utf-8") == page()


def test_ids_count_up_in_every_theme() -> None:
    count: Counter[str] = Counter()
    for claim in load_claims():
        count[claim.theme] += 1
        assert claim.id == f"{claim.theme}-{count[claim.theme]:02}"
    assert set(count) == set(THEMES)
    assert len(CLAIMS) == len(load_claims()) >= 30


def test_every_test_belongs_to_one_claim() -> None:
    named = [(claim.theme, claim.test) for claim in load_claims() if claim.test]
    assert sorted(named) == sorted(TESTS)
    assert {path.stem.removeprefix("test_") for path in FOLDER.glob("test_*.py")} == set(THEMES)


@pytest.mark.parametrize("id", CLAIMS)
def test_every_claim_is_complete(id: str) -> None:
    """It says something, of a section; it has a test if that is possible; what is not plainly true has a reason."""
    claim = CLAIMS[id]
    assert claim.says.endswith(".")
    assert claim.tutorial or claim.walkthrough
    assert bool(claim.test) == (claim.verdict is not Said.NOT_TESTABLE)
    assert claim.note.endswith(".") or (claim.verdict is Said.TRUE and not claim.note)


def test_what_must_be_false_is() -> None:
    """The two claims that started it."""
    assert CLAIMS["torch_modules-03"].verdict is Said.FALSE
    assert CLAIMS["mask-02"].verdict is Said.FALSE


def test_a_note_with_other_figures_is_refused() -> None:
    claim = Claim("mask-99", "mask", "Something.", Said.TRUE, note="It is 0.25 apart.")
    claim.states("{:.2f} apart", 0.2501)
    with pytest.raises(AssertionError, match=r"measured '0\.26 apart'"):
        claim.states("{:.2f} apart", 0.2561)


@pytest.mark.parametrize("name", FIGURES)
def test_every_picture_is_current(name: str) -> None:
    """It belongs to one claim, and the numbers that it carries inside are those that are measured."""
    assert [claim.picture for claim in load_claims()].count(name) == 1
    root = ElementTree.parse(FOLDER / "pictures" / f"{name}.svg").getroot()
    carried = [element.text for element in root.iter() if element.tag.endswith("}description")]
    assert carried == [description(name)]


def test_no_other_pictures() -> None:
    assert {claim.picture for claim in load_claims() if claim.picture} == set(FIGURES)
    assert {path.stem for path in (FOLDER / "pictures").iterdir()} == set(FIGURES)


def test_pictures_are_the_same_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    for folder in ("one", "two"):
        assert main(["claims", "--pictures", str(tmp_path / folder)]) == 0
    assert f"{tmp_path}/two/gradient-norms.svg" in capsys.readouterr().out
    for name in FIGURES:
        one, two = ((tmp_path / folder / f"{name}.svg").read_bytes() for folder in ("one", "two"))
        assert one == two
        assert b"<dc:date>" not in one


def test_pictures_that_cannot_be_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and exit code 2, without matplotlib and where the folder is a file."""
    (tmp_path / "file").write_text("")
    if importlib.util.find_spec("matplotlib") is not None:
        assert main(["claims", "--pictures", str(tmp_path / "file")]) == 2
        assert capsys.readouterr().err.startswith(f"--pictures: {tmp_path}/file cannot be written")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["claims", "--pictures", str(tmp_path / "new")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("--pictures: needs matplotlib")
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("row", MODULES, ids=[row[0] for row in MODULES])
def test_every_module_of_the_documents_has_a_counterpart(row: list[str]) -> None:
    """A name of the handmade package, and a clause; that the clauses exist is held for the whole page."""
    _, counterparts, clauses = row
    names = re.findall(r"`([^`]+)`", counterparts)
    assert names
    assert CLAUSE.search(clauses)
    for name in names:
        module, _, attribute = name.rpartition(".")
        holder = importlib.import_module(f"handmade.{module}") if module else handmade
        assert hasattr(holder, attribute)
        assert module or attribute in handmade.__all__


def test_there_are_modules() -> None:
    assert len(MODULES) > 35
