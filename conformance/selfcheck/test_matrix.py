"""The matrix: missing versions and other machines are shown, pages hold everything themselves, and nothing is lost."""

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.selfcheck.test_results import MACHINE, version
from conformance.versions import matrix_html, matrix_markdown
from conformance.versions.matrix import RELEASES, Matrix, matrix, rerun
from conformance.versions.results import FOLDER, Counts, SubjectResults, VersionResults, path_of, read_all, write

CASE = "encoder_layer-heads=4-head_dim=3-eval-src_mask=float"


def stored() -> list[VersionResults]:
    """Two versions: on the second one MASK-02 differs, and a behaviour with it."""
    name = "a finite floating mask in an encoder layer, in eval mode"
    made = []
    for number, wrong in (("0.1.0", ()), ("0.2.0", (CASE,))):
        one = version(number, wrong, message="output[0]: <nan> & more" if wrong else "")
        subject = SubjectResults(True, one.subjects["torch"].clauses, {name: one.subjects["torch"].clauses["MASK-02"]})
        handmade = SubjectResults(False, {"MASK-02": Counts({"conforms": 5}, ratio=0.9, largest=1.2)})
        made.append(dataclasses.replace(one, subjects={"handmade": handmade, "torch": subject, "torch-fast": subject}))
    return made


@pytest.fixture(scope="module")
def made() -> Matrix:
    return matrix(stored(), ["0.1.0", "0.1.5", "0.2.0"])


class Page(HTMLParser):
    """What a page is made of, and whether its tags close in order."""

    VOID = ("meta", "br", "link", "img", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_committed_page_is_current() -> None:
    """`python -m conformance matrix --out conformance/versions` writes it."""
    page = (FOLDER.parent / "MATRIX.md").read_text(encoding="utf-8")
    assert page == matrix_markdown.page(matrix(read_all()))


def test_columns(made: Matrix) -> None:
    """Every version has a column; one without results is missing, not left out; what did not end is said."""
    assert made.versions == ("0.1.0", "0.1.5", "0.2.0")
    assert made.missing == ("0.1.5",)
    assert {row.subject: row.states for row in made.rows} == {
        "handmade": ("conforms", "missing", "conforms"),
        "torch": ("conforms", "missing", "differs"),
        "torch-fast": ("conforms", "missing", "differs"),
    }
    assert made.incomplete == ("0.1.0 handmade", "0.2.0 handmade")
    assert [(step.before, step.after, step.refusal) for step in made.steps] == [("0.1.0", "0.2.0", "")]
    assert set(RELEASES) <= set(matrix(stored()).versions)


def test_behaviour(made: Matrix) -> None:
    (states,) = {
        states for one, states in made.behaviours if one.name.startswith("a finite floating mask in an encoder layer")
    }
    assert states == ("conforms", "missing", "differs")


def test_other_machine() -> None:
    """What another machine measured is shown beside it, and said, and not compared."""
    first, second = stored()
    other = dataclasses.replace(second, environment={**MACHINE, "cpu_capability": "AVX2"})
    apart = matrix([first, other], [])
    assert [step.refusal for step in apart.steps] == ["measured on different machines"]
    for page in (matrix_markdown.page(apart), matrix_html.page(apart)):
        assert "Several machines" in page
        assert "measured on different machines" in page


def test_other_cases() -> None:
    """A version of which other cases were asked is shown, and not compared."""
    first, second = stored()
    few = dataclasses.replace(second, environment={**MACHINE, "sample": 6})
    assert [step.refusal for step in matrix([first, few], []).steps] == ["other cases were asked"]


def test_nothing_is_taken_for_markup() -> None:
    """A clause that is no more, a message, a machine: whatever a file holds is text."""
    (one, _) = stored()
    bad = "MASK-<script>alert(1)</script>|\n"
    counts = Counts({"differs": 1}, differs=(bad,), message=bad)
    subject = dataclasses.replace(one.subjects["torch"], clauses={bad: counts})
    page = matrix([dataclasses.replace(one, subjects={"torch": subject}, environment={**MACHINE, "cpu": bad})], [])
    html, markdown = matrix_html.page(page), matrix_markdown.page(page)
    assert "<script>alert" not in html
    assert "<script>alert" not in markdown
    Page(html)
    for table in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_markdown(made: Matrix) -> None:
    page = matrix_markdown.page(made)
    assert "Missing, no results are stored: 0.1.5" in page
    assert re.search(r"\| MASK-02 \| torch \| ✓ \| \? \| ✗ 1 \|", page)
    assert "| broken | MASK-02 | torch-fast |" in page
    assert "[#118628](https://github.com/pytorch/pytorch/issues/118628)" in page
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_html_is_self_contained(made: Matrix) -> None:
    """Tags close, and nothing but links to issues leads out of the page."""
    text = matrix_html.page(made)
    page = Page(text)
    assert not page.open
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert tag not in ("link", "img", "iframe")
        assert tag == "a" or "href" not in attributes
        assert tag != "a" or (attributes["href"] or "").startswith(("https://github.com/pytorch/pytorch/", "#"))
    assert "@import" not in text
    assert "url(" not in text


def test_html_without_scripts(made: Matrix) -> None:
    """Every cell has its sign and its numbers in the page itself; one that differs has message, case and the line to rerun."""
    page = Page(matrix_html.page(made))
    text = " ".join(page.texts)
    assert "output[0]: <nan> & more" in text
    assert f"pytest 'conformance/test_mask.py::test_floating[{CASE}]' --subject torch-fast" in text
    cells = [attributes for tag, attributes in page.tags if tag == "td" and attributes.get("class")]
    assert {attributes["class"] for attributes in cells} == {"c", "d", "m"}
    assert any("error 0.9 times" in (attributes.get("title") or "") for attributes in cells)
    assert any(tag == "form" and "hidden" in attributes for tag, attributes in page.tags)


def test_rerun_names_a_test(made: Matrix) -> None:
    row = next(row for row in made.rows if row.subject == "handmade")
    assert rerun(row, "x") == "pytest 'conformance/test_mask.py::test_floating[x]'"


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["matrix", "--results", str(tmp_path), "--out", str(out)]) == 2
    assert capsys.readouterr().err == f"matrix: {tmp_path}: no stored results (torch-*.json)\n"
    for one in stored():
        write(one, path_of(one.torch, tmp_path))
    assert main(["matrix", "--results", str(tmp_path), "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {"MATRIX.md", "matrix.html"}
    path_of("0.2.0", tmp_path).write_text('{"schema": 7}', encoding="utf-8")
    assert main(["matrix", "--results", str(tmp_path), "--out", str(out)]) == 2
    assert "expected stored results of schema 2, got schema 7" in capsys.readouterr().err
