"""Pictures of a run: how near each core comes to the matrix product's peak, and how its time grows with the length."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Entries = list[dict[str, Any]]
# Colours that stay apart for the colour-blind (Okabe and Ito), and markers that do without colour.
STYLES = {
    "plain": ("#E69F00", "s"),
    "blockwise": ("#0072B2", "o"),
    "torch math": ("#999999", "^"),
    "torch": ("#D55E00", "D"),
    "products alone": ("#CC79A7", "x"),
}


def draw(entries: Entries, folder: Path) -> Iterator[Path]:
    """Write the pictures that the entries allow, as SVG; none where matplotlib is not installed.

    Args:
        entries: of benchmarks, with `core`, `length`, `mask`, `dtype`, `direction`, `of_peak`, `ms`.
        folder: where to.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        return
    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"
    for direction in ("forward", "both"):
        for mask in ("none", "causal"):
            chosen = [
                e for e in entries
                if (e.get("direction"), e.get("mask"), e.get("dtype")) == (direction, mask, "float32") and e["length"] > 1
            ]  # fmt: skip
            if chosen:
                for quantity in ("of_peak", "ms"):
                    yield _picture(
                        chosen, quantity, f"{direction}, mask: {mask}", folder / f"{quantity}-{direction}-{mask}.svg"
                    )


def _picture(entries: Entries, quantity: str, title: str, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for core, (colour, marker) in STYLES.items():
        points = sorted(
            (e["length"], e[quantity], _sequences(e)) for e in entries if e["core"] == core and quantity in e
        )
        if not points:
            continue
        lengths, values, sequences = zip(*points, strict=True)
        label = core
        if quantity == "ms":
            # One sequence and head, so that shapes of different batch sizes stand on one line.
            values = tuple(v / n for v, n in zip(values, sequences, strict=True))
            label = f"{core}: time ~ length^{slope(lengths, values):.2f}"
        axes.plot(lengths, values, color=colour, marker=marker, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("length")
    if quantity == "ms":
        axes.set_yscale("log")
        axes.set_ylabel("ms per sequence and head")
    else:
        axes.set_ylim(0, 1)
        axes.set_ylabel("part of the matrix product's peak")
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
    return path


def slope(lengths: tuple[float, ...], values: tuple[float, ...]) -> float:
    """The exponent with which values grow, by least squares on logarithms; NaN for a single point."""
    x, y = [math.log(n) for n in lengths], [math.log(v) for v in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread if spread else math.nan


def _sequences(entry: dict[str, Any]) -> int:
    batch, heads, *_ = entry["shape"].split("x")
    return int(batch) * int(heads)
