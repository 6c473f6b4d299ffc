"""The clauses with one release of torch, by all subjects: a run for each, watched, and the results stored."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..duel.processes import Unusable
from ..report.model import UnreadableReport, count, read_report
from .collecting import collect, with_others
from .environments import ROOT
from .results import UnusableResults, path_of, read, release, write
from .speed import measure

# Seconds between two looks at how far a run has come.
PAUSE = 2.0
# For a run that was interrupted to end by itself.
PATIENCE = 10.0
# Its exit codes; with another the process was killed.
PYTEST = range(6)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is asked of every release.

    Attributes:
        subjects: who is asked.
        chosen: pytest's arguments that choose some of the clauses and cases; empty for all.
        workers: processes in all, or "auto": one for each CPU.
        work: the folder of environments, reports and logs.
        results: the folder of stored results.
        again: ask also what is stored already.
        keep: leave the environments where they are.
        sample: of the shared cases one in so many.
        speed: seconds for the speed of the attention cores, which is measured where results are stored; 0 for none.
    """

    subjects: tuple[str, ...]
    chosen: tuple[str, ...]
    workers: str
    work: Path
    results: Path
    again: bool = False
    keep: bool = False
    sample: int = 1
    speed: float = 0.0

    @property
    def command(self) -> str:
        """What makes the results."""
        return "python -m conformance versions" + (f" --sample {self.sample}" if self.sample != 1 else "")


def check(version: str, python: Path, plan: Plan, say: Say) -> bool:
    """Run the clauses on each subject with the torch of an environment, time it, and store what that says.

    Args:
        version: of torch.
        python: the environment's.
        plan: what is asked.
        say: is told how it goes.

    Returns:
        Whether every subject was asked everything, and the speed is measured.
    """
    reports = plan.work / (f"torch-{version}-look" if plan.chosen else f"torch-{version}")
    left = [one for one in plan.subjects if plan.chosen or plan.again or not _complete(reports / one, plan)]
    for subject in plan.subjects:
        if subject not in left:
            say(f"{version} {subject}: done before")
    whole = _ask(version, left, python, plan, reports, say)
    if plan.chosen:
        return whole
    found = [read_report(reports / name) for name in plan.subjects if _has_report(reports / name)]
    if found:
        try:
            made = collect(found, _capabilities(python, plan), plan.command)
            path = path_of(made.torch, plan.results)
            write(with_others(made, path), path)
        except (UnusableResults, OSError) as error:
            say(f"{version}: not stored: {error}")
            return False
        say(f"{version}: stored in {path}")
    return (not plan.speed or _time(version, python, plan, say)) and whole


def _time(version: str, python: Path, plan: Plan, say: Say) -> bool:
    """Add the speed to what is stored; whether that was possible."""
    path = path_of(version, plan.results)
    try:
        read(path)
        say(f"{version} speed: about {plan.speed:.0f} s")
        speed = measure(python, plan.speed)
        found = release(str(speed.environment["torch"]))
        if found != version:
            raise UnusableResults(f"torch: expected {version}, got {found}")
        write(replace(read(path), speed=speed), path)
    except (Unusable, UnusableResults, OSError) as error:
        say(f"{version} speed: not stored: {error}")
        return False
    lacking = f", {len(speed.unsupported)} not supported" if speed.unsupported else ""
    say(f"{version} speed: {len(speed.cells)} cells, {speed.rounds} rounds{lacking}, stored in {path}")
    return True


def _complete(folder: Path, plan: Plan) -> bool:
    if not _has_report(folder):
        return False
    report = read_report(folder)
    return report.complete and report.environment.get("sample", 1) == plan.sample


def _has_report(folder: Path) -> bool:
    try:
        return bool(read_report(folder).results)
    except UnreadableReport:
        return False


@dataclass(frozen=True)
class Asked:
    """A subject's run that is under way."""

    name: str
    folder: Path
    process: "subprocess.Popen[bytes]"
    workers: int
    started: float

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.started

    @property
    def checks(self) -> int:
        """That have been made."""
        path = self.folder / "results.jsonl"
        return max(path.read_bytes().count(b"\n") - 1, 0) if path.exists() else 0


def shares(workers: str, subjects: int) -> tuple[int, int]:
    """How many subjects are asked at once, and the workers of each, none where it is to be asked in one process.

    Args:
        workers: processes in all, or "auto".
        subjects: how many there are.
    """
    processes = (os.cpu_count() or 1) if workers == "auto" else int(workers)
    at_once = max(1, min(subjects, processes))
    each = processes // at_once
    return at_once, each if each > 1 else 0


def _ask(version: str, subjects: Sequence[str], python: Path, plan: Plan, reports: Path, say: Say) -> bool:
    """The subjects' runs; whether all came to their end."""
    at_once, each = shares(plan.workers, len(subjects))
    waiting, running, whole = list(subjects), list[Asked](), True
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                subject = waiting.pop(0)
                running.append(_start(version, subject, python, plan, reports / subject, each))
            with contextlib.suppress(subprocess.TimeoutExpired):
                running[0].process.wait(PAUSE)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                if one.process.returncode not in PYTEST and not one.workers:
                    # A worker that dies takes one check with it; the process itself, all that were to come.
                    say(
                        f"{one.name}: ended by {one.process.returncode} after {one.checks} checks, once more by a worker"
                    )
                    running.append(_start(version, one.folder.name, python, plan, one.folder, 1))
                    continue
                whole = _ended(one, say) and whole
            if sys.stdout.isatty():
                shown = ", ".join(f"{one.name}: {one.checks} checks, {one.seconds:.0f} s" for one in running)
                sys.stdout.write(f"\r{shown} \r")
                sys.stdout.flush()
    except BaseException:
        for one in running:
            # At a terminal the interruption has reached it as well, and it writes what it has.
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(PATIENCE)
            one.process.kill()
        raise
    return whole


def _start(version: str, subject: str, python: Path, plan: Plan, folder: Path, workers: int) -> Asked:
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-disable", "--tb=no",
        "-n", str(workers), "--subject", subject, f"--report={folder}", f"--sample={plan.sample}",
        "--ignore=conformance/selfcheck", "--ignore=conformance/claims", *plan.chosen,
    ]  # fmt: skip
    for left in ("report.json", "results.jsonl"):
        (folder / left).unlink(missing_ok=True)
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=_variables(plan.work))
    return Asked(f"{version} {subject}", folder, process, workers, time.monotonic())


def _ended(run: Asked, say: Say) -> bool:
    """Say what came of a run; whether it came to its end."""
    if not _has_report(run.folder):
        last = (run.folder / "log.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        say(
            f"{run.name}: nothing came of it after {run.seconds:.0f} s, exit code {run.process.returncode}: "
            f"{last[-1] if last else 'no output'}"
        )
        return False
    report = read_report(run.folder)
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in count(r.verdict for r in report.results).items())
    say(
        f"{run.name}: {len(report.results)} checks in {run.seconds:.0f} s: {verdicts}"
        f"{'' if report.complete else '; not complete'}"
    )
    return report.complete


def _capabilities(python: Path, plan: Plan) -> dict[str, Any]:
    done = subprocess.run(
        [str(python), "-m", "conformance", "capabilities"],
        cwd=ROOT, env=_variables(plan.work), capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    return json.loads(done.stdout) if done.returncode == 0 else {}


def _variables(work: Path) -> dict[str, str]:
    """The environment's variables: this checkout is what is imported and stays clean, and each process has one thread."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {
        **inherited,
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPYCACHEPREFIX": str(work / "bytecode"),
    }
