"""The matrix product that leaves hidden terms out."""

from __future__ import annotations

import numpy as np

from .tape import Array


def visible_product(left: Array, right: Array, hidden: Array | None) -> Array:
    """The matrix product over the visible terms only.

    Formula: `y[i, j] = sum over k with not hidden[i, k] of left[i, k] * right[k, j]`.

    Args:
        left: (..., I, K), exactly 0 wherever `hidden` is True.
        right: (..., K, J); it may hold NaN or infinity.
        hidden: bool, shape of `left`, True = hidden; `None` = every term is visible.

    Returns:
        (..., I, J).

    torch counterpart: torch.matmul, which keeps `0 * NaN = NaN`.
    """
    # A hidden factor is 0 already, so it takes a non-finite partner to spoil the plain product.
    if hidden is None or np.isfinite(right).all():
        return np.asarray(left @ right)
    terms = left[..., :, :, None] * right[..., None, :, :]
    return np.asarray(np.where(hidden[..., None], 0, terms).sum(axis=-2))
