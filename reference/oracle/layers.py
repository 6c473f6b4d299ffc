"""The encoder layer and the decoder layer, batch first: (N, L, E)."""

from __future__ import annotations

from collections.abc import Callable

from .feed_forward import feed_forward
from .inputs import Parameters
from .layer_config import LayerConfig
from .layer_norm import layer_norm
from .masks import Mask
from .multihead_attention import multihead_attention
from .shapes import add
from .tape import Node, Tape


def norm(tape: Tape, config: LayerConfig, parameters: Parameters, x: Node) -> Node:
    """The layer norm over the features, with the options of its layer.

    Args:
        tape: where the computation is recorded.
        config: the layer's options.
        parameters: weight (E,), bias (E,).
        x: (..., E).

    Returns:
        The normalised `x`.

    torch counterpart: norm1, norm2, norm3 of the layers and the stacks' final norm.
    """
    weight = parameters.required("weight", config.d_model)
    bias = parameters.optional("bias", config.d_model, present=config.bias)
    return tape.apply(layer_norm, x, weight, bias, axes=1, eps=config.layer_norm_eps)


def residual(
    tape: Tape,
    config: LayerConfig,
    parameters: Parameters,
    x: Node,
    sublayer: Callable[[Node], Node],
) -> Node:
    """Add a sublayer's output to its input, with the norm on one side or the other.

    Formula: post-norm `norm(x + f(x))`; pre-norm `x + f(norm(x))`.

    Args:
        tape: where the computation is recorded.
        config: the layer's options; `norm_first` chooses.
        parameters: those of the norm.
        x: (N, L, E).
        sublayer: f.

    Returns:
        The result (N, L, E).

    torch counterpart: `norm_first` of torch.nn.TransformerEncoderLayer.
    Source: Vaswani et al., section 3.1 (post-norm); Xiong et al., "On Layer Normalization in
    the Transformer Architecture", section 3.1 (pre-norm).
    """
    if config.norm_first:
        return tape.apply(add, x, sublayer(norm(tape, config, parameters, x)))
    return norm(tape, config, parameters, tape.apply(add, x, sublayer(x)))


def encoder_layer(tape: Tape, config: LayerConfig, parameters: Parameters, src: Node, mask: Mask) -> Node:
    """Self-attention, then the feed-forward block, each in a residual.

    Args:
        tape: where the computation is recorded.
        config: the layer's options.
        parameters: self_attn, linear1, linear2, norm1, norm2.
        src: (N, S, E).
        mask: over (N, H, S, S), True = hidden.

    Returns:
        (N, S, E).

    Raises:
        ValueError: a parameter is missing or has another shape.

    torch counterpart: torch.nn.TransformerEncoderLayer.
    Source: Vaswani et al., "Attention Is All You Need", section 3.1, "Encoder".
    """

    def attend(x: Node) -> Node:
        own = parameters.within("self_attn")
        return multihead_attention(tape, config.attention, own, x, x, x, mask)[0]

    x = residual(tape, config, parameters.within("norm1"), src, attend)
    return residual(
        tape,
        config,
        parameters.within("norm2"),
        x,
        lambda inner: feed_forward(tape, config, parameters, inner),
    )


def decoder_layer(
    tape: Tape,
    config: LayerConfig,
    parameters: Parameters,
    tgt: Node,
    memory: Node,
    tgt_mask: Mask,
    memory_mask: Mask,
) -> Node:
    """Self-attention, attention to the memory, then the feed-forward block, each in a residual.

    Args:
        tape: where the computation is recorded.
        config: the layer's options.
        parameters: self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3.
        tgt: (N, T, E).
        memory: (N, S, E); keys and values, which no norm of this layer touches.
        tgt_mask: over (N, H, T, T), True = hidden.
        memory_mask: over (N, H, T, S), True = hidden.

    Returns:
        (N, T, E).

    Raises:
        ValueError: a parameter is missing or has another shape.

    torch counterpart: torch.nn.TransformerDecoderLayer.
    Source: Vaswani et al., "Attention Is All You Need", section 3.1, "Decoder".
    """

    def attend(x: Node) -> Node:
        own = parameters.within("self_attn")
        return multihead_attention(tape, config.attention, own, x, x, x, tgt_mask)[0]

    def look(x: Node) -> Node:
        own = parameters.within("multihead_attn")
        return multihead_attention(tape, config.attention, own, x, memory, memory, memory_mask)[0]

    x = residual(tape, config, parameters.within("norm1"), tgt, attend)
    x = residual(tape, config, parameters.within("norm2"), x, look)
    return residual(
        tape,
        config,
        parameters.within("norm3"),
        x,
        lambda inner: feed_forward(tape, config, parameters, inner),
    )
