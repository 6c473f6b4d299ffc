"""Rotary position codes."""

from __future__ import annotations

import numpy as np

from .tape import Array, Vjp


def rotary_turns(length: int, width: int, *, base: float, first: int) -> Array:
    """How far each pair of features is turned, as a complex number of modulus 1.

    Formula: `z[p, i] = exp(1j * p / base^(2i/D))`, p counted from `first`.

    Args:
        length: the number of positions L.
        width: the number of features D, even.
        base: of the wavelengths.
        first: the first position.

    Returns:
        z (L, D/2).

    Source: Su et al., "RoFormer", section 3.2.2.
    """
    places = first + np.arange(length)[:, None]
    return np.exp(1j * places / base ** (np.arange(0, width, 2) / width))


def rotate(x: Array, *, turns: Array, interleaved: bool) -> tuple[Array, Vjp]:
    """Turn pairs of features in their planes.

    Formula: `y = z (a + b j)` for a pair (a, b); the vjp turns back: `dx = conj(z) dy`.

    Args:
        x: (..., L, D).
        turns: z (L, D/2).
        interleaved: whether a pair is (2i, 2i + 1) and not (i, i + D/2).

    Returns:
        `y` in the shape of `x` and its vjp.

    torch counterpart: none.
    Source: Su et al., "RoFormer", equations 12 and 15.
    """
    cos, sin = turns.real.astype(x.dtype), turns.imag.astype(x.dtype)
    half = x.shape[-1] // 2
    evens, odds = (np.s_[..., ::2], np.s_[..., 1::2]) if interleaved else (np.s_[..., :half], np.s_[..., half:])

    def turned(values: Array, sine: Array) -> Array:
        made = np.empty_like(values)
        made[evens] = values[evens] * cos - values[odds] * sine
        made[odds] = values[evens] * sine + values[odds] * cos
        return made

    return turned(x, sin), lambda cotangent: (turned(cotangent, -sin),)
