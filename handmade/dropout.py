"""Dropout, drawn as torch draws it."""

import torch
from torch import Tensor
from torch.nn import Module

from . import checks


def dropout(input: Tensor, p: float, training: bool = True) -> Tensor:
    r"""Zero each element with probability p and scale the rest: :math:`y = x \odot b / (1 - p)`, :math:`b \sim B(1 - p)`.

    The rule for equal draws: on the CPU torch fills an uninitialised tensor *of the input's strides* with
    Bernoulli draws, in the order of its memory. So equal seeds give equal outcomes exactly when this is
    called at the same places, in the same order, on tensors with the same strides: the attention output
    is sequence-major even where batch comes first, and a layer norm's output is contiguous. It holds in
    eager mode; a compiler may draw otherwise.

    Args:
        input: any shape.
        p: probability of zero, in [0, 1].
        training: False returns the input itself.

    Counterpart: `torch.nn.functional.dropout`.
    Source: Srivastava et al. 2014, "Dropout"; the inverted scaling keeps the mean.
    """
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        return input * torch.zeros_like(input)
    keep = torch.empty_like(input).bernoulli_(1 - p)
    return input * keep.div_(1 - p)


class Dropout(Module):
    """`dropout` with its probability, active in train mode only.

    Counterpart: `torch.nn.Dropout`.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        checks.probability("p", p)
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        """Any shape → the same shape."""
        return dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"p={self.p}"
