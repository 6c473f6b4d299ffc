"""From the reports of runs to the stored results of a version of torch, and from what a user names to results."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ..report.model import Report, Result, UnreadableReport, count, read_report
from ..verdicts import Verdict
from .behaviours import Behaviour, load
from .releases import RELEASES
from .results import (
    FOLDER,
    SAID,
    SUBJECTS,
    WRONG,
    Counts,
    SubjectResults,
    UnusableResults,
    VersionResults,
    check_name,
    digest,
    machines,
    path_of,
    read,
    release,
)

SHOWN = 20
# What the reports of one version need not have in common.
OWN = ("subject", "capabilities", "chosen")


def collect(
    reports: Sequence[Report], capabilities: Mapping[str, Any] | None = None, command: str = ""
) -> VersionResults:
    """The results of one version of torch, from a report of each subject.

    Args:
        reports: of one version, made on one machine.
        capabilities: what this version can do, as it was probed.
        command: how the reports were made.

    Raises:
        UnusableResults: no report, several versions or machines, a subject twice, or one that is not of `SUBJECTS`.
    """
    if not reports:
        raise UnusableResults("expected a report, got none")
    first = dict(reports[0].environment)
    probed = capabilities or first.get("capabilities") or {}
    for own in OWN:
        first.pop(own, None)
    for report in reports:
        if not report.results:
            raise UnusableResults(f"a report of {report.environment.get('subject')} without a result")
        for own in {**first, **report.environment}:
            value, found = first.get(own), report.environment.get(own)
            if own not in OWN and found != value:
                raise UnusableResults(f"reports of different environments: {own} is {value!r} and {found!r}")
    followed = load()
    subjects: dict[str, SubjectResults] = {}
    for report in reports:
        name = str(report.environment.get("subject"))
        if name not in SUBJECTS:
            raise UnusableResults(f"subject: expected one of {list(SUBJECTS)}, got {name!r}")
        if name in subjects:
            raise UnusableResults(f"subject: {name} is in two of the reports")
        subjects[name] = _subject(report, [one for one in followed if name in one.subjects])
    environment = {**first, **({"command": command} if command else {})}
    ordered = {name: subjects[name] for name in SUBJECTS if name in subjects}
    return VersionResults(release(str(first.get("torch"))), environment, dict(probed), ordered)


def _subject(report: Report, followed: Iterable[Behaviour]) -> SubjectResults:
    # Where torch differs from the handmade model and the oracle, it is torch's own results that say so.
    handmade = report.environment.get("subject") == "handmade"
    results = [_own(result) for result in report.results] if handmade else report.results
    clauses: dict[str, list[Result]] = {}
    for result in results:
        clauses.setdefault(result.clause, []).append(result)
    by_name = {one.name: [result for result in results if one.covers(result.clause, result.case)] for one in followed}
    return SubjectResults(
        report.complete and not report.environment.get("chosen"),
        {clause: _counts(found) for clause, found in sorted(clauses.items())},
        {name: _counts(found) for name, found in by_name.items() if found},
    )


def _own(result: Result) -> Result:
    if result.verdict != Verdict.TORCH_DIFFERS.value:
        return result
    return dataclasses.replace(result, verdict=Verdict.CONFORMS.value, kind="", message="")


def _counts(results: Sequence[Result]) -> Counts:
    differing = sorted((result for result in results if result.verdict in WRONG), key=lambda r: (len(r.case), r.case))
    found = [tensor.get("ratio") for result in results for tensor in result.tensors]
    ratios = [float(ratio) for ratio in found if isinstance(ratio, int | float) and math.isfinite(ratio)]
    verdicts = count(result.verdict for result in results)
    # Of a clause that cannot be asked at all, all cases are meant.
    mixed = bool(SAID & set(verdicts))
    return Counts(
        verdicts,
        count(result.kind for result in differing if result.kind),
        float(f"{statistics.median(ratios):.3g}") if ratios else None,
        float(f"{max(ratios):.3g}") if ratios else None,
        count(result.policy for result in results if result.policy),
        tuple(result.case for result in differing[:SHOWN]),
        tuple(digest(result.case) for result in differing[SHOWN:]),
        tuple(digest(result.case) for result in results if mixed and result.verdict == Verdict.NOT_SUPPORTED.value),
        " ".join(differing[0].message.split("\n")[0].split())[:300] if differing else "",
    )


def with_others(made: VersionResults, path: Path) -> VersionResults:
    """With what is stored there of other subjects and of the speed, where machine and cases are the same.

    Args:
        made: results of some subjects.
        path: where they are going to be stored.
    """
    if not path.exists():
        return made
    before = read(path)
    check_name(before, path)
    alike = before.sample == made.sample and len(machines([before, made])) == 1
    subjects = {**(before.subjects if alike else {}), **made.subjects}
    return dataclasses.replace(made, subjects={n: subjects[n] for n in SUBJECTS if n in subjects}, speed=before.speed)


def find(name: str, folder: Path = FOLDER) -> VersionResults:
    """The results that a user means: a version that is stored, a file of results, a report or its folder.

    Raises:
        UnusableResults: nothing of the kind, or it cannot be read.
    """
    path = Path(name).expanduser()
    version = stored_version(name, folder)
    if version is not None:
        place = path_of(version, folder)
        found = read(place)
        check_name(found, place)
        return found
    if holds_results(path):
        raise UnusableResults(f"{name}: a folder of results, expected a version beside a version or two such folders")
    if path.is_file() and path.name != "report.json" and path.suffix == ".json":
        return read(path)
    if path.exists():
        return collect([report_at(path)])
    shown = ", ".join(_stored(folder)) or "none"
    raise UnusableResults(f"{name}: neither a stored version of torch nor a file of results (stored: {shown})")


def stored_version(name: str, folder: Path = FOLDER) -> str | None:
    """The stored version that is named, in full or as 2.5 for 2.5.1; None for what names none."""
    names = (name, *(one.version for one in RELEASES if one.version.rpartition(".")[0] == name))
    return next((version for version in names if path_of(version, folder).is_file()), None)


def _stored(folder: Path) -> list[str]:
    return sorted((one.stem.removeprefix("torch-") for one in folder.glob("torch-*.json")), key=_by_version)


def _by_version(name: str) -> tuple[int, Version | str]:
    try:
        return 0, Version(name)
    except InvalidVersion:
        return 1, name


def holds_results(folder: Path) -> bool:
    """Whether there are results of versions in a folder."""
    return folder.is_dir() and any(folder.glob("torch-*.json"))


def report_at(path: Path) -> Report:
    """The report in a file or folder.

    Raises:
        UnusableResults: there is none that can be read.
    """
    path = path.expanduser()
    if path.is_dir() and not any((path / name).exists() for name in ("report.json", "results.jsonl")):
        raise UnusableResults(f"{path}: expected a report, got a folder without report.json and results.jsonl")
    try:
        return read_report(path)
    except UnreadableReport as error:
        raise UnusableResults(str(error)) from None
