"""The speed of the attention cores in one environment, as ratios of times that were taken by turns.

A round of a cell is a block of calls of it, of the plain core doing the same, and of a matrix product, in a drawn order, and
the same backwards, so that what changes steadily while it lasts cancels. What is stored is the median over rounds of the
logarithm of a time over another: it says the same on a machine that is busy, and nearly the same on another machine.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..duel.cells import CELLS, plain
from ..duel.match import BLOCK, typical
from ..duel.processes import Remote
from ..duel.rounds import SHOWN
from ..duel.statistics import interval
from .speed_figures import Anchor, Ratio, Speed

# For everything but the start of the worker.
SECONDS = 40.0
# Seconds of a call, from a block of some.
Block = Callable[[str], float]
PRODUCT = next(name for name, cell in CELLS.items() if cell.core == "product")
JUDGED = tuple(name for name, cell in CELLS.items() if not cell.anchor)


def measure(
    python: Path,
    seconds: float = SECONDS,
    cells: Sequence[str] = JUDGED,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> Speed:
    """Time the cells in an environment, on one thread.

    Args:
        python: the environment's.
        seconds: for all of it; each supported cell has one round in any case.
        cells: names of `CELLS`.
        seed: of the orders.
        clock: of the seconds.

    Raises:
        Unusable: the worker does not start, or ends.
    """
    with Remote(python, 1) as remote:
        environment = remote.ask(do="fingerprint")
        until = clock() + seconds
        calls: dict[str, int] = {}
        unsupported: dict[str, str] = {}
        for name in dict.fromkeys(one for cell in cells for one in with_anchors(cell)):
            answer = remote.ask(do="prepare", cell=name)
            if "unsupported" in answer:
                unsupported[name] = answer["unsupported"]
            else:
                calls[name] = max(1, round(BLOCK / answer["seconds"]))
        supported = {cell: [name for name in with_anchors(cell) if name in calls] for cell in cells}
        rounds = play(
            {cell: names for cell, names in supported.items() if len(names) > 1},
            lambda name: typical(remote.ask(do="block", cell=name, calls=calls[name])["cpu"]),
            random.Random(seed),
            lambda: clock() < until,
        )
        return _figures(environment, remote.ask(do="fingerprint"), rounds, unsupported)


def with_anchors(cell: str) -> tuple[str, str, str]:
    """A cell and its anchors: the plain core doing the same, and the product; without the cell they are timed as well."""
    return cell, plain(CELLS[cell]).id, PRODUCT


def play(
    groups: Mapping[str, Sequence[str]], block: Block, chance: random.Random, more: Callable[[], bool]
) -> dict[str, list[dict[str, float]]]:
    """Rounds of all groups, in an order that is drawn anew each time.

    Args:
        groups: what takes turns, by a name.
        block: times one of them.
        chance: draws the orders.
        more: whether there is time for another round; each group has one in any case.

    Returns:
        Of each group its rounds: the logarithm of the seconds of each in it.
    """
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in groups}
    while groups and (more() or not all(rounds.values())):
        for name in chance.sample(list(groups), len(groups)):
            if not rounds[name] or more():
                rounds[name].append(_round(groups[name], block, chance))
    return rounds


def _round(names: Sequence[str], block: Block, chance: random.Random) -> dict[str, float]:
    order = chance.sample(names, len(names))
    logs = dict.fromkeys(names, 0.0)
    for name in (*order, *reversed(order)):
        logs[name] += math.log(max(block(name), 10.0**-9)) / 2
    return logs


def _figures(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    rounds: Mapping[str, Sequence[Mapping[str, float]]],
    unsupported: Mapping[str, str],
) -> Speed:
    cells, anchors = {}, {}
    for cell, found in rounds.items():
        _, core, product = with_anchors(cell)
        there = [name for name in (core, product) if name in found[0]]
        if cell in found[0]:
            cells[cell] = {name: _ratio(found, cell, name) for name in there}
        for name in there:
            to = {product: _ratio(found, core, product)} if name == core and product in there else {}
            anchors[name] = Anchor(_milliseconds(found, name), to)
    loads = before["load"], after["load"]
    return Speed(
        {name: value for name, value in before.items() if name != "load"},
        None if None in loads else (loads[0][0], loads[1][0]),
        min((len(found) for found in rounds.values()), default=1),
        cells,
        dict(unsupported),
        anchors,
    )


def _ratio(rounds: Sequence[Mapping[str, float]], one: str, other: str) -> Ratio:
    found = interval([times[one] - times[other] for times in rounds], SHOWN)
    return Ratio(*(_short(math.exp(log)) for log in (found.middle, found.low, found.high)))


def _milliseconds(rounds: Sequence[Mapping[str, float]], name: str) -> float:
    return _short(1000 * math.exp(statistics.median(times[name] for times in rounds)))


def _short(value: float) -> float:
    return float(f"{value:.4g}")
