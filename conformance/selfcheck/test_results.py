"""Stored results: made of reports, written, read strictly, compared between versions, found by name."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.clauses import REGISTRY
from conformance.report.model import Report, Result, write_report
from conformance.versions.collecting import collect, find
from conformance.versions.results import (
    FOLDER,
    Counts,
    SubjectResults,
    UnusableResults,
    VersionResults,
    digest,
    machines,
    path_of,
    read,
    read_all,
    text,
    write,
)
from conformance.versions.transitions import Change, compared, transitions

MACHINE = {
    "python": "3.11",
    "torch": "2.13.0+cpu",
    "system": "Linux",
    "machine": "x86_64",
    "cpu_capability": "AVX512",
    "threads": 1,
}


def report(subject: str = "torch", results: tuple[Result, ...] = (), **changes: Any) -> Report:
    """A run in which MASK-02 conforms on one case, differs on another and is not supported on a third."""
    made = results or (
        Result("t", "MASK-02", "MUST", "encoder_layer-a", "conforms", 0.1, tensors=[{"ratio": 1.0}, {"ratio": 2.0}]),
        Result(
            "t",
            "MASK-02",
            "MUST",
            "encoder_layer-b",
            "torch differs",
            0.1,
            "nan",
            "output: NaN\nmore",
            tensors=[{"ratio": "inf"}],
        ),
        Result("t", "MASK-02", "MUST", "encoder_layer-c", "not supported", 0.1),
        Result("t", "CAUSAL-06", "POLICY", "encoder_layer-d", "policy", 0.1, policy="the mask wins"),
    )
    return Report({**MACHINE, "subject": subject, **changes}, list(made), complete=True)


def version(name: str, wrong: tuple[str, ...] = (), subject: str = "torch", **fields: Any) -> VersionResults:
    """A version on which MASK-02, of ten checks, differs on some cases, all of one kind."""
    kinds = {"nan": len(wrong)} if wrong else {}
    verdicts = ({"torch differs": len(wrong)} if wrong else {}) | {"conforms": 10 - len(wrong)}
    largest = {"largest": fields["ratio"]} if "ratio" in fields else {}
    counts = dataclasses.replace(Counts(verdicts, kinds, differs=wrong), **largest, **fields)
    return VersionResults(name, dict(MACHINE), {}, {subject: SubjectResults(True, {"MASK-02": counts})})


def test_made_of_reports(tmp_path: Path) -> None:
    """A report of each subject becomes one file, which reads as what was written."""
    made = collect([report("torch-fast"), report()], {"scale": True}, "tox run -e versions")
    assert made.torch == "2.13.0"
    assert list(made.subjects) == ["torch", "torch-fast"]
    mask = made.subjects["torch"].clauses["MASK-02"]
    assert mask.verdicts == {"conforms": 1, "not supported": 1, "torch differs": 1}
    assert (mask.kinds, mask.differs, mask.message) == ({"nan": 1}, ("encoder_layer-b",), "output: NaN")
    assert (mask.ratio, mask.largest, mask.state, mask.wrong) == (1.5, 2.0, "differs", 1)
    assert made.subjects["torch"].clauses["CAUSAL-06"].policies == {"the mask wins": 1}
    assert made.environment["command"] == "tox run -e versions"
    assert "subject" not in made.environment
    path = path_of(made.torch, tmp_path)
    write(made, path)
    assert path.name == "torch-2.13.0.json"
    assert read(path) == made
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == 2
    assert mask.lacking == (digest("encoder_layer-c"),)


def test_the_handmade_model_is_not_blamed_for_torch() -> None:
    """Where torch differs from it and from the oracle, the model conforms."""
    mask = collect([report("handmade")]).subjects["handmade"].clauses["MASK-02"]
    assert mask.verdicts == {"conforms": 2, "not supported": 1}
    assert (mask.kinds, mask.differs, mask.message, mask.state) == ({}, (), "", "conforms")


def test_at_most_twenty_cases() -> None:
    results = tuple(Result("t", "MASK-02", "MUST", f"case-{n:02}", "torch differs", 0.1, "nan") for n in range(25))
    counts = collect([report(results=results)]).subjects["torch"].clauses["MASK-02"]
    assert len(counts.differs) == 20
    assert counts.wrong == 25
    assert counts.wrong_cases == {digest(f"case-{n:02}") for n in range(25)}


def test_a_chosen_part_is_not_complete() -> None:
    """A run that was told to leave clauses out is stored as such."""
    assert collect([report()]).subjects["torch"].complete
    made = collect([report(), report("handmade", chosen="-k RMS")])
    assert made.subjects["torch"].complete
    assert not made.subjects["handmade"].complete
    assert "chosen" not in made.environment


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([], "expected a report, got none"),
        ([report(), report()], "subject: torch is in two of the reports"),
        ([report("mine.py")], "subject: expected one of .*, got 'mine.py'"),
        (
            [report(), report("handmade", cpu_capability="AVX2")],
            "different environments: cpu_capability is 'AVX512' and 'AVX2'",
        ),
        (
            [report(), report("handmade", torch="2.12.1")],
            r"different environments: torch is '2.13.0\+cpu' and '2.12.1'",
        ),
        ([report(torch="new")], "torch: expected a version such as 2.13.0, got 'new'"),
    ],
)
def test_reports_that_do_not_go_together(reports: list[Report], words: str) -> None:
    with pytest.raises(UnusableResults, match=words):
        collect(reports)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(schema=1), "expected stored results of schema 2, got schema 1"),
        (lambda data: data.update(schema="2"), "expected stored results of schema 2, got schema '2'"),
        (lambda data: data.pop("torch"), "torch: missing"),
        (lambda data: data.update(torch=2.13), "torch: expected str, got float"),
        (lambda data: data.update(subjects=[]), "subjects: expected dict, got list"),
        (lambda data: data["subjects"].update(other=data["subjects"]["torch"]), "subjects: expected some of"),
        (lambda data: data["subjects"]["torch"].pop("complete"), "torch.complete: missing"),
        (lambda data: data["subjects"]["torch"]["clauses"].update(X=[]), "torch.clauses.X: expected some of"),
        (
            lambda data: data["subjects"]["torch"]["clauses"].update(X={"verdicts": {"fine": 1}}),
            "X.verdicts: expected some of",
        ),
        (
            lambda data: data["subjects"]["torch"]["clauses"].update(X={"verdicts": {"conforms": -1}}),
            "expected positive numbers",
        ),
        (
            lambda data: data["subjects"]["torch"]["clauses"].update(X={"verdicts": {"conforms": 1}, "ratio": "1"}),
            "X.ratio: expected a ratio",
        ),
        (
            lambda data: data["subjects"]["torch"]["clauses"].update(X={"verdicts": {"conforms": 1}, "differs": [1]}),
            "X.differs: expected a list",
        ),
        (lambda data: data["subjects"]["torch"]["clauses"].update(X={"verdicts": {}}), "X.verdicts: expected positive"),
        (
            lambda data: data["subjects"]["torch"]["clauses"].update(X={"verdicts": None}),
            "X.verdicts: expected positive numbers",
        ),
        (
            lambda data: data["subjects"]["torch"]["clauses"].update(X={"verdicts": {"conforms": 1}, "ratio": 1.0}),
            "X.ratio: expected a ratio, of both",
        ),
        (
            lambda data: data["subjects"]["torch"]["clauses"].update(
                X={"verdicts": {"conforms": 1}, "ratio": -1.0, "largest": 1.0}
            ),
            "X.ratio: expected a ratio, .*, got -1.0",
        ),
        (
            lambda data: data["subjects"]["torch"]["clauses"]["MASK-02"].pop("lacking"),
            "MASK-02.lacking: expected 1 cases, got 0",
        ),
        (
            lambda data: data["subjects"]["torch"]["clauses"]["MASK-02"].pop("differs"),
            "as many cases in differs and rest",
        ),
        (lambda data: data["environment"].update(sample="6"), "environment.sample: expected an integer"),
        (lambda data: data["environment"].update(x=float("nan")), "expected finite numbers, got NaN"),
        (lambda data: data["environment"].update(x="\ud800"), "surrogates not allowed"),
    ],
)
def test_malformed(tmp_path: Path, change: Any, words: str) -> None:
    """A malformed file is refused with one line that names file and field."""
    data = json.loads(text(collect([report()])))
    change(data)
    path = tmp_path / "torch-2.13.0.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UnusableResults, match=rf"^{path}: .*{words}") as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_read_is_not_written(tmp_path: Path) -> None:
    """Nor does it replace what is there."""
    path = path_of("2.13.0", tmp_path)
    write(version("2.13.0"), path)
    before = path.read_text(encoding="utf-8")
    for verdicts in ({"great": 1}, {None: 1}, {}):
        with pytest.raises(UnusableResults, match=r"^torch 2\.13\.0: what came cannot be stored: "):
            write(version("2.13.0", verdicts=verdicts), path)
    assert path.read_text(encoding="utf-8") == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_file_of_another_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One whose name is not of the version that it holds is refused, wherever it is read as that version."""
    write(version("2.13.0"), path_of("2.12.1", tmp_path))
    write(version("2.13.0"), path_of("2.13.0", tmp_path))
    for command in (["compare", "2.12.1", "2.13.0"], ["matrix", "--out", str(tmp_path / "out")]):
        assert main([*command, "--results", str(tmp_path)]) == 2
        shown = capsys.readouterr().err
        assert "torch-2.12.1.json: expected results of the version in its name, got torch 2.13.0" in shown
        assert shown.count("\n") == 1


