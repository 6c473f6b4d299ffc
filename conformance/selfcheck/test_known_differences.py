"""The known differences of torch: the file is read strictly, held against a run, and corrected by one."""

import dataclasses
from pathlib import Path

import pytest

from conformance.cases.case import Case
from conformance.report.model import Result
from conformance.selfcheck.commands import pytest as run_pytest
from conformance.subjects.load import load as load_subject
from conformance.versions.correction import UNEXPLAINED, corrected, text
from conformance.versions.known_differences import FILE, SUBJECTS, Check, Known, UnreadableDifferences, complaints, load

GOOD = """\
[[difference]]
subject = "torch"
clauses = ["MASK-02"]
case = { component = ["encoder_layer", "encoder"], batch = "None" }
torch = ">=2.13"
kind = "nan"
matches = 3
reason = "so it is"
issue = "none found"
"""
LAYERS = [Case("encoder_layer", heads=heads, src_mask=mask) for heads in (2, 3, 4) for mask in ("float", "bool")]
CHECKS: list[Check] = [(clause, case) for clause in ("MASK-01", "MASK-02") for case in LAYERS]
EVEN = Known("torch", ("MASK-02",), {"heads": (2, 4)}, ">=2.13", "nan", 4, "even heads", "none found", 7)


def results(**differing: str) -> list[Result]:
    """All checks; those of a clause with a mask (MASK_02_float="nan") differ, by kind, where the heads are even."""
    made = []
    for clause, case in CHECKS:
        kind = differing.get(f"{clause.replace('-', '_')}_{case.src_mask}", "") if case.heads % 2 == 0 else ""
        made.append(Result("", clause, "MUST", case.id, "torch differs" if kind else "conforms", 0.0, kind))
    return made


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            ('subject = "torch"', 'subject = "handmade"'),
            r"2: subject: expected one of \['torch', 'torch-fast', ",
        ),
        (('"MASK-02"', '"masks"'), r"3: clauses: expected ids of clauses, got 'masks'"),
        (('["MASK-02"]', '"MASK-02"'), r"3: clauses: expected a list, got 'MASK-02'"),
        (("component", "colour"), r"4: case: expected fields of a case, got 'colour'"),
        (('"None"', "{}"), r"4: case: batch: expected a value such as 2 or a list of them"),
        ((">=2.13", "newer"), r"5: torch: expected a version specifier such as '>=2.13', got 'newer'"),
        (('"nan"', '"bad"'), r"6: kind: expected one of .*'nan'.*, got 'bad'"),
        (("matches = 3", 'matches = "3"'), r"7: matches: expected a number, got '3'"),
        (("matches = 3", "matches = true"), r"7: matches: expected a number, got True"),
        (('"so it is"', '""'), r"8: reason: expected a text, got ''"),
        (('issue = "none found"\n', ""), r"1: issue: missing"),
        (("issue =", "link ="), r"9: link: expected one of"),
        (("[[difference]]", "[difference]"), r"1: difference: expected nothing but tables under \[\[difference\]\]"),
        (("[[difference]]", "[[other]]"), r"1: difference: expected nothing but tables under \[\[difference\]\]"),
        (("matches = 3", "matches ="), r"7: Invalid value"),
        (("matches = 3", "matches = 0"), r"7: matches: expected at least 1, got 0"),
        (("matches = 3", "matches = 1" + "0" * 5000), r"\d+: Exceeds the limit"),
        (('batch = "None"', "batch = []"), r"4: case: batch: expected a value"),
        (('batch = "None"', "scale = nan"), r"4: case: scale: expected a value"),
        (('batch = "None"', 'is_causal = "yes"'), r"4: case: is_causal: expected a value such as False"),
        ((">=2.13", ","), r"5: torch: expected a version specifier"),
    ],
)
def test_malformed(tmp_path: Path, change: tuple[str, str], place: str) -> None:
    """A malformed file is refused with one line that names file, line and field."""
    path = tmp_path / "known.toml"
    path.write_text(GOOD.replace(*change), encoding="utf-8")
    with pytest.raises(UnreadableDifferences, match=rf"^{path}:\s?{place}") as raised:
        load(path)
    assert "\n" not in str(raised.value)


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text(GOOD, encoding="utf-8")
    (one,) = load(path)
    assert one.covers(("MASK-02", Case("encoder", batch=None)))
    assert not one.covers(("MASK-02", Case("encoder")))
    assert not one.covers(("MASK-03", Case("encoder", batch=None)))
    assert one.applies("torch", "2.14.0+cpu")
    assert one.applies("torch", "2.15.0.dev20261130")
    assert not one.applies("torch", "2.12.1")
    assert not one.applies("torch-fast", "2.13.0")
    path.write_text(
        "\ufeff" + GOOD.replace("[[difference]]", "  [[ difference ]] # one").replace("\n", "\r\n"), encoding="utf-8"
    )
    assert load(path) == [one]


def test_file_is_as_it_would_be_written() -> None:
    assert text(load(FILE)) == FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_pattern_matches_what_is_pinned(subject: str) -> None:
    """No dead pattern, and each matches as many checks as it says, whatever the installed torch does."""
    entries = [one for one in load(FILE) if one.subject == subject]
    assert entries
    assert not (complaints(entries, load_subject(subject).checks(), []))


def test_agreement() -> None:
    assert not (complaints([EVEN], CHECKS, results(MASK_02_float="nan", MASK_02_bool="nan")))


