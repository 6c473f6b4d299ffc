"""Releases of torch: as data, in tox, in environments; and a run of one of them, stored."""

import configparser
import json
import re
import sys
from pathlib import Path

import pytest

from conformance.selfcheck.commands import ROOT, run
from conformance.selfcheck.stand_ins import needs_posix, script
from conformance.versions import environments
from conformance.versions.checking import Plan, check, shares
from conformance.versions.environments import UnusableEnvironment
from conformance.versions.known_differences import Known
from conformance.versions.matrix import matrix
from conformance.versions.releases import RELEASES, Release, find
from conformance.versions.results import read_all


def test_tox_has_every_release() -> None:
    """A factor for each, with its version and its numpy, and the Python that it is built for."""
    settings = configparser.RawConfigParser()
    settings.read(ROOT / "tox.ini", encoding="utf-8")
    deps, pythons = settings["testenv"]["deps"].splitlines(), settings["testenv"]["base_python"]
    for release in RELEASES:
        assert f"{release.factor}: torch=={release.version}" in deps
        assert any(
            section.startswith("testenv:conformance") and f"-{release.factor}" in section for section in settings
        )
        named = [line for line in pythons.splitlines() if release.factor[5:] in re.split("[{},]", line)]
        found = {tuple(map(int, one.split("."))) for line in named for one in re.findall(r"python([\d.]+)", line)}
        assert found == (
            {(3, minor) for minor in range(10, release.python[1] + 1)} if release.python[1] < 99 else set()
        )
    old = re.search(r"torch\{([\d,]+)\}: numpy<2", settings["testenv"]["deps"])
    assert old is not None
    assert {f"torch{one}" for one in old[1].split(",")} == {r.factor for r in RELEASES if r.numpy != "numpy"}


def test_names_of_releases() -> None:
    assert find("2.5") is find("2.5.1") is next(one for one in RELEASES if one.factor == "torch25")
    with pytest.raises(ValueError, match=r"torch: expected one of 1\.13\.1, .*, got '2\.5\.0'"):
        find("2.5.0")


def test_the_wrong_python_is_named() -> None:
    assert find("2.0.1").complaint((3, 12)) == "torch 2.0.1: expected Python 3.10 … 3.11, got 3.12"
    assert find("2.0.1").complaint((3, 11)) is None
    assert find("2.15.0").complaint((3, 14)) is None


def test_no_python_that_is_old_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    wanted = Release("1.0.0", (3, 9))
    with pytest.raises(
        UnusableEnvironment, match=r"torch 1\.0\.0: expected Python 3\.10 … 3\.9, got 3\.\d+, and found none"
    ):
        environments.python_for(wanted)


def test_what_is_installed() -> None:
    """The release, its numpy, and what the project asks for besides."""
    found = environments.requirements(find("2.2.2"))
    assert found[:2] == ["torch==2.2.2", "numpy<2"]
    assert any(one.startswith("pytest-xdist") for one in found)
    assert not any(re.match(r"(torch|numpy)>", one) for one in found)


def test_a_half_made_environment_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one that is whole, and of the same release, is taken again."""
    commands: list[list[str]] = []

    def pretend(command: list[str]) -> None:
        commands.append(command)
        folder.mkdir(exist_ok=True)

    monkeypatch.setattr(environments, "_run", pretend)
    folder = tmp_path / "environment"
    folder.mkdir()
    (folder / "left").touch()
    release = find(next(one.version for one in RELEASES if one.complaint() is None))
    environments.make(release, folder)
    assert not (folder / "left").exists()
    assert f"torch=={release.version}" in commands[1]
    environments.make(release, folder)
    assert len(commands) == 2
    other = next(one for one in RELEASES[::-1] if one != release)
    environments.make(other, folder)
    assert len(commands) == 4


def test_a_quick_look(tmp_path: Path) -> None:
    """One chapter of the installed torch: a report, nothing stored; a second look at an unknown version is refused."""
    arguments = (
        "-m",
        "conformance",
        "versions",
        "--workers=0",
        f"--work={tmp_path}",
        f"--results={tmp_path / 'stored'}",
    )
    done = run(*arguments, "--installed", "--subject=handmade", "--chapter=RMS", "--matching=test_scale or float32")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"handmade: \d+ checks in \d+ s: \d+ conforms", done.stdout)
    assert not (tmp_path / "stored").exists()
    done = run(*arguments, "9.9")
    assert done.returncode == 2
    assert done.stderr.startswith("versions: torch: expected one of 1.13.1, ")


STAND_IN = """import json, pathlib, sys
if "pytest" not in sys.argv:
    sys.exit(print("{{}}"))
