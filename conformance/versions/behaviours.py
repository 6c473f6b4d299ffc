"""Behaviours of torch that are followed from version to version: each named by what it is, with the checks that show it."""

import functools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from ..cases.case import Case
from ..clauses import load_all
from .known_differences import FIELDS, SUBJECTS, fits, listed, value_of
from .releases import RELEASES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).parent / "behaviours.toml"
# How else than by a clause a behaviour is shown.
ELSEWHERE = ("benchmarks", "capabilities")


class UnreadableBehaviours(ValueError):
    """The file of behaviours is malformed; the message is one line."""


@dataclass(frozen=True)
class Behaviour:
    """Something that torch does, rightly or not, depending on its version.

    Attributes:
        name: what is done.
        right: what should come of it.
        issue: where it is discussed, or "none found".
        subjects: on which of torch's paths it shows.
        clauses: ids of those that ask for it.
        case: which of the clauses' cases: for some of a case's fields the values, one of which it has.
        needed: a version that does not support it is wrong, not excused.
        policies: the right ones, where the clauses are about policies.
        shown_by: "benchmarks" or "capabilities", where no clause shows it.
        measured: what was found apart from this suite, a letter for each release: P right, F not, S not supported.
        unlike: releases, as a specifier, of which the suite says otherwise, each with the reason.
    """

    name: str
    right: str
    issue: str
    subjects: tuple[str, ...] = ()
    clauses: tuple[str, ...] = ()
    case: Mapping[str, tuple[Any, ...]] | None = None
    needed: bool = False
    policies: tuple[str, ...] = ()
    shown_by: str = ""
    measured: str = ""
    unlike: Mapping[str, str] = field(default_factory=dict)

    def covers(self, clause: str, case: str) -> bool:
        """Whether a check, by clause and id of the case, shows it."""
        found = cases_by_id().get(case)
        return found is not None and self.shown_on(clause, found)

    def shown_on(self, clause: str, case: Case) -> bool:
        """Whether a check shows it."""
        return clause in self.clauses and all(
            getattr(case, name) in values for name, values in (self.case or {}).items()
        )

    def excused(self, version: str) -> bool:
        """Whether it is known why the suite says otherwise than what was measured apart."""
        return any(SpecifierSet(versions).contains(version) for versions in self.unlike)


@functools.cache
def cases_by_id() -> dict[str, Case]:
    """Every case of every clause, and what becomes of it where no gradient is recorded."""
    cases = (case for clause in load_all().values() for case in clause.cases)
    return {one.id: one for case in cases for one in (case, case.but(mode="eval"))}


def load(path: Path = FILE) -> list[Behaviour]:
    """The behaviours in a file.

    Raises:
        UnreadableBehaviours: it cannot be read, is not TOML, or has a field that is unknown, missing or means nothing.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableBehaviours(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableBehaviours(f"{path}: {str(error).splitlines()[0]}") from None
    entries = data.get("behaviour", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UnreadableBehaviours(f"{path}: expected tables [[behaviour]], got {entries!r:.80}")
    made: list[Behaviour] = []
    for number, entry in enumerate(entries, 1):
        if any(entry.get("name") == one.name for one in made):
            raise UnreadableBehaviours(f"{path}: behaviour {number} ({entry['name']}): name: there are two")
        for complaint in _complaints(entry):
            raise UnreadableBehaviours(f"{path}: behaviour {number} ({entry.get('name', 'no name')}): {complaint}")
        lists = {name: tuple(entry[name]) for name in ("subjects", "clauses", "policies") if name in entry}
        case = {name: tuple(value_of(v) for v in listed(value)) for name, value in entry.get("case", {}).items()}
        made.append(Behaviour(**{**entry, **lists, "case": case}))
    return made


_WANTED: dict[str, type] = {
    "name": str, "right": str, "issue": str, "subjects": list, "clauses": list, "case": dict, "needed": bool,
    "policies": list, "shown_by": str, "measured": str, "unlike": dict,
}  # fmt: skip


def _complaints(entry: Mapping[str, Any]) -> Iterator[str]:
    for name, value in entry.items():
        if name not in _WANTED:
            yield f"{name}: expected one of {list(_WANTED)}"
        elif type(value) is not _WANTED[name]:
            yield f"{name}: expected {_WANTED[name].__name__}, got {value!r}"
    shown = ("shown_by",) if "shown_by" in entry else ("subjects", "clauses", "case")
    for name in ("name", "right", "issue", *shown):
        if not entry.get(name):
            yield f"{name}: missing"
    if "shown_by" in entry and entry["shown_by"] not in ELSEWHERE:
        yield f"shown_by: expected one of {list(ELSEWHERE)}, got {entry['shown_by']!r}"
    for subject in entry.get("subjects", []):
        if subject not in SUBJECTS:
            yield f"subjects: expected some of {list(SUBJECTS)}, got {subject!r}"
    if not re.fullmatch(rf"[PFS]{{0,{len(RELEASES)}}}", entry.get("measured", "")):
        yield f"measured: expected P, F or S for each release from the oldest on, got {entry['measured']!r}"
    for versions in entry.get("unlike", {}):
        if not _some(versions):
            yield f"unlike: expected a specifier of some releases, got {versions!r}"
    for name, value in entry.get("case", {}).items():
        if name not in FIELDS or not listed(value) or not all(fits(name, value_of(v)) for v in listed(value)):
            yield f"case: expected fields of a case with their values, got {name} = {value!r}"


def _some(specifier: str) -> bool:
    """Whether it is a specifier that some release fits."""
    try:
        return any(SpecifierSet(specifier).contains(release.version) for release in RELEASES)
    except InvalidSpecifier:
        return False
