"""Multi-head attention, batch first: (N, L, E)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attention import attention_context, attention_weights
from .inputs import Parameters
from .linear import linear
from .masks import Mask, with_visible_columns
from .shapes import append_row, merge_heads, rows, split_heads
from .tape import Array, Node, Tape


@dataclass(frozen=True)
class AttentionConfig:
    """The constructor options of torch.nn.MultiheadAttention, by torch's names."""

    embed_dim: int
    num_heads: int
    bias: bool = True
    add_bias_kv: bool = False
    add_zero_attn: bool = False
    kdim: int | None = None
    vdim: int | None = None

    def __post_init__(self) -> None:
        if self.embed_dim % self.num_heads:
            raise ValueError(f"embed_dim: expected a multiple of {self.num_heads} heads, got {self.embed_dim}")


def multihead_attention(
    tape: Tape,
    config: AttentionConfig,
    parameters: Parameters,
    query: Node,
    key: Node,
    value: Node,
    mask: Mask,
) -> tuple[Node, Node]:
    """Attend in several heads, each on its own contiguous slice of the projections.

    Formula: `head_h = softmax(Q_h K_h^T / sqrt(D) + M) V_h`, with `Q = q Wq^T + bq`, `K`, `V`
    alike and `D = E / H`; `out = concat(head_1, ..., head_H) Wo^T + bo`.
    `bias_k`, `bias_v`, then a zero key and value follow the projected keys and values.

    Args:
        tape: where the computation is recorded.
        config: the module's options.
        parameters: in_proj_weight (3E, E), or q_proj_weight (E, E), k_proj_weight (E, kdim),
            v_proj_weight (E, vdim); in_proj_bias (3E,), out_proj.weight, out_proj.bias,
            bias_k and bias_v (1, 1, E).
        query: (N, L, E).
        key: (N, S, kdim).
        value: (N, S, vdim).
        mask: over (N, H, L, S), True = hidden.

    Returns:
        The output (N, L, E) and each head's weights (N, H, L, S + appended keys).

    Raises:
        ValueError: a parameter is missing or has another shape.

    torch counterpart: torch.nn.MultiheadAttention.
    Source: Vaswani et al., "Attention Is All You Need", section 3.2.2.
    """
    width, heads = config.embed_dim, config.num_heads
    weights = _projection_weights(tape, config, parameters)
    biases: list[Node | None] = [None, None, None]
    bias = parameters.optional("in_proj_bias", 3 * width, present=config.bias)
    if bias is not None:
        biases = [tape.apply(rows, bias, start=i * width, stop=(i + 1) * width) for i in range(3)]

    unread = _unread_keys(mask, query.value.shape, key.value.shape, config)
    queries = tape.apply(linear, query, weights[0], biases[0])
    keys = tape.apply(linear, key, weights[1], biases[1], unread=unread)
    values = tape.apply(linear, value, weights[2], biases[2], unread=unread)

    if config.add_bias_kv:
        keys = tape.apply(append_row, keys, parameters.required("bias_k", 1, 1, width))
        values = tape.apply(append_row, values, parameters.required("bias_v", 1, 1, width))
    if config.add_zero_attn:
        keys = tape.apply(append_row, keys, None)
        values = tape.apply(append_row, values, None)
    appended = int(config.add_bias_kv) + int(config.add_zero_attn)
    if appended:
        mask = with_visible_columns(tape, mask, appended)

    queries, keys, values = (tape.apply(split_heads, projected, heads=heads) for projected in (queries, keys, values))
    per_head = tape.apply(
        attention_weights,
        queries,
        keys,
        mask.additive,
        hidden=mask.hidden,
        scale=1 / np.sqrt(width // heads),
    )
    context = tape.apply(attention_context, per_head, values, hidden=mask.hidden)
    output = tape.apply(
        linear,
        tape.apply(merge_heads, context),
        parameters.required("out_proj.weight", width, width),
        parameters.optional("out_proj.bias", width, present=config.bias),
    )
    return output, per_head


def _projection_weights(tape: Tape, config: AttentionConfig, parameters: Parameters) -> tuple[Node, Node, Node]:
    width = config.embed_dim
    kdim = width if config.kdim is None else config.kdim
    vdim = width if config.vdim is None else config.vdim
    if kdim == width and vdim == width:
        packed = parameters.required("in_proj_weight", 3 * width, width)
        query, key, value = (tape.apply(rows, packed, start=i * width, stop=(i + 1) * width) for i in range(3))
        return query, key, value
    return (
        parameters.required("q_proj_weight", width, width),
        parameters.required("k_proj_weight", width, kdim),
        parameters.required("v_proj_weight", width, vdim),
    )


def _unread_keys(mask: Mask, query: tuple[int, ...], key: tuple[int, ...], config: AttentionConfig) -> Array | None:
    """The entries of the projected keys (N, S, E) that their head hides from every query."""
    if mask.hidden is None:
        return None
    (batch, queries, width), keys = query, key[1]
    scores = (batch, config.num_heads, queries, keys)
    by_head: Array = np.all(np.broadcast_to(mask.hidden, scores), axis=2)
    return np.repeat(by_head.swapaxes(1, 2), width // config.num_heads, axis=-1)