folder = pathlib.Path(next(one for one in sys.argv if one.startswith("--report=")).partition("=")[2])
subject = sys.argv[sys.argv.index("--subject") + 1]
result = {{"test": "t", "clause": "MASK-02", "level": "MUST", "case": "a", "seconds": 0.0, "kind": "nan", "message": "new"}}
result["verdict"] = "conforms" if subject == "handmade" else "torch differs"
environment = {{"subject": subject, "torch": "{torch}"}}
report = {{"schema": 2, "complete": True, "environment": environment, "results": [result]}}
(folder / "report.json").write_text(json.dumps(report))
sys.exit(1)
"""


@needs_posix
def test_new_differences_are_stored(tmp_path: Path) -> None:
    """A run that fails, since torch differs otherwise than is known, is one that was made; of a nightly torch as well."""
    python = script(tmp_path / "python", STAND_IN.format(torch="2.16.0.dev20261130+cpu"), sys.executable)
    said: list[str] = []
    plan = Plan(("handmade", "torch"), (), "0", tmp_path / "work", tmp_path / "stored")
    assert check("2.16.0.dev20261130", python, plan, said.append), said
    (stored,) = read_all(tmp_path / "stored")
    assert (tmp_path / "stored" / "torch-2.16.0.dev20261130.json").exists()
    assert stored.torch == "2.16.0.dev20261130"
    assert stored.subjects["torch"].clauses["MASK-02"].state == "differs"
    assert matrix([stored]).versions[-1] == stored.torch


def test_known_differences_of_a_nightly() -> None:
    """What is open to later versions is known of a build of the next release, and what ended before is not."""
    for specifier, known in ((">=2.13", True), (">=2.13,<2.15", False), ("==2.15.0", False)):
        one = Known("torch", ("MASK-02",), {}, specifier, "nan", 1, "", "")
        assert one.applies("torch", "2.16.0.dev20261130+cpu") is known


def test_a_folder_in_use(tmp_path: Path) -> None:
    """Two runs would delete each other's environments."""
    with environments.alone(tmp_path):
        done = run("-m", "conformance", "versions", "2.5.1", f"--work={tmp_path}", f"--results={tmp_path / 'stored'}")
    assert done.returncode == 2
    assert done.stderr == f"versions: --work: expected a folder that no other run works in, got {tmp_path}\n"
    with environments.alone(tmp_path), environments.alone(tmp_path / "other"):
        pass


def test_an_environment_that_cannot_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and no release is made in its place."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path / "kept"))

    monkeypatch.setattr(environments.shutil, "rmtree", refuse)
    with pytest.raises(UnusableEnvironment, match="kept cannot be deleted: Permission denied"):
        environments.make(RELEASES[-1], tmp_path)


def test_a_sample_of_nothing() -> None:
    done = run("-m", "conformance", "versions", "2.5.1", "--sample", "0")
    assert done.returncode == 2
    assert "argument --sample: expected an integer of at least 1, got '0'" in done.stderr


def test_installed_and_a_version(tmp_path: Path) -> None:
    done = run("-m", "conformance", "versions", "2.5.1", "--installed")
    assert done.returncode == 2
    assert done.stderr == "versions: --installed: expected no VERSION beside it, got 2.5.1\n"
    (tmp_path / "file").touch()
    done = run("-m", "conformance", "versions", "--installed", f"--work={tmp_path / 'file'}")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert done.stderr.count("\n") == 1


def test_resumes_and_stores(tmp_path: Path) -> None:
    """A subject that was asked everything is not asked again; what is stored has capabilities and command."""
    plan = Plan(("handmade",), (), "0", tmp_path, tmp_path / "stored")
    folder = tmp_path / "torch-2.13.0" / "handmade"
    folder.mkdir(parents=True)
    result = {
        "test": "t",
        "clause": "RMS-01",
        "level": "MUST",
        "case": "rms_norm",
        "verdict": "conforms",
        "seconds": 0.0,
    }
    report = {
        "schema": 2,
        "complete": True,
        "environment": {"subject": "handmade", "torch": "2.13.0"},
        "results": [result],
    }
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    said: list[str] = []
    assert check("2.13.0", Path(sys.executable), plan, said.append)
    assert said[0] == "2.13.0 handmade: done before"
    stored = json.loads((tmp_path / "stored" / "torch-2.13.0.json").read_text(encoding="utf-8"))
    assert stored["subjects"]["handmade"]["clauses"]["RMS-01"]["verdicts"] == {"conforms": 1}
    assert stored["capabilities"]["torch.func"] in (True, False)
    assert stored["environment"]["command"] == "python -m conformance versions"


@pytest.mark.parametrize(
    ("workers", "subjects", "expected"),
    [("0", 5, (1, 0)), ("1", 5, (1, 0)), ("2", 5, (2, 0)), ("4", 1, (1, 4)), ("16", 5, (5, 3))],
)
def test_processes_are_shared_out(workers: str, subjects: int, expected: tuple[int, int]) -> None:
    """First by subject, which need not wait for each other."""
    assert shares(workers, subjects) == expected


@needs_posix
def test_a_process_that_is_killed(tmp_path: Path) -> None:
    """What kills the process of all checks is asked for once more in a worker's, which takes one check with it."""
    python = script(tmp_path / "python", 'case "$*" in *"-n 0"*) kill -9 $$ ;; *) echo "$*"; exit 1 ;; esac')
    said: list[str] = []
    plan = Plan(("torch",), (), "1", tmp_path / "work", tmp_path / "results")
    assert not check("2.13.0", python, plan, said.append)
    assert said[0] == "2.13.0 torch: ended by -9 after 0 checks, once more by a worker"
    assert said[1].startswith("2.13.0 torch: nothing came of it")
    assert "-n 1" in (tmp_path / "work" / "torch-2.13.0" / "torch" / "log.txt").read_text(encoding="utf-8")
