"""`python -m conformance duel ENV_A ENV_B`: is B's torch slower than A's?"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.status import Status

from ..option_values import above_zero, at_least_one, part_of_one
from .cells import CELLS
from .match import Duel, choose, fight, groups, percent, workers
from .processes import Unusable, python_of
from .result import exit_code, heading, table, write
from .rounds import A, B, Judgement, Progress, Settings, undecided

INTERRUPTED = 130
# Seconds between lines where the output is no terminal.
EVERY = 15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("environments", metavar="ENV", nargs="*", help="two virtual environments, or their pythons")
    parser.add_argument("--cells", metavar="PATTERN", nargs="+", default=[], help="what is timed, by id (default: all)")
    parser.add_argument("--list", action="store_true", help="print the ids of the cells and exit")
    parser.add_argument(
        "--seconds",
        type=above_zero,
        help="budget (default: 90 for each shape); it ends early when all is decided",
    )
    parser.add_argument("--threads", type=at_least_one, default=1, help="of torch (default: 1, the quietest clock)")
    parser.add_argument(
        "--alpha", type=part_of_one, default=Settings.alpha, help="chance of a wrong verdict (%(default)s)"
    )
    parser.add_argument("--floor", type=part_of_one, default=Settings.floor, help="the least δ (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the orders (default: 0)")
    parser.add_argument(
        "--json", type=Path, default=Path("report", "duel.json"), help="the file of all figures (%(default)s)"
    )
    parser.add_argument(
        "--self-test", action="store_true", help="slow B on purpose by 0, 2, 5, 10 %% and count what is found"
    )
    parser.add_argument(
        "--runs", type=at_least_one, default=20, help="of the self-test, of each slowdown (%(default)s)"
    )


def run(given: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    if given.list:
        sys.stdout.writelines(f"{name}\n" for name, cell in CELLS.items() if not cell.anchor)
        return 0
    try:
        if given.self_test:
            from .self_test import run as self_test

            return self_test(given, console)
        return _duel(given, console)
    except BrokenPipeError:
        raise
    except (Unusable, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted before anything was timed\n")
        return INTERRUPTED


def pythons(environments: Sequence[str]) -> dict[str, Path]:
    """The two pythons.

    Raises:
        Unusable: there are not two, or one is no environment.
    """
    if len(environments) != 2:
        raise Unusable(f"ENV: expected two environments, got {len(environments)}")
    return {A: python_of(environments[0]), B: python_of(environments[1])}


def settings_of(given: argparse.Namespace, cells: Sequence[str]) -> Settings:
    """The settings of the options."""
    seconds = given.seconds or Settings.seconds * len(groups(cells))
    return Settings(seconds, given.alpha, given.floor, given.seed)


def check_writable(path: Path) -> None:
    """Find out that a file cannot be written before hours are spent on what goes there.

    Raises:
        Unusable: it cannot.
    """
    existed = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise Unusable(f"--json: {path} cannot be written: {error.strerror}") from error
    if not existed:
        path.unlink()


def watch(console: Console, cells: Sequence[str], settings: Settings) -> tuple[Status, Progress]:
    """How it goes: live on a terminal, a line now and then elsewhere."""
    status, told = console.status("starting the workers"), [0.0]

    def progress(sweep: int, spent: float, judged: Mapping[str, Judgement]) -> None:
        widest = max((one.ratio.high - one.ratio.low for one in judged.values()), default=0.0)
        line = (
            f"sweep {sweep}, {spent:.0f} of at most {settings.seconds:.0f} s, "
            f"{len(cells) - len(undecided(cells, judged))} of {len(cells)} cells decided"
            + (f", widest interval {percent(widest):.1f} %" if judged else "")
        )
        status.update(line)
        if not console.is_terminal and spent - told[0] >= EVERY:
            told[0] = spent
            console.print(line)

    return status, progress


def _duel(given: argparse.Namespace, console: Console) -> int:
    both, cells = pythons(given.environments), choose(given.cells)
    check_writable(given.json)
    settings = settings_of(given, cells)
    status, progress = watch(console, cells, settings)
    with status, workers(both, given.threads, given.seed) as crews:
        duel = fight(crews, cells, settings, progress=progress)
    _show(duel, console)
    write(duel, given.json)
    console.print(f"figures: {given.json}", soft_wrap=True)
    if duel.error:
        raise Unusable(duel.error)
    if duel.complete and not duel.judged:
        raise Unusable("ENV: expected two environments that support a cell in common, got none")
    return exit_code(duel) if duel.complete else INTERRUPTED


def _show(duel: Duel, console: Console) -> None:
    for line in heading(duel):
        console.print(line, soft_wrap=True)
    console.print(table(duel))
    lacking = sum(not CELLS[name].anchor for name in duel.unsupported)
    counts = {word: sum(one.verdict.value == word for one in duel.judged.values()) for word in _WORDS}
    console.print(
        ", ".join(f"{count} {word}" for word, count in counts.items())
        + (f", {lacking} not supported" if lacking else "")
        + f" in {duel.seconds:.0f} s"
        + ("" if duel.complete else ": INTERRUPTED")
    )


_WORDS = ("slower", "faster", "equivalent", "inconclusive")
