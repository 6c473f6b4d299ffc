"""The attention core: weights from queries and keys, contexts from weights and values."""

from __future__ import annotations

import numpy as np

from .products import visible_product
from .shapes import unbroadcast
from .tape import Array, Vjp


def softmax(scores: Array, hidden: Array | None) -> Array:
    """Normalised exponentials over the last axis, among the visible entries.

    Formula: `w[j] = exp(s[j] - m) / sum_k exp(s[k] - m)`, `m` the largest visible score;
    `w[j] = 0` where hidden, and so everywhere in a row without a visible entry.

    Args:
        scores: (..., L, S).
        hidden: bool, shape of `scores`, True = hidden; `None` = all visible.

    Returns:
        The weights, in the shape of `scores`.

    torch counterpart: torch.softmax, which gives NaN in a row that is -inf throughout.
    """
    if hidden is None:
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
    scores = np.where(hidden, -np.inf, scores)
    # Zero by the mask and not by the value: a dead row is 0/0 here, and a visible score of -inf
    # or NaN that came out of the data keeps what IEEE rules make of it.
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
        return np.where(hidden, 0, powers / powers.sum(axis=-1, keepdims=True))


def attention_weights(
    query: Array,
    key: Array,
    additive: Array | None,
    *,
    hidden: Array | None,
    scale: float | np.floating,
) -> tuple[Array, Vjp]:
    """How much each query reads of each key.

    Formula: `W = softmax(scale Q K^T + M)`; with `dS = W * (dW - sum_j W dW)`:
    `dQ = scale dS K`, `dK = scale dS^T Q`, `dM = dS`.

    Args:
        query: (..., L, E).
        key: (..., S, E); the leading axes broadcast.
        additive: M, broadcastable to (..., L, S), or `None`; -inf must be in `hidden` too.
        hidden: bool, broadcastable to (..., L, S), True = hidden; `None` = all visible.
        scale: the factor on the products.

    Returns:
        W (..., L, S) and its vjp, which gives `dQ`, `dK`, `dM`.

    torch counterpart: the first half of torch.nn.functional.scaled_dot_product_attention.
    Source: Vaswani et al., "Attention Is All You Need", section 3.2.1, equation 1.
    """
    scores = query @ key.swapaxes(-1, -2) * scale
    if additive is not None:
        scores = scores + additive
    if hidden is not None:
        # A bool mask may have more leading axes than query and key have.
        shape = np.broadcast_shapes(scores.shape, hidden.shape)
        scores, hidden = np.broadcast_to(scores, shape), np.broadcast_to(hidden, shape)
    weights = softmax(scores, hidden)

    def vjp(cotangent: Array) -> tuple[Array, Array, Array | None]:
        if hidden is not None:
            cotangent = np.where(hidden, 0, cotangent)
        mean = (weights * cotangent).sum(axis=-1, keepdims=True)
        of_scores = weights * (cotangent - mean)
        turned = None
        if hidden is not None:
            of_scores = np.where(hidden, 0, of_scores)
            turned = hidden.swapaxes(-1, -2)
        of_query = visible_product(of_scores, key, hidden) * scale
        of_key = visible_product(of_scores.swapaxes(-1, -2), query, turned) * scale
        of_additive = None if additive is None else unbroadcast(of_scores, additive.shape)
        return unbroadcast(of_query, query.shape), unbroadcast(of_key, key.shape), of_additive

    return weights, vjp


def attention_context(weights: Array, value: Array, *, hidden: Array | None) -> tuple[Array, Vjp]:
    """The mixture of values that each query reads.

    Formula: `C = W V`, hidden terms left out; `dW = dC V^T`, 0 where hidden; `dV = W^T dC`.

    Args:
        weights: (..., L, S), 0 wherever hidden.
        value: (..., S, Ev); the leading axes broadcast.
        hidden: bool, broadcastable to (..., L, S), True = hidden; `None` = all visible.

    Returns:
        C (..., L, Ev) and its vjp, which gives `dW`, `dV`.

    torch counterpart: the second half of torch.nn.functional.scaled_dot_product_attention.
    Source: Vaswani et al., "Attention Is All You Need", section 3.2.1, equation 1.
    """
    if hidden is not None:
        hidden = np.broadcast_to(hidden, weights.shape)
    context = visible_product(weights, value, hidden)

    def vjp(cotangent: Array) -> tuple[Array, Array]:
        of_weights = cotangent @ value.swapaxes(-1, -2)
        turned = None
        if hidden is not None:
            of_weights = np.where(hidden, 0, of_weights)
            turned = hidden.swapaxes(-1, -2)
        of_value = visible_product(weights.swapaxes(-1, -2), cotangent, turned)
        return unbroadcast(of_weights, weights.shape), unbroadcast(of_value, value.shape)

    return context, vjp
