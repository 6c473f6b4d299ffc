"""The report as data: a line of results.jsonl for each clause and case, and report.json derived from them."""

import dataclasses
import errno
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ..comparison import Comparison
from ..files import claim, write_whole

SCHEMA = 2


@dataclass(frozen=True)
class Result:
    """One clause on one case.

    Attributes:
        test: the pytest id that reruns it.
        clause, level, case: which.
        verdict: a value of `Verdict`.
        seconds: time of the check, shared runs counted where they happened.
        kind: what the difference is like (see `verdicts.Kind`), the subject's or torch's.
        message: why it does not conform, or why it was skipped.
        policy: the policy found.
        tensors: what was compared, one mapping of `Comparison`'s fields each.
    """

    test: str
    clause: str
    level: str
    case: str
    verdict: str
    seconds: float
    kind: str = ""
    message: str = ""
    policy: str = ""
    tensors: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """A run: its environment and its results."""

    environment: dict[str, Any]
    results: list[Result]
    complete: bool


class UnreadableReport(ValueError):
    """The file is no report of this version; the message is one line."""


def tensor_fields(comparison: Comparison) -> dict[str, Any]:
    """A comparison as plain data; what is not finite becomes a string, since JSON has no such numbers."""
    plain = dataclasses.asdict(comparison)
    plain["verdict"] = comparison.verdict.value
    plain["worst"] = list(comparison.worst)
    return {name: _finite(value) for name, value in plain.items() if value not in ("", None)}


def encode(result: Result) -> str:
    """One line of results.jsonl."""
    return json.dumps(vars(result), allow_nan=False)


def decode(line: str) -> Result:
    """The inverse of `encode`."""
    return Result(**json.loads(line))


class Writer:
    """Appends results as they come, so that an interrupted run keeps what it has.

    An earlier report in the folder stays until the first result takes its place.

    Raises:
        OSError: the folder cannot be written, or another run is writing there.
    """

    def __init__(self, folder: Path, environment: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.header = json.dumps({"schema": SCHEMA, "environment": environment})
        self.lines: TextIO | None = None
        lock = claim(folder / ".lock")
        if lock is None:
            raise OSError(errno.EAGAIN, "another run is writing there")
        self.lock = lock

    def add(self, encoded: str) -> None:
        """Write one encoded result through to the file."""
        if self.lines is None:
            (self.folder / "report.json").unlink(missing_ok=True)
            self.lines = (self.folder / "results.jsonl").open("w", encoding="utf-8")
            self.lines.write(self.header + "\n")
        self.lines.write(encoded + "\n")
        self.lines.flush()

    def finish(self, complete: bool) -> str:
        """Derive report.json from what was written; without a result nothing is touched.

        Returns:
            What became of it, in one line.
        """
        self.lock.close()
        (self.folder / ".lock").unlink(missing_ok=True)
        path = self.folder / "report.json"
        if self.lines is not None:
            self.lines.close()
            try:
                report = read_results(self.folder / "results.jsonl")
            except UnreadableReport as error:
                return f"no report: {error}"
            write_report(dataclasses.replace(report, complete=complete), path)
        return f"report: {path}" if path.exists() else "no report: there is no result"


def read_results(path: Path) -> Report:
    """The report in a results.jsonl; a last line that was cut off is left out.

    Raises:
        UnreadableReport: no such file, not JSON before the last line, another schema version.
    """
    lines = _lines(path)
    header = next(lines, {})
    _check_schema(path, header)
    return Report(header["environment"], [_result(path, line) for line in lines], complete=False)


def read_report(path: Path) -> Report:
    """The report in a report.json, or in the results.jsonl of a run that was interrupted.

    Raises:
        UnreadableReport: see `read_results`.
    """
    if path.is_dir():
        path = path / "report.json" if (path / "report.json").exists() else path / "results.jsonl"
    if path.suffix == ".jsonl":
        return read_results(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableReport(f"{path}: {_one_line(error)}") from None
    if not isinstance(data, dict):
        raise UnreadableReport(f"{path}: expected an object with schema, environment and results")
    _check_schema(path, data)
    results, complete = data.get("results", []), data.get("complete", False)
    if not isinstance(results, list) or not isinstance(complete, bool):
        raise UnreadableReport(f"{path}: expected a list of results, and whether they are complete")
    return Report(data["environment"], [_result(path, one) for one in results], complete)


def write_report(report: Report, path: Path) -> None:
    """Write report.json: first beside it, then in its place, so that there is never half of one."""
    data = {
        "schema": SCHEMA,
        "complete": report.complete,
        "environment": report.environment,
        "verdicts": count(result.verdict for result in report.results),
        "results": [dataclasses.asdict(result) for result in report.results],
    }
    write_whole(path, json.dumps(data, allow_nan=False, indent=None, separators=(",", ":")))


def count(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, most frequent first."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UnreadableReport(f"{path}: {_one_line(error)}") from None
    for number, text in enumerate(texts, 1):
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            if number == len(texts):
                return
            raise UnreadableReport(f"{path}:{number}: {_one_line(error)}") from None
        yield value


# Of a result's fields; the others are texts.
KINDS: dict[str, tuple[type, ...]] = {"seconds": (int, float), "tensors": (list,)}


def _result(path: Path, value: Any) -> Result:
    try:
        result = Result(**value)
    except TypeError as error:
        raise UnreadableReport(f"{path}: a result that does not fit schema {SCHEMA}: {_one_line(error)}") from None
    for own in dataclasses.fields(Result):
        found = getattr(result, own.name)
        if not isinstance(found, KINDS.get(own.name, (str,))):
            raise UnreadableReport(f"{path}: a result that does not fit schema {SCHEMA}: {own.name} is {found!r:.80}")
    if not all(isinstance(tensor, dict) for tensor in result.tensors):
        raise UnreadableReport(
            f"{path}: a result that does not fit schema {SCHEMA}: tensors are {result.tensors!r:.80}"
        )
    return result


def _check_schema(path: Path, value: Any) -> None:
    found = value.get("schema") if isinstance(value, dict) else None
    if found != SCHEMA or not isinstance(value.get("environment"), dict):
        raise UnreadableReport(f"{path}: expected a report of schema {SCHEMA}, got {found!r}")


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
