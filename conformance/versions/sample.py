"""A part of the cases, for when all would take too long: the same part on every machine and version."""

import functools
import zlib

from ..cases.case import Case
from ..clauses import Clause
from .behaviours import Behaviour, load


def sampled(clause: Clause, every: int) -> list[Case]:
    """A clause's cases: all those of its own, and of the shared ones about one in so many.

    Those that show a behaviour which is followed from version to version are always among them.

    Args:
        clause: whose cases.
        every: 1 for all of them.
    """
    if every == 1 or clause.applies is None:
        return list(clause.cases)
    followed = _behaviours()
    return [
        case
        for case in clause.cases
        if zlib.crc32(case.id.encode()) % every == 0 or any(one.shown_on(clause.id, case) for one in followed)
    ]


@functools.cache
def _behaviours() -> tuple[Behaviour, ...]:
    return tuple(load())
