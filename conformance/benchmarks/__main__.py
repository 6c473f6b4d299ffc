"""The table and the pictures of a run: `python -m conformance.benchmarks report/benchmarks.json`."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .pictures import draw

COLUMNS = {"ratio": "other / this", "of_peak": "of peak", "cpu_ms": "CPU ms", "extra_mib": "extra MiB"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of a file of pytest-benchmark's and draw its pictures beside it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m conformance.benchmarks", description=__doc__)
    parser.add_argument("file", type=Path, help="what --benchmark-json wrote")
    path = parser.parse_args(arguments).file
    try:
        entries = [_entry(one) for one in json.loads(path.read_text(encoding="utf-8"))["benchmarks"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{path}: expected a file of pytest-benchmark's, got {type(error).__name__}: {error}\n")
        return 2
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(entries))
    for picture in draw(entries, path.parent):
        console.print(f"picture: {picture}")
    return 0


def table(entries: list[dict[str, Any]]) -> Table:
    """A row for each benchmark, group by group."""
    made = Table(title="above 1 in the third column: faster than torch, or than what the group names")
    for heading in ("group", "core", COLUMNS["ratio"], "ms", *list(COLUMNS.values())[1:]):
        made.add_column(heading, justify="left" if heading in ("group", "core") else "right", no_wrap=True)
    before = ""
    for entry in sorted(entries, key=lambda one: one["group"]):
        made.add_row(
            entry["group"] if entry["group"] != before else "", entry["name"], _text(entry, "ratio"), f"{entry['ms']:.3f}",
            *(_text(entry, name) for name in list(COLUMNS)[1:]),
        )  # fmt: skip
        before = entry["group"]
    return made


def _entry(one: dict[str, Any]) -> dict[str, Any]:
    extra = one.get("extra_info", {})
    return {
        "group": one["group"] or "",
        "name": extra.get("core", one["name"]),
        "ms": 1e3 * one["stats"]["median"],
        **extra,
    }


def _text(entry: dict[str, Any], name: str) -> str:
    return str(entry[name]) if name in entry else "·"


if __name__ == "__main__":
    sys.exit(main())
