"""What is stored of the speed of one version of torch: ratios of times within one run, read strictly and compared."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..duel.match import SAME

# The names of cells are core-shape-mask-direction.
NAME = re.compile(r"(\w+)-(\d+x\d+x\d+(?:-\d+)?x\d+)-(\w+)-(\w+)")
# A change that is worth a line is larger than this, and the two intervals do not meet.
NOTED = 0.10


class Ratio(NamedTuple):
    """A time over another of the same run: the median over rounds, and its interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Anchor:
    """What cells are compared with: its milliseconds, for information, and its time over other anchors'."""

    milliseconds: float
    to: dict[str, Ratio]


@dataclass(frozen=True)
class Speed:
    """The speed of the attention cores on one version of torch.

    Attributes:
        environment: the worker's fingerprint.
        load: of the machine before and after, in the mean of a minute; None where the system does not say.
        rounds: how many each cell had.
        cells: each cell's time over each of its anchors'.
        unsupported: the cells that this version lacks, with what it raised.
        anchors: what they are compared with.
    """

    environment: dict[str, Any]
    load: tuple[float, float] | None
    rounds: int
    cells: dict[str, dict[str, Ratio]]
    unsupported: dict[str, str]
    anchors: dict[str, Anchor]

    @property
    def machine(self) -> dict[str, str]:
        """Where times mean the same."""
        return {name: str(self.environment.get(name, "unknown")) for name in SAME}


def timed(speeds: Iterable[Speed | None]) -> list[str]:
    """The cells that some version has, or is known to lack; the anchors are none of them."""
    found = dict.fromkeys(name for one in speeds if one is not None for name in (*one.cells, *one.unsupported))
    return [name for name in found if parts(name)[0] not in ("plain", "product")]


def over_plain(speed: Speed | None, cell: str) -> Ratio | None:
    """A cell's time over the plain core's doing the same; None where it was not measured."""
    found = speed.cells.get(cell, {}) if speed is not None else {}
    return next((ratio for anchor, ratio in found.items() if anchor.startswith("plain-")), None)


def parts(cell: str) -> tuple[str, str, str, str]:
    """Core, shape, mask and direction of a cell's name.

    Raises:
        ValueError: it is none.
    """
    found = NAME.fullmatch(cell)
    if found is None:
        raise ValueError(f"expected core-shape-mask-direction, got {cell!r:.80}")
    core, shape, mask, direction = found.groups()
    return core, shape, mask, direction


def lines(speed: Speed) -> str:
    """As JSON, a line for each cell."""
    head = {"environment": speed.environment, "load": speed.load, "rounds": speed.rounds}
    cells = {name: {"to": to} for name, to in speed.cells.items()}
    anchors = {name: {"to": one.to, "ms": one.milliseconds} for name, one in speed.anchors.items()}
    written = [f"{_json(name)}: {_json(value)}" for name, value in head.items()]
    tables: dict[str, Mapping[str, Any]] = {"cells": cells, "unsupported": speed.unsupported, "anchors": anchors}
    for name, table in tables.items():
        rows = ",\n".join(f"{_json(key)}: {_json(value)}" for key, value in table.items())
        written.append(f"{_json(name)}: {{\n{rows}}}")
    return "{\n" + ",\n".join(written) + "}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def parse(data: Any, place: str = "speed") -> Speed:
    """Read what `lines` wrote.

    Args:
        data: from JSON.
        place: its name in the messages.

    Raises:
        ValueError: a field is missing, unknown or of another kind; the message is one line.
    """
    data = _fields(data, place, ("environment", "load", "rounds", "cells", "unsupported", "anchors"))
    if type(data["rounds"]) is not int or data["rounds"] < 1:
        raise ValueError(f"{place}.rounds: expected a positive number of them, got {data['rounds']!r:.80}")
    load = data["load"]
    if load is not None and not (isinstance(load, list) and len(load) == 2 and all(_is_number(one) for one in load)):
        raise ValueError(f"{place}.load: expected two numbers or null, got {load!r:.80}")
    unsupported = _table(data["unsupported"], f"{place}.unsupported")
    for name, reason in unsupported.items():
        if not isinstance(reason, str):
            raise ValueError(f"{place}.unsupported.{name}: expected a text, got {reason!r:.80}")
    return Speed(
        _dict(data["environment"], f"{place}.environment"),
        None if load is None else (load[0], load[1]),
        data["rounds"],
        {
            name: _ratios(_fields(one, f"{place}.cells.{name}", ("to",))["to"], f"{place}.cells.{name}.to")
            for name, one in _table(data["cells"], f"{place}.cells").items()
        },
        unsupported,
        {
            name: _anchor(one, f"{place}.anchors.{name}")
            for name, one in _table(data["anchors"], f"{place}.anchors").items()
        },
    )


def _dict(data: Any, place: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(f"{place}: expected dict, got {type(data).__name__}")
    return data


def _fields(data: Any, place: str, names: Sequence[str]) -> dict[str, Any]:
    if set(_dict(data, place)) != set(names):
        raise ValueError(f"{place}: expected {', '.join(names)}, got {', '.join(data) or 'nothing'}")
    return dict(data)


def _table(data: Any, place: str) -> dict[str, Any]:
    """Something for each of some cells."""
    for name in _dict(data, place):
        try:
            parts(name)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
    return dict(data)


def _ratios(data: Any, place: str) -> dict[str, Ratio]:
    found = {}
    for name, three in _table(data, place).items():
        sound = isinstance(three, list) and len(three) == 3 and all(_is_number(one) for one in three)
        if not sound or not 0 < three[1] <= three[0] <= three[2]:
            raise ValueError(f"{place}.{name}: expected [ratio, low, high] above 0, got {three!r:.80}")
        found[name] = Ratio(*three)
    return found


def _anchor(data: Any, place: str) -> Anchor:
    data = _fields(data, place, ("to", "ms"))
    if not _is_number(data["ms"]) or data["ms"] <= 0:
        raise ValueError(f"{place}.ms: expected a number above 0, got {data['ms']!r:.80}")
    return Anchor(data["ms"], _ratios(data["to"], f"{place}.to"))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def elsewhere(speeds: Iterable[Speed | None]) -> list[bool]:
    """Which were measured on another machine than the most; of two machines with as many, the later one's are the most."""
    made = [speed and tuple(speed.machine.values()) for speed in speeds]
    counted = Counter(one for one in reversed(made) if one is not None)
    usual = counted.most_common(1)[0][0] if counted else None
    return [one is not None and one != usual for one in made]


def changes(before: Speed | None, after: Speed | None, across: bool) -> list[str]:
    """Lines on what became slower or faster from one version to another, for information: a duel decides.

    Args:
        before: of the older version, None where it was not measured.
        after: likewise.
        across: compare what different machines measured all the same.
    """
    if before is None and after is None:
        return []
    if before is None or after is None:
        return ["speed: measured on one of them only"]
    if before.machine != after.machine and not across:
        return ["speed: measured on different machines, not compared"]
    found = []
    for cell in before.cells:
        old, new = over_plain(before, cell), over_plain(after, cell)
        if old is None or new is None or max(old.low, new.low) <= min(old.high, new.high):
            continue
        change = new.middle / old.middle - 1
        if abs(change) > NOTED:
            found.append(
                f"speed: {cell}: {old.middle:.2f} → {new.middle:.2f} times the plain core ({100 * change:+.0f} %); "
                "`python -m conformance duel` decides"
            )
    if found and before.load is not None and after.load is not None:
        found.append(
            f"speed: the machine's load was {max(before.load):.1f} and {max(after.load):.1f}: ratios depend on it"
        )
    return found
