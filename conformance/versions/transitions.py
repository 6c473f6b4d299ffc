"""What changes from one version of torch to another: clause by clause, with the cases and the issues."""

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .. import tolerance
from .behaviours import Behaviour, cases_by_id
from .known_differences import Known
from .results import HANDMADE, SUBJECTS, Counts, UnusableResults, VersionResults, digest


class Change(enum.Enum):
    """The ways in which a clause changes; only the first fails a comparison that is not strict."""

    BROKEN = "broken"
    FIXED = "fixed"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    DRIFTED = "drifted"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Transition:
    """One clause of one subject from one version to another.

    Attributes:
        subject, name: whose, and the clause's id.
        change: what happened.
        detail: in words and numbers.
        cases: ids of the cases that it happened to, as far as both files name them.
        issues: where it is discussed.
    """

    subject: str
    name: str
    change: Change
    detail: str = ""
    cases: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()


def transitions(
    before: VersionResults, after: VersionResults, known: Iterable[Known] = (), followed: Iterable[Behaviour] = ()
) -> list[Transition]:
    """Every clause of every subject that both versions have, and what became of it.

    Args:
        before: a version.
        after: another, measured on the same machine.
        known: the known differences, for their issues.
        followed: behaviours, for theirs.

    Raises:
        UnusableResults: they have no subject in common.
    """
    subjects = [name for name in before.subjects if name in after.subjects]
    if not subjects:
        found = [", ".join(one.subjects) or "none" for one in (before, after)]
        raise UnusableResults(f"no subject in both: {found[0]} and {found[1]}")
    if before.sample != after.sample:
        raise UnusableResults(
            f"other cases were asked: one in {before.sample} of torch {before.torch}, one in {after.sample} of torch {after.torch}"
        )
    known, followed, made = list(known), list(followed), []
    for subject in subjects:
        old, new = before.subjects[subject].clauses, after.subjects[subject].clauses
        for clause in dict.fromkeys([*old, *new]):
            for change, detail, cases in compared(old.get(clause), new.get(clause)):
                moved = change not in (Change.UNCHANGED, Change.DRIFTED)
                issues = _issues(subject, clause, cases, (before, after), known, followed) if moved else ()
                made.append(Transition(subject, clause, change, detail, cases, issues))
    return made


def alarming(found: Iterable[Transition], strict: bool = False, apart: bool = False) -> bool:
    """Whether a comparison fails: something broke or, if it is strict, anything moved.

    Args:
        found: the transitions.
        strict: whether more than what broke counts.
        apart: whether they are between different machines, which round differently: a drift is then none of torch's.
    """
    harmless = {Change.UNCHANGED, *((Change.DRIFTED,) if apart else ())}
    return any(one.change is Change.BROKEN or (strict and one.change not in harmless) for one in found)


def compared(old: Counts | None, new: Counts | None) -> list[tuple[Change, str, tuple[str, ...]]]:
    """What happened between two counts: change, detail, cases; more than one where some cases are fixed and others broken."""
    if new is None or old is None:
        one = old or new
        change = Change.REMOVED if new is None else Change.ADDED
        return [(change, f"asked of one version only ({one.state if one else ''})", ())]
    states = f"{old.state} → {new.state}"
    if old.state == "not supported" or new.state == "not supported":
        if old.state == new.state:
            return [(Change.UNCHANGED, states, ())]
        if new.state == "not supported":
            return [(Change.REMOVED if old.wrong == old.asked else Change.BROKEN, states, ())]
        return [(Change.ADDED, states, new.differs)]
    if found := list(_moved(old, new)):
        return found
    if old.kinds != new.kinds or old.policies != new.policies:
        first, second = (old.kinds, new.kinds) if old.kinds != new.kinds else (old.policies, new.policies)
        return [(Change.CHANGED, f"{_listed(first)} → {_listed(second)}", new.differs)]
    if old.ratio and new.ratio and not 1 / tolerance.DRIFT <= new.ratio / old.ratio <= tolerance.DRIFT:
        return [(Change.DRIFTED, f"median error {old.ratio:.3g} → {new.ratio:.3g} times torch's", ())]
    return [(Change.UNCHANGED, states, ())]


