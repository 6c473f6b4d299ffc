"""Keys and values that are kept, so that a decoder computes each position once.

Without a cache the n-th token costs the whole prefix anew. A causal attention never changes what it made of earlier
positions, so their keys and values can stay, and those of the memory are the same for every token.
"""

import torch
from torch import Tensor

from . import checks
from .multihead_attention import MultiheadAttention

# Positions for which memory is taken first; it doubles whenever it is full, so n appends copy O(n) positions in all.
FIRST_CAPACITY = 16


class KeyValues:
    """Keys and values of one attention, in memory that doubles when it is full.

    Args:
        keys: (N, heads, length, head_dim).
        values: likewise.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self._keys, self._values, self.length = keys, values, keys.size(2)

    @property
    def keys(self) -> Tensor:
        """(N, heads, length, head_dim)."""
        return self._keys.narrow(2, 0, self.length)

    @property
    def values(self) -> Tensor:
        """(N, heads, length, head_dim)."""
        return self._values.narrow(2, 0, self.length)

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Keep the keys and values of further positions, (N, heads, n, head_dim) each."""
        start, self.length = self.length, self.length + keys.size(2)
        capacity = self._keys.size(2)
        if self.length > capacity:
            capacity = max(self.length, 2 * capacity, FIRST_CAPACITY)
            self._keys, self._values = (_roomier(x, start, capacity) for x in (self._keys, self._values))
        self._keys.narrow(2, start, keys.size(2)).copy_(keys)
        self._values.narrow(2, start, keys.size(2)).copy_(values)

    def reorder(self, indices: Tensor) -> "KeyValues":
        """Those of the sequences `indices`, as a copy with as much room."""
        made = KeyValues(self._keys.index_select(0, indices), self._values.index_select(0, indices))
        made.length = self.length
        return made


