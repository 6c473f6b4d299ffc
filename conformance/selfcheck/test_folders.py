"""Folders of results: merged into one, and compared version by version."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.selfcheck.test_results import MACHINE, version
from conformance.versions.results import VersionResults, path_of, read_all, write

NIGHTLY = "2.16.0.dev20261130"


def folder(path: Path, *results: VersionResults) -> str:
    """A folder that holds these results."""
    for one in results:
        write(one, path_of(one.torch, path))
    return str(path)


def elsewhere(one: VersionResults) -> VersionResults:
    """The same, measured on another machine."""
    return dataclasses.replace(one, environment={**MACHINE, "cpu_capability": "AVX2"})


def test_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every version once, the same results twice among them; what another machine measured is named."""
    first = folder(tmp_path / "a", version("2.13.0"), version("2.4.1"))
    second = folder(tmp_path / "b", elsewhere(version("2.12.1")), version("2.13.0"), version(NIGHTLY))
    out = tmp_path / "out"
    assert main(["merge", first, second, "--out", str(out)]) == 0
    assert [one.torch for one in read_all(out)] == ["2.4.1", "2.12.1", "2.13.0", NIGHTLY]
    assert {path.name for path in out.iterdir()} == {path_of(one.torch).name for one in read_all(out)}
    shown = capsys.readouterr().out
    assert f"AVX512: 2.4.1, 2.13.0, {NIGHTLY}\n" in shown
    assert "AVX2: 2.12.1\n" in shown


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.mkdir(), r"no stored results \(torch-\*\.json\)"),
        (lambda path: None, "no such folder"),
        (
            lambda path: path_of("2.12.1", Path(folder(path, version("2.12.1")))).write_text('{"schema": 9}'),
            "expected stored results of schema 2, got schema 9",
        ),
        (
            lambda path: path_of("2.12.1", Path(folder(path, version("2.12.1")))).write_text("{"),
            r"torch-2\.12\.1\.json: .+",
        ),
    ],
)
@pytest.mark.parametrize("command", ["merge", "compare"])
def test_unusable(
    tmp_path: Path, spoil: Callable[[Path], object], words: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit code 2, nothing written."""
    good, bad, out = tmp_path / "good", tmp_path / "bad", tmp_path / "out"
    folder(good, version("2.13.0"))
    spoil(bad)
    assert main([command, str(good), str(bad), *(["--out", str(out)] if command == "merge" else [])]) == 2
    written = capsys.readouterr()
    assert written.err.count("\n") == 1
    assert re.search(words, written.err)
    assert not out.exists()
    assert not written.out


def test_other_results_of_one_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Are not chosen from: both files are named, nothing is written."""
    folders = [folder(tmp_path / name, version("2.13.0", wrong)) for name, wrong in (("a", ()), ("b", ("x",)))]
    assert main(["merge", *folders, "--out", str(tmp_path / "out")]) == 2
    first, second = (path_of("2.13.0", Path(one)) for one in folders)
    assert capsys.readouterr().err == f"merge: torch 2.13.0: other results in {first} than in {second}\n"
    assert not (tmp_path / "out").exists()


def test_merge_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").touch()
    assert main(["merge", folder(tmp_path / "a", version("2.13.0")), "--out", str(tmp_path / "out")]) == 2
    assert "out cannot be written" in capsys.readouterr().err


def test_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each version with itself, a line for each transition; a version in one folder only is named, and fails nothing."""
    before = folder(tmp_path / "before", version("2.4.1"), version("2.12.1"), version("2.13.0"))
    after = folder(tmp_path / "after", version("2.12.1", ("x", "y")), version("2.13.0"), version(NIGHTLY))
    assert main(["compare", before, after]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "torch 2.4.1: missing in the second folder",
        "torch 2.12.1: torch broken MASK-02: 2 checks differ anew (nan), x and 1 more",
        "torch 2.13.0: nothing moved",
        f"torch {NIGHTLY}: missing in the first folder",
        f"{before} → {after}, 2 of 4 versions compared: 1 broken",
    ]
    assert main(["compare", before, before, "--strict"]) == 0
    assert main(["compare", before, folder(tmp_path / "few", version("2.13.0")), "--strict"]) == 0


def partly(one: VersionResults) -> VersionResults:
    """The same, of runs that did not come to their end."""
    return dataclasses.replace(
        one, subjects={name: dataclasses.replace(subject, complete=False) for name, subject in one.subjects.items()}
    )


def test_a_new_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The handmade model must conform also on a version that the first folder lacks."""
    before = folder(tmp_path / "a", version("1", subject="handmade"))
    after = folder(tmp_path / "b", version("1", subject="handmade"), version("2", ("a",), subject="handmade"))
    assert main(["compare", before, after]) == 1
    assert "torch 2: handmade must conform: MASK-02: 1 checks differ, a:" in capsys.readouterr().out


def test_merge_into_other_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there of the same version is not replaced by other results; of other versions it stays."""
    out = folder(tmp_path / "out", version("1"), version("2"))
    assert main(["merge", folder(tmp_path / "a", version("1", ("a",))), "--out", out]) == 2
    assert "torch 1: other results in" in capsys.readouterr().err
    assert main(["merge", folder(tmp_path / "b", version("1"), version("3")), "--out", out]) == 0
    assert sorted(one.torch for one in read_all(Path(out))) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        (version("1"), version("1"), (0, 0, 0)),
        (version("1"), version("1", ("a",)), (1, 1, 1)),
        (version("1", ("a",)), version("1"), (0, 1, 1)),
        (version("1", ("a",)), version("1", ("a",), kinds={"value": 1}), (0, 1, 1)),
        (version("1", ratio=1.0), version("1", ratio=2.0), (0, 1, 0)),
        (version("1"), version("1", ("a",), subject="handmade"), (1, 1, 1)),
        (version("1", ("a",), subject="handmade"), version("1", ("a",), subject="handmade"), (1, 1, 1)),
        (version("1", ("a",), subject="handmade"), version("1"), (1, 1, 1)),
        (version("1", subject="handmade"), partly(version("1", subject="handmade")), (1, 1, 1)),
        (version("1"), partly(version("1")), (0, 0, 0)),
    ],
)
def test_what_fails(tmp_path: Path, old: VersionResults, new: VersionResults, codes: tuple[int, int, int]) -> None:
    """What broke, in any case; what moved, if strict, but for a drift between machines; a handmade model that differs."""
    before, after = folder(tmp_path / "a", old), folder(tmp_path / "b", new)
    other = folder(tmp_path / "c", elsewhere(new))
    found = [main(["compare", before, after]), main(["compare", before, after, "--strict"])]
    assert (*found, main(["compare", before, other, "--strict", "--across-machines"])) == codes


def test_other_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named, and compared only on request."""
    before = folder(tmp_path / "a", version("2.12.1"), version("2.13.0"))
    after = folder(tmp_path / "b", version("2.12.1"), elsewhere(version("2.13.0")))
    assert main(["compare", before, after]) == 2
    assert capsys.readouterr().err.startswith("compare: torch 2.13.0: measured on different machines")
    assert main(["compare", before, after, "--across-machines"]) == 0


def test_what_cannot_be_compared_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A subject in one folder only, and a run that did not come to its end."""
    one = version("2.13.0", subject="torch-fast")
    half = dataclasses.replace(
        one, subjects={"torch-fast": dataclasses.replace(one.subjects["torch-fast"], complete=False)}
    )
    assert main(["compare", folder(tmp_path / "a", version("2.13.0")), folder(tmp_path / "b", half)]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "torch 2.13.0: torch-fast is missing in the first folder",
        "torch 2.13.0: torch is missing in the second folder",
        "torch 2.13.0: torch-fast is not complete in the second folder",
    ]


def test_strict_between_two_versions(tmp_path: Path) -> None:
    results = folder(tmp_path, version("2.12.1", ("a",)), version("2.13.0"))
    assert main(["compare", "2.12.1", "2.13.0", "--results", results]) == 0
    assert main(["compare", "2.12.1", "2.13.0", "--results", results, "--strict"]) == 1
