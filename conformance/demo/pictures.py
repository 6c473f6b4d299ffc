"""The pictures of the demo: the two loss curves, and what the decoder looks at."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Colours that stay apart for the colour-blind (Okabe and Ito).
HANDMADE, TORCH = "#0072B2", "#D55E00"


def draw_losses(losses: np.ndarray, path: Path) -> Path:
    """Both curves, the second dashed over the first, and their distance below; as SVG."""
    figure, (above, below) = _pyplot().subplots(
        2, 1, figsize=(7, 6), sharex=True, height_ratios=(2, 1), layout="constrained"
    )
    steps = np.arange(1, len(losses) + 1)
    above.plot(steps, losses[:, 0], color=HANDMADE, linewidth=3, alpha=0.5, label="handmade")
    above.plot(steps, losses[:, 1], color=TORCH, linewidth=1, linestyle="--", label="torch.nn.Transformer")
    above.set_ylabel("cross-entropy")
    above.legend()
    apart = np.abs(losses[:, 0] - losses[:, 1])
    # A distance of exactly 0 has no place on a logarithmic axis.
    below.plot(steps, np.where(apart > 0, apart, np.nan), color="black", linewidth=1)
    below.set_ylabel("distance of the two")
    below.set_xlabel("step")
    for axes, shown in ((above, losses), (below, apart)):
        axes.set_yscale("log" if shown.any() else "linear")
        axes.grid(visible=True, alpha=0.3)
    return _save(figure, path)


def draw_attention(maps: dict[str, np.ndarray], source: Sequence[str], written: Sequence[str], path: Path) -> Path:
    """A map for each model: rows are the symbols written, columns those read; as SVG."""
    figure, all_axes = _pyplot().subplots(1, len(maps), figsize=(4.5 * len(maps), 4.5), layout="constrained")
    for axes, (title, weights) in zip(np.atleast_1d(all_axes), maps.items(), strict=True):
        image = axes.imshow(weights, cmap="viridis", vmin=0, vmax=1)
        axes.set_xticks(range(len(source)), source)
        axes.set_yticks(range(len(written)), written)
        axes.set_xlabel("read")
        axes.set_ylabel("written")
        axes.set_title(title)
    figure.colorbar(image, ax=all_axes, shrink=0.7, label="weight")
    return _save(figure, path)


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path)
    _pyplot().close(figure)
    return path
