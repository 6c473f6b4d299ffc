"""The command line: `python -m conformance`."""

import argparse
import importlib.util
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import capabilities
from .claims.page import page as claims
from .duel import command as duel
from .report.specification import page as specification
from .versions import commands as versions
from .versions import driver

# As a shell has it for a program that writes where nobody reads.
CLOSED = 141


def parser() -> argparse.ArgumentParser:
    """What understands the command line."""
    made = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    commands = made.add_subparsers(dest="command", required=True)
    commands.add_parser("specification", help="print the specification in Markdown")
    executed = commands.add_parser("claims", help="print the documents' claims and their verdicts in Markdown")
    executed.add_argument("--pictures", metavar="DIR", type=Path, help="draw the claims' pictures there instead")
    versions.add(commands)
    driver.add(commands)
    duel.add_arguments(commands.add_parser("duel", help="compare the speed of two environments' attention"))
    commands.add_parser("capabilities", help="print what the installed torch can do, as JSON")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A sign that a terminal lacks is no reason to end with an exit code that means something else.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(parser().parse_args(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has enough; what is still to be flushed goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    return code


def _run(given: argparse.Namespace) -> int:
    if given.command in ("store", "merge", "compare", "matrix"):
        return versions.run(given)
    if given.command == "versions":
        return driver.run(given)
    if given.command == "duel":
        return duel.run(given)
    if given.command == "capabilities":
        sys.stdout.write(json.dumps(capabilities.probed(slow=True), indent=2) + "\n")
        return 0
    if given.command == "claims" and given.pictures is not None:
        return _draw(given.pictures)
    sys.stdout.write(claims() if given.command == "claims" else specification())
    return 0


def _draw(folder: Path) -> int:
    if importlib.util.find_spec("matplotlib") is None:
        sys.stderr.write("--pictures: needs matplotlib (python -m pip install matplotlib)\n")
        return 2
    from .claims.pictures import draw

    try:
        paths = draw(folder)
    except OSError as error:
        sys.stderr.write(f"--pictures: {folder} cannot be written: {error.strerror}\n")
        return 2
    sys.stdout.writelines(f"{path}\n" for path in paths)
    return 0


if __name__ == "__main__":
    sys.exit(main())
