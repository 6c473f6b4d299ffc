"""Faults of the attention core: scores, masks on the scores, softmax."""

import math
from typing import Any

import torch
from torch import Tensor

from .changes import Came, Right, given, instead, returning
from .fault import Change, Fault
from .seams import ADDITIVE_MASK, APPLY_MASK, ATTENDING, ATTENTION, CAUSAL_KEEP, CAUSAL_MASK, MODULES, SDPA, SOFTMAX


def _scaled_mask(came: Came) -> Tensor | None:
    mask = came.attn_mask
    if mask is None or mask.dtype == torch.bool:
        return mask
    return mask * (1 / math.sqrt(came.query.size(-1)) if came.scale is None else came.scale)


def _inverted(came: Came) -> Tensor | None:
    boolean = came.mask is not None and came.mask.dtype == torch.bool
    return ~came.mask if boolean else came.mask


def _only_infinite(came: Came) -> Tensor | None:
    boolean = came.mask is None or came.mask.dtype == torch.bool
    return came.mask if boolean else came.mask != -torch.inf


def _unguarded(scores: Tensor) -> Tensor:
    exponentials = torch.exp(scores - scores.detach().amax(-1, keepdim=True))
    return torch.nan_to_num(exponentials / exponentials.sum(-1, keepdim=True))


def _only_first(keys: int) -> Change:
    """Keys and values beyond the first so many are left out."""

    def wrong(right: Right, came: Came) -> Any:
        mask = came.attn_mask if came.attn_mask is None or came.attn_mask.size(-1) == 1 else came.attn_mask[..., :keys]
        given = {**vars(came), "key": came.key[..., :keys, :], "value": came.value[..., :keys, :], "attn_mask": mask}
        context, weights = right(**given)
        return context, torch.nn.functional.pad(weights, (0, came.key.size(-2) - weights.size(-1)))

    return instead(wrong)


def _filled(fill: float) -> dict:
    """Boolean masks fill with a finite number, alone and beside a floating mask."""

    def apply(right: Right, came: Came) -> Any:
        boolean = came.mask is not None and came.mask.dtype == torch.bool
        return came.scores.masked_fill(~came.mask, fill) if boolean else right(came.scores, came.mask)

    def additive(right: Right, came: Came) -> Any:
        made = right(came.hidden, came.dtype)
        return made.clamp(min=fill) if came.hidden.dtype == torch.bool else made

    return {APPLY_MASK: instead(apply), ADDITIVE_MASK: instead(additive)}


FAULTS = (
    Fault(
        "no scaling",
        "The scores are not divided by √head_dim.",
        ("VALUE-01", "VALUE-02"),
        {ATTENTION: given(scale=lambda came: 1.0 if came.scale is None else came.scale)},
        ATTENDING,
    ),
    Fault(
        "scaling by sqrt(d_model)",
        "The scores are divided by the root of all features instead of one head's.",
        ("VALUE-02", "VALUE-03", "VALUE-04"),
        {ATTENTION: given(scale=lambda came: (came.query.size(-3) * came.query.size(-1)) ** -0.5)},
        MODULES,
    ),
    Fault(
        "softmax over queries",
        "The weights of a key sum to 1 over the queries.",
        ("VALUE-01", "WEIGHT-04"),
        {SOFTMAX: instead(lambda right, came: right(came.scores.transpose(-2, -1)).transpose(-2, -1))},
        ATTENDING,
    ),
    Fault(
        "mask added before scaling",
        "A floating mask is scaled with the scores.",
        ("MASK-13", "MASK-02"),
        {ATTENTION: given(attn_mask=_scaled_mask)},
        ATTENDING,
    ),
    Fault(
        "boolean mask inverted",
        "True means the opposite.",
        ("MASK-12", "MASK-01", "MASK-05"),
        {APPLY_MASK: given(mask=_inverted)},
        ATTENDING,
    ),
    Fault(
        "boolean mask filled with -1e4",
        "Hidden scores become −1e4: no less than large scores, and no dead row.",
        ("MASK-21", "DEAD-03", "NUM-02"),
        _filled(-1e4),
        ATTENDING,
    ),
    Fault(
        "boolean mask filled with -1e9",
        "Hidden scores become −1e9: no less than huge scores, and no dead row.",
        ("MASK-21", "DEAD-03"),
        _filled(-1e9),
        ATTENDING,
    ),
    Fault(
        "float mask treated as boolean",
        "Of a floating mask only −∞ acts.",
        ("MASK-13", "MASK-02", "MASK-08"),
        {APPLY_MASK: given(mask=_only_infinite)},
        ATTENDING,
    ),
    Fault(
        "causal mask off by one",
        "Each position sees the next one too.",
        ("CAUSAL-02", "CAUSAL-03", "CAUSAL-07"),
        {
            CAUSAL_KEEP: instead(lambda right, came: torch.ones(came.queries, came.keys, dtype=torch.bool).tril(1)),
            CAUSAL_MASK: instead(lambda right, came: right(came.sz, came.device, came.dtype).triu(2)),
        },
        ("attention", "transformer"),
    ),
    Fault(
        "causal triangle aligned lower-right",
        "Where L ≠ S the last query sees all keys, instead of the first query one.",
        ("CAUSAL-02",),
        {
            CAUSAL_KEEP: instead(
                lambda right, came: torch.ones(came.queries, came.keys, dtype=torch.bool).tril(came.keys - came.queries)
            )
        },
        ("attention",),
    ),
    Fault(
        "is_causal ignored",
        "scaled_dot_product_attention without its causal mask.",
        ("CAUSAL-02", "CAUSAL-03"),
        {SDPA: given(is_causal=lambda came: False)},
        ("attention",),
    ),
    Fault(
        "scores in float16",
        "The scores are rounded to 11 bits before the softmax.",
        ("DTYPE-06", "DTYPE-02", "VALUE-01", "NUM-02"),
        {APPLY_MASK: given(scores=lambda came: came.scores.half().to(came.scores.dtype))},
        ATTENDING,
    ),
    Fault(
        "keys beyond the 512th ignored",
        "Only the first block of keys is read.",
        ("NUM-03", "NUM-04", "NUM-05"),
        {ATTENTION: _only_first(512)},
        ATTENDING,
    ),
    Fault(
        "NaN and infinity turned into numbers",
        "What is not finite is swallowed by the attention.",
        ("NUM-07",),
        {ATTENTION: returning(lambda made, came: (torch.nan_to_num(made[0]), made[1]))},
        ATTENDING,
    ),
    Fault(
        "NaN scores taken for hidden",
        "What is no number is masked away.",
        ("NUM-07",),
        {APPLY_MASK: returning(lambda made, came: made.masked_fill(made.isnan(), -torch.inf))},
        ATTENDING,
    ),
    Fault(
        "exponentials of the bare scores",
        "The softmax subtracts no maximum, so that large scores overflow.",
        ("NUM-01", "NUM-02"),
        {SOFTMAX: instead(lambda right, came: came.scores.exp() / came.scores.exp().sum(-1, keepdim=True))},
        ATTENDING,
    ),
    Fault(
        "dead row gives NaN gradient for live rows",
        "A row that sees no key divides 0 by 0, and only its value is mended.",
        ("DEAD-02",),
        {SOFTMAX: instead(lambda right, came: _unguarded(came.scores))},
        ATTENDING,
    ),
)
