"""Faults of heads and projections."""

from typing import Any

import torch
from torch import Tensor

from handmade.linear import linear

from .changes import Came, Right, derived, given, instead, returning
from .fault import Fault
from .seams import (
    ATTENTION,
    CROSS_ATTENTION,
    IN_PROJECTION,
    LAYERED,
    MODULES,
    MULTIHEAD,
    OUT_PROJECTION,
    REPEAT_HEADS,
    SELF_ATTENTION,
    VISIBLE_COLUMNS,
)


def _interleaved_heads(right: Right, came: Came) -> Any:
    attn, x = came.self, came.x
    return x.reshape(x.size(0), x.size(1), attn.head_dim, attn.num_heads).permute(1, 3, 0, 2)


def _interleaved_features(right: Right, came: Came) -> Any:
    attn, context = came.self, came.context
    return context.permute(2, 0, 3, 1).reshape(context.size(2), context.size(0), attn.embed_dim)


def _reshaped_heads(right: Right, came: Came) -> Any:
    attn, x = came.self, came.x.transpose(0, 1)
    return x.reshape(x.size(0), attn.num_heads, x.size(1), attn.head_dim)


def _reshaped_features(right: Right, came: Came) -> Any:
    attn, context = came.self, came.context
    return context.reshape(context.size(0), context.size(2), attn.embed_dim).transpose(0, 1)


def _key_and_value_exchanged(right: Right, came: Came) -> Any:
    """Each is projected by the other's weight and bias; with sizes of their own that is not possible."""
    attn = came.self
    if attn.kdim != attn.vdim:
        return right(**vars(came))
    q, v, k = right(attn, came.query, came.value, came.key, came.self_attention)
    return q, k, v


def _exchanged_if(wanted):  # type: ignore[no-untyped-def]
    return instead(lambda right, came: (_key_and_value_exchanged if wanted(came) else _as_it_is)(right, came))


def _as_it_is(right: Right, came: Came) -> Any:
    return right(**vars(came))


def _appended_first(returned, came):  # type: ignore[no-untyped-def]
    k, v, appended = returned
    return k.roll(appended, 0), v.roll(appended, 0), appended


def _zero_before_bias(returned, came):  # type: ignore[no-untyped-def]
    k, v, appended = returned
    if appended == 2:
        k, v = (torch.cat([x[:-2], x[-1:], x[-2:-1]]) for x in (k, v))
    return k, v, appended


def _first_keys(tensor: Tensor | None, queries: int, axis: int) -> Tensor | None:
    if tensor is None or tensor.size(axis) == 1:
        return tensor
    return tensor.narrow(axis, 0, min(queries, tensor.size(axis)))


