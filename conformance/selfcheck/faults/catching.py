"""Which clauses catch a fault, and on which case."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from conformance.cases.case import Case
from conformance.cases.components import COMPONENTS
from conformance.clauses import REGISTRY, Clause, Level, load_all
from conformance.evaluation import Outcome, evaluate
from conformance.subjects.load import load
from conformance.subjects.subject import Subject
from conformance.subjects.torch_interface import handmade_subject
from conformance.trial import Trial
from conformance.verdicts import Verdict

from .fault import Fault

# What a clause says of a fault that it catches. A crash is no catch: it would hide what the clause is about.
CAUGHT = (Verdict.DIFFERS, Verdict.BOTH_DIFFER)
PASSED = (Verdict.CONFORMS, Verdict.TORCH_DIFFERS, Verdict.POLICY)
_SLOW = ("bfloat16", "float16")
# The cases of the trained model, hundreds of features wide, take seconds each.
_WIDEST = 64
# In the names of checks.
_BEYOND = ("compile", "sizes_of_zero")


@dataclass(frozen=True)
class Catch:
    """A clause that caught a fault, the case, and what it said."""

    clause: Clause
    case: Case
    outcome: Outcome


class Faulty:
    """The handmade model with a fault, as a subject."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.subject = Subject(fault.name, handmade_subject(), strict=True)

    def outcome(self, clause: Clause, case: Case) -> Outcome:
        """What the clause says of it."""
        with self.fault.applied():
            return evaluate(Trial(self.subject, case, clause))

    def caught_by(self, clause: Clause, limit: int | None = None) -> Catch | None:
        """The first case on which the clause catches the fault, while the model without it and torch pass.

        Args:
            clause: whose cases are walked.
            limit: how many of them at most.
        """
        for case in cases(clause, self.fault.components, limit):
            outcome = self.outcome(clause, case)
            if outcome.verdict in CAUGHT and passes(clause, case):
                return Catch(clause, case, outcome)
        return None


def specification() -> dict[str, Clause]:
    """All clauses by id, but for those that a fault's machinery cannot follow: into torch.compile, into another process."""
    load_all()
    return {id: one for id, one in sorted(REGISTRY.items()) if not any(word in one.check.__name__ for word in _BEYOND)}


def cases(clause: Clause, components: Iterable[str], limit: int | None = None) -> list[Case]:
    """The clause's cases for some components, cheap ones first; with a limit, as many of each component as possible."""
    order = list(COMPONENTS)
    by_component: dict[str, list[Case]] = {}
    for case in sorted(clause.cases, key=lambda case: (case.dtype in _SLOW, order.index(case.component))):
        if case.component in components and case.device == "cpu" and case.d_model <= _WIDEST:
            by_component.setdefault(case.component, []).append(case)
    found = [case for group in by_component.values() for case in group]
    if limit is None:
        return sorted(found, key=lambda case: case.dtype in _SLOW)
    return list(_in_turn(by_component.values()))[:limit]


def catchers(fault: Fault, limit: int = 4) -> list[str]:
    """The ids of all clauses that catch a fault on a few of their cases."""
    faulty = Faulty(fault)
    return [clause.id for clause in specification().values() if faulty.caught_by(clause, limit)]


@functools.cache
def passes(clause: Clause, case: Case) -> bool:
    """Whether the model without a fault passes, and torch where the clause binds it."""
    witnesses = (_subject("handmade"), _subject("torch")) if clause.level is Level.MUST else (_subject("handmade"),)
    asked = [subject for subject in witnesses if case.component in subject.adapters]
    return all(evaluate(Trial(subject, case, clause)).verdict in PASSED for subject in asked)


@functools.cache
def _subject(name: str) -> Subject:
    return load(name)


def _in_turn(groups: Iterable[list[Case]]) -> Iterator[Case]:
    """One of each group, then another of each, until all are through."""
    remaining = [iter(group) for group in groups]
    while remaining:
        for group in list(remaining):
            case = next(group, None)
            if case is None:
                remaining.remove(group)
            else:
                yield case
