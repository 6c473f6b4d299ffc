"""The behaviours that are followed: the file is read strictly, and each entry is shown by checks that exist."""

import functools
from pathlib import Path

import pytest

from conformance.clauses import load_all
from conformance.subjects.load import load as load_subject
from conformance.versions.behaviours import FILE, Behaviour, UnreadableBehaviours, load
from conformance.versions.releases import RELEASES
from conformance.versions.results import Counts, SubjectResults, VersionResults, read_all
from conformance.versions.transitions import verdict

GOOD = """\
[[behaviour]]
name = "something"
right = "this"
issue = "none found"
subjects = ["torch"]
clauses = ["MASK-02"]
case = { component = "encoder_layer", scale = "None" }
"""


@functools.cache
def checks(subject: str) -> list[tuple[str, str]]:
    """All that a subject can be asked."""
    return [(clause, case.id) for clause, case in load_subject(subject).checks()]


@pytest.mark.parametrize("behaviour", load(), ids=lambda one: one.name)
def test_is_shown(behaviour: Behaviour) -> None:
    """Clauses and links are real, and every clause has a case that shows it, on every path that it is said to show on."""
    assert behaviour.issue == "none found" or behaviour.issue.startswith("https://github.com/pytorch/pytorch/")
    if behaviour.shown_by:
        return
    assert set(behaviour.clauses) <= set(load_all())
    shown = set()
    for subject in behaviour.subjects:
        found = {clause for clause, case in checks(subject) if behaviour.covers(clause, case)}
        assert found, f"nothing shows it with {subject}"
        shown |= found
    assert shown == set(behaviour.clauses)


def test_names_are_unique() -> None:
    names = [one.name for one in load()]
    assert len(names) == len(set(names)) == 54


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"something"', '""'), "name: missing"),
        (('right = "this"\n', ""), r"behaviour 1 \(something\): right: missing"),
        (('["torch"]', '["handmade"]'), "subjects: expected some of .*, got 'handmade'"),
        (('["torch"]', '"torch"'), "subjects: expected list, got 'torch'"),
        (("component", "colour"), "case: expected fields of a case with their values, got colour = 'encoder_layer'"),
        (('"None"', '"wide"'), "case: expected fields of a case with their values, got scale = 'wide'"),
        (('["MASK-02"]', "[]"), "clauses: missing"),
        (("issue =", "link ="), "link: expected one of"),
        (("clauses = ", "shown_by = "), "shown_by: expected str"),
        (("name =", "name"), "line 2"),
        (("issue =", 'measured = "PXF"\nissue ='), "measured: expected P, F or S .*, got 'PXF'"),
        (
            ("issue =", 'unlike = { "<1.0" = "?" }\nissue ='),
            "unlike: expected a specifier of some releases, got '<1.0'",
        ),
        (("issue =", 'unlike = { "new" = "?" }\nissue ='), "unlike: expected a specifier of some releases, got 'new'"),
    ],
)
def test_malformed(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    path = tmp_path / "behaviours.toml"
    path.write_text(GOOD.replace(*change), encoding="utf-8")
    with pytest.raises(UnreadableBehaviours, match=words) as raised:
        load(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", ["behaviour = 3", 'behaviour = ["a"]', "[behaviour]", GOOD + GOOD])
def test_no_tables_and_a_name_twice(content: str, tmp_path: Path) -> None:
    path = tmp_path / "behaviours.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UnreadableBehaviours, match=r"expected tables|name: there are two"):
        load(path)


ONE = Behaviour("b", "r", "none found", ("torch", "torch-fast"), ("MASK-02",), {})


def stored(*counts: Counts) -> VersionResults:
    subjects = zip(ONE.subjects, counts, strict=False)
    return VersionResults("2.13.0", {}, {}, {name: SubjectResults(True, {}, {"b": one}) for name, one in subjects})


@pytest.mark.parametrize(
    ("behaviour", "counts", "expected"),
    [
        (ONE, [], "missing"),
        (ONE, [Counts({"conforms": 2})], "conforms"),
        (ONE, [Counts({"conforms": 2}), Counts({"torch differs": 1, "conforms": 1})], "differs"),
        (ONE, [Counts({"conforms": 2}), Counts({"not supported": 1})], "conforms"),
        (ONE, [Counts({"not supported": 2}), Counts({"not supported": 1})], "not supported"),
        (Behaviour(**{**vars(ONE), "needed": True}), [Counts({"conforms": 2, "not supported": 1})], "differs"),
        (Behaviour(**{**vars(ONE), "policies": ("x",)}), [Counts({"policy": 2}, policies={"x": 2})], "conforms"),
        (Behaviour(**{**vars(ONE), "policies": ("x",)}), [Counts({"policy": 2}, policies={"x": 1, "y": 1})], "differs"),
        (ONE, [Counts({"crashed": 1})], "differs"),
    ],
)  # fmt: skip
def test_verdict(behaviour: Behaviour, counts: list[Counts], expected: str) -> None:
    assert verdict(behaviour, stored(*counts)) == expected


LETTERS = {"conforms": "P", "differs": "F", "not supported": "S"}


def test_what_was_measured_apart() -> None:
    """Of 95 in 100 verdicts the committed results say the same, and of each of the others it is known why."""
    stored = {one.torch: one for one in read_all()}
    assert stored
    unlike, known, asked = set(), set(), 0
    for one in load():
        for release, letter in zip(RELEASES, one.measured, strict=True):
            if release.version in stored and one.excused(release.version):
                known.add((one.name, release.version))
            if one.shown_by or release.version not in stored:
                continue
            asked += 1
            if LETTERS.get(verdict(one, stored[release.version])) != letter:
                unlike.add((one.name, release.version))
    assert unlike == known
    assert len(unlike) <= 0.05 * asked


def test_file_is_where_it_should_be() -> None:
    assert FILE.is_file()
