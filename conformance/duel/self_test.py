"""The detector on trial: B is slowed down on purpose, in runs with workers of their own, and what is found is counted.

Each run is of the cells of one shape, the next run of the next shape.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..files import write_whole
from .command import INTERRUPTED, check_writable
from .match import Duel, choose, fight, fingerprints, groups, percent, workers
from .processes import Unusable, python_of
from .rounds import A, B, Settings

SLOWDOWNS = (0.0, 0.02, 0.05, 0.1)
SCHEMA = 1
Run = dict[str, Any]


def run(given: argparse.Namespace, console: Console) -> int:
    """Make the runs that the file does not hold yet, a line each, and print what they show; 1 after a false alarm."""
    if len(given.environments) > 1 or given.json.suffix == ".jsonl":
        raise Unusable(
            "ENV: expected at most one environment with --self-test, got 2" if len(given.environments) > 1
            else f"--json: expected a file beside which the runs are written as .jsonl, got {given.json}"
        )  # fmt: skip
    check_writable(given.json)
    environment = python_of((given.environments or [sys.executable])[0])
    shapes, path = groups(choose(given.cells)), given.json.with_suffix(".jsonl")
    settings = Settings(given.seconds or Settings.seconds, given.alpha, given.floor)
    done = read(path) if path.exists() else []
    for number in range(given.runs):
        cells = shapes[number % len(shapes)]
        left = [one for one in SLOWDOWNS if not any(r["run"] == number and r["slowdown"] == one for r in done)]
        if not left:
            continue
        with workers({A: environment, B: environment}, given.threads, number) as crews:
            check_alike(done, conditions(fingerprints(crews)[A], settings), number, cells, path)
            for slowdown in random.Random(number).sample(left, len(left)):
                duel = fight(crews, cells, settings_for(settings, number), slowdown)
                if duel.error:
                    raise Unusable(duel.error)
                if not duel.complete:
                    return INTERRUPTED
                done.append(line(number, slowdown, duel))
                # Anew and in its place: a last line that was cut off goes, and nothing else does.
                write_whole(path, "".join(json.dumps(one) + "\n" for one in done))
                counted = {name: one["verdict"] for name, one in done[-1]["cells"].items()}
                console.print(
                    f"run {number}, slowed by {slowdown:.0%}: {counted} in {duel.seconds:.0f} s", soft_wrap=True
                )
    write(done, given.json)
    console.print(table(done))
    picture = draw(done, given.json.with_suffix(".svg"))
    console.print(
        f"runs: {path}, with what they show: {given.json}" + (f"; picture: {picture}" if picture else ""),
        soft_wrap=True,
    )
    return int(any(one["found"] for one in rates(done) if one["slowdown"] == 0))


def conditions(environment: Mapping[str, Any], settings: Settings) -> Run:
    """What the runs of a file have in common."""
    return {
        **{name: environment[name] for name in ("torch", "cpu", "cpus", "capability", "threads")},
        "settings": {name: getattr(settings, name) for name in ("seconds", "alpha", "floor")},
    }


def check_alike(done: Iterable[Run], here: Run, number: int, cells: Iterable[str], path: Path) -> None:
    """Refuse to mix what says nothing of one detector.

    Raises:
        Unusable: the file has runs made elsewhere, otherwise, or of other cells.
    """
    for one in done:
        for name, value in here.items():
            if one.get(name) != value:
                raise Unusable(f"{path}: expected runs with {name} {value}, got {one.get(name)} in run {one['run']}")
        if one["run"] == number and set(one["cells"]) != set(cells):
            raise Unusable(
                f"{path}: run {number}: expected the cells {', '.join(cells)}, got {', '.join(one['cells'])}"
            )


def settings_for(settings: Settings, number: int) -> Settings:
    """The settings of a run, with orders of its own."""
    return Settings(settings.seconds, settings.alpha, settings.floor, number, settings.looks)


def line(number: int, slowdown: float, duel: Duel) -> Run:
    """What is kept of a run."""
    return {
        "run": number, "slowdown": slowdown, "seconds": round(duel.seconds, 1),
        **conditions(duel.environments[A], duel.settings), "load": duel.environments[A]["load"],
        "cells": {
            name: {
                "verdict": one.verdict.value, "percent": round(percent(one.ratio.middle), 2),
                "interval": [round(percent(one.ratio.low), 2), round(percent(one.ratio.high), 2)],
                "control": round(percent(one.control.middle), 2), "delta": round(percent(one.delta), 2),
                "rounds": one.rounds,
            }
            for name, one in duel.judged.items()
        },
    }  # fmt: skip


def write(runs: list[Run], path: Path) -> None:
    """Write what the runs show and the runs, as JSON, a run on each line."""
    lines = ",\n".join(f"  {json.dumps(one)}" for one in runs)
    shown = json.dumps(list(rates(runs)))
    path.write_text(f'{{"schema": {SCHEMA},\n "rates": {shown},\n "runs": [\n{lines}\n ]}}\n', encoding="utf-8")


def read(path: Path) -> list[Run]:
    """The runs of a file; a last line that was cut off is left out.

    Raises:
        Unusable: another line is no run.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    found = []
    for number, text in enumerate(lines):
        try:
            one = json.loads(text)
            numbers = (one["run"], one["slowdown"], one["seconds"])
            words = [cell["verdict"] for cell in one["cells"].values()]
            if not words or not all(isinstance(value, int | float) for value in numbers):
                raise ValueError(text)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if number == len(lines) - 1 and number:
                break
            raise Unusable(f"{path}: line {number + 1} is no run of the self-test") from error
        found.append(one)
    return found


