"""Scaled dot-product attention, as it is defined."""

import math

from torch import Tensor

from . import dropout, masks, softmax
from .precision import accumulation_dtype


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Average the values, weighted by how well their keys fit the query: :math:`\mathrm{softmax}(s\,QK^T + M)\,V`.

    Args:
        query: (..., L, E).
        key: (..., S, E).
        value: (..., S, Ev).
        attn_mask: broadcasts to (..., L, S); True = keep, or added to the scores; None for no mask.
        dropout_p: probability with which a weight is dropped, always applied.
        scale: s; None for 1/√E.

    Returns:
        The context (..., L, Ev) and the weights (..., L, S), after dropout, both in the query's dtype.
        A dead row, which sees no key, has weights 0 and context 0.

    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1.
    """
    dtype = accumulation_dtype(query.dtype)
    if scale is None:
        # Without features all scores are 0, whatever the scale.
        scale = 1 / math.sqrt(query.size(-1) or 1)
    scores = (query.to(dtype) * scale) @ key.to(dtype).transpose(-2, -1)
    weights = softmax.softmax(masks.apply(scores, attn_mask))
    weights = dropout.dropout(weights, dropout_p)
    context = weights @ value.to(dtype)
    return context.to(query.dtype), weights.to(query.dtype)
