"""The known differences of torch from the specification: data, read strictly, and compared with what a run shows."""

import dataclasses
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from ..cases.case import Case
from ..report.model import Result
from ..verdicts import Kind, Verdict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).parent / "known_differences.toml"
SUBJECTS = ("torch", "torch-fast", "torch-math", "torch-flash")
FIELDS = {"component": "", **{field.name: field.default for field in dataclasses.fields(Case)[1:]}}
# What a check was made of: a clause, and a case on which it was asked.
Check = tuple[str, Case]


class UnreadableDifferences(ValueError):
    """The file of known differences is malformed; the message is one line: file, line, field."""


@dataclass(frozen=True)
class Known:
    """One way in which torch differs, on all the checks that it matches.

    Attributes:
        subject: on which of torch's paths: "torch" where gradients are recorded, "torch-fast" where not; "torch-math" and
            "torch-flash" are scaled_dot_product_attention with one backend alone.
        clauses: ids.
        case: which of the clauses' cases: for some of a case's fields the values, one of which it has.
        torch: the versions, as a specifier (">=2.13").
        kind: what the difference is like.
        matches: the number of checks that it matches.
        reason: why torch differs.
        issue: where it is discussed, or "none found".
        line: of the file, where it begins.
    """

    subject: str
    clauses: tuple[str, ...]
    case: Mapping[str, tuple[Any, ...]]
    torch: str
    kind: str
    matches: int
    reason: str
    issue: str
    line: int = field(default=0, compare=False)

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
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnreadableDifferences(f"--known-differences: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableDifferences(f"{path}: expected UTF-8") from None
    lines = text.splitlines()
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a TOMLDecodeError, or a number or a nesting beyond Python's limits
        raise UnreadableDifferences(f"{path}:{_error_line(str(error), lines)}: {str(error).splitlines()[0]}") from None
    headers = [number for number, line in enumerate(lines, 1) if _HEADER.match(line)]
    entries = data.pop("difference", [])
    if data or not isinstance(entries, list) or len(entries) != len(headers):
        wrong = next((n for n, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")), 1)
        raise UnreadableDifferences(f"{path}:{wrong}: difference: expected nothing but tables under [[difference]]")
    made = []
    for entry, header in zip(entries, headers, strict=True):
        for name, complaint in _complaints(entry):
            raise UnreadableDifferences(f"{path}:{_line(lines, header, name)}: {name}: {complaint}")
        case = {name: tuple(value_of(v) for v in listed(value)) for name, value in entry["case"].items()}
        made.append(Known(**{**entry, "clauses": tuple(entry["clauses"]), "case": case}, line=header))
    return made


_HEADER = re.compile(r"\s*\[\[\s*difference\s*\]\]\s*(#.*)?$")
_WANTED: dict[str, type] = {
    "subject": str, "clauses": list, "case": dict, "torch": str, "kind": str, "matches": int, "reason": str, "issue": str,
}  # fmt: skip


def _error_line(message: str, lines: list[str]) -> int:
    """The line that a parser's message names; a file that ends too early, its last."""
    found = re.search(r"line (\d+)", message)
    return int(found[1]) if found else len(lines)


def _complaints(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Field and what is wrong with it; nothing where all is well."""
    for name in entry:
        if name not in _WANTED:
            yield name, f"expected one of {list(_WANTED)}"
    for name, wanted in _WANTED.items():
        if name not in entry:
            yield name, "missing"
        elif type(entry[name]) is not wanted or (wanted in (str, list) and not entry[name]):
            yield name, f"expected {_NAMES[wanted]}, got {entry[name]!r}"
    if entry["matches"] < 1:
        yield "matches", f"expected at least 1, got {entry['matches']}"
    for name, known in (("subject", SUBJECTS), ("kind", [kind.value for kind in Kind])):
        if entry[name] not in known:
            yield name, f"expected one of {list(known)}, got {entry[name]!r}"
    for clause in entry["clauses"]:
        if not isinstance(clause, str) or not re.fullmatch(r"[A-Z]+-[0-9]+", clause):
            yield "clauses", f"expected ids of clauses, got {clause!r}"
    try:
        meant = len(SpecifierSet(entry["torch"]))
        SpecifierSet(entry["torch"]).contains("2.13.0")
    except ValueError:
        meant = 0
    if meant == 0:
        yield "torch", f"expected a version specifier such as '>=2.13', got {entry['torch'][:80]!r}"
    for name, value in entry["case"].items():
        if name not in FIELDS:
            yield "case", f"expected fields of a case, got {name!r}"
        elif not listed(value) or not all(fits(name, value_of(v)) for v in listed(value)):
            yield "case", f"{name}: expected a value such as {FIELDS[name]!r} or a list of them, got {value!r}"


def fits(name: str, value: Any) -> bool:
    """Whether a field of a case can have the value."""
    default = FIELDS[name]
    if isinstance(default, bool | str):
        return type(value) is type(default)
    if default is None or name == "batch":
        return value is None or (type(value) in (int, float) and math.isfinite(value))
    return type(value) in (int, float) and math.isfinite(value)


_NAMES = {str: "a text", int: "a number", list: "a list", dict: "a table"}


def _line(lines: list[str], header: int, name: str) -> int:
    """The line on which a field of an entry stands, or the entry's first where it is missing."""
    for number, line in enumerate(lines[header:], header + 1):
        if _HEADER.match(line):
            break
        if re.match(rf"\s*{re.escape(name)}\s*=", line):
            return number
    return header


def listed(value: Any) -> list[Any]:
    """A value as a list of one."""
    return value if isinstance(value, list) else [value]


def value_of(value: Any) -> Any:
    """TOML has no None."""
    return None if value == "None" else value


def complaints(known: Iterable[Known], checks: Iterable[Check], results: Iterable[Result]) -> list[str]:
    """How a run and the known differences that apply to it disagree, a line for each kind of disagreement and clause.

    Args:
        known: those that apply to the subject and the version.
        checks: all that the subject can be asked.
        results: what was asked, and said.
    """
    known, checks = list(known), list(checks)
    made = []
    expected: dict[tuple[str, str], list[Known]] = {}
    for one in known:
        matched = [check for check in checks if one.covers(check)]
        if len(matched) != one.matches:
            what = f"matches {len(matched)} checks, not {one.matches}" if matched else "matches no check"
            made.append(f"the entry of line {one.line} for {', '.join(one.clauses)} {what}")
        for clause, case in matched:
            of = expected.setdefault((clause, case.id), [])
            if of and of[0].kind != one.kind:
                made.append(
                    f"the entries of lines {of[0].line} and {one.line} match {clause} on {case.id} with other kinds"
                )
            of.append(one)
    places: dict[str, list[str]] = {}
    for result in results:
        of = expected.get((result.clause, result.case), [])
        kinds = " or ".join(sorted({one.kind for one in of}))
        at = f"line {of[0].line}" if of else ""
        if result.verdict == Verdict.TORCH_DIFFERS.value and not of:
            what = f"{result.clause}: a new difference, {result.kind}"
        elif result.verdict == Verdict.TORCH_DIFFERS.value and result.kind not in {one.kind for one in of}:
            what = f"{result.clause}: a changed difference, {result.kind} where {kinds} is known ({at})"
        elif of and result.verdict in (Verdict.CONFORMS.value, Verdict.POLICY.value):
            what = f"{result.clause}: no difference where {kinds} is known ({at})"
        else:
            continue
        places.setdefault(what, []).append(result.case)
    for what, cases in sorted(places.items()):
        made.append(f"{what}: {len(cases)} checks, the first {min(cases, key=len)}")
    return made
