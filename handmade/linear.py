"""The affine projection."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""Project the last dimension: :math:`y = x W^T + b`.

    Args:
        input: (..., in_features).
        weight: (out_features, in_features).
        bias: (out_features,) or None.

    Returns:
        (..., out_features).

    Counterpart: `torch.nn.functional.linear`.
    """
    # The number of rows is spelt out: -1 is ambiguous where there are no features.
    rows = input.reshape(math.prod(input.shape[:-1]), input.size(-1)) if input.dim() != 2 else input
    # addmm rounds the sum of product and bias once, which a product followed by `+` would not.
    flat = torch.mm(rows, weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())
    return flat.reshape(*input.shape[:-1], weight.size(0))


class Linear(Module):
    """An affine projection with torch's names, shapes and initial values.

    Weights start uniform in ±1/√in_features, and so do biases.

    Counterpart: `torch.nn.Linear`.
    Source: He et al. 2015, "Delving Deep into Rectifiers", with gain for a = √5.
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values, in torch's order."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_features) → (..., out_features)."""
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
