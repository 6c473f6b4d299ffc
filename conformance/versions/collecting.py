"""From the reports of runs to the stored results of a version of torch, and from what a user names to results."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ..report.model import Report, Result, UnreadableReport, count, read_report
from ..verdicts import Verdict
from .behaviours import Behaviour, load
from .results import (
    FOLDER,
    SUBJECTS,
    WRONG,
    Counts,
    SubjectResults,
    UnusableResults,
    VersionResults,
    path_of,
    read,
    release,
)

SHOWN = 20


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
    for own in ("subject", "capabilities"):
        first.pop(own, None)
    for report in reports[1:]:
        for own, value in first.items():
            if report.environment.get(own) != value:
                found = report.environment.get(own)
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
    environment = {**first, "suite": _suite(), **({"command": command} if command else {})}
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
        report.complete,
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
    return Counts(
        count(result.verdict for result in results),
        count(result.kind for result in differing if result.kind),
        float(f"{statistics.median(ratios):.3g}") if ratios else None,
        float(f"{max(ratios):.3g}") if ratios else None,
        count(result.policy for result in results if result.policy),
        tuple(result.case for result in differing[:SHOWN]),
        " ".join(differing[0].message.split("\n")[0].split())[:300] if differing else "",
    )


def _suite() -> str:
    try:
        return metadata.version("transformer-conformance")
    except metadata.PackageNotFoundError:
        return "unknown"


def find(name: str, folder: Path = FOLDER) -> VersionResults:
    """The results that a user means: a version that is stored, a file of results, a report or its folder.

    Raises:
        UnusableResults: nothing of the kind, or it cannot be read.
    """
    path = Path(name).expanduser()
    if path_of(name, folder).is_file():
        return read(path_of(name, folder))
    if path.is_file() and path.name != "report.json" and path.suffix == ".json":
        return read(path)
    if path.exists():
        return collect([report_at(path)])
    stored = [one.stem.removeprefix("torch-") for one in folder.glob("torch-*.json")]
    shown = ", ".join(sorted(stored, key=lambda one: (len(one), one))) or "none"
    raise UnusableResults(f"{name}: neither a stored version of torch nor a file of results (stored: {shown})")


def report_at(path: Path) -> Report:
    """The report in a file or folder.

    Raises:
        UnusableResults: there is none that can be read.
    """
    try:
        return read_report(path.expanduser())
    except UnreadableReport as error:
        raise UnusableResults(str(error)) from None
