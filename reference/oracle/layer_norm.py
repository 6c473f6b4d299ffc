"""Layer normalisation."""

from __future__ import annotations

import numpy as np

from .tape import Array, Vjp


def layer_norm(x: Array, weight: Array | None, bias: Array | None, *, axes: int, eps: float) -> tuple[Array, Vjp]:
    """Centre and scale the last axes to mean 0 and variance 1, then map each entry affinely.

    Formula: `n = (x - mean(x)) / sqrt(var(x) + eps)`, `y = n * w + b`, the variance biased.
    With `dn = dy * w`: `dx = (dn - mean(dn) - n * mean(dn * n)) / sqrt(var(x) + eps)`,
    `dw = sum dy * n`, `db = sum dy`.

    Args:
        x: (..., *normalized_shape).
        weight: normalized_shape, or `None` for 1.
        bias: normalized_shape, or `None` for 0.
        axes: how many trailing axes are normalised together.
        eps: the constant inside the root.

    Returns:
        `y` in the shape of `x` and its vjp, which gives `dx`, `dw`, `db`.

    torch counterpart: torch.nn.functional.layer_norm.
    Source: Ba, Kiros, Hinton, "Layer Normalization", section 3, equations 3 and 4.
    """
    last = tuple(range(-axes, 0))
    leading = tuple(range(x.ndim - axes))
    # Two passes: E[x^2] - E[x]^2 would cancel when the mean is large beside the spread.
    centred = x - x.mean(axis=last, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(axis=last, keepdims=True) + eps)
    normal = centred / deviation
    value = normal if weight is None else normal * weight
    if bias is not None:
        value = value + bias

    def vjp(cotangent: Array) -> tuple[Array, Array | None, Array | None]:
        of_normal = cotangent if weight is None else cotangent * weight
        mean = of_normal.mean(axis=last, keepdims=True)
        along = (of_normal * normal).mean(axis=last, keepdims=True)
        of_weight = None if weight is None else (cotangent * normal).sum(axis=leading)
        of_bias = None if bias is None else cotangent.sum(axis=leading)
        return (of_normal - mean - normal * along) / deviation, of_weight, of_bias

    return value, vjp
