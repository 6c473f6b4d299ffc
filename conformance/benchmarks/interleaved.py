"""Times that can be compared on a machine that other work shares: calls that take turns, and ratios within a run."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Turns:
    """What calls that took turns took.

    Attributes:
        seconds: median wall time of the first, of the second.
        cpu_seconds: median processor time of all threads, likewise.
        ratio: the median of first / second over the turns; above 1 the second is faster.
    """

    seconds: tuple[float, float]
    cpu_seconds: tuple[float, float]
    ratio: float


def take_turns(first: Call, second: Call, pairs: int) -> Turns:
    """Call both so many times, A B, B A, A B, …, after one call of each that does not count."""
    first(), second()
    wall: list[tuple[float, float]] = []
    cpu: list[tuple[float, float]] = []
    for number in range(pairs):
        order = (first, second) if number % 2 == 0 else (second, first)
        measured = [_time(call) for call in order][:: 1 if number % 2 == 0 else -1]
        wall.append((measured[0][0], measured[1][0]))
        cpu.append((measured[0][1], measured[1][1]))
    return Turns(_medians(wall), _medians(cpu), statistics.median(a / b for a, b in wall))


def pairs_in(call: Call, seconds: float, least: int = 5, most: int = 60) -> int:
    """How many pairs of calls like this one fit into the time."""
    call()
    return max(least, min(most, int(seconds / 2 / max(_time(call)[0], 1e-9))))


def _time(call: Call) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def _medians(measured: list[tuple[float, float]]) -> tuple[float, float]:
    first, second = zip(*measured, strict=True)
    return statistics.median(first), statistics.median(second)
