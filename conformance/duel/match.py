"""A duel: workers of two environments started, found comparable, given the cells, and let take turns."""

import fnmatch
import math
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cells import CELLS
from .processes import Crew, Remote, Unusable
from .rounds import SIDES, A, B, Block, Judgement, Pair, Progress, Series, Settings, play

# Seconds of a block. What else the machine does changes from block to block: many short ones say more than few long ones.
BLOCK = 0.006
# In a block of so many calls the first, on a cold cache, does not count; in a shorter one it cannot be spared.
WARM = 4
# Processes of each side.
CREW = 5
# What two fingerprints must agree on to be compared.
SAME = ("system", "machine", "cpu", "cpus", "threads")


@dataclass
class Duel:
    """What a duel found.

    Attributes:
        settings: as given.
        environments: fingerprints of A, of its control and of B, with the load after.
        together: whether two blocks run at the same time.
        series: the rounds of each cell and anchor.
        judged: the cells' judgements.
        unsupported: the cells that an environment lacks, with its reason.
        seconds: what the rounds took.
        complete: whether it was not interrupted.
        error: why it ended, where a worker did.
    """

    settings: Settings
    environments: dict[str, dict[str, Any]]
    together: bool
    series: dict[str, Series] = field(default_factory=dict)
    judged: dict[str, Judgement] = field(default_factory=dict)
    unsupported: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 0.0
    complete: bool = True
    error: str = ""


def choose(patterns: Sequence[str]) -> list[str]:
    """The judged cells whose ids match one of the patterns; all of them without a pattern.

    Raises:
        Unusable: a pattern matches none.
    """
    judged = [name for name, cell in CELLS.items() if not cell.anchor]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in judged):
            raise Unusable(f"--cells: expected a pattern of {', '.join(judged)}, got {pattern}")
    return [name for name in judged if not patterns or any(fnmatch.fnmatchcase(name, one) for one in patterns)]


def anchors_of(cells: Sequence[str]) -> list[str]:
    """The anchors: the matrix product, and the plain core on the cells' shapes."""
    shapes = {CELLS[name].shape for name in cells}
    return [name for name, cell in CELLS.items() if cell.anchor and (cell.core == "product" or cell.shape in shapes)]


@contextmanager
def workers(pythons: Mapping[str, Path], threads: int, seed: int = 0) -> Iterator[dict[str, Crew]]:
    """The workers of each side, all at once; ended at the end.

    Args:
        pythons: of A and of B.
        threads: of torch.
        seed: of what crews and workers draw, each on its own.

    Raises:
        Unusable: one does not start, or they are not on one machine.
    """
    with ExitStack() as stack:
        # Of each side one after the other, so that none has the older processes.
        made: dict[str, list[Remote]] = {side: [] for side in SIDES}
        for number in range(CREW):
            for side in SIDES:
                remote = Remote(pythons[B if side == B else A], threads, f"{seed}-{side}-{number}")
                made[side].append(stack.enter_context(remote))
        crews = {side: Crew(remotes, f"{seed}-{side}") for side, remotes in made.items()}
        same_machine(fingerprints(crews))
        yield crews


