"""The exact gate: instructions of the attention cores, counted by callgrind, against a checked-in file.

`python -m conformance.duel.instructions` counts and compares, `--write` writes the file anew. Instructions do not depend on what
else a machine does, but on torch, on Python and on the processor's kind: elsewhere than where the file was made, and without
valgrind, nothing is compared, and a line says so. Exit code 1: a count is more than 2 % away, up or down (a file that is no
longer true must not hide the next change); 2: a file that cannot be read.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .processes import ROOT, Unusable
from .worker import cpu_model

FILE = Path(__file__).with_name("instructions.json")
CELLS = ("torch-16x8x32x64-none-forward", "plain-16x8x32x64-none-forward")
TOLERANCE = 0.02
# Calls of one count.
CALLS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and compare, or write; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m conformance.duel.instructions", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the file of counts instead of comparing with it")
    parser.add_argument("--file", type=Path, default=FILE, help="of counts (default: the checked-in one)")
    given = parser.parse_args(arguments)
    try:
        expected = None if given.write else read(given.file)
    except Unusable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    here = conditions()
    reason = skipped(here, expected)
    if reason:
        sys.stdout.write(f"skipped: {reason}\n")
        return 0
    try:
        found = {cell: count(cell) for cell in CELLS}
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"valgrind: {(str(error).splitlines() or [type(error).__name__])[0]}\n")
        return 2
    if expected is None:
        given.file.write_text(json.dumps({"conditions": here, "counts": found}, indent=1) + "\n", encoding="utf-8")
        sys.stdout.write(f"written: {given.file}\n")
        return 0
    lines = complaints(expected["counts"], found)
    sys.stdout.writelines(f"{line}\n" for line in lines or [f"{len(found)} cells within {TOLERANCE:.0%}"])
    return int(bool(lines))


def conditions() -> dict[str, str]:
    """What counts depend on."""
    return {"torch": torch.__version__, "python": ".".join(platform.python_version_tuple()[:2]), "cpu": cpu_model()}


def skipped(here: Mapping[str, str], expected: Mapping[str, Any] | None) -> str:
    """Why nothing is counted or compared, or nothing."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    other = [] if expected is None else [name for name in here if here[name] != expected["conditions"].get(name)]
    if expected is None or not other:
        return ""
    return ", ".join(f"{name} {here[name]} here, {expected['conditions'].get(name)} in the file" for name in other)


def count(cell: str) -> int:
    """Instructions of one call of a cell, on one thread."""
    from torch.utils.benchmark import Timer

    setup = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from conformance.duel.cells import CELLS; "
        f"call = CELLS[{cell!r}].make(); call()"
    )
    timer = Timer("call()", setup, num_threads=1)
    # It calls `python`, which has to be this one.
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        found = timer.collect_callgrind(CALLS, repeats=None, collect_baseline=False, retain_out_file=False)
    finally:
        os.environ["PATH"] = before
    return int(found.counts() / CALLS)


def complaints(expected: Mapping[str, int], found: Mapping[str, int]) -> list[str]:
    """A line for each cell whose count is elsewhere than the file says, or that only one of the two has."""
    lines = [f"{cell}: in the file alone" for cell in expected if cell not in found]
    for cell, number in found.items():
        if cell not in expected:
            lines.append(f"{cell}: not in the file")
        elif abs(number - expected[cell]) > TOLERANCE * expected[cell]:
            word = "more" if number > expected[cell] else "fewer: a gain, to be written down by --write"
            lines.append(
                f"{cell}: {number} instructions, expected {expected[cell]}: {number / expected[cell] - 1:+.1%}, {word}"
            )
    return lines


def read(path: Path) -> dict[str, Any]:
    """The file of counts.

    Raises:
        Unusable: it is none.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not all(type(number) is int and number > 0 for number in found["counts"].values()):
            raise ValueError("a count is no positive number")
        return {"conditions": dict(found["conditions"]), "counts": dict(found["counts"])}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"{path}: expected a file of counts, got {type(error).__name__}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
