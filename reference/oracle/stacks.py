"""The stacks: encoder, decoder and the whole Transformer, batch first: (N, L, E)."""

from __future__ import annotations

from .inputs import Parameters
from .layer_config import LayerConfig
from .layers import decoder_layer, encoder_layer, norm
from .masks import Mask
from .tape import Node, Tape


def encoder(
    tape: Tape,
    config: LayerConfig,
    parameters: Parameters,
    src: Node,
    mask: Mask,
    *,
    num_layers: int,
    final_norm: bool,
) -> Node:
    """Encoder layers in a row, then the final norm where there is one.

    Formula: `x_0 = src`, `x_i = layer_i(x_{i-1})`, `out = norm(x_n)`.

    Args:
        tape: where the computation is recorded.
        config: the layers' options.
        parameters: layers.0, ..., and norm.
        src: (N, S, E).
        mask: over (N, H, S, S), True = hidden.
        num_layers: n.
        final_norm: whether the norm is there.

    Returns:
        The memory (N, S, E).

    Raises:
        ValueError: a parameter is missing or has another shape.

    torch counterpart: torch.nn.TransformerEncoder.
    Source: Vaswani et al., "Attention Is All You Need", section 3.1, "Encoder".
    """
    x = src
    for index in range(num_layers):
        x = encoder_layer(tape, config, parameters.within(f"layers.{index}"), x, mask)
    return norm(tape, config, parameters.within("norm"), x) if final_norm else x


def decoder(
    tape: Tape,
    config: LayerConfig,
    parameters: Parameters,
    tgt: Node,
    memory: Node,
    tgt_mask: Mask,
    memory_mask: Mask,
    *,
    num_layers: int,
    final_norm: bool,
) -> Node:
    """Decoder layers in a row, all on the same memory, then the final norm where there is one.

    Formula: `x_0 = tgt`, `x_i = layer_i(x_{i-1}, memory)`, `out = norm(x_n)`.

    Args:
        tape: where the computation is recorded.
        config: the layers' options.
        parameters: layers.0, ..., and norm.
        tgt: (N, T, E).
        memory: (N, S, E).
        tgt_mask: over (N, H, T, T), True = hidden.
        memory_mask: over (N, H, T, S), True = hidden.
        num_layers: n.
        final_norm: whether the norm is there.

    Returns:
        (N, T, E).

    Raises:
        ValueError: a parameter is missing or has another shape.

    torch counterpart: torch.nn.TransformerDecoder.
    Source: Vaswani et al., "Attention Is All You Need", section 3.1, "Decoder".
    """
    x = tgt
    for index in range(num_layers):
        own = parameters.within(f"layers.{index}")
        x = decoder_layer(tape, config, own, x, memory, tgt_mask, memory_mask)
    return norm(tape, config, parameters.within("norm"), x) if final_norm else x


def transformer(
    tape: Tape,
    config: LayerConfig,
    parameters: Parameters,
    src: Node,
    tgt: Node,
    src_mask: Mask,
    tgt_mask: Mask,
    memory_mask: Mask,
    *,
    num_encoder_layers: int,
    num_decoder_layers: int,
) -> Node:
    """The encoder's memory of the source, read by the decoder; both stacks end in a norm.

    Formula: `out = decoder(tgt, encoder(src))`.

    Args:
        tape: where the computation is recorded.
        config: the layers' options.
        parameters: encoder and decoder.
        src: (N, S, E).
        tgt: (N, T, E).
        src_mask: over (N, H, S, S), True = hidden.
        tgt_mask: over (N, H, T, T), True = hidden.
        memory_mask: over (N, H, T, S), True = hidden.
        num_encoder_layers: the encoder's depth.
        num_decoder_layers: the decoder's depth.

    Returns:
        (N, T, E).

    Raises:
        ValueError: a parameter is missing or has another shape.

    torch counterpart: torch.nn.Transformer.
    Source: Vaswani et al., "Attention Is All You Need", section 3.1, figure 1.
    """
    memory = encoder(
        tape,
        config,
        parameters.within("encoder"),
        src,
        src_mask,
        num_layers=num_encoder_layers,
        final_norm=True,
    )
    return decoder(
        tape,
        config,
        parameters.within("decoder"),
        tgt,
        memory,
        tgt_mask,
        memory_mask,
        num_layers=num_decoder_layers,
        final_norm=True,
    )
