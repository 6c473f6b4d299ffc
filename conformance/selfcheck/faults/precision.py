"""Faults of precision, memory layout and determinism."""

import math
from typing import Any

import torch
from torch import Tensor

from .changes import Came, Right, given, instead
from .fault import Fault
from .seams import ATTENDING, ATTENTION, DECODER_LAYER, MODULES, MULTIHEAD, SDPA, SOFTMAX


def _float32_scale(came: Came) -> float:
    scale = 1 / math.sqrt(came.query.size(-1)) if came.scale is None else came.scale
    return float(torch.tensor(scale, dtype=torch.float32))


def _memory_length_first(came: Came) -> Tensor:
    memory = came.memory
    if memory.dim() == 2 or not came.self.multihead_attn.batch_first:
        return memory
    return memory.reshape(memory.size(1), memory.size(0), -1).transpose(0, 1)


def _as_if_contiguous(came: Came) -> Tensor:
    """What stands in memory from the query's first element on."""
    query = came.query
    if query.is_contiguous() or 0 in query.stride():
        return query
    strides = torch.empty(query.shape).stride()
    return query.as_strided(query.shape, strides)


def _without_padding_unbatched(came: Came) -> Tensor | None:
    return None if came.query.dim() == 2 else came.key_padding_mask


def _shifted_by_the_largest(right: Right, came: Came) -> Tensor:
    exponentials = torch.exp(came.scores - came.scores.detach().amax())
    total = exponentials.sum(-1, keepdim=True)
    return exponentials / total.masked_fill(total == 0, 1.0)


def _with_noise(right: Right, came: Came) -> Any:
    context, weights = right(**vars(came))
    return context + 1e-7 * torch.randn_like(context), weights


FAULTS = (
    Fault(
        "softmax in float32 inside a float64 model",
        "The weights have 24 bits, whatever the dtype.",
        ("DTYPE-06", "VALUE-01", "VALUE-02"),
        {SOFTMAX: instead(lambda right, came: right(came.scores.float()).to(came.scores.dtype))},
        ATTENDING,
    ),
    Fault(
        "a float32 scale constant",
        "1/√head_dim has 24 bits: 1e-8 off where head_dim is no power of 4.",
        ("DTYPE-06", "VALUE-16"),
        {ATTENTION: given(scale=_float32_scale)},
        ATTENDING,
    ),
    Fault(
        "batch_first ignored for memory",
        "The numbers of a batch-first memory are read length first.",
        ("LAYOUT-01", "VALUE-04"),
        {f"{DECODER_LAYER}.forward": given(memory=_memory_length_first)},
        ("decoder_layer", "decoder", "transformer"),
    ),
    Fault(
        "unbatched padding mask ignored",
        "A padding mask (S,) does nothing.",
        ("SHAPE-06", "SHAPE-02"),
        {f"{MULTIHEAD}.forward": given(key_padding_mask=_without_padding_unbatched)},
        MODULES,
    ),
    Fault(
        "wrong for non-contiguous inputs",
        "The query is read as if its elements stood side by side in memory.",
        ("LAYOUT-02", "LAYOUT-03"),
        {f"{MULTIHEAD}.forward": given(query=_as_if_contiguous), SDPA: given(query=_as_if_contiguous)},
        ("attention", "multihead_attention"),
    ),
    Fault(
        "softmax shifted by the largest score of the batch",
        "Rows far below it underflow to 0.",
        ("DTYPE-02",),
        {SOFTMAX: instead(_shifted_by_the_largest)},
        ATTENDING,
    ),
    Fault(
        "noise of 1e-7",
        "Each call adds other noise to the context.",
        ("MODE-03", "VALUE-01"),
        {ATTENTION: instead(_with_noise)},
        ATTENDING,
    ),
)
