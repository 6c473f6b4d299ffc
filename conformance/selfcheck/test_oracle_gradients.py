"""The gradients of the oracle's primitives, against finite differences in long double."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance.selfcheck.oracle_checks import Array, random_arrays, relative
from reference.oracle.activations import ACTIVATIONS
from reference.oracle.attention import attention_context, attention_weights
from reference.oracle.cross_entropy import cross_entropy
from reference.oracle.embedding import embedding
from reference.oracle.layer_norm import layer_norm
from reference.oracle.linear import linear
from reference.oracle.mixture import balance, gates, mixed, probabilities
from reference.oracle.rms_norm import rms_norm
from reference.oracle.rotary import rotary_turns, rotate
from reference.oracle.shapes import (
    add,
    append_row,
    mean_over,
    merge_heads,
    multiply,
    pad_columns,
    product,
    repeat_heads,
    reshape,
    rows,
    split_heads,
    swap_axes,
)

HIDDEN = np.array([[False, True, False, False], [False] * 4, [True] * 4])
CLASSES = np.array([[2, 0, -100], [1, 4, 3]])

Difference = tuple[str, Callable[..., Any], list[tuple[int, ...]], dict[str, Any]]
OF_ACTIVATIONS: list[Difference] = [(name, function, [(4, 5)], {}) for name, function in ACTIVATIONS.items()]
OF_LOSSES: list[Difference] = [
    (
        f"cross entropy {reduction} {smoothing}",
        cross_entropy,
        [(2, 5, 3)],
        {"target": CLASSES, "reduction": reduction, "label_smoothing": smoothing},
    )
    for reduction in ("mean", "sum", "none")
    for smoothing in (0.0, 0.25)
]
# Chosen and kept experts of three tokens; the last token's second choice finds no room.
TURNS = rotary_turns(3, 4, base=100.0, first=2)
CHOSEN = np.array([[True, True, False], [False, True, True], [True, False, True]])
KEPT = CHOSEN & np.array([[True], [True], [False]]) | np.array([[False] * 3, [False] * 3, [True, False, False]])
OF_ROTATIONS: list[Difference] = [
    (f"rotation, interleaved {pairs}", rotate, [(2, 3, 4)], {"turns": TURNS, "interleaved": pairs})
    for pairs in (True, False)
]
OF_GATES: list[Difference] = [
    (f"gates, renormalised {whole}", gates, [(3, 3)], {"chosen": CHOSEN, "kept": KEPT, "renormalize": whole})
    for whole in (True, False)
]
DIFFERENCES: list[Difference] = [
    ("linear", linear, [(2, 3, 4), (5, 4), (5,)], {}),
    ("layer norm", layer_norm, [(3, 5), (5,), (5,)], {"axes": 1, "eps": 1e-5}),
    ("layer norm of two axes", layer_norm, [(2, 3, 4), (3, 4), (3, 4)], {"axes": 2, "eps": 0.1}),
    (
        "weights",
        attention_weights,
        [(2, 3, 5), (2, 4, 5), (3, 4)],
        {"hidden": None, "scale": 0.7},
    ),
    (
        "masked weights",
        attention_weights,
        [(2, 3, 5), (4, 5), (3, 4)],
        {"hidden": HIDDEN, "scale": 0.7},
    ),
    ("context", attention_context, [(2, 3, 4), (2, 4, 2)], {"hidden": None}),
    ("broadcast context", attention_context, [(3, 4), (2, 4, 2)], {"hidden": None}),
    *OF_ACTIVATIONS,
    ("embedding", embedding, [(4, 3)], {"tokens": np.array([[1, 3, 1], [0, 1, 3]])}),
    *OF_LOSSES,
    ("add", add, [(2, 1, 3), (4, 3)], {}),
    ("multiply", multiply, [(2, 3)], {"factor": 2.5}),
    ("reshape", reshape, [(2, 3)], {"shape": (3, 2)}),
    ("swap axes", swap_axes, [(2, 3, 4)], {"first": 0, "second": 1}),
    ("product", product, [(2, 3), (2, 3)], {}),
    ("rms norm", rms_norm, [(3, 5), (5,)], {"axes": 1, "eps": 1e-5}),
    ("rms norm of two axes", rms_norm, [(2, 3, 4), (3, 4)], {"axes": 2, "eps": 0.1}),
    *OF_ROTATIONS,
    ("probabilities", probabilities, [(3, 4)], {}),
    *OF_GATES,
    ("mixed", mixed, [(3, 2), (3, 4), (3, 4)], {}),
    ("balance", balance, [(3, 4)], {"parts": np.array([0.5, 0.0, 0.25, 0.25])}),
    ("rows", rows, [(5, 2)], {"start": 1, "stop": 3}),
    ("append row", append_row, [(2, 3, 4), (1, 1, 4)], {}),
    ("pad columns", pad_columns, [(2, 3)], {"columns": 2}),
    ("split heads", split_heads, [(2, 3, 4)], {"heads": 2}),
    ("merge heads", merge_heads, [(2, 2, 3, 2)], {}),
    ("repeat heads", repeat_heads, [(2, 2, 3, 2)], {"times": 3}),
    ("mean", mean_over, [(2, 3, 4)], {"axis": 1}),
]


def finite_difference(function: Callable[[], np.longdouble], x: Array) -> Array:
    """The gradient with respect to `x`, by the central formula of fourth order."""
    step = np.longdouble(2) ** -12
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        middle, values = x[index], {}
        for steps in (-2, -1, 1, 2):
            x[index] = middle + steps * step
            values[steps] = function()
        x[index] = middle
        gradient[index] = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * step)
    return gradient


@pytest.mark.skipif(np.finfo(np.longdouble).nmant + 1 < 64, reason="np.longdouble has fewer than 64 mantissa bits")
@pytest.mark.parametrize(("name", "primitive", "shapes", "options"), DIFFERENCES)
def test_vjp_is_the_finite_difference(
    name: str, primitive: Callable[..., Any], shapes: list[tuple[int, ...]], options: dict[str, Any]
) -> None:
    arrays = random_arrays(1, *shapes)
    if name.startswith("gates"):
        arrays = [np.abs(x) + 0.1 for x in arrays]
    if name == "relu":
        arrays = [x + 0.1 * np.sign(x) for x in arrays]
    value, vjp = primitive(*arrays, **options)
    (cotangent,) = random_arrays(2, value.shape)
    wide = [x.astype(np.longdouble) for x in arrays]

    def weighed() -> np.longdouble:
        found = primitive(*wide, **options)[0]
        assert found.dtype == np.longdouble
        return (cotangent * found).sum()

    for x, gradient in zip(wide, vjp(cotangent), strict=True):
        assert relative(gradient, finite_difference(weighed, x)) < 1e-12
