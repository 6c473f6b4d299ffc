"""The command line: `python -m conformance`."""

import argparse
import sys
from collections.abc import Sequence

from .report.specification import page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("specification", help="print the specification in Markdown")
    parser.parse_args(arguments)
    sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
