"""Train the handmade encoder-decoder and the same on torch.nn.Transformer, from the same weights and on the same batches.

The task is to write a string of digits backwards. Exit code 0: both write at least 99 % of strings that they have never
seen, and their loss curves coincide; 1: not so; 2: unusable input.
"""

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from .. import tolerance
from ..option_values import at_least_one
from . import digits, pictures
from .gap import EARLY, gap
from .race import Race, Settings, accuracy, cross_attention, run, transcribe

WANTED = 0.99


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    options = _parser().parse_args(arguments)
    complaint = _unusable(options.out)
    if complaint:
        sys.stderr.write(f"{complaint}\n")
        return 2
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    settings = Settings(steps=options.steps, dtype=options.dtype)
    race = _watch(settings, console)
    scores = {"handmade": accuracy(race.handmade, race.unseen), "torch.nn": accuracy(race.torch, race.unseen)}
    for name, score in scores.items():
        console.print(f"{name:9} {score:7.2%} of {len(race.unseen)} unseen strings written backwards without a mistake")
    apart = gap(race.losses)
    early, overall = tolerance.CURVES[settings.dtype]
    console.print(
        f"loss curves, {settings.dtype}: {apart.early:.1e} apart in the first {EARLY} steps, relative to the loss"
    )
    console.print(
        f"  (limit {early:g}); {apart.overall:.1e} over all {settings.steps}, relative to the first losses (limit {overall:g})"
    )
    for path in _draw(race, options.out):
        console.print(f"picture: {path}", soft_wrap=True)
    learnt, coincide = min(scores.values()) >= WANTED, apart.closed(settings.dtype)
    console.print(f"learnt: {'yes' if learnt else 'NO'}; the curves coincide: {'yes' if coincide else 'NO'}")
    return 0 if learnt and coincide else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m conformance.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("report", "demo"), help="the folder for the pictures")
    parser.add_argument("--steps", type=at_least_one, default=Settings.steps, help="of training (default: %(default)s)")
    parser.add_argument(
        "--dtype", choices=sorted(tolerance.CURVES), default=Settings.dtype, help="default: %(default)s"
    )
    return parser


def _unusable(out: Path) -> str | None:
    """Why the demo cannot end well, found out before it starts."""
    if importlib.util.find_spec("matplotlib") is None:
        return "matplotlib: expected to be installed, for the pictures; it is not"
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            return None
    except OSError as error:
        return f"--out: expected a folder that can be written to, got {out}: {error.strerror or error}"


def _watch(settings: Settings, console: Console) -> Race:
    """Run the race and show how it goes: live on a terminal, a line now and then elsewhere."""
    columns = (
        TextColumn("step {task.completed}/{task.total}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    losses = TextColumn("loss: handmade {task.fields[mine]:.4f}, torch.nn {task.fields[theirs]:.4f}")
    every = max(1, settings.steps // 10)
    with Progress(*columns, losses, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=settings.steps, mine=0.0, theirs=0.0)

        def report(step: int, mine: float, theirs: float) -> None:
            progress.update(task, completed=step, mine=mine, theirs=theirs)
            if not console.is_terminal and step % every == 0:
                console.print(f"step {step:4}: loss of handmade {mine:.6f}, of torch.nn {theirs:.6f}")

        return run(settings, report)


def _draw(race: Race, out: Path) -> list[Path]:
    longest = max(race.unseen, key=len)
    source, _ = digits.encode([longest])
    written = transcribe(race.handmade, source, len(longest) + 1)
    target = written.roll(1, dims=1)
    target[:, 0] = digits.START
    maps = {
        "handmade": cross_attention(race.handmade, source, target),
        "torch.nn.Transformer": cross_attention(race.torch, source, target),
    }
    shown = (digits.symbols(source[0].tolist()), digits.symbols(written[0].tolist()))
    return [
        pictures.draw_losses(race.losses, out / "losses.svg"),
        pictures.draw_attention(maps, *shown, out / "cross_attention.svg"),
    ]


if __name__ == "__main__":
    sys.exit(main())
