"""The gated feed-forward network with SiLU."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from . import checks
from .activations import silu
from .linear import Linear


class SwiGLU(Module):
    r"""Widen twice, let one branch open the other, narrow: :math:`W_2\,(\mathrm{silu}(W_1 x) \odot W_3 x)`.

    Three matrices instead of two: with d_ff = 8d/3 they hold the 8d² numbers of the usual network with d_ff = 4d.

    Args:
        d_model: d, features.
        d_ff: features between; None for 8d/3, rounded up.
        bias: whether the three projections have one.
        multiple_of: what a d_ff of None is rounded up to a multiple of.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: a size that is not positive.
        TypeError: a size that is no integer.

    Counterpart: none in torch.nn.
    Source: Shazeer 2020, "GLU Variants Improve Transformer", section 2.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int | None = None,
        bias: bool = False,
        multiple_of: int = 1,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        checks.positive("d_model", d_model)
        checks.positive("multiple_of", multiple_of)
        if d_ff is None:
            d_ff = -(-8 * d_model // (3 * multiple_of)) * multiple_of
        checks.positive("d_ff", d_ff)
        self.w1 = Linear(d_model, d_ff, bias, device, dtype)
        self.w2 = Linear(d_ff, d_model, bias, device, dtype)
        self.w3 = Linear(d_model, d_ff, bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) → (..., d_model)."""
        checks.trailing_shape("x", x, (self.w1.in_features,))
        checks.same_kind("x", x, "the parameters", self.w1.weight)
        return self.w2(silu(self.w1(x)) * self.w3(x))
