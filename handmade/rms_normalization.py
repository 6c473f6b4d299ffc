"""Normalisation by the root mean square."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init

from . import checks
from .precision import widen


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    r"""Divide each vector by its root mean square: :math:`y = \frac{x}{\sqrt{\frac1d\sum_i x_i^2 + \epsilon}} \odot \gamma`.

    No mean is subtracted and nothing is added, so a vector of equal numbers stays one of equal numbers.

    Args:
        input: (..., *normalized_shape).
        normalized_shape: the trailing dimensions that share one root mean square.
        weight: γ, of normalized_shape, or None for 1.
        eps: ε; None for the rounding unit of the precision that it is computed in (float32 for halves).

    Returns:
        The shape and dtype of `input`.

    Raises:
        ValueError: the trailing dimensions are not normalized_shape, a dtype that is not the parameter's.
        TypeError: an input that is not floating.

    Counterpart: `torch.nn.functional.rms_norm`.
    Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", section 4.
    """
    checks.trailing_shape("input", input, normalized_shape)
    checks.floating("input", input)
    if weight is not None:
        checks.normalized_kind("input", input, weight)
    x = widen(input)
    mean_square = (x * x).mean(tuple(range(-len(normalized_shape), 0)), keepdim=True)
    y = x * torch.rsqrt(mean_square + (torch.finfo(x.dtype).eps if eps is None else eps))
    return (y if weight is None else y * weight).to(input.dtype)


class RMSNorm(Module):
    """Normalisation by the root mean square with a learnt scale, which starts at 1.

    Args:
        normalized_shape: the trailing dimensions that are normalised together.
        eps: beside the mean square; None for the rounding unit.
        elementwise_affine: whether there is a scale.
        device: of the scale.
        dtype: of the scale.

    Raises:
        ValueError: a negative size.
        TypeError: a size that is no integer, an eps that is no number.

    Counterpart: `torch.nn.RMSNorm`.
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = checks.sizes("normalized_shape", normalized_shape)
        if eps is not None:
            checks.number("eps", eps)
        self.normalized_shape = sizes
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        value = torch.empty(self.normalized_shape, device=device, dtype=dtype) if elementwise_affine else None
        self.register_parameter("weight", None if value is None else Parameter(value))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(..., *normalized_shape) → the same shape."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
