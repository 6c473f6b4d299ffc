"""Normalisation by the root mean square."""

from __future__ import annotations

import numpy as np

from .tape import Array, Vjp


def rms_norm(x: Array, weight: Array | None, *, axes: int, eps: float) -> tuple[Array, Vjp]:
    """Divide the last axes by their root mean square, then scale each entry.

    Formula: `r = sqrt(mean(x^2) + eps)`, `n = x / r`, `y = n * w`. With `dn = dy * w`:
    `dx = (dn - n * mean(dn * n)) / r`, `dw = sum dy * n`.

    Args:
        x: (..., *normalized_shape).
        weight: normalized_shape, or `None` for 1.
        axes: how many trailing axes are normalised together.
        eps: the constant inside the root.

    Returns:
        `y` in the shape of `x` and its vjp, which gives `dx`, `dw`.

    torch counterpart: torch.nn.functional.rms_norm.
    Source: Zhang, Sennrich, "Root Mean Square Layer Normalization", section 4, equation 4.
    """
    last = tuple(range(-axes, 0))
    leading = tuple(range(x.ndim - axes))
    root = np.sqrt((x * x).mean(axis=last, keepdims=True) + eps)
    normal = x / root
    value = normal if weight is None else normal * weight

    def vjp(cotangent: Array) -> tuple[Array, Array | None]:
        of_normal = cotangent if weight is None else cotangent * weight
        along = (of_normal * normal).mean(axis=last, keepdims=True)
        of_weight = None if weight is None else (cotangent * normal).sum(axis=leading)
        return (of_normal - normal * along) / root, of_weight

    return value, vjp