@pytest.mark.parametrize(
    ("entry", "differing", "words"),
    [
        (EVEN, {"MASK_02_float": "nan"}, "MASK-02: no difference where nan is known (line 7): 2 checks, the first encoder_"),
        (EVEN, {"MASK_02_float": "nan", "MASK_02_bool": "value"}, "MASK-02: a changed difference, value where nan is known"),
        (EVEN, {"MASK_02_float": "nan", "MASK_02_bool": "nan", "MASK_01_bool": "nan"}, "MASK-01: a new difference, nan: 2"),
        (dataclasses.replace(EVEN, matches=5), {"MASK_02_float": "nan", "MASK_02_bool": "nan"}, "matches 4 checks, not 5"),
        (dataclasses.replace(EVEN, clauses=("MASK-77",)), {}, "matches no check"),
    ],
)  # fmt: skip
def test_disagreement(entry: Known, differing: dict[str, str], words: str) -> None:
    """An unexpected pass, a changed kind, a new difference, a wrong number and a dead pattern are complained of."""
    found = complaints([entry], CHECKS, results(**differing))
    assert found
    assert all(words in one for one in found)


def test_entries_that_contradict_each_other() -> None:
    other = dataclasses.replace(EVEN, kind="value", line=9)
    assert any("lines 7 and 9 match MASK-02" in one for one in complaints([EVEN, other], CHECKS, []))


@pytest.mark.parametrize(
    "differing",
    [
        {},
        {"MASK_02_float": "nan"},
        {"MASK_02_float": "nan", "MASK_02_bool": "value"},
        {"MASK_02_float": "nan", "MASK_02_bool": "nan", "MASK_01_bool": "raises"},
    ],
)
def test_corrected(differing: dict[str, str]) -> None:
    """After the correction there is no complaint; what applies elsewhere stays, what was known before ends before."""
    elsewhere = dataclasses.replace(EVEN, subject="torch-fast")
    seen = results(**differing)
    made = corrected([EVEN, elsewhere], "torch", "2.14.1+cpu", CHECKS, seen)
    assert elsewhere in made
    assert not (complaints([one for one in made if one.applies("torch", "2.14.1")], CHECKS, seen))
    before = [one for one in made if one.applies("torch", "2.13.0")]
    assert [one.matches for one in before] == [4]
    if differing.get("MASK_02_bool") == "nan":
        assert EVEN in made
    else:
        assert before[0].torch == ">=2.13,<2.14.1"
    new = [one for one in made if one.reason == UNEXPLAINED]
    assert [one.clauses for one in new] == ([("MASK-01",)] if "MASK_01_bool" in differing else [])


@pytest.mark.parametrize("version", ["2.15.0.dev20261130+cpu", "2.14.0rc1", "2.15.0a0+git1"])
def test_corrected_by_what_is_no_release(version: str, tmp_path: Path) -> None:
    """What a nightly shows is known to it afterwards, also where a clause differs on all its cases."""
    seen = [dataclasses.replace(one, verdict="torch differs", kind="raises") for one in results()]
    wild = dataclasses.replace(EVEN, torch="==2.13.*")
    made = corrected([EVEN, wild], "torch", version, CHECKS, seen)
    path = tmp_path / "known.toml"
    path.write_text(text(made), encoding="utf-8")
    applying = [one for one in load(path) if one.applies("torch", version)]
    assert applying
    assert not complaints(applying, CHECKS, seen)
    assert corrected(made, "torch", version, CHECKS, seen) == made


def test_corrected_in_the_version_it_began_with() -> None:
    """An entry that holds for no version is left out."""
    assert corrected([EVEN], "torch", "2.13.0", CHECKS, results()) == []


COMMAND = ("conformance/test_value.py", "-q", "-k", "test_activation and gelu_tanh_module", "-p", "no:randomly")


def test_command_line(tmp_path: Path) -> None:
    """A known difference passes and is told; with an empty file it is new, and fails; a file of other versions says nothing."""
    known = run_pytest(*COMMAND, "--subject", "torch-fast")
    assert known.returncode == 0, known.stdout
    assert "VALUE-11: the native encoder kernel computes any nn.GELU as exact GELU" in known.stdout
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    unknown = run_pytest(*COMMAND, "--subject", "torch-fast", f"--known-differences={empty}")
    assert unknown.returncode == 1
    assert "VALUE-11: a new difference, value: 4 checks" in unknown.stdout
    assert "FAILED: this run and" in unknown.stdout
    other = tmp_path / "other.toml"
    other.write_text(FILE.read_text(encoding="utf-8").replace('torch = ">=', 'torch = ">=90000.'), encoding="utf-8")
    elsewhere = run_pytest(*COMMAND, "--subject", "torch-fast", f"--known-differences={other}")
    assert elsewhere.returncode == 0, elsewhere.stdout
    assert "says nothing of torch" in elsewhere.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--known-differences=missing.toml"], 2, "--known-differences: missing.toml cannot be read"),
        (["--write-known-differences"], 2, "--write-known-differences: expected torch as --subject"),
        (["--write-known-differences", "--subject", "torch-fast"], 1, "not written: 6 of"),
    ],
)
def test_command_line_refusals(arguments: list[str], code: int, words: str) -> None:
    before = FILE.read_bytes()
    ended = run_pytest(*COMMAND, *arguments)
    assert ended.returncode == code, ended.stdout
    assert words in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    assert FILE.read_bytes() == before
