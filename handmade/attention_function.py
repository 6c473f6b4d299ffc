"""Scaled dot-product attention with torch's interface: arguments checked, heads grouped."""

import torch
from torch import Tensor

from . import attention_core, checks


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""Scaled dot-product attention with torch's arguments: :math:`\mathrm{softmax}(s\,QK^T + M)\,V`.

    Args:
        query: (..., L, E).
        key: (..., S, E); batch dimensions broadcast.
        value: (..., S, Ev).
        attn_mask: broadcasts to (..., L, S); True = keep (the opposite of torch.nn's modules), or added.
        dropout_p: probability with which a weight is dropped; applied always, there is no train mode here.
        is_causal: query i sees keys 0 … i, aligned at the upper left when L ≠ S.
        scale: s; None for 1/√E.
        enable_gqa: each key and value head (dimension −3) serves a group of consecutive query heads.

    Returns:
        (..., L, Ev). A dead row, which sees no key, is 0.

    Raises:
        ValueError: shapes that do not fit, both attn_mask and is_causal, head counts that do not divide.
        TypeError: tensors that are not floating, a mask that is neither boolean nor floating.

    Counterpart: `torch.nn.functional.scaled_dot_product_attention`.
    Source: Vaswani et al. 2017, equation 1; grouped heads: Ainslie et al. 2023, "GQA", section 2.
    """
    _check(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if scale is not None:
        checks.number("scale", scale)
    if enable_gqa:
        key, value = (repeat_heads(x, query.size(-3)) for x in (key, value))
    return attention_core.attend(query, key, value, attn_mask, dropout_p, scale, is_causal)[0]


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """(..., groups, S, E) → (..., heads, S, E): each group repeated for its consecutive query heads."""
    return x.repeat_interleave(heads // x.size(-3), dim=-3)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        checks.floating(name, x)
        if x.dim() < (3 if enable_gqa else 2):
            raise ValueError(f"{name}: expected at least {3 if enable_gqa else 2} dimensions, got {x.dim()}")
        checks.same_kind(name, x, "query", query)
    checks.probability("dropout_p", dropout_p)
    checks.matching("key", key, "query", query, [-1], "feature size")
    checks.matching("value", value, "key", key, [-2], "length")
    if enable_gqa:
        checks.matching("value", value, "key", key, [-3], "number of heads")
        checks.divisible("query's number of heads", query.size(-3), "key's number of heads", key.size(-3))
    batches = [x.shape[: -3 if enable_gqa else -2] for x in (query, key, value)]
    try:
        batch = batches[0] if batches[0] == batches[1] == batches[2] else torch.broadcast_shapes(*batches)
    except RuntimeError:
        shapes = ", ".join(str(tuple(sizes)) for sizes in batches)
        raise ValueError(f"query, key, value: expected batch dimensions that broadcast, got {shapes}") from None
    if attn_mask is None:
        return
    checks.mask_kind("attn_mask", attn_mask, query)
    if is_causal:
        raise ValueError("attn_mask: expected None together with is_causal=True, got a mask")
    if attn_mask.dim() < 2:
        raise ValueError(f"attn_mask: expected at least 2 dimensions, (L, S) last, got {attn_mask.dim()}")
    heads = query.shape[-3:-2] if enable_gqa else ()
    scores = (*batch, *heads, query.size(-2), key.size(-2))
    try:
        fits = tuple(torch.broadcast_shapes(attn_mask.shape, scores)) == scores
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"attn_mask: expected a shape that broadcasts to {scores}, got {tuple(attn_mask.shape)}")
