"""Faults of the masks in the modules."""

from typing import Any

import torch
from torch import Tensor

from .changes import Came, Right, given, instead
from .fault import Fault
from .seams import (
    ATTENTION,
    CROSS_ATTENTION,
    DECODER_LAYER,
    ENCODER_LAYER,
    MERGE_MASKS,
    MODULES,
    MULTIHEAD,
    SELF_ATTENTION,
    TRANSFORMER,
)


def _nothing(came: Came) -> None:
    return None


def _no(came: Came) -> bool:
    return False


def _first_items(came: Came) -> Tensor | None:
    padding = came.key_padding_mask
    return padding if padding is None or padding.dim() == 1 else padding[:1].expand_as(padding)


def _any_items(came: Came) -> Tensor | None:
    padding = came.key_padding_mask
    if padding is None or padding.dim() == 1:
        return padding
    shared = padding.any(0) if padding.dtype == torch.bool else padding.amin(0)
    return shared.expand_as(padding)


def _per_query(came: Came) -> Tensor | None:
    """A mask of keys alone, turned to the queries where there are as many."""
    mask = came.attn_mask
    of_keys = mask is not None and mask.size(-2) == 1 and came.query.size(-2) == came.key.size(-2)
    return mask.transpose(-2, -1) if of_keys else mask


def _merged_by_and(right: Right, came: Came) -> Any:
    whole = right(**vars(came))
    both = came.attn_mask is not None and came.key_padding_mask is not None
    if not both or whole.dtype != torch.bool:
        return whole
    alone = ({**vars(came), name: None} for name in ("attn_mask", "key_padding_mask"))
    one, other = (right(**arguments) for arguments in alone)
    return one | other


def _heads_first(came: Came) -> Tensor | None:
    mask = came.attn_mask
    if mask is None or mask.dim() == 2:
        return mask
    return mask.reshape(came.heads, came.batch, *mask.shape[1:]).transpose(0, 1).reshape(mask.shape)


def _in_place(right: Right, came: Came) -> Any:
    mask = came.attn_mask
    alone = mask is not None and mask.dtype == torch.bool and came.key_padding_mask is None
    # The polarity is turned where the mask stands, and turned back by nobody.
    return right(**{**vars(came), "attn_mask": ~mask.logical_not_()}) if alone else right(**vars(came))


def _causal_where_told(came: Came) -> Tensor | None:
    if not came.is_causal:
        return came.attn_mask
    return torch.ones(came.attn_mask.shape[-2:], dtype=torch.bool).triu(1)


FAULTS = (
    Fault(
        "src mask ignored",
        "The encoder layer attends without src_mask.",
        ("MASK-20", "MASK-01", "MASK-02"),
        {f"{ENCODER_LAYER}.forward": given(src_mask=_nothing, is_causal=_no)},
        (*SELF_ATTENTION, "transformer"),
    ),
    Fault(
        "tgt mask ignored",
        "The decoder layer attends to its target without tgt_mask.",
        ("MASK-20", "CAUSAL-03", "MASK-01"),
        {f"{DECODER_LAYER}.forward": given(tgt_mask=_nothing, tgt_is_causal=_no)},
        CROSS_ATTENTION,
    ),
    Fault(
        "memory mask ignored",
        "The decoder layer attends to the memory without memory_mask.",
        ("MASK-10", "MASK-20"),
        {f"{DECODER_LAYER}.forward": given(memory_mask=_nothing, memory_is_causal=_no)},
        CROSS_ATTENTION,
    ),
    Fault(
        "src padding mask ignored",
        "The encoder layer attends to padded keys.",
        ("MASK-05", "MASK-06", "MASK-07", "MASK-08", "MASK-15"),
        {f"{ENCODER_LAYER}.forward": given(src_key_padding_mask=_nothing)},
        SELF_ATTENTION,
    ),
    Fault(
        "tgt padding mask ignored",
        "The decoder layer attends to padded keys of its target.",
        ("MASK-05", "MASK-06", "MASK-07", "MASK-08"),
        {f"{DECODER_LAYER}.forward": given(tgt_key_padding_mask=_nothing)},
        ("decoder_layer", "decoder"),
    ),
    Fault(
        "memory padding mask ignored",
        "The decoder layer attends to padded keys of the memory.",
        ("MASK-11", "MASK-15"),
        {f"{DECODER_LAYER}.forward": given(memory_key_padding_mask=_nothing)},
        CROSS_ATTENTION,
    ),
    Fault(
        "memory padding mask replaced by the source's",
        "The Transformer hands src_key_padding_mask to the decoder.",
        ("MASK-11", "VALUE-15"),
        {f"{TRANSFORMER}.forward": given(memory_key_padding_mask=lambda came: came.src_key_padding_mask)},
        ("transformer",),
    ),
    Fault(
        "padding mask of batch item 0 used for all",
        "Every sequence is padded as the first one is.",
        ("MASK-05", "MODE-05", "MODE-06"),
        {f"{MULTIHEAD}.forward": given(key_padding_mask=_first_items)},
        MODULES,
    ),
    Fault(
        "result depends on the batch's other items",
        "A key that is padded in one sequence is hidden in all.",
        ("MODE-06", "MASK-05"),
        {f"{MULTIHEAD}.forward": given(key_padding_mask=_any_items)},
        MODULES,
    ),
    Fault(
        "padding mask hides queries instead of keys",
        "The padding mask is laid along the wrong axis of the scores.",
        ("MASK-05", "MASK-07"),
        {ATTENTION: given(attn_mask=_per_query)},
        MODULES,
    ),
    Fault(
        "attn and padding mask merged by AND",
        "A key is hidden only where both boolean masks hide it.",
        ("MASK-09",),
        {MERGE_MASKS: instead(_merged_by_and)},
        MODULES,
    ),
    Fault(
        "3-D mask indexed heads-first",
        "A mask (N·heads, L, S) is read as (heads·N, L, S).",
        ("MASK-03", "MASK-04"),
        {MERGE_MASKS: given(attn_mask=_heads_first)},
        MODULES,
    ),
    Fault(
        "the caller's mask modified in place",
        "A boolean mask comes back inverted.",
        ("MODE-04",),
        {MERGE_MASKS: instead(_in_place)},
        MODULES,
    ),
    Fault(
        "is_causal hides a given mask",
        "Told that the mask is causal, a module makes one of its own and forgets the other.",
        ("CAUSAL-06",),
        {f"{MULTIHEAD}.forward": given(attn_mask=_causal_where_told)},
        MODULES,
    ),
)

EQUIVALENT = {
    "is_causal hint ignored": "in torch.nn's modules the hint only describes the mask, and the mask decides; the hint "
    "that acts is scaled_dot_product_attention's, see the fault `is_causal ignored`",
}