def _repeated_in_turn(right: Right, came: Came) -> Tensor:
    return torch.cat([came.x] * (came.heads // came.x.size(-3)), dim=-3)


def _four_heads(returned, came):  # type: ignore[no-untyped-def]
    context, weights = returned
    heads = torch.arange(context.size(-3)).clamp(max=3)
    return context.index_select(-3, heads), weights


FAULTS = (
    Fault(
        "grouped heads interleaved",
        "A key head serves the query heads h, h + groups, … instead of consecutive ones.",
        ("VALUE-08",),
        {REPEAT_HEADS: instead(_repeated_in_turn)},
        ("attention",),
    ),
    Fault(
        "heads beyond the fourth ignored",
        "The fourth head stands in for all that follow it.",
        ("VALUE-16", "VALUE-02"),
        {ATTENTION: returning(_four_heads)},
        MODULES,
    ),
    Fault(
        "heads interleaved",
        "Head h has the features h, h + heads, … instead of a contiguous slice.",
        ("VALUE-02", "VALUE-03", "VALUE-04"),
        {
            f"{MULTIHEAD}.split_heads": instead(_interleaved_heads),
            f"{MULTIHEAD}.join_heads": instead(_interleaved_features),
        },
        MODULES,
    ),
    Fault(
        "heads reshaped without transposing",
        "(N, L, E) is read as (N, heads, L, head_dim), and the context back.",
        ("VALUE-02", "VALUE-03", "VALUE-04"),
        {
            f"{MULTIHEAD}.split_heads": instead(_reshaped_heads),
            f"{MULTIHEAD}.join_heads": instead(_reshaped_features),
        },
        MODULES,
    ),
    Fault(
        "q and k swapped",
        "Self-attention compares keys with queries: the scores are transposed.",
        ("VALUE-03", "VALUE-05"),
        {ATTENTION: given(query=lambda came: came.key, key=lambda came: came.query)},
        SELF_ATTENTION,
    ),
    Fault(
        "k and v swapped in cross-attention",
        "Attention to another sequence projects keys by the values' matrix, and values by the keys'.",
        ("VALUE-04", "VALUE-02"),
        {f"{MULTIHEAD}.project": _exchanged_if(lambda came: not came.self_attention)},
        ("multihead_attention", *CROSS_ATTENTION),
    ),
    Fault(
        "cross-attention queries from memory",
        "Where target and memory have one length, the memory asks itself.",
        ("VALUE-04", "MASK-10"),
        {
            f"{MULTIHEAD}.forward": given(
                query=lambda came: (
                    came.key if came.key is came.value and came.key.shape == came.query.shape else came.query
                )
            )
        },
        CROSS_ATTENTION,
    ),
    Fault(
        "in-projection order q, v, k",
        "The packed projection is read with values before keys.",
        ("VALUE-02", "VALUE-03"),
        {f"{MULTIHEAD}.project": _exchanged_if(lambda came: came.self.in_proj_weight is not None)},
        MODULES,
    ),
    Fault(
        "qkv bias ignored",
        "in_proj_bias is not added.",
        ("VALUE-02", "VALUE-03", "GRAD-02"),
        {IN_PROJECTION: given(bias=lambda came: None)},
        MODULES,
    ),
    Fault(
        "out-projection bias ignored",
        "out_proj.bias is not added.",
        ("VALUE-02", "VALUE-03", "GRAD-02"),
        {OUT_PROJECTION: derived(forward=lambda self, x: linear(x, self.weight))},
        MODULES,
    ),
    Fault(
        "out-projection bias added twice",
        "out_proj.bias is added a second time.",
        ("VALUE-02", "VALUE-03"),
        {
            OUT_PROJECTION: derived(
                forward=lambda self, x: linear(x, self.weight, None if self.bias is None else 2 * self.bias)
            )
        },
        MODULES,
    ),
    Fault(
        "kdim/vdim projections swapped",
        "Where keys and values have one size of their own, each is projected by the other's matrix.",
        ("VALUE-18",),
        {f"{MULTIHEAD}.project": _exchanged_if(lambda came: came.self.in_proj_weight is None)},
        ("multihead_attention",),
    ),
    Fault(
        "bias_k/bias_v appended at the front",
        "What add_bias_kv and add_zero_attn append stands before the keys, in the masks as well.",
        ("WEIGHT-02", "WEIGHT-01"),
        {
            f"{MULTIHEAD}.append": returning(_appended_first),
            VISIBLE_COLUMNS: returning(lambda mask, came: None if mask is None else mask.roll(came.columns, -1)),
        },
        ("multihead_attention",),
    ),
    Fault(
        "zero attention before bias",
        "The zeros of add_zero_attn stand before bias_k and bias_v.",
        ("WEIGHT-02", "WEIGHT-01"),
        {f"{MULTIHEAD}.append": returning(_zero_before_bias)},
        ("multihead_attention",),
    ),
    Fault(
        "keys viewed with the query's length",
        "Of more keys than queries only as many as there are queries are seen.",
        ("VALUE-01", "VALUE-04"),
        {
            ATTENTION: given(
                key=lambda came: _first_keys(came.key, came.query.size(-2), -2),
                value=lambda came: _first_keys(came.value, came.query.size(-2), -2),
                attn_mask=lambda came: _first_keys(came.attn_mask, came.query.size(-2), -1),
            )
        },
        ("attention", "multihead_attention", *LAYERED),
    ),
)
