"""The affine map."""

from __future__ import annotations

import numpy as np

from .products import visible_product
from .tape import Array, Vjp


def linear(x: Array, weight: Array, bias: Array | None, *, unread: Array | None = None) -> tuple[Array, Vjp]:
    """Map the last axis by a matrix and a shift.

    Formula: `y = x W^T + b`; `dx = dy W`, `dW = dy^T x`, `db = sum dy`, the sums running
    over every position.

    Args:
        x: (..., I).
        weight: (O, I).
        bias: (O,) or `None`.
        unread: bool, shape of `y`, True = no later step reads this entry (a key that is
            hidden from every query). Its products are left out of the gradients, so that
            a NaN in `x` there reaches none of them; `None` = all are read.

    Returns:
        `y` (..., O) and its vjp, which gives `dx`, `dW`, `db`.

    torch counterpart: torch.nn.functional.linear.
    """
    value = x @ weight.T
    if bias is not None:
        value = value + bias

    def vjp(cotangent: Array) -> tuple[Array, Array, Array | None]:
        if unread is not None:
            cotangent = np.where(unread, 0, cotangent)
        outputs, inputs = weight.shape
        flat = cotangent.reshape(-1, outputs)
        skipped = None if unread is None else unread.reshape(-1, outputs).T
        of_weight = visible_product(flat.T, x.reshape(-1, inputs), skipped)
        of_bias = None if bias is None else flat.sum(axis=0)
        return cotangent @ weight, of_weight, of_bias

    return value, vjp
