"""Attention masks: their two polarities, their union, and the causal one.

torch.nn's modules hide where a boolean mask is True; `scaled_dot_product_attention` keeps where it is True.
A floating mask is added to the scores in both. Inside this package a mask of the second polarity is called
`keep`, one of the first `hidden`.
"""

import torch
from torch import Tensor

from . import checks, transforms


def generate_square_subsequent_mask(
    sz: int, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """The causal mask of a self-attention, to be added to its scores: −∞ above the diagonal, 0 elsewhere.

    Args:
        sz: the length.
        device: where; None for torch's default.
        dtype: of the mask; None for torch's default. `torch.bool` gives the boolean mask, True = hidden.

    Returns:
        (sz, sz).

    Counterpart: `torch.nn.Transformer.generate_square_subsequent_mask`.
    """
    checks.not_negative("sz", sz)
    return torch.full((sz, sz), -torch.inf, device=device, dtype=dtype).triu(1)


def causal_keep(queries: int, keys: int, device: torch.device) -> Tensor:
    """The causal mask of `scaled_dot_product_attention`, aligned at the upper left: query i keeps keys 0 … i.

    Returns:
        (queries, keys), True = keep.
    """
    return torch.ones(queries, keys, device=device, dtype=torch.bool).tril()


def is_causal_mask(mask: Tensor | None, is_causal: bool | None, size: int) -> bool:
    """Whether `mask` is the causal mask of length `size`: the caller's word where there is one, else by comparison.

    The answer is a hint for the layers, never a mask of its own. A mask without values (the meta device) and
    one under compilation are not looked into: a branch on their content would break the graph, and the mask
    alone decides anyway.

    Counterpart: the detection in `torch.nn.TransformerEncoder` and `TransformerDecoder`.
    """
    if is_causal is not None or mask is None:
        return bool(is_causal)
    if mask.device.type == "meta" or transforms.compiling() or tuple(mask.shape) != (size, size):
        return False
    if mask.dtype != torch.bool and not mask.is_floating_point():
        return False  # the layers refuse it
    causal = generate_square_subsequent_mask(size, device=mask.device, dtype=mask.dtype)
    return bool((mask == causal).all())


def merge(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, batch: int, heads: int, dtype: torch.dtype
) -> Tensor | None:
    """One mask, in the polarity of `scaled_dot_product_attention`, from the two of `torch.nn.MultiheadAttention`.

    A key is hidden where either mask hides it; floating masks add up. Two boolean masks stay boolean.

    Args:
        attn_mask: (L, S) or (batch·heads, L, S), batch-major; True = hidden, or added to the scores.
        key_padding_mask: (batch, S); True = hidden, or added to the scores.
        batch: number of sequences.
        heads: number of heads.
        dtype: of the scores.

    Returns:
        None, or a mask that broadcasts to (batch, heads, L, S): True = keep, or to be added.
    """
    masks = []
    if attn_mask is not None:
        masks.append(attn_mask if attn_mask.dim() == 2 else attn_mask.reshape(batch, heads, *attn_mask.shape[1:]))
    if key_padding_mask is not None:
        masks.append(key_padding_mask[:, None, None, :])
    if not masks:
        return None
    if all(mask.dtype == torch.bool for mask in masks):
        return ~masks[0] if len(masks) == 1 else ~(masks[0] | masks[1])
    return sum_of([additive(mask, dtype) for mask in masks])


def sum_of(masks: list[Tensor]) -> Tensor:
    """The sum of one or two additive masks."""
    return masks[0] if len(masks) == 1 else masks[0] + masks[1]


def additive(hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask of torch.nn as one to be added: True becomes −∞ and False 0, a floating mask stays what it is."""
    if hidden.dtype != torch.bool:
        return hidden.to(dtype)
    return torch.zeros(hidden.shape, device=hidden.device, dtype=dtype).masked_fill(hidden, -torch.inf)


def apply(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The scores under a mask in the polarity of `scaled_dot_product_attention`.

    Args:
        scores: (..., L, S).
        mask: broadcasts to the scores; True = keep and the rest becomes −∞, or added; None for no mask.
    """
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.to(scores.dtype)


def hidden_keys(key_padding_mask: Tensor) -> Tensor:
    """The keys that a padding mask removes entirely: True, or −∞ in a floating mask."""
    return key_padding_mask if key_padding_mask.dtype == torch.bool else key_padding_mask == -torch.inf


def silence(key_padding_mask: Tensor | None, *projected: Tensor) -> tuple[Tensor, ...]:
    """Projected keys or values with 0 where the padding mask removes them, batch first.

    A weight of 0 does not silence NaN or infinity, since 0 · ∞ is NaN: the rows must go.

    Args:
        key_padding_mask: (N, S), or None.
        projected: (N, S, features) each.
    """
    if key_padding_mask is None:
        return projected
    gone = hidden_keys(key_padding_mask).unsqueeze(-1)
    return tuple(x.masked_fill(gone, 0.0) for x in projected)


def visible_columns(mask: Tensor | None, columns: int) -> Tensor | None:
    """The mask of torch.nn with `columns` more keys at the end, which nothing hides."""
    if mask is None or columns == 0:
        return mask
    return torch.cat([mask, mask.new_zeros(*mask.shape[:-1], columns)], dim=-1)