def test_other_cases_are_not_compared() -> None:
    few = dataclasses.replace(version("2"), environment={**MACHINE, "sample": 6})
    with pytest.raises(UnusableResults, match="other cases were asked: one in 1 of torch 1, one in 6 of torch 2"):
        transitions(version("1"), few)


def test_clauses_of_one_version_only() -> None:
    """Added or removed, neither left out."""
    other = dataclasses.replace(version("2").subjects["torch"], clauses={"MASK-03": Counts({"conforms": 1})})
    found = transitions(version("1"), dataclasses.replace(version("2"), subjects={"torch": other}))
    assert {(one.name, one.change) for one in found} == {("MASK-02", Change.REMOVED), ("MASK-03", Change.ADDED)}


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, "\udcff"])
def test_no_json(tmp_path: Path, content: str) -> None:
    path = tmp_path / "torch-1.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UnusableResults, match=rf"^{path}: .+"):
        read(path)


def test_stored_results_are_sound() -> None:
    """What is committed can be read, is of the version that its name says, and handmade never differs."""
    for one in read_all(FOLDER):
        assert path_of(one.torch, FOLDER).is_file()
        for counts in one.subjects["handmade"].clauses.values() if "handmade" in one.subjects else ():
            assert not counts.wrong, f"{one.torch}: {counts.message}"


