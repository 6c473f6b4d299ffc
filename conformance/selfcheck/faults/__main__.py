"""Prints which clauses catch each fault: `python -m conformance.selfcheck.faults [WORD …]`."""

import argparse
import sys
import warnings

from rich.console import Console
from rich.progress import track

from ...option_values import at_least_one
from . import EQUIVALENT, FAULTS
from .catching import catchers, specification


def main() -> int:
    """Try every fault, or those whose names hold one of the words, on a few cases of every clause."""
    parser = argparse.ArgumentParser(prog="python -m conformance.selfcheck.faults", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only faults whose names hold one of these")
    parser.add_argument(
        "--cases", type=at_least_one, default=4, help="cases of each clause that are tried (default: 4)"
    )
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if not options.words or any(word in fault.name for word in options.words)]
    warnings.simplefilter("ignore")
    console = Console(highlight=False, soft_wrap=True)
    console.print("fault → clauses that must catch it + others that did")
    caught: set[str] = set()
    for fault in track(chosen, "trying the faults", console=Console(stderr=True)):
        others = [id for id in catchers(fault, options.cases) if id not in fault.clauses]
        caught.update(others, fault.clauses)
        # Each as it comes: half a table is of use as well.
        console.print(f"[bold]{fault.name}[/] → {' '.join(fault.clauses)} + {' '.join(others) or '—'}")
    for name, reason in EQUIVALENT.items():
        console.print(f"[bold]{name}[/] is equivalent: {reason}")
    if not options.words:
        console.print(f"caught no fault: {' '.join(id for id in specification() if id not in caught)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