def _moved(old: Counts, new: Counts) -> Iterator[tuple[Change, str, tuple[str, ...]]]:
    """Which checks differ anew or no more, and which could or can not be asked.

    One that is fixed makes up for none that is broken; one that could not be asked before is not broken.
    """
    gained, lost = new.wrong_cases - old.wrong_cases, old.wrong_cases - new.wrong_cases
    # Of other cases, as another version of the suite asks them, nobody knows what was said.
    same = sum(old.verdicts.values()) == sum(new.verdicts.values())
    dropped = len(new.lacking_cases - old.lacking_cases - old.wrong_cases) if same else 0
    dropped = max(dropped, old.asked - new.asked - len(lost & new.lacking_cases))
    if dropped > 0:
        yield Change.BROKEN, f"{_checks(dropped)} could be asked and cannot any more", ()
    for change, cases, words, counts in (
        (Change.BROKEN, gained - old.lacking_cases, "{} anew", new),
        (Change.FIXED, lost - new.lacking_cases, "{} no more", old),
        (Change.ADDED, gained & old.lacking_cases, "not supported before, {}", new),
        (Change.REMOVED, lost & new.lacking_cases, "{} before, not supported any more", old),
    ):
        if cases:
            said = words.format("differs" if len(cases) == 1 else "differ")
            named = tuple(case for case in counts.differs if digest(case) in cases)
            yield change, f"{_checks(len(cases))} {said}{_kinds(counts, len(cases))}", named


def _checks(number: int) -> str:
    return "1 check" if number == 1 else f"{number} checks"


def _kinds(counts: Counts, number: int) -> str:
    """Of what kind they are: of the version's, where these are all of them or all are of one kind."""
    if not counts.kinds:
        return ""
    if len(counts.kinds) == 1:
        return f" ({next(iter(counts.kinds))})"
    return f" ({_listed(counts.kinds)}{'' if number == counts.wrong else ' in all'})"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"


def _issues(
    subject: str,
    clause: str,
    cases: tuple[str, ...],
    versions: tuple[VersionResults, VersionResults],
    known: list[Known],
    followed: list[Behaviour],
) -> tuple[str, ...]:
    """The issues of the known differences, and of the behaviours, that are about these cases of the clause."""
    found: dict[str, None] = {}
    # What is known of one path of torch explains the same on another.
    paths = {name for name in SUBJECTS if (name == HANDMADE) is (subject == HANDMADE)}
    for case in cases:
        for one in followed:
            if paths & set(one.subjects) and one.covers(clause, case):
                found[one.issue] = None
        given = cases_by_id().get(case)
        for other in known:
            applies = any(other.applies(path, version.torch) for path in paths for version in versions)
            if given is not None and applies and other.covers((clause, given)):
                found[other.issue] = None
    return tuple(issue for issue in found if issue != "none found")


def verdict(behaviour: Behaviour, version: VersionResults) -> str:
    """One word for a behaviour on a version: conforms, differs, not supported, or missing where nothing is stored of it."""
    counts = [
        version.subjects[name].behaviours[behaviour.name]
        for name in behaviour.subjects
        if name in version.subjects and behaviour.name in version.subjects[name].behaviours
    ]
    if not counts:
        return "missing"
    states = {one.state for one in counts}
    unwanted = behaviour.policies and any(set(one.policies) - set(behaviour.policies) for one in counts)
    if "differs" in states or unwanted:
        return "differs"
    if behaviour.needed and any("not supported" in one.verdicts for one in counts):
        return "differs"
    return "conforms" if "conforms" in states else "not supported"


def turned(
    before: VersionResults, after: VersionResults, followed: Iterable[Behaviour]
) -> Iterator[tuple[Behaviour, str, str]]:
    """The behaviours that are not on one version what they are on another, with a word for each; none that one lacks."""
    for one in followed:
        words = verdict(one, before), verdict(one, after)
        if words[0] != words[1] and "missing" not in words:
            yield one, *words
