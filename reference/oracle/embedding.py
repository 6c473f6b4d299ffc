"""Token embedding and sinusoidal positions."""

from __future__ import annotations

import numpy as np

from .tape import Array, Vjp


def embedding(weight: Array, *, tokens: Array, padding_idx: int | None = None) -> tuple[Array, Vjp]:
    """Look up one row of the table for every token.

    Formula: `y[i] = W[t_i]`; `dW[v] = sum of dy[i] over t_i = v`, 0 at `padding_idx`.

    Args:
        weight: (V, E).
        tokens: integers, any shape, 0 <= t < V.
        padding_idx: the row that no gradient reaches, or `None`.

    Returns:
        `y` (*tokens, E) and its vjp, which gives `dW`.

    Raises:
        ValueError: a token is outside the table.

    torch counterpart: torch.nn.functional.embedding.
    Source: Vaswani et al., "Attention Is All You Need", section 3.4.
    """
    outside = (tokens < 0) | (tokens >= len(weight))
    if outside.any():
        raise ValueError(
            f"argument 'input': expected tokens from 0 to {len(weight) - 1}, got {tokens[outside].flat[0]}"
        )

    def vjp(cotangent: Array) -> tuple[Array]:
        of_weight = np.zeros_like(weight)
        np.add.at(of_weight, tokens, cotangent)
        if padding_idx is not None:
            of_weight[padding_idx] = 0
        return (of_weight,)

    return weight[tokens], vjp


def sinusoidal_positions(length: int, width: int) -> Array:
    """The table of sines and cosines that tells positions apart.

    Formula: `P[p, 2i] = sin(p / 10000^(2i/E))`, `P[p, 2i+1] = cos(p / 10000^(2i/E))`.

    Args:
        length: the number of positions L.
        width: the number of features E; an odd one ends in a sine.

    Returns:
        P (L, E).

    torch counterpart: none; torch's tutorials build it by hand.
    Source: Vaswani et al., "Attention Is All You Need", section 3.5.
    """
    features = np.arange(width)
    even = features - features % 2
    angles = np.arange(length)[:, None] / 10000.0 ** (even / width)
    return np.where(features % 2 == 0, np.sin(angles), np.cos(angles))