def rates(runs: Iterable[Run]) -> Iterator[dict[str, Any]]:
    """For each slowdown: runs, those in which a cell was called slower, cells, those called slower, time."""
    kept = list(runs)
    for slowdown in sorted({one["slowdown"] for one in kept}):
        chosen = [one for one in kept if one["slowdown"] == slowdown]
        verdicts = [[cell["verdict"] for cell in one["cells"].values()] for one in chosen]
        flat = [verdict for some in verdicts for verdict in some]
        yield {
            "slowdown": slowdown,
            "runs": len(chosen),
            "found": sum("slower" in some for some in verdicts),
            "cells": len(flat),
            **{word: flat.count(word) for word in ("slower", "faster", "equivalent", "inconclusive")},
            "seconds": sorted(one["seconds"] for one in chosen)[len(chosen) // 2],
            "longest": max(one["seconds"] for one in chosen),
        }


def table(runs: Iterable[Run]) -> Table:
    """A row for each slowdown."""
    made = Table(title="what was found of a slowdown made on purpose")
    for heading in ("slowed by", "runs", "runs that call a cell slower", "cells", "slower", "faster", "equivalent",
                    "inconclusive", "seconds: median", "longest"):  # fmt: skip
        made.add_column(heading, justify="right")
    for one in rates(runs):
        made.add_row(
            f"{one['slowdown']:.0%}", str(one["runs"]), f"{one['found']} ({one['found'] / one['runs']:.0%})",
            *(str(one[word]) for word in ("cells", "slower", "faster", "equivalent", "inconclusive")),
            f"{one['seconds']:.0f}", f"{one['longest']:.0f}",
        )  # fmt: skip
    return made


def draw(runs: Iterable[Run], path: Path) -> Path | None:
    """The parts of runs and of cells that are called slower, by slowdown, as SVG; None without matplotlib."""
    os.environ.setdefault("MPLBACKEND", "svg")
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return None
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "duel"})
    found = list(rates(runs))
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    x = [100 * one["slowdown"] for one in found]
    axes.plot(
        x, [one["found"] / one["runs"] for one in found], "o-", color="#0072B2", label="runs with a cell called slower"
    )
    axes.plot(x, [one["slower"] / one["cells"] for one in found], "s--", color="#D55E00", label="cells called slower")
    axes.axvspan(0, 3, color="#999999", alpha=0.15, label="within δ: not to be called slower")
    axes.set(xlabel="slowdown made on purpose, %", ylabel="part", ylim=(-0.03, 1.03), title="What a duel finds")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="center right")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path
