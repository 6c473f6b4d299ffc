"""The mixture of experts as a dense loop: every expert sees every token, and gates of zero leave most of it out."""

from __future__ import annotations

import numpy as np

from .attention import softmax
from .tape import Array, Vjp


def probabilities(logits: Array) -> tuple[Array, Vjp]:
    """The softmax over the last axis (torch.softmax).

    Formula: `p = exp(s - max s) / sum`; `ds = p * (dp - sum_j p dp)`.
    """
    value = softmax(logits, None)

    def vjp(cotangent: Array) -> tuple[Array]:
        return (value * (cotangent - (value * cotangent).sum(axis=-1, keepdims=True)),)

    return value, vjp


def choices(given: Array, top_k: int) -> Array:
    """The k most probable experts of each token, the first of equals first.

    Args:
        given: probabilities (T, E).
        top_k: k.

    Returns:
        (T, k).

    Source: Shazeer et al., "Outrageously Large Neural Networks", section 2.1.
    """
    return np.argsort(-given, axis=-1, kind="stable")[:, :top_k]


def admitted(chosen: Array, experts: int, capacity: int | None) -> Array:
    """Which choices find room: all tokens' first choices come before the second ones, each in the tokens' order.

    Args:
        chosen: (T, k).
        experts: E.
        capacity: tokens that one expert takes, or `None` for all.

    Returns:
        bool (T, E).

    Source: Lepikhin et al., "GShard", algorithm 1.
    """
    places = np.zeros((len(chosen), experts), dtype=bool)
    taken = [0] * experts
    for rank in range(chosen.shape[1]):
        for token, expert in enumerate(chosen[:, rank]):
            places[token, expert] = capacity is None or taken[expert] < capacity
            taken[expert] += 1
    return places


def gates(given: Array, *, chosen: Array, kept: Array, renormalize: bool) -> tuple[Array, Vjp]:
    """The weight of each expert for each token.

    Formula: `g = kept * p / s`, `s` the sum of p over the chosen experts, or 1;
    `dp = kept * dg / s - chosen * sum_j(kept dg p)_j / s^2`, the second term with s alone.

    Args:
        given: p (T, E).
        chosen: bool (T, E).
        kept: bool (T, E), those of the chosen that have room.
        renormalize: whether the gates of all chosen experts sum to 1.

    Returns:
        g (T, E) and its vjp.

    Source: Shazeer et al., "Outrageously Large Neural Networks", section 2.1.
    """
    total = np.where(chosen, given, 0).sum(axis=-1, keepdims=True) if renormalize else np.ones_like(given[:, :1])
    value = np.where(kept, given, 0) / total

    def vjp(cotangent: Array) -> tuple[Array]:
        of_given = np.where(kept, cotangent, 0) / total
        if renormalize:
            of_given = of_given - np.where(chosen, (cotangent * value).sum(axis=-1, keepdims=True) / total, 0)
        return (of_given,)

    return value, vjp


def mixed(weights: Array, *outputs: Array) -> tuple[Array, Vjp]:
    """The experts' outputs, weighted and added up.

    Formula: `y[t] = sum_e g[t, e] f_e[t]`; `dg[t, e] = dy[t] . f_e[t]`, `df_e[t] = g[t, e] dy[t]`.

    Args:
        weights: g (T, E).
        outputs: E arrays (T, D).

    Returns:
        y (T, D) and its vjp.
    """
    stacked = np.stack(outputs, axis=1)

    def vjp(cotangent: Array) -> tuple[Array, ...]:
        of_weights = (stacked * cotangent[:, None]).sum(axis=-1)
        return of_weights, *(weights[:, expert, None] * cotangent for expert in range(len(outputs)))

    return (weights[..., None] * stacked).sum(axis=1), vjp


def balance(given: Array, *, parts: Array) -> tuple[Array, Vjp]:
    """The load-balancing loss.

    Formula: `l = E sum_e f_e mean_t p[t, e]`; `dp[t, e] = dl E f_e / T`.

    Args:
        given: p (T, E).
        parts: f (E,), the part of the choices that fell on each expert; constant.

    Returns:
        l and its vjp.

    Source: Fedus, Zoph, Shazeer, "Switch Transformers", equations 4 to 6.
    """
    tokens, experts = given.shape
    value = np.asarray(experts * (parts * given.mean(axis=0)).sum())
    return value, lambda cotangent: (np.broadcast_to(cotangent * experts * parts / tokens, given.shape),)
