"""The known differences of torch from the specification: data, read strictly, and compared with what a run shows."""

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ..cases.case import Case
from ..report.model import Result
from ..verdicts import Kind, Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).parent / "known_differences.toml"
SUBJECTS = ("torch", "torch-fast")
FIELDS = {field.name: field.default for field in dataclasses.fields(Case)}
# What a check was made of: a clause, and a case on which it was asked.
Check = tuple[str, Case]


class UnreadableDifferences(ValueError):
    """The file of known differences is malformed; the message is one line: file, line, field."""


@dataclass(frozen=True)
class Known:
    """One way in which torch differs, on all the checks that it matches.

    Attributes:
        subject: on which of torch's paths: "torch" where gradients are recorded, "torch-fast" where not.
        clauses: ids.
        case: which of the clauses' cases: for some of a case's fields the values, one of which it has.
        torch: the versions, as a specifier (">=2.13").
        kind: what the difference is like.
        matches: the number of checks that it matches.
        reason: why torch differs.
        issue: where it is discussed, or "none found".
    """

    subject: str
    clauses: tuple[str, ...]
    case: Mapping[str, tuple[Any, ...]]
    torch: str
    kind: str
    matches: int
    reason: str
    issue: str

    def applies(self, subject: str, version: str) -> bool:
        """Whether it is about this path of this version of torch."""
        return self.subject == subject and SpecifierSet(self.torch).contains(version, prereleases=True)

    def covers(self, check: Check) -> bool:
        """Whether it matches a check."""
        clause, case = check
        return clause in self.clauses and all(getattr(case, name) in values for name, values in self.case.items())


def load(path: Path = FILE) -> list[Known]:
    """The known differences in a file.

    Raises:
        UnreadableDifferences: not TOML, an unknown or missing field, a value that means nothing.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableDifferences(f"{path}: {error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableDifferences(f"{path}: {error}") from None
    lines = text.splitlines()
    headers = [number for number, line in enumerate(lines, 1) if line.strip() == "[[difference]]"]
    entries = data.get("difference", [])
    if set(data) - {"difference"} or not isinstance(entries, list) or len(entries) != len(headers):
        raise UnreadableDifferences(f"{path}:1: expected nothing but tables [[difference]], got {sorted(data)}")
    made = []
    for entry, header in zip(entries, headers, strict=True):
        for name, complaint in _complaints(entry):
            line = _line(lines, header, name)
            raise UnreadableDifferences(f"{path}:{line}: {name}: {complaint}")
        case = {name: tuple(_value(v) for v in _listed(value)) for name, value in entry["case"].items()}
        made.append(Known(**{**entry, "clauses": tuple(entry["clauses"]), "case": case}))
    return made


def _complaints(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Field and what is wrong with it; nothing where all is well."""
    for field in dataclasses.fields(Known):
        wanted: type = {"clauses": list, "case": dict, "matches": int}.get(field.name, str)
        if field.name not in entry:
            yield field.name, "missing"
        elif type(entry[field.name]) is not wanted or not entry[field.name]:
            yield field.name, f"expected {_NAMES[wanted]}, got {entry[field.name]!r}"
    for name in entry:
        if name not in {field.name for field in dataclasses.fields(Known)}:
            yield name, f"expected one of {[field.name for field in dataclasses.fields(Known)]}"
    for name, known in (("subject", SUBJECTS), ("kind", [kind.value for kind in Kind])):
        if entry.get(name) not in known:
            yield name, f"expected one of {list(known)}, got {entry.get(name)!r}"
    for clause in entry["clauses"]:
        if not isinstance(clause, str) or not re.fullmatch(r"[A-Z]+-\d+", clause):
            yield "clauses", f"expected ids of clauses, got {clause!r}"
    try:
        SpecifierSet(entry["torch"])
    except InvalidSpecifier:
        yield "torch", f"expected a version specifier, got {entry['torch']!r}"
    for name, value in entry["case"].items():
        if name not in FIELDS:
            yield "case", f"expected fields of a case, got {name!r}"
        elif any(not isinstance(v, str | int | float | bool) for v in _listed(value)):
            yield "case", f"{name}: expected a value or a list of values, got {value!r}"


_NAMES = {str: "a text", int: "a number", list: "a list", dict: "a table"}


def _line(lines: list[str], header: int, name: str) -> int:
    """The line on which a field of an entry stands, or the entry's first where it is missing."""
    for number, line in enumerate(lines[header:], header + 1):
        if line.strip() == "[[difference]]":
            break
        if re.match(rf"\s*{re.escape(name)}\s*=", line):
            return number
    return header


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _value(value: Any) -> Any:
    """TOML has no None."""
    return None if value == "None" else value


def complaints(known: Iterable[Known], checks: Iterable[Check], results: Iterable[Result]) -> Iterator[str]:
    """How a run and the known differences that apply to it disagree, a line each.

    Args:
        known: those that apply to the subject and the version.
        checks: all that the subject can be asked.
        results: what was asked, and said.
    """
    known, checks = list(known), list(checks)
    expected: dict[tuple[str, str], list[Known]] = {}
    for one in known:
        matched = [check for check in checks if one.covers(check)]
        if len(matched) != one.matches:
            what = f"matches {len(matched)} checks, not {one.matches}" if matched else "matches no check"
            yield f"known difference of {', '.join(one.clauses)} ({one.reason}): {what}"
        for clause, case in matched:
            expected.setdefault((clause, case.id), []).append(one)
    for result in results:
        place = f"{result.clause} on {result.case}"
        of = expected.get((result.clause, result.case), [])
        kinds = sorted({one.kind for one in of})
        if result.verdict == Verdict.TORCH_DIFFERS.value and not of:
            yield f"new difference, {result.kind}: {place}"
        elif result.verdict == Verdict.TORCH_DIFFERS.value and result.kind not in kinds:
            yield f"changed difference, {result.kind} where {' or '.join(kinds)} is known: {place}"
        elif of and result.verdict in (Verdict.CONFORMS.value, Verdict.POLICY.value):
            yield f"no difference where {' or '.join(kinds)} is known ({of[0].reason}): {place}"