def test_machines() -> None:
    """What is unknown of a machine contradicts nothing; what is known and other does."""
    old = dataclasses.replace(version("1.13.1"), environment={**MACHINE, "cpu_capability": "unknown"})
    other = dataclasses.replace(version("2.12.1"), environment={**MACHINE, "cpu_capability": "AVX2"})
    assert [versions for _, versions in machines([old, version("2.13.0")])] == [["1.13.1", "2.13.0"]]
    assert [versions for _, versions in machines([version("2.13.0"), other])] == [["2.13.0"], ["2.12.1"]]


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        (version("1"), version("2"), [Change.UNCHANGED]),
        (version("1"), version("2", ("a",)), [Change.BROKEN]),
        (version("1", ("a", "b")), version("2", ("b",)), [Change.FIXED]),
        (version("1", ("a",)), version("2", ("b",)), [Change.BROKEN, Change.FIXED]),
        (version("1", ("a",)), version("2", ("a",), kinds={"value": 1}), [Change.CHANGED]),
        (version("1", policies={"x": 1}), version("2", policies={"y": 1}), [Change.CHANGED]),
        (version("1", ratio=1.0), version("2", ratio=1.1), [Change.UNCHANGED]),
        (version("1", ratio=1.0), version("2", ratio=2.0), [Change.DRIFTED]),
        (version("1", verdicts={"not supported": 5}), version("2"), [Change.ADDED]),
        (version("1"), version("2", verdicts={"not supported": 5}), [Change.BROKEN]),
        (version("1", ("a",)), version("2", verdicts={"not supported": 5}), [Change.BROKEN]),
        (version("1", ("a",), verdicts={"torch differs": 1}), version("2", verdicts={"not supported": 5}), [Change.REMOVED]),
    ],
)  # fmt: skip
def test_transitions(old: VersionResults, new: VersionResults, changes: list[Change]) -> None:
    found = transitions(old, new)
    assert [one.change for one in found] == changes
    assert {one.name for one in found} == {"MASK-02"}


