"""Covering arrays: few rows in which every pair of option values occurs together.

A factor is a tuple of alternatives, and an alternative a dict of case fields, so options that depend on each other are
merged into one factor. A pairwise generator with a filter for forbidden combinations misses feasible pairs without
saying so; here what cannot be placed is known to be infeasible.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Alternative = Mapping[str, Any]
Factors = Mapping[str, Sequence[Alternative]]
Row = dict[str, int]
Pair = tuple[tuple[str, int], tuple[str, int]]


def cover(core: Factors, others: Factors, feasible: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[dict]:
    """Rows that hold the full product of the core factors and every feasible pair of all factors.

    Args:
        core: factors whose every combination is wanted.
        others: factors of which pairs, with each other and with the core's, are enough.
        feasible: whether the fields chosen so far may stand together; must stay false once it is.

    Returns:
        One dict of case fields per row, in a fixed order.
    """
    factors = {**core, **{name: factor for name, factor in others.items() if name not in core}}
    uncovered = {
        ((a, i), (b, j))
        for a, b in itertools.combinations(factors, 2)
        for i in range(len(factors[a]))
        for j in range(len(factors[b]))
    }
    rows: list[Row] = []
    used: Counter[Pair] = Counter()
    starts: list[Row] = [
        dict(zip(core, chosen, strict=True)) for chosen in itertools.product(*(range(len(core[name])) for name in core))
    ]
    while starts or uncovered:
        start = starts.pop(0) if starts else dict(min(uncovered))
        row = _complete(start, factors, uncovered, used, feasible)
        if row is None:
            uncovered.discard(tuple(start.items()))
            continue
        covered = list(itertools.combinations(((name, row[name]) for name in factors), 2))
        uncovered.difference_update(covered)
        used.update(covered)
        rows.append(row)
    return [fields(row, factors) for row in rows]


def fields(row: Row, factors: Factors) -> dict[str, Any]:
    """The case fields that a row's alternatives set."""
    return {key: value for name, index in row.items() for key, value in factors[name][index].items()}


def _complete(
    start: Row,
    factors: Factors,
    uncovered: set[Pair],
    used: Counter[Pair],
    feasible: Callable[[dict[str, Any]], bool],
) -> Row | None:
    """The row with all factors, each alternative chosen for the most uncovered, then the least used, pairs.

    None where no completion is feasible.
    """
    if not feasible(fields(start, factors)):
        return None
    missing = next((name for name in factors if name not in start), None)
    if missing is None:
        return start
    names = list(factors)
    before = [(name, start[name]) for name in names[: names.index(missing)]]
    after = [(name, start[name]) for name in names[names.index(missing) :] if name in start]

    def preference(index: int) -> tuple[int, int, int]:
        chosen = (missing, index)
        pairs = [(item, chosen) for item in before] + [(chosen, item) for item in after]
        return -sum(pair in uncovered for pair in pairs), sum(used[pair] for pair in pairs), index

    for index in sorted(range(len(factors[missing])), key=preference):
        row = _complete({**start, missing: index}, factors, uncovered, used, feasible)
        if row is not None:
            return row
    return None
