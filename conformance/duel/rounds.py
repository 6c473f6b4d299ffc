"""Whose turn it is: rounds of blocks, until every cell has its verdict or the time is over.

A block of one side is compared with the block of another that was timed beside it, and with no other: what else the machine
does strikes both. A round is three such pairs, each side against each of the others.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .statistics import Interval, Verdict, claim_level, holm, interval, judge, spread

# A, the control, which is of the same environment, and B.
A, CONTROL, B = SIDES = ("A", "control", "B")
# The rounds after which cells are judged; the last look is when the time is over, or the last of these.
LOOKS = (41, 101, 251, 601, 1501)
# Anchors are timed in every so many sweeps.
SPARSE = 4
# What the intervals that are shown and never judged leave outside.
SHOWN = 0.05


@dataclass(frozen=True)
class Block:
    """Processor and wall seconds of a call, as a block of them shows it."""

    cpu: float
    wall: float


# The blocks of a pair, by side, the one that began first in front.
Pair = Mapping[str, Block]
# Times a block of a cell on both sides of a pair.
Measure = Callable[[str, Sequence[str]], Pair]


@dataclass(frozen=True)
class Settings:
    """What a duel may take and must show.

    Attributes:
        seconds: the time for all rounds; each cell has one in any case.
        alpha: the probability of any wrong verdict by chance of the rounds. That of the processes is not in it: see `Crew`.
        floor: the least δ, as a part of the time.
        seed: of the orders.
        looks: the rounds after which cells are judged.
    """

    seconds: float = 90.0
    alpha: float = 0.05
    floor: float = 0.03
    seed: int = 0
    looks: tuple[int, ...] = LOOKS


@dataclass
class Series:
    """The rounds of a cell: log ratios, and the times of each side."""

    ratios: list[float] = field(default_factory=list)
    controls: list[float] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})

    def add(self, pairs: Sequence[Pair]) -> None:
        """Add a round: each side beside each of the others."""
        cpu = [{side: _log(block.cpu) for side, block in pair.items()} for pair in pairs]
        wall = [{side: _log(block.wall) for side, block in pair.items()} for pair in pairs]
        effects = _effects(cpu)
        self.ratios.append(_against(effects))
        self.walls.append(_against(_effects(wall)))
        self.controls.append(effects[CONTROL] - effects[A])
        for side in SIDES:
            self.times[side].append(math.exp(statistics.fmean(logs[side] for logs in cpu if side in logs)))


@dataclass(frozen=True)
class Judgement:
    """What is said of a cell, and why. Ratios are logarithms, above 0 where B is slower."""

    verdict: Verdict
    ratio: Interval
    control: Interval
    wall: Interval
    delta: float
    alpha: float
    rounds: int


# Told after each sweep: how many there were, the seconds they took, and the judgements so far.
Progress = Callable[[int, float, Mapping[str, Judgement]], None]


def play(
    cells: Sequence[str],
    anchors: Sequence[str],
    measure: Measure,
    settings: Settings,
    series: dict[str, Series],
    judged: dict[str, Judgement],
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Time rounds of all cells that have no verdict yet, in an order that is drawn anew in each sweep.

    Args:
        cells: what is judged.
        anchors: what is timed now and then.
        measure: times a block.
        settings: time, certainty, looks.
        series: gets the rounds, also where it is interrupted.
        judged: gets the judgements, likewise.
        progress: told after each sweep.
        clock: of the time that is given.
    """
    chance = random.Random(settings.seed)
    series.update({cell: Series() for cell in (*cells, *anchors)})
    started, sweep, spent = clock(), 0, 0.0
    try:
        while (left := undecided(cells, judged)) and sweep < settings.looks[-1]:
            if sweep and spent >= settings.seconds:
                break
            order = [*left, *(anchors if sweep % SPARSE == 0 else ())]
            for cell in chance.sample(order, len(order)):
                series[cell].add(_round(cell, measure, chance))
            sweep, spent = sweep + 1, clock() - started
            if sweep in settings.looks:
                judged.update(look(left, series, settings))
            if progress is not None:
                progress(sweep, spent, judged)
    finally:
        unseen = [cell for cell in undecided(cells, judged) if len(series[cell].ratios) not in settings.looks]
        judged.update(look([cell for cell in unseen if series[cell].ratios], series, settings))


def undecided(cells: Sequence[str], judged: Mapping[str, Judgement]) -> list[str]:
    """The cells without a verdict."""
    return [cell for cell in cells if cell not in judged or judged[cell].verdict is Verdict.INCONCLUSIVE]


def look(asked: Sequence[str], series: Mapping[str, Series], settings: Settings) -> dict[str, Judgement]:
    """Judge some cells: Holm over them, an equal part of α for each look."""
    alpha, floor = settings.alpha / len(settings.looks), math.log1p(settings.floor)
    controls = {name: interval(series[name].controls, SHOWN) for name in asked}
    deltas = {name: spread(controls[name], floor) for name in asked}
    levels = holm({name: claim_level(series[name].ratios, deltas[name], floor) for name in asked}, alpha)
    return {
        name: Judgement(
            judge(ratio, deltas[name], floor) if len(series[name].ratios) >= settings.looks[0] else Verdict.INCONCLUSIVE,
            ratio, controls[name], interval(series[name].walls, SHOWN), deltas[name], levels[name],
            len(series[name].ratios),
        )
        for name in asked
        for ratio in [interval(series[name].ratios, levels[name])]
    }  # fmt: skip


def _round(cell: str, measure: Measure, chance: random.Random) -> list[Pair]:
    """In a circle, so that each side is first once and second once."""
    order = chance.sample(SIDES, len(SIDES))
    return [measure(cell, pair) for pair in zip(order, order[1:] + order[:1], strict=True)]


def _log(seconds: float) -> float:
    return math.log(max(seconds, 10.0**-9))


def _effects(pairs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What of each side best explains the differences within the pairs, by least squares; they sum to 0."""
    effects = dict.fromkeys(SIDES, 0.0)
    for pair in pairs:
        (one, its), (other, others) = pair.items()
        effects[one] += (its - others) / len(SIDES)
        effects[other] -= (its - others) / len(SIDES)
    return effects


def _against(logs: Mapping[str, float]) -> float:
    """B against the mean of A and its control."""
    return logs[B] - (logs[A] + logs[CONTROL]) / 2