def counts(wrong: str = "", conforming: str = "", lacking: str = "", shown: int = 1) -> Counts:
    """Checks, each of the case that a letter names; of those that differ so many are named."""
    numbers = {"torch differs": len(wrong), "conforms": len(conforming), "not supported": len(lacking)}
    return Counts(
        {verdict: number for verdict, number in numbers.items() if number},
        {"nan": len(wrong)} if wrong else {},
        differs=tuple(wrong[:shown]),
        rest=tuple(map(digest, wrong[shown:])),
        lacking=tuple(map(digest, lacking)) if wrong or conforming else (),
    )


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        # One that is fixed makes up for none that is broken, also where neither is named.
        (counts("abc", "d"), counts("abd", "c"), {"broken": "1 check differs anew (nan)", "fixed": "1 check differs no more (nan)"}),
        (counts("a", "bcd"), counts("abc", "d"), {"broken": "2 checks differ anew (nan)"}),
        # What could not be asked before is not broken, and what cannot be asked any more is not fixed.
        (counts("", "b", "ac"), counts("ac", "b"), {"added": "2 checks not supported before, differ (nan)"}),
        (
            counts("", "ab", "c"), counts("bc", "a"),
            {"broken": "1 check differs anew (nan)", "added": "1 check not supported before, differs (nan)"},
        ),
        (counts("ac", "b"), counts("", "b", "ac"), {"removed": "2 checks differ before, not supported any more (nan)"}),
        # What conformed and cannot be asked any more is broken, unless other cases were asked.
        (counts("", "abc"), counts("", "ab", "c"), {"broken": "1 check could be asked and cannot any more"}),
        (counts("", "ab"), counts("", "ab", "c"), {"unchanged": "conforms → conforms"}),
        (counts("a", "b"), counts("", "", "ab"), {"broken": "differs → not supported"}),
        (counts("", "abcd"), counts("", "a"), {"broken": "3 checks could be asked and cannot any more"}),
        (counts("", "ab"), Counts({"conforms": 1, "blocked": 1}), {"broken": "1 check could be asked and cannot any more"}),
    ],
)  # fmt: skip
def test_cases_are_told_apart(old: Counts, new: Counts, found: dict[str, str]) -> None:
    """By name or digest, never by their number alone."""
    assert {change.value: detail for change, detail, _ in compared(old, new)} == found


def test_named_cases() -> None:
    """Those of a transition are the ones that it happened to, as far as they are named."""
    ((change, _, cases),) = compared(counts("ab", "cd"), counts("cab", "d", shown=3))
    assert (change, cases) == (Change.BROKEN, ("c",))


def test_kinds_of_a_part() -> None:
    """Kinds are of all that differ: where only some of these are new, it is said."""
    old = dataclasses.replace(counts("ab", "cde"), kinds={"nan": 2})
    new = dataclasses.replace(counts("abc", "de"), kinds={"nan": 2, "value": 1})
    assert [detail for _, detail, _ in compared(old, new)] == ["1 check differs anew (2 nan, 1 value in all)"]
    assert [detail for _, detail, _ in compared(counts("", "abcde"), new)] == ["3 checks differ anew (2 nan, 1 value)"]


