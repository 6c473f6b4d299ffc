"""Faults of the cache of keys and values."""

from typing import Any

import torch
from torch import Tensor

from .changes import Came, Right, given, having, instead, returning
from .fault import Fault

CACHE = "handmade.kv_cache.KeyValueCache"
KEPT = "handmade.kv_cache.KeyValues"
ROOM = "handmade.kv_cache._roomier"
MEMORY_KEYS = "handmade.cached_attention.keys_of_memory"
POSITIONS = "handmade.positions.PositionalEncoding.forward"
CACHED = ("decoding", "sequence_model", "language_model")


def _of_the_first(came: Came) -> Tensor:
    batch_dim = 0 if came.attn.batch_first else 1
    return came.memory.narrow(batch_dim, 0, 1).expand_as(came.memory)


def _where_they_were(came: Came) -> Tensor:
    """As many as there are stay in their places; the copies for the beams are still made."""
    as_many = came.indices.numel() == came.self.batch_size
    return torch.arange(came.self.batch_size) if as_many else came.indices


def _upper_left(mask: Tensor | None, _: Came) -> Tensor | None:
    if mask is None or mask.size(-2) == 1:
        return mask
    return torch.ones(mask.shape[-2:], dtype=torch.bool).tril()


def _without_the_last(made: Tensor, came: Came) -> Tensor:
    made[:, :, max(came.length - 1, 0) : came.length] = 0.0
    return made


def _sharing(right: Right, came: Came) -> Any:
    made = right(**vars(came))
    if came.indices.tolist() == list(range(came.self.keys.size(0))):
        made._keys, made._values = came.self._keys, came.self._values
    return made


def _shorter(came: Came, name: str) -> Tensor:
    return getattr(came, name).float().to(getattr(came, name).dtype)


FAULTS = (
    Fault(
        "cache not reordered in beam search",
        "The beams change places and their keys and values stay.",
        ("CACHE-07", "DECODE-16"),
        {f"{CACHE}.reorder": given(indices=_where_they_were)},
        CACHED,
    ),
    Fault(
        "reordered cache shares memory",
        "Where the order is the old one, the new cache writes into the old one's keys.",
        ("CACHE-08",),
        {f"{KEPT}.reorder": instead(_sharing)},
        CACHED,
    ),
    Fault(
        "position off by one with the cache",
        "A step adds the code of the position before.",
        ("CACHE-09", "DECODE-16"),
        {POSITIONS: given(offset=lambda came: max(came.offset - 1, 0))},
        CACHED,
    ),
    Fault(
        "cross keys of the first item for all",
        "Every sequence of the batch attends to the memory of the first.",
        ("CACHE-01", "CACHE-09", "DECODE-16"),
        {MEMORY_KEYS: given(memory=_of_the_first)},
        CACHED,
    ),
    Fault(
        "memory padding ignored by the cache",
        "The keys of the memory's padding are kept as they are, and seen.",
        ("CACHE-03", "CACHE-09"),
        {f"{CACHE}.__init__": given(memory_mask=lambda came: None), MEMORY_KEYS: given(hidden=lambda came: None)},
        CACHED,
    ),
    Fault(
        "causal mask of a piece at the upper left",
        "Several positions in one step see the first of the kept positions only.",
        ("CACHE-04",),
        {f"{CACHE}.extend": returning(_upper_left)},
        CACHED,
    ),
    Fault(
        "hidden positions forgotten",
        "What was hidden in one step is seen in the next.",
        ("CACHE-03",),
        {f"{CACHE}.extend": having(_keep=lambda cache: None)},
        CACHED,
    ),
    Fault(
        "last position lost when the cache grows",
        "The memory doubles, and one position too few is copied.",
        ("CACHE-01", "CACHE-02"),
        {ROOM: returning(_without_the_last)},
        CACHED,
    ),
    Fault(
        "cache in float32",
        "Keys and values of a float64 model are rounded when they are kept.",
        ("CACHE-01", "CACHE-02"),
        {
            f"{KEPT}.append": given(
                keys=lambda came: _shorter(came, "keys"), values=lambda came: _shorter(came, "values")
            )
        },
        CACHED,
    ),
)
