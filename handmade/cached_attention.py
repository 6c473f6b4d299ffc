"""Multi-head attention of new positions to keys and values that are kept."""

from torch import Tensor

from . import attention, attention_core
from .kv_cache import KeyValues
from .multihead_attention import MultiheadAttention


def nothing_kept(attn: MultiheadAttention, batch_size: int) -> KeyValues:
    """The keys and values of no position."""
    _check_no_appended(attn)
    weight = attn.out_proj.weight
    return KeyValues(*(weight.new_zeros(batch_size, attn.num_heads, 0, attn.head_dim) for _ in range(2)))


def keys_of_memory(attn: MultiheadAttention, memory: Tensor, hidden: Tensor | None) -> KeyValues:
    """The keys and values of a memory, (N, S, kdim) where batch comes first, once for all queries.

    Args:
        attn: the cross-attention.
        memory: what is attended to.
        hidden: (N, S), True = hidden; None for nothing.
    """
    _check_no_appended(attn)
    memory = memory.transpose(0, 1) if attn.batch_first else memory
    _, *projections = attn.projections()
    keys, values = (attn.split_heads(project(memory)) for project in projections)
    if hidden is not None:
        gone = hidden[:, None, :, None]
        keys, values = keys.masked_fill(gone, 0.0), values.masked_fill(gone, 0.0)
    return KeyValues(keys.contiguous(), values.contiguous())


def attend_to_own(attn: MultiheadAttention, x: Tensor, kept: KeyValues, mask: Tensor | None) -> Tensor:
    """Self-attention of new positions, which see themselves and what is kept, and are kept in turn.

    Args:
        attn: the self-attention.
        x: (n, N, d_model), or (N, n, d_model) where batch comes first: the new positions.
        kept: the keys and values of the positions before; those of x are appended.
        mask: broadcasts to (N, heads, n, length), True = keep; None where all is visible.

    Returns:
        The shape of x.
    """
    x = x.transpose(0, 1) if attn.batch_first else x
    queries, keys, values = (attn.split_heads(part) for part in attn.project(x, x, x, self_attention=True))
    if mask is not None:
        # What nothing may see is kept as 0: a weight of 0 does not silence NaN or infinity.
        gone = ~mask[..., -x.size(0) :].any(-2).unsqueeze(-1)
        keys, values = keys.masked_fill(gone, 0.0), values.masked_fill(gone, 0.0)
    kept.append(keys, values)
    return _attend(attn, queries, kept, mask)


def attend_to_memory(attn: MultiheadAttention, x: Tensor, kept: KeyValues, mask: Tensor | None) -> Tensor:
    """Cross-attention of new positions to what is kept of the memory.

    Args:
        attn: the cross-attention.
        x: (n, N, d_model), or (N, n, d_model) where batch comes first.
        kept: of the memory.
        mask: (N, 1, 1, S), True = keep; None where all is visible.

    Returns:
        The shape of x.
    """
    x = x.transpose(0, 1) if attn.batch_first else x
    project, *_ = attn.projections()
    return _attend(attn, attn.split_heads(project(x)), kept, mask)


def _attend(attn: MultiheadAttention, queries: Tensor, kept: KeyValues, mask: Tensor | None) -> Tensor:
    dropout_p = attn.dropout if attn.training else 0.0
    # A single query fills no block: there the definition itself is the faster core.
    core = attention.attention if queries.size(2) == 1 else attention_core.attend
    context, _ = core(queries, kept.keys, kept.values, mask, dropout_p)
    output = attn.out_proj(attn.join_heads(context))
    return output.transpose(0, 1) if attn.batch_first else output


def _check_no_appended(attn: MultiheadAttention) -> None:
    if attn.bias_k is not None or attn.add_zero_attn:
        raise ValueError(
            "attn: expected neither add_bias_kv nor add_zero_attn with a cache, got an attention with them"
        )
