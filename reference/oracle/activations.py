"""The activations of the feed-forward block."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .tape import Array, Primitive, Vjp

_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_cdf(x: Array) -> Array:
    """The standard normal distribution function.

    Formula: `P(x) = erfc(-x / sqrt(2)) / 2`; beyond double precision the series
    `P(x) = 1/2 + p(x) * (x + x^3/3 + x^5/(3*5) + x^7/(3*5*7) + ...)`, `p` the density.

    Args:
        x: any shape.

    Returns:
        The probabilities, in the shape and precision of `x`.

    torch counterpart: torch.special.ndtr.
    Source: Marsaglia, "Evaluating the Normal Distribution", section 3.
    """
    if x.dtype == np.float64:
        # erfc and not 1 + erf: for negative x the sum would cancel.
        return np.asarray(_erfc(x * -math.sqrt(0.5)), dtype=np.float64) / 2
    term, total = x, x
    order = 1
    while np.any(np.abs(term) > np.finfo(x.dtype).eps * np.abs(total)):
        order += 2
        term = term * x * x / order
        total = total + term
    return np.asarray(x.dtype.type(0.5) + total * _normal_density(x))


def _normal_density(x: Array) -> Array:
    two_pi = 8 * np.arctan(x.dtype.type(1))
    return np.asarray(np.exp(-x * x / 2) / np.sqrt(two_pi))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def relu(x: Array) -> tuple[Array, Vjp]:
    """Keep what is positive.

    Formula: `y = max(x, 0)`; `dx = dy` where `x > 0`, else 0, at `x = 0` too.

    Args:
        x: any shape; NaN stays NaN.

    Returns:
        `y` and its vjp.

    torch counterpart: torch.nn.functional.relu.
    Source: Vaswani et al., "Attention Is All You Need", section 3.3.
    """
    # `x <= 0` is false for NaN: its cotangent passes, as the value did.
    return np.maximum(x, 0), lambda cotangent: (np.where(x <= 0, 0, cotangent),)


def gelu(x: Array) -> tuple[Array, Vjp]:
    """Weigh the input by the normal distribution function.

    Formula: `y = x P(x)`; `dx = dy (P(x) + x p(x))`, `p` the normal density.

    Args:
        x: any shape.

    Returns:
        `y` and its vjp.

    torch counterpart: torch.nn.functional.gelu(approximate="none").
    Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", section 2.
    """
    below = normal_cdf(x)
    return x * below, lambda cotangent: (cotangent * (below + x * _normal_density(x)),)


def gelu_tanh(x: Array) -> tuple[Array, Vjp]:
    """The tanh approximation of `gelu`.

    Formula: `u = sqrt(2/pi) (x + 0.044715 x^3)`, `y = x (1 + tanh u) / 2 = x s(2u)`, `s` the
    logistic function; `dx = dy (s + x s (1 - s) 2u')`.

    Args:
        x: any shape.

    Returns:
        `y` and its vjp.

    torch counterpart: torch.nn.functional.gelu(approximate="tanh").
    Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", section 2.
    """
    cubic = x.dtype.type(44715) / 1000000
    slope = np.sqrt(1 / (2 * np.arctan(x.dtype.type(1))))
    # The logistic form, because 1 + tanh u cancels for negative u.
    gate = _sigmoid(2 * slope * (x + cubic * x * x * x))

    def vjp(cotangent: Array) -> tuple[Array]:
        inner = 2 * slope * (1 + 3 * cubic * x * x)
        return (cotangent * (gate + x * gate * (1 - gate) * inner),)

    return x * gate, vjp


def silu(x: Array) -> tuple[Array, Vjp]:
    """Weigh the input by its logistic function.

    Formula: `y = x s(x)`, `s(x) = 1 / (1 + exp(-x))`; `dx = dy s (1 + x (1 - s))`.

    Args:
        x: any shape.

    Returns:
        `y` and its vjp.

    torch counterpart: torch.nn.functional.silu.
    Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", section 4.
    """
    gate = _sigmoid(x)
    return x * gate, lambda cotangent: (cotangent * gate * (1 + x * (1 - gate)),)


def gelu_sigmoid(x: Array) -> tuple[Array, Vjp]:
    """The logistic approximation of `gelu`.

    Formula: `y = x s(cx)`, `c = 1.702`, `s` the logistic function; `dx = dy s (1 + c x (1 - s))`.

    Args:
        x: any shape.

    Returns:
        `y` and its vjp.

    torch counterpart: none.
    Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", section 2.
    """
    slope = x.dtype.type(1702) / 1000
    gate = _sigmoid(slope * x)
    return x * gate, lambda cotangent: (cotangent * gate * (1 + slope * x * (1 - gate)),)


ACTIVATIONS: Final[dict[str, Primitive]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "gelu_sigmoid": gelu_sigmoid,
}
