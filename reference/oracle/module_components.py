"""The components that are modules: from torch's options and arguments to nodes."""

from __future__ import annotations

from . import layers, stacks
from .feed_forward import feed_forward
from .inputs import Arguments, Options, Parameters
from .layer_config import LayerConfig
from .layout import Layout, layout_of
from .masks import Mask
from .multihead_attention import AttentionConfig, multihead_attention
from .shapes import mean_over, reshape
from .tape import Node, Tape


def build_multihead_attention(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.MultiheadAttention: the output, and the weights or None."""
    width, heads = options.size("embed_dim"), options.size("num_heads")
    config = AttentionConfig(
        embed_dim=width,
        num_heads=heads,
        bias=bool(options.get("bias", True)),
        add_bias_kv=bool(options.get("add_bias_kv", False)),
        add_zero_attn=bool(options.get("add_zero_attn", False)),
        kdim=options.get("kdim", None),
        vdim=options.get("vdim", None),
    )
    layout = _layout(tape, options, arguments, "query")
    query = layout.read("query", width)
    batch = query.value.shape[0]
    key = layout.read("key", width if config.kdim is None else config.kdim, batch)
    value = layout.read("value", width if config.vdim is None else config.vdim, batch)
    if key.value.shape[1] != value.value.shape[1]:
        raise ValueError(
            f"argument 'value': expected the key's length {key.value.shape[1]}, got {value.value.shape[1]}"
        )
    mask = layout.mask("attn_mask", "key_padding_mask", query, key, heads)
    output, weights = multihead_attention(tape, config, parameters, query, key, value, mask)
    if not arguments.get("need_weights", True):
        return layout.write(output), None
    if arguments.get("average_attn_weights", True):
        weights = tape.apply(mean_over, weights, axis=1)
    if not layout.batched:
        weights = tape.apply(reshape, weights, shape=weights.value.shape[1:])
    return layout.write(output), weights


def build_feed_forward(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """linear1, activation and linear2 of torch.nn.TransformerEncoderLayer."""
    config = _layer_config(options, nhead=1)
    x = arguments.tensor("input")
    if x.value.shape[-1:] != (config.d_model,):
        raise ValueError(f"argument 'input': expected {config.d_model} features, got shape {x.value.shape}")
    return (feed_forward(tape, config, parameters, x),)


def build_encoder_layer(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.TransformerEncoderLayer."""
    config = _layer_config(options)
    layout = _layout(tape, options, arguments, "src")
    src = layout.read("src", config.d_model)
    mask = layout.mask("src_mask", "src_key_padding_mask", src, src, config.nhead)
    return (layout.write(layers.encoder_layer(tape, config, parameters, src, mask)),)


def build_encoder(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.TransformerEncoder."""
    config = _layer_config(options)
    layout = _layout(tape, options, arguments, "src")
    src = layout.read("src", config.d_model)
    output = stacks.encoder(
        tape,
        config,
        parameters,
        src,
        layout.mask("mask", "src_key_padding_mask", src, src, config.nhead),
        num_layers=options.size("num_layers"),
        final_norm=bool(options.get("norm", False)),
    )
    return (layout.write(output),)


def build_decoder_layer(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.TransformerDecoderLayer."""
    config = _layer_config(options)
    layout = _layout(tape, options, arguments, "tgt")
    tgt, memory, tgt_mask, memory_mask = _target_side(layout, config)
    output = layers.decoder_layer(tape, config, parameters, tgt, memory, tgt_mask, memory_mask)
    return (layout.write(output),)


def build_decoder(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.TransformerDecoder."""
    config = _layer_config(options)
    layout = _layout(tape, options, arguments, "tgt")
    tgt, memory, tgt_mask, memory_mask = _target_side(layout, config)
    output = stacks.decoder(
        tape,
        config,
        parameters,
        tgt,
        memory,
        tgt_mask,
        memory_mask,
        num_layers=options.size("num_layers"),
        final_norm=bool(options.get("norm", False)),
    )
    return (layout.write(output),)


def build_transformer(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.Transformer."""
    config = _layer_config(options, d_model=512, nhead=8)
    layout = _layout(tape, options, arguments, "src")
    src = layout.read("src", config.d_model)
    tgt = layout.read("tgt", config.d_model, src.value.shape[0])
    heads = config.nhead
    output = stacks.transformer(
        tape,
        config,
        parameters,
        src,
        tgt,
        layout.mask("src_mask", "src_key_padding_mask", src, src, heads),
        layout.mask("tgt_mask", "tgt_key_padding_mask", tgt, tgt, heads),
        layout.mask("memory_mask", "memory_key_padding_mask", tgt, src, heads),
        num_encoder_layers=options.size("num_encoder_layers", 6),
        num_decoder_layers=options.size("num_decoder_layers", 6),
    )
    return (layout.write(output),)


def _layout(tape: Tape, options: Options, arguments: Arguments, name: str) -> Layout:
    return layout_of(tape, arguments, name, batch_first=bool(options.get("batch_first", False)))


def _layer_config(options: Options, d_model: int | None = None, nhead: int | None = None) -> LayerConfig:
    return LayerConfig(
        d_model=options.size("d_model", d_model),
        nhead=options.size("nhead", nhead),
        dim_feedforward=options.size("dim_feedforward", 2048),
        activation=options.get("activation", "relu"),
        layer_norm_eps=float(options.get("layer_norm_eps", 1e-5)),
        norm_first=bool(options.get("norm_first", False)),
        bias=bool(options.get("bias", True)),
    )


def _target_side(layout: Layout, config: LayerConfig) -> tuple[Node, Node, Mask, Mask]:
    tgt = layout.read("tgt", config.d_model)
    memory = layout.read("memory", config.d_model, tgt.value.shape[0])
    heads = config.nhead
    return (
        tgt,
        memory,
        layout.mask("tgt_mask", "tgt_key_padding_mask", tgt, tgt, heads),
        layout.mask("memory_mask", "memory_key_padding_mask", tgt, memory, heads),
    )