def fight(
    crews: Mapping[str, Crew],
    cells: Sequence[str],
    settings: Settings,
    slowdown: float = 0.0,
    progress: Progress | None = None,
) -> Duel:
    """Compare two environments.

    Args:
        crews: the workers of each side.
        cells: ids.
        settings: time, certainty, looks.
        slowdown: of B, made on purpose, for the tests of the detector.
        progress: told after each sweep.

    Returns:
        What was found, also where the user or the end of a worker interrupts it.
    """
    environments = fingerprints(crews)
    duel = Duel(settings, environments, room_for_two(environments[A]["threads"]))
    calls: dict[str, int] = {}

    def measure(cell: str, pair: Sequence[str]) -> Pair:
        blocks: dict[str, Block] = {}
        for sides in [pair] if duel.together else [[side] for side in pair]:
            busy = {
                side: crews[side].start(cell=cell, calls=calls[cell], slowdown=slowdown if side == B else 0.0)
                for side in sides
            }
            for side, remote in busy.items():
                blocks[side] = _block(remote)
        return blocks

    started = time.monotonic()
    try:
        calls |= {name: n for name in (*cells, *anchors_of(cells)) if (n := _prepare(duel, crews, name))}
        left = [name for name in cells if name in calls]
        started = time.monotonic()
        play(left, [name for name in calls if name not in left], measure, settings, duel.series, duel.judged, progress)
        for side, after in fingerprints(crews).items():
            duel.environments[side]["load_after"] = after["load"]
    except (KeyboardInterrupt, Unusable) as end:
        duel.complete, duel.error = False, str(end)
    duel.seconds = time.monotonic() - started
    return duel


def typical(seconds: Sequence[float]) -> float:
    """A block's seconds per call: the median of its calls, so that one that was interrupted does not count."""
    return statistics.median(seconds[1:] if len(seconds) >= WARM else seconds)


def room_for_two(threads: int) -> bool:
    """Whether two workers with so many threads each can run at the same time."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return here >= 2 * threads


def groups(cells: Sequence[str]) -> list[list[str]]:
    """The cells of each shape."""
    return [
        [name for name in cells if CELLS[name].shape == shape]
        for shape in dict.fromkeys(CELLS[name].shape for name in cells)
    ]


def same_machine(environments: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse workers whose times say nothing of one another.

    Raises:
        Unusable: they differ in what `SAME` names.
    """
    for name in SAME:
        a, b = environments[A][name], environments[B][name]
        if a != b:
            raise Unusable(f"{name}: expected the same in both environments, got {a} in A and {b} in B")


def to_anchors(series: Mapping[str, Series], cell: str) -> dict[str, dict[str, float]]:
    """A cell's time over each anchor's, in A and in B: what survives a change of machine."""
    return {
        name: {
            side: statistics.median(series[cell].times[side]) / statistics.median(series[name].times[side])
            for side in (A, B)
        }
        for name in anchors_of([cell])
        if name in series and series[name].ratios and series[cell].ratios
    }  # fmt: skip


def percent(log_ratio: float) -> float:
    """A logarithm of a ratio as the part by which B takes longer, in percent."""
    return 100 * math.expm1(log_ratio)


def fingerprints(crews: Mapping[str, Crew]) -> dict[str, dict[str, Any]]:
    """One of each side: all of its processes are of one environment.

    Raises:
        Unusable: a worker ended, or says something else.
    """
    for crew in crews.values():
        crew.send(do="fingerprint")
    found = {side: crew.receive()[0] for side, crew in crews.items()}
    for side, one in found.items():
        if lacking := [name for name in (*SAME, "load") if name not in one]:
            raise Unusable(f"{crews[side].remotes[0].python}: its worker does not say {', '.join(lacking)}")
    return found


def _block(remote: Remote) -> Block:
    answer = remote.receive()
    for times in (answer.get("cpu"), answer.get("wall")):
        numbers = times if isinstance(times, list) else []
        if not numbers or not all(isinstance(one, float | int) and 0 <= one < math.inf for one in numbers):
            raise Unusable(f"{remote.python}: its worker answered {str(answer)[:80]!r}")
    return Block(typical(answer["cpu"]), typical(answer["wall"]))


def _prepare(duel: Duel, crews: Mapping[str, Crew], name: str) -> int:
    """The calls of a block, the same on all sides; 0 where a side does not support the cell."""
    answers = {side: crew.prepare(name) for side, crew in crews.items()}
    reasons = {side: answers[side]["unsupported"] for side in (A, B) if "unsupported" in answers[side]}
    if reasons:
        duel.unsupported[name] = reasons
        return 0
    return max(1, round(BLOCK / statistics.median(answer["seconds"] for answer in answers.values())))
