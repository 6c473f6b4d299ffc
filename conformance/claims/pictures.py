"""The pictures of the claims, as SVG that is the same each time; matplotlib is needed only here."""

from pathlib import Path
from typing import Any

from .figures import D_MODEL, DEPTHS, FARTHEST, FIGURES, QUERIES, STARTS, gradients, products, saturation

# Colours that stay apart for the colour-blind (Okabe and Ito); markers and dashes do without colour.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


def description(name: str) -> str:
    """The numbers of a picture, as it carries them inside, so that a test can see whether it is current."""
    return "; ".join(" ".join(row) for row in FIGURES[name].rows())


def draw(folder: Path) -> list[Path]:
    """Write all pictures.

    Args:
        folder: where to; made if it is missing.

    Returns:
        The files.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl

    mpl.use("svg")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"softmax-saturation": _saturation, "positional-products": _products, "gradient-norms": _gradients}
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "claims", "font.size": 10}):
        return [_save(name, figure(), folder / f"{name}.svg") for name, figure in drawn.items()]


def _save(name: str, figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.savefig(path, metadata={"Date": None, "Title": FIGURES[name].title, "Description": description(name)})
    plt.close(figure)
    # matplotlib ends some lines with a space.
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8", newline="\n")
    return path


def _panels(count: int, width: float) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, count, figsize=(width, 3.6), layout="constrained")
    for axes in panels if count > 1 else [panels]:
        axes.grid(visible=True, alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _saturation() -> Any:
    figure, panels = _panels(3, 10)
    quantities = {
        "largest": ("largest weight", (0, 1)),
        "entropy": ("entropy of the weights (nats)", (0, 2.9)),
        "gradient": ("norm of the softmax's Jacobian", (0, 0.36)),
    }
    for axes, (quantity, (label, limits)) in zip(panels, quantities.items(), strict=True):
        for scaled, name, colour, marker in ((False, "q·k", ORANGE, "s"), (True, "q·k / √d_k", BLUE, "o")):
            chosen = [one for one in saturation() if one.scaled is scaled]
            values = [getattr(one, quantity) for one in chosen]
            axes.plot([one.d_k for one in chosen], values, color=colour, marker=marker, label=name)
        axes.set(xscale="log", xlabel="d_k", ylabel=label, ylim=limits)
        axes.set_xticks([one.d_k for one in chosen], [str(one.d_k) for one in chosen])
        axes.minorticks_off()
    panels[1].legend(title="scores", loc="center right")
    figure.suptitle(f"Without the scaling a softmax over 16 keys saturates (means over {QUERIES} queries)")
    return figure


def _products() -> Any:
    figure, axes = _panels(1, 7)
    distances = range(-FARTHEST, FARTHEST + 1)
    first, *others = zip(STARTS, products(), strict=True)
    axes.plot(distances, first[1], color=BLUE, linewidth=2, label=f"p = {first[0]}")
    for shift, ((p, values), marker, colour) in enumerate(zip(others, ("o", "x"), (ORANGE, "black"), strict=True)):
        chosen = slice(5 * shift, None, 10)
        axes.plot(
            distances[chosen],
            values[chosen],
            color=colour,
            marker=marker,
            fillstyle="none",
            linestyle="",
            label=f"p = {p}",
        )
    axes.set(xlabel="distance k", ylabel=f"PE(p) · PE(p + k) / {D_MODEL // 2}", ylim=(0, 1.05))
    axes.legend()
    axes.set_title(f"The product of two position codes depends on their distance alone (width {D_MODEL})")
    return figure


def _gradients() -> Any:
    figure, (by_layer, by_depth) = _panels(2, 10)
    deepest = DEPTHS[-1]
    for norm_first, name, colour, marker in ((False, "Post-Norm", ORANGE, "s"), (True, "Pre-Norm", BLUE, "o")):
        norms = gradients(norm_first)
        by_layer.plot(range(1, deepest + 1), norms[deepest], color=colour, marker=marker, markersize=4, label=name)
        by_depth.plot(DEPTHS, [norms[n][-1] for n in DEPTHS], color=colour, marker=marker, label=name)
    first = gradients(True)[DEPTHS[0]][-1]
    by_depth.plot(
        DEPTHS,
        [first * (DEPTHS[0] / n) ** 0.5 for n in DEPTHS],
        color=GREY,
        linestyle=":",
        label="1 / √(number of layers)",
    )
    by_layer.set(xlabel=f"layer of {deepest}, from the input", ylabel="gradient norm", ylim=(0, None))
    by_layer.set_title(f"Each layer of a stack of {deepest}")
    by_depth.set(xlabel="number of layers", xscale="log", yscale="log", ylim=(1.5, 10))
    by_depth.set_title("The last layer, by depth")
    by_depth.set_xticks(DEPTHS, [str(n) for n in DEPTHS])
    by_depth.set_yticks([2, 4, 8], ["2", "4", "8"])
    by_depth.minorticks_off()
    by_layer.legend()
    by_depth.legend()
    figure.suptitle("Gradients of the feed-forward networks' second matrices at initialisation")
    return figure
