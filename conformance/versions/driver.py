"""`python -m conformance versions`: the clauses on every release of torch, one environment at a time."""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..capabilities import VERSION
from ..clauses import CHAPTERS, load_all
from ..option_values import at_least_one
from . import environments
from .checking import Plan, check
from .environments import UnusableEnvironment
from .releases import RELEASES, Release, find
from .results import FOLDER, SUBJECTS, UnusableResults, path_of, read
from .speed import SECONDS


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Make the command known to a parser."""
    made = commands.add_parser("versions", help="check releases of torch, each in an environment of its own")
    made.add_argument(
        "versions", nargs="*", metavar="VERSION", help=f"such as 2.5.1 (default: all {len(RELEASES)}, the oldest first)"
    )
    made.add_argument("--installed", action="store_true", help="check the torch that is installed here, and no other")
    made.add_argument("--subject", action="append", choices=SUBJECTS, help="only this one (may be repeated)")
    made.add_argument(
        "--chapter",
        action="append",
        choices=tuple(CHAPTERS),
        help="a quick look, which is not stored: this chapter only",
    )
    made.add_argument("--matching", metavar="EXPRESSION", help="a quick look, which is not stored: as pytest's -k")
    timed = made.add_mutually_exclusive_group()
    timed.add_argument("--no-speed", action="store_true", help="do not measure the speed of the attention cores")
    timed.add_argument(
        "--speed-only", action="store_true", help="measure that of versions that are stored, and no more"
    )
    made.add_argument(
        "--workers", metavar="N", type=_workers, default="auto", help="processes (default: auto, one for each CPU)"
    )
    made.add_argument(
        "--sample", metavar="N", type=at_least_one, default=1, help="of the shared cases one in N (default: all)"
    )
    made.add_argument("--again", action="store_true", help="also those whose results are stored")
    made.add_argument("--keep", action="store_true", help="do not delete the environments")
    made.add_argument(
        "--work", metavar="DIR", type=Path, default=Path("report", "versions"), help="environments, reports, logs"
    )
    made.add_argument("--results", metavar="DIR", type=Path, default=FOLDER, help="the folder of stored results")


def run(given: argparse.Namespace) -> int:
    """Run the command; returns the exit code: 1 where a release could not be checked, 2 for what cannot be used."""
    chosen = _chosen(given.chapter, given.matching)
    plan = Plan(
        () if given.speed_only else tuple(given.subject or SUBJECTS), chosen, given.workers,
        given.work.expanduser().resolve(), given.results, given.again or given.speed_only, given.keep, given.sample,
        0.0 if given.no_speed or chosen else SECONDS,
    )  # fmt: skip
    try:
        if given.speed_only and (chosen or given.subject):
            raise ValueError("--speed-only: expected no --subject, --chapter or --matching beside it")
        if given.installed:
            if given.versions:
                raise ValueError(f"--installed: expected no VERSION beside it, got {' '.join(given.versions)}")
            with environments.alone(plan.work):
                return 0 if check(VERSION, Path(sys.executable), plan, _say) else 1
        releases = [find(version) for version in given.versions] or list(RELEASES)
        with environments.alone(plan.work):
            return _all(releases, plan)
    except (ValueError, UnusableEnvironment) as error:
        sys.stderr.write(f"versions: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"versions: {error.filename} cannot be written: {error.strerror}\n")
        return 2
    except KeyboardInterrupt:
        _say("interrupted: the same command goes on where this one was")
        return 130


def _all(releases: Sequence[Release], plan: Plan) -> int:
    failed = [release.version for release in dict.fromkeys(releases) if not _release(release, plan)]
    if failed:
        _say(f"not done: {', '.join(failed)}")
    return 1 if failed else 0


def _workers(text: str) -> str:
    if text != "auto" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of processes or auto, got {text}")
    return text


def _chosen(chapters: Sequence[str] | None, expression: str | None) -> tuple[str, ...]:
    files = {
        f"conformance/{clause.check.__module__.rpartition('.')[2]}.py": None
        for clause in load_all().values()
        if clause.chapter in (chapters or ())
    }
    return (*files, *(("-k", expression) if expression else ()))


def _release(release: Release, plan: Plan) -> bool:
    """Check a release in an environment of its own; whether that was possible."""
    plan = _left(release.version, plan)
    if not plan.subjects and not plan.speed:
        _say(f"{release.version}: stored already")
        return True
    if not plan.subjects and not path_of(release.version, plan.results).exists():
        _say(f"{release.version}: no results are stored that the speed could be added to")
        return False
    folder = plan.work / "environment"
    started = time.monotonic()
    try:
        _say(f"{release.version}: making an environment")
        python = environments.make(release, folder)
        _say(f"{release.version}: environment after {time.monotonic() - started:.0f} s")
        done = check(release.version, python, plan, _say)
        if not plan.keep:
            environments.delete(folder)
    except UnusableEnvironment as error:
        _say(f"{release.version}: {error}")
        return False
    return done


def _left(version: str, plan: Plan) -> Plan:
    """What of a plan is not stored yet."""
    if plan.again or plan.chosen:
        return plan
    try:
        found = read(path_of(version, plan.results))
    except UnusableResults:
        return plan
    complete = {name for name, subject in found.subjects.items() if subject.complete}
    whole = found.sample == plan.sample and set(plan.subjects) <= complete
    return replace(plan, subjects=() if whole else plan.subjects, speed=0.0 if found.speed else plan.speed)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
