"""What a duel found, as a table and as data."""

import json
import statistics
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from .match import Duel, percent, to_anchors
from .rounds import CONTROL, A, B, Judgement
from .statistics import Interval, Verdict

SCHEMA = 1
STYLES = {Verdict.SLOWER: "bold red", Verdict.FASTER: "green", Verdict.EQUIVALENT: "", Verdict.INCONCLUSIVE: "yellow"}


def exit_code(duel: Duel) -> int:
    """1 when a cell is slower, 0 otherwise."""
    return int(any(one.verdict is Verdict.SLOWER for one in duel.judged.values()))


def table(duel: Duel) -> Table:
    """A row for each cell and each anchor."""
    made = Table(title="processor time of B against A: above 0 B is slower")
    for heading in ("cell", "verdict", "B to A %", "interval", "A to A %", "δ %", "wall %", "A ms", "B ms", "rounds"):
        made.add_column(heading, justify="left" if heading in ("cell", "verdict") else "right", no_wrap=True)
    for name, one in duel.judged.items():
        made.add_row(
            name, f"[{STYLES[one.verdict]}]{one.verdict.value}[/]" if STYLES[one.verdict] else one.verdict.value,
            f"{percent(one.ratio.middle):+.2f}", _shown(one.ratio), _shown(one.control), f"{percent(one.delta):.2f}",
            f"{percent(one.wall.middle):+.1f}", *_milliseconds(duel, name), str(one.rounds),
        )  # fmt: skip
    for name, series in duel.series.items():
        if name not in duel.judged and series.ratios:
            middle = statistics.median(series.ratios)
            made.add_row(
                name, "anchor", f"{percent(middle):+.2f}", "", "", "", "", *_milliseconds(duel, name),
                str(len(series.ratios)), style="dim",
            )  # fmt: skip
    for name, reasons in duel.unsupported.items():
        made.add_row(
            name, f"not supported in {' and '.join(reasons)}: {escape(next(iter(reasons.values())))}", style="dim"
        )
    return made


def heading(duel: Duel) -> list[str]:
    """The environments on a line each, and what of them differs beside torch's version."""
    lines = [
        f"{side}: torch {one['torch']}, Python {one['python']}, {one['capability']}, {one['threads']} threads, "
        f"{one['cpu']}, load {one['load'][0] if one['load'] else 'unknown'}"
        for side, one in duel.environments.items()
        if side != CONTROL
    ]
    a, b = duel.environments[A], duel.environments[B]
    differing = [name for name in ("python", "capability", "mkl", "onednn") if a[name] != b[name]]
    return [*lines, *(f"A and B also differ in: {name} ({a[name]}, {b[name]})" for name in differing)]


def as_data(duel: Duel) -> dict[str, Any]:
    """Everything, ready for JSON; ratios are B over A."""
    return {
        "schema": SCHEMA,
        "complete": duel.complete,
        "together": duel.together,
        "error": duel.error,
        "seconds": round(duel.seconds, 1),
        "settings": {name: getattr(duel.settings, name) for name in ("seconds", "alpha", "floor", "seed", "looks")},
        "environments": duel.environments,
        "unsupported": duel.unsupported,
        "cells": {name: judgement_data(one) | _to_anchors(duel, name) for name, one in duel.judged.items()},
        "rounds": {
            name: {side: [round(1e6 * one, 1) for one in times] for side, times in series.times.items()}
            for name, series in duel.series.items()
        },
    }  # fmt: skip


def judgement_data(one: Judgement) -> dict[str, Any]:
    """A judgement; differences in percent."""
    return {
        "verdict": one.verdict.value, "percent": round(percent(one.ratio.middle), 3), "interval": _ends(one.ratio),
        "control": _ends(one.control), "wall": _ends(one.wall), "delta": round(percent(one.delta), 3),
        "alpha": round(one.alpha, 6), "rounds": one.rounds,
    }  # fmt: skip


def write(duel: Duel, path: Path) -> None:
    """Write the JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_data(duel), indent=1) + "\n", encoding="utf-8")


def _to_anchors(duel: Duel, name: str) -> dict[str, Any]:
    found = to_anchors(duel.series, name)
    return {"to_anchors": {one: {side: round(x, 4) for side, x in both.items()} for one, both in found.items()}}


def _milliseconds(duel: Duel, name: str) -> list[str]:
    return [f"{1e3 * statistics.median(duel.series[name].times[side]):.3f}" for side in (A, B)]


def _shown(one: Interval) -> str:
    return f"{percent(one.low):+.2f} … {percent(one.high):+.2f}"


def _ends(one: Interval) -> list[float]:
    return [round(percent(one.low), 3), round(percent(one.high), 3)]
