"""Layer normalisation."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init

from . import checks, transforms
from .normalization_function import LayerNormalization, affine, normalize
from .precision import widen


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    r"""Normalise each vector to mean 0 and variance 1: :math:`y = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot \gamma + \beta`.

    :math:`\sigma^2` is the biased variance (divided by d), taken after the mean in a second pass, so that a
    large mean costs no digits; :math:`\epsilon` stands inside the root.

    Args:
        input: (..., *normalized_shape).
        normalized_shape: the trailing dimensions that share one mean and variance.
        weight: γ, of normalized_shape, or None for 1.
        bias: β, of normalized_shape, or None for 0.
        eps: ε.

    Returns:
        The shape and dtype of `input`, contiguous in memory as torch's is (dropout's draws depend on it).

    Raises:
        ValueError: the trailing dimensions are not normalized_shape, a dtype that is not the parameters'.

    Counterpart: `torch.nn.functional.layer_norm`.
    Source: Ba et al. 2016, "Layer Normalization", section 3.
    """
    checks.trailing_shape("input", input, normalized_shape)
    for parameter in (weight, bias):
        if parameter is not None:
            checks.normalized_kind("input", input, parameter)
    dims = tuple(range(-len(normalized_shape), 0))
    x = widen(input.contiguous())
    weight, bias = (None if parameter is None else widen(parameter) for parameter in (weight, bias))
    if transforms.functions_apply(x, weight, bias):
        y = LayerNormalization.apply(x, weight, bias, dims, eps)
    else:
        y = affine(normalize(x, dims, eps)[0], weight, bias)
    return y.to(input.dtype)


class LayerNorm(Module):
    """Layer normalisation with a learnt scale and shift.

    Counterpart: `torch.nn.LayerNorm`.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        sizes = checks.sizes("normalized_shape", normalized_shape)
        checks.number("eps", eps)
        self.normalized_shape = sizes
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            value = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(..., *normalized_shape) → the same shape."""
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