def test_nothing_in_common() -> None:
    with pytest.raises(UnusableResults, match="no subject in both: torch and handmade"):
        transitions(version("1"), version("2", subject="handmade"))


def test_found_by_name(tmp_path: Path) -> None:
    """A stored version, a file of results, a report and its folder are found; anything else is named."""
    made = collect([report()])
    write(made, path_of("2.13.0", tmp_path))
    write_report(report(), tmp_path / "report.json")
    (tmp_path / "folder").mkdir()
    write_report(report(), tmp_path / "folder" / "report.json")
    for name in ("2.13.0", "2.13", "torch-2.13.0.json", "folder", "report.json", "folder/report.json"):
        place = name if name.startswith("2") else str(tmp_path / name)
        assert find(place, tmp_path).subjects == made.subjects
    with pytest.raises(UnusableResults, match="a folder of results, expected a version beside a version"):
        find(str(tmp_path), tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnusableResults, match="empty: expected a report, got a folder without"):
        find(str(tmp_path / "empty"), tmp_path)
    with pytest.raises(UnusableResults, match=r"^2.99: neither a stored version of torch nor .* \(stored: 2.13.0\)"):
        find("2.99", tmp_path)


def compare(folder: Path, *more: str) -> int:
    return main(["compare", "2.12.1", "2.13.0", "--results", str(folder), *more])


def test_command_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 where something broke, 0 where not, 2 with one line for what cannot be compared."""
    write(version("2.12.1"), path_of("2.12.1", tmp_path))
    assert compare(tmp_path) == 2
    assert capsys.readouterr().err.startswith("compare: 2.13.0: neither a stored version")
    write(version("2.13.0", ("encoder_layer-src_mask=float",)), path_of("2.13.0", tmp_path))
    assert compare(tmp_path) == 1
    shown = capsys.readouterr().out
    assert "torch 2.12.1 → 2.13.0" in shown
    assert "broken   MASK-02: 1 check differs anew (nan)" in shown
    assert REGISTRY["MASK-02"].sentence in shown
    assert "encoder_layer-src_mask=float" in shown
    write(version("2.13.0"), path_of("2.13.0", tmp_path))
    assert compare(tmp_path) == 0
    other = dataclasses.replace(version("2.13.0"), environment={**MACHINE, "cpu_capability": "AVX2"})
    write(other, path_of("2.13.0", tmp_path))
    capsys.readouterr()
    assert compare(tmp_path) == 2
    complaint = capsys.readouterr().err
    assert "measured on different machines" in complaint
    assert complaint.count("\n") == 1
    assert compare(tmp_path, "--across-machines") == 0


def test_store_gives_nothing_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other subjects stay; a part replaces no complete run; another machine and other cases replace nothing; no result is none."""
    stored, path = tmp_path / "stored", path_of("2.13.0", tmp_path / "stored")
    write(collect([report("handmade"), report()]), path)

    def store(one: Report) -> int:
        write_report(one, tmp_path / "report.json")
        return main(["store", str(tmp_path), "--results", str(stored)])

    assert store(report("torch-fast")) == 0
    assert set(read(path).subjects) == {"handmade", "torch", "torch-fast"}
    before = path.read_text(encoding="utf-8")
    for one, words in (
        (dataclasses.replace(report(), complete=False), "holds a complete run of torch, which"),
        (report(chosen="-k MASK"), "holds a complete run of torch, which"),
        (report(cpu_capability="AVX2"), "holds a complete run of handmade, which"),
        (report(sample=6), "holds a complete run of handmade, which"),
        (dataclasses.replace(report(), results=[]), "a report of torch without a result"),
    ):
        capsys.readouterr()
        assert store(one) == 2
        shown = capsys.readouterr().err
        assert words in shown
        assert shown.count("\n") == 1
        assert path.read_text(encoding="utf-8") == before


def test_command_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_report(report(), tmp_path / "report.json")
    assert main(["store", str(tmp_path), "--results", str(tmp_path / "stored")]) == 0
    assert read(tmp_path / "stored" / "torch-2.13.0.json").torch == "2.13.0"
    assert main(["store", str(tmp_path / "nowhere"), "--results", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
