"""Activation functions of the feed-forward network."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .precision import widen

Activation = Callable[[Tensor], Tensor]


def relu(input: Tensor) -> Tensor:
    r"""Rectify: :math:`\max(x, 0)`, with derivative 0 at 0 and NaN kept.

    Counterpart: `torch.nn.functional.relu`.
    """
    # What is not above 0 becomes 0. `clamp(min=0)` has derivative 1 at 0, `where(x > 0, x, 0)` would turn NaN into 0,
    # and a mask costs three passes over memory, several times as long.
    return torch.threshold(input, 0.0, 0.0)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    r"""Weigh the input by the normal distribution function: :math:`x\,\Phi(x)`.

    ``approximate="none"``: :math:`\tfrac{x}{2}\,(1 + \mathrm{erf}(x/\sqrt2))`;
    ``approximate="tanh"``: :math:`\tfrac{x}{2}\,(1 + \tanh(\sqrt{2/\pi}\,(x + 0.044715\,x^3)))`.

    Args:
        input: any shape.
        approximate: "none" or "tanh".

    Returns:
        The shape and dtype of `input`.

    Raises:
        ValueError: `approximate` is neither.

    Counterpart: `torch.nn.functional.gelu`.
    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
    """
    x = widen(input)
    if approximate == "none":
        y = 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))
    elif approximate == "tanh":
        y = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    else:
        raise ValueError(f"approximate: expected 'none' or 'tanh', got {approximate!r}")
    return y.to(input.dtype)


def silu(input: Tensor) -> Tensor:
    r"""Weigh the input by its logistic function: :math:`x\,\sigma(x)` with :math:`\sigma(x) = 1/(1 + e^{-x})`.

    Counterpart: `torch.nn.functional.silu`.
    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 4.
    """
    x = widen(input)
    return (x * torch.sigmoid(x)).to(input.dtype)


def gelu_sigmoid(input: Tensor) -> Tensor:
    r"""GELU with a logistic function in place of the normal one: :math:`x\,\sigma(1.702\,x)`, up to 0.021 from it.

    Counterpart: none in torch.nn.
    Source: Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
    """
    x = widen(input)
    return (x * torch.sigmoid(1.702 * x)).to(input.dtype)


NAMED: dict[str, Activation] = {"relu": relu, "gelu": gelu}


def resolve(activation: str | Activation) -> Activation:
    """The function that `activation` names, or the callable itself.

    Raises:
        ValueError: an unknown name.
        TypeError: neither a string nor callable.
    """
    if isinstance(activation, str):
        if activation not in NAMED:
            raise ValueError(f"activation: expected one of {sorted(NAMED)} or a callable, got {activation!r}")
        return NAMED[activation]
    if not callable(activation):
        raise TypeError(f"activation: expected a string or a callable, got {type(activation).__name__}")
    return activation
