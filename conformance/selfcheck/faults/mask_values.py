"""Faults of what masks hold: large and infinite numbers, booleans beside numbers, masks that look causal."""

import torch
from torch import Tensor

from .changes import Came, given, returning
from .fault import Change, Fault
from .seams import ADDITIVE_MASK, APPLY_MASK, ATTENDING, CROSS_ATTENTION, DECODER_LAYER, MERGE_MASKS, MODULES


def _causal(size: torch.Size) -> Tensor:
    return torch.ones(size[-2:], dtype=torch.bool).triu(1)


def _causal_if_it_begins_so(came: Came) -> Tensor | None:
    mask = came.attn_mask
    if mask is None or mask.dtype != torch.bool or mask.dim() != 2 or mask.size(0) != mask.size(1):
        return mask
    causal = _causal(mask.shape)
    return causal if torch.equal(mask[0], causal[0]) else mask


def _causal_memory_where_told(came: Came) -> Tensor | None:
    return _causal(came.memory_mask.shape) if came.memory_is_causal else came.memory_mask


def _finite_padding(came: Came) -> Tensor | None:
    padding = came.key_padding_mask
    return padding if padding is None or padding.dtype == torch.bool else padding.clamp(min=-1e30)


def _large_as_infinite(came: Came) -> Tensor | None:
    mask = came.mask
    return mask if mask is None or mask.dtype == torch.bool else mask.masked_fill(mask < -1e4, -torch.inf)


def _filled_beside_floating(fill: float | None) -> Change:
    """A boolean mask becomes a floating one by a finite number, None for the dtype's least."""

    def finite(made: Tensor, came: Came) -> Tensor:
        least = torch.finfo(made.dtype).min if fill is None else fill
        return made.clamp(min=least) if came.hidden.dtype == torch.bool else made

    return returning(finite)


FAULTS = (
    Fault(
        "mask that begins as a causal one taken for it",
        "A square boolean mask whose first query sees the first key alone becomes causal.",
        ("MASK-23",),
        {MERGE_MASKS: given(attn_mask=_causal_if_it_begins_so)},
        MODULES,
    ),
    Fault(
        "memory_is_causal replaces the memory mask",
        "Told that memory_mask is causal, the decoder layer makes one of its own and forgets the other.",
        ("CAUSAL-06",),
        {f"{DECODER_LAYER}.forward": given(memory_mask=_causal_memory_where_told)},
        CROSS_ATTENTION,
    ),
    Fault(
        "floating padding of -inf replaced by -1e30",
        "A sequence that a floating mask pads throughout is attended to.",
        ("DEAD-03",),
        {MERGE_MASKS: given(key_padding_mask=_finite_padding)},
        MODULES,
    ),
    Fault(
        "boolean mask beside a floating one filled with the least number",
        "A row that sees no key is none where one of two masks is floating.",
        ("DEAD-03",),
        {ADDITIVE_MASK: _filled_beside_floating(None)},
        MODULES,
    ),
    Fault(
        "boolean mask beside a floating one filled with -1e4",
        "Beside a floating mask a boolean one hides no large score.",
        ("MASK-21", "DEAD-03"),
        {ADDITIVE_MASK: _filled_beside_floating(-1e4)},
        MODULES,
    ),
    Fault(
        "large negative numbers in a mask taken for -inf",
        "A row whose mask is below −1e4 throughout sees no key.",
        ("MASK-24",),
        {APPLY_MASK: given(mask=_large_as_infinite)},
        ATTENDING,
    ),
)