class KeyValueCache:
    """What a stack of causal layers keeps of the positions that it has seen.

    The `start` of a stack makes one and its `step` extends it in place: who wants to continue from one place twice
    takes a copy with `reorder`. It keeps no gradient.

    Args:
        batch_size: N.
        own: of each layer, the keys and values of its self-attention.
        memory: of each layer, those of its cross-attention; empty where there is none.
        memory_mask: (N, 1, 1, S), True = keep; None where all of the memory is visible.

    Attributes:
        length: positions seen.
    """

    def __init__(
        self,
        batch_size: int,
        own: list[KeyValues],
        memory: list[KeyValues] | None = None,
        memory_mask: Tensor | None = None,
    ) -> None:
        self.batch_size = batch_size
        self.own = own
        self.memory = memory or []
        self.memory_mask = memory_mask
        self.length = 0
        self._keep: Tensor | None = None

    def require_layers(self, layers: int, attn: MultiheadAttention, memory: bool) -> None:
        """The cache was made for a stack of so many layers with such attentions.

        Raises:
            ValueError: it was made for another one.
        """
        wanted = (layers, attn.num_heads, attn.head_dim, memory)
        found = (len(self.own), self.own[0].keys.size(1), self.own[0].keys.size(3), bool(self.memory))
        if found != wanted:
            wanted_text, found_text = (
                f"{n} layers with {heads} heads of {width} and {'a' if crossing else 'no'} memory"
                for n, heads, width, crossing in (wanted, found)
            )
            raise ValueError(f"cache: expected one of {wanted_text}, got one of {found_text}")

    def new_ids(self, name: str, ids: Tensor, vocabulary: int, device: torch.device) -> Tensor:
        """Ids (N,) or (N, n) of new positions as (N, n).

        Raises:
            TypeError: ids that are neither int32 nor int64.
            ValueError: ids outside the vocabulary, none at all, another batch size than the cache's.
        """
        checks.tensor(name, ids)
        new = ids.unsqueeze(1) if ids.dim() == 1 else ids
        checks.token_ids(name, new, vocabulary, device)
        self._check_batch(name, new.size(0))
        return new

    def _check_batch(self, name: str, batch: int) -> None:
        if batch != self.batch_size:
            raise ValueError(f"{name}: expected the batch size of the cache, {self.batch_size}, got {batch}")

    def extend(
        self, name: str, x: Tensor, attn: MultiheadAttention, hidden: Tensor | None, hidden_name: str
    ) -> Tensor | None:
        """Count new positions, and make the mask with which they see themselves and those before.

        Args:
            name: what the caller calls x.
            x: (n, N, d_model), or (N, n, d_model) where batch comes first.
            attn: the first attention that x goes through.
            hidden: (N, n), True where nothing may see the position; None for nowhere.
            hidden_name: what the caller calls hidden.

        Returns:
            A mask that broadcasts to (N, heads, n, length), True = keep; None where all is visible.

        Raises:
            ValueError: another batch size than the cache's, shapes that do not fit, no position.
            TypeError: a padding mask that is not boolean.
        """
        checks.sequence(name, x, attn.embed_dim, "d_model", dim=3)
        checks.same_kind(name, x, "the parameters", attn.out_proj.weight)
        batch, positions = sizes(x, attn)
        self._check_batch(name, batch)
        if positions == 0:
            raise ValueError(f"{name}: expected at least one position, got {tuple(x.shape)}")
        if hidden is not None:
            check_hidden(hidden_name, hidden, (batch, positions))

        before, self.length = self.length, self.length + positions
        if hidden is not None or self._keep is not None:
            everything = torch.ones(batch, self.length, dtype=torch.bool, device=x.device)
            earlier = everything[:, :before] if self._keep is None else self._keep
            self._keep = torch.cat([earlier, everything[:, before:] if hidden is None else ~hidden], dim=1)
        keep = None if self._keep is None else self._keep[:, None, None, :]
        if positions == 1:
            return keep
        causal = torch.ones(positions, self.length, dtype=torch.bool, device=x.device).tril(before)
        return causal if keep is None else causal & keep

    def reorder(self, indices: Tensor) -> "KeyValueCache":
        """The cache of the sequences `indices` of the batch, in that order; one may come several times, or not at all.

        Args:
            indices: (M,), integers from 0 to N − 1.

        Returns:
            A cache of batch size M that shares nothing with this one.

        Raises:
            ValueError: not one dimension, an index that is no sequence of the batch.
        """
        checks.tensor("indices", indices)
        if indices.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"indices: expected torch.int32 or torch.int64, got {indices.dtype}")
        if indices.dim() != 1:
            raise ValueError(f"indices: expected shape (M,), got {tuple(indices.shape)}")
        if indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < self.batch_size:
            raise ValueError(f"indices: expected numbers from 0 to {self.batch_size - 1}, got {indices.tolist()}")
        memory_mask, keep = (None if x is None else x.index_select(0, indices) for x in (self.memory_mask, self._keep))
        own, memory = ([kept.reorder(indices) for kept in layers] for layers in (self.own, self.memory))
        made = KeyValueCache(indices.numel(), own, memory, memory_mask)
        made.length, made._keep = self.length, keep
        return made


def check(name: str, cache: object) -> None:
    """`cache` is a cache."""
    if not isinstance(cache, KeyValueCache):
        raise TypeError(f"{name}: expected a KeyValueCache, as `start` makes it, got {type(cache).__name__}")


def sizes(x: Tensor, attn: MultiheadAttention) -> tuple[int, int]:
    """Batch size and length of a batch of sequences, in the layout of an attention."""
    return (x.size(0), x.size(1)) if attn.batch_first else (x.size(1), x.size(0))


def some(hidden: Tensor | None) -> Tensor | None:
    """The mask, or None where it hides nothing, so that nothing need be done about it."""
    return hidden if hidden is not None and bool(hidden.any()) else None


def check_hidden(name: str, hidden: Tensor, shape: tuple[int, int]) -> None:
    """A padding mask that hides wholly or not at all."""
    checks.shape(name, hidden, shape)
    if hidden.dtype != torch.bool:
        raise TypeError(f"{name}: expected a boolean mask, True = hidden, got {hidden.dtype}")


def _roomier(x: Tensor, length: int, capacity: int) -> Tensor:
    made = x.new_empty(x.size(0), x.size(1), capacity, x.size(3))
    made.narrow(2, 0, length).copy_(x.narrow(2, 0, length))
    return made
