"""The continuous integration's workflows: jobs for every release, commands that exist, and what they do to results."""

import argparse
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.__main__ import parser
from conformance.selfcheck.commands import ROOT, run
from conformance.selfcheck.test_folders import folder
from conformance.selfcheck.test_results import version
from conformance.verdicts import Verdict
from conformance.versions.jobs import jobs
from conformance.versions.jobs import main as print_jobs
from conformance.versions.releases import RELEASES
from conformance.versions.results import SUBJECTS, read_all

FOLDER = ROOT / ".github" / "workflows"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yml"))}
VERSIONS = TEXTS["versions.yml"]
COMMANDS = {"versions", "merge", "matrix", "compare", "duel"}
LINES = [line for text in TEXTS.values() for line in re.findall(r"python -m conformance [^\n)>|]*", text)]


def parts(text: str) -> dict[str, str]:
    """The jobs of a workflow by name."""
    found = re.split(r"^  ([a-z]+):\n", text.partition("\njobs:\n")[2], flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def script(job: str, name: str) -> str:
    """What a step of a job of versions.yml runs."""
    (step,) = (one for one in parts(VERSIONS)[job].split("\n      - ") if one.startswith(f"name: {name}\n"))
    command = step.partition("run: ")[2]
    return "\n".join(
        line.strip() for line in command.removeprefix("|\n").splitlines() if not line.strip().startswith("#")
    )


def test_a_job_for_every_release() -> None:
    """The jobs are made of the list of releases, each with a Python that it is built for and its numpy; the workflow uses all."""
    found = jobs([])
    assert [(one["torch"], one["numpy"]) for one in found] == [(release.version, release.numpy) for release in RELEASES]
    for one, release in zip(found, RELEASES, strict=True):
        major, minor = map(int, one["python"].split("."))
        assert release.complaint((major, minor)) is None
    assert "python -m conformance.versions.jobs" in parts(VERSIONS)["choose"]
    assert "include: ${{ fromJSON(needs.choose.outputs.releases) }}" in parts(VERSIONS)["release"]
    assert set(re.findall(r"\bmatrix\.(\w+)", parts(VERSIONS)["release"])) == set(found[0])


def test_the_committed_results() -> None:
    """Of every release, of the same share of the cases, which the workflow asks as well; the handmade model differs nowhere."""
    stored = read_all()
    assert [one.torch for one in stored] == [release.version for release in RELEASES]
    samples = {one.sample for one in stored}
    assert {int(found) for found in re.findall(r"versions --installed --sample (\d+) ", VERSIONS)} == samples
    for one in stored:
        assert set(one.subjects) == set(SUBJECTS)
        assert all(subject.complete for subject in one.subjects.values())
        verdicts = {verdict for counts in one.subjects["handmade"].clauses.values() for verdict in counts.verdicts}
        assert not verdicts & {verdict.value for verdict in Verdict if verdict.fails}


def test_chosen_releases(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_jobs(["2.5", "2.2.2", "2.5.1"]) == 0
    assert [one["torch"] for one in json.loads(capsys.readouterr().out)] == ["2.5.1", "2.2.2"]
    assert print_jobs(["2.5", "9.9"]) == 2
    assert re.fullmatch(r"jobs: torch: expected one of .*, got '9\.9'\n", capsys.readouterr().err)


def test_jobs_are_chosen_without_torch() -> None:
    """Where nothing is installed yet."""
    program = (
        "import sys; sys.modules.update(torch=None, numpy=None); from conformance.versions import jobs; jobs.main([])"
    )
    done = run("-c", program)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == len(RELEASES)


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_commands_are_understood(line: str) -> None:
    """By the parser of the command line itself."""
    words = shlex.split(re.sub(r"\$\{\{.*?\}\}|\$\w+", "word", line.partition("||")[0]))
    given = parser().parse_args(words[3:])
    assert isinstance(given, argparse.Namespace)
    assert given.command in COMMANDS


def test_all_commands_are_there() -> None:
    assert {line.split()[3] for line in LINES} == COMMANDS


@pytest.mark.parametrize("name", TEXTS)
def test_structure(name: str) -> None:
    """Jobs that are needed exist, each ends in time; actions by major version, no rights but those needed, no address."""
    text, found = TEXTS[name], parts(TEXTS[name])
    assert found
    for job, body in found.items():
        assert "\n    timeout-minutes: " in f"\n{body}"
        needed = re.findall(r"^    needs: \[?([a-z, ]+)", body, flags=re.MULTILINE)
        assert {one for line in needed for one in line.split(", ")} <= set(found) - {job}
        assert job == "publish" or "permissions" not in body
    assert "\npermissions:\n  contents: read\n" in text
    assert "\nconcurrency:\n" in text
    assert all(re.fullmatch(r"[\w/-]+@v\d+", action) for action in re.findall(r"uses: *(\S+)", text))
    assert "\t" not in text
    assert "://" not in text
    assert not re.search(r"run:[^\n]*\$\{\{ (inputs|github)", text)


def test_nightly_may_fail() -> None:
    """And no release may."""
    assert [job for job, body in parts(VERSIONS).items() if "continue-on-error: true" in body] == ["nightly"]
    assert "--pre" in parts(VERSIONS)["nightly"]


def test_the_nightly_is_no_release() -> None:
    """Its artifact is shown in the matrix, and is not among those that are held against the committed results."""
    uploaded = re.findall(r"name: (results-\S+)", VERSIONS.replace("${{ matrix.torch }}", "2.13.0"))
    assert uploaded == ["results-2.13.0", "results-nightly"]
    released, shown = re.findall(r"report/jobs/(\S+)", script("matrix", "Merge"))
    assert [one for one in uploaded if fnmatch.fnmatch(one, released)] == ["results-2.13.0"]
    assert all(fnmatch.fnmatch(one, shown) for one in uploaded)


@pytest.mark.skipif(os.name != "posix" or shutil.which("bash") is None, reason="the scripts are bash's")
def test_rehearsal(tmp_path: Path) -> None:
    """The last job's scripts on made-up artifacts: folders merged, the page made, what moved in the summary, exit code 1."""
    folder(tmp_path / "conformance" / "versions" / "results", version("2.12.1"), version("2.13.0", ("x",)))
    folder(tmp_path / "report" / "jobs" / "results-2.12.1", version("2.12.1"))
    folder(tmp_path / "report" / "jobs" / "results-2.13.0", version("2.13.0"))
    folder(tmp_path / "report" / "jobs" / "results-nightly", version("2.16.0.dev20261130", ("x",)))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    codes = []
    for step in ("Merge", "Matrix", "Compare with the committed results"):
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script("matrix", step)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
        )
        assert not done.stderr
        codes.append(done.returncode)
    assert codes == [0, 0, 1]
    assert {one.name for one in (tmp_path / "report" / "site").iterdir()} == {"MATRIX.md", "matrix.html", "index.html"}
    assert "2.16.0.dev20261130" in (tmp_path / "report" / "site" / "index.html").read_text(encoding="utf-8")
    summary = (tmp_path / "summary").read_text(encoding="utf-8")
    assert "torch 2.13.0: torch fixed MASK-02: 1 check differs no more (nan), x\n" in summary
    assert "dev" not in summary
