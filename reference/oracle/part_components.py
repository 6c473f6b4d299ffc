"""The components that torch.nn lacks, or has beside its Transformer: from options and arguments to nodes."""

from __future__ import annotations

import math

import numpy as np

from . import mixture
from .activations import ACTIVATIONS
from .attention import attention_context, attention_weights
from .embedding import embedding, sinusoidal_positions
from .feed_forward import feed_forward
from .inputs import Arguments, Options, Parameters, check_shape
from .layer_config import LayerConfig
from .layout import layout_of
from .linear import linear
from .masks import Mask
from .rms_norm import rms_norm
from .rotary import rotary_turns, rotate
from .shapes import add, merge_heads, multiply, product, repeat_heads, reshape, split_heads
from .tape import Node, Tape

_Outputs = tuple["Node | None", ...]


def build_token_embedding(tape: Tape, options: Options, parameters: Parameters, arguments: Arguments) -> _Outputs:
    """An embedding times sqrt(E)."""
    width = options.size("d_model")
    weight = parameters.required("emb.weight", options.size("vocab_size"), width)
    found = tape.apply(embedding, weight, tokens=arguments.integers("ids"))
    return (tape.apply(multiply, found, factor=float(np.sqrt(width))),)


def build_positional_encoding(tape: Tape, options: Options, parameters: Parameters, arguments: Arguments) -> _Outputs:
    """The sinusoids of positions `offset`, `offset` + 1, ... added; the table has no end."""
    x = arguments.tensor("x", 2, 3)
    length, width = x.value.shape[-2], options.size("d_model")
    first = int(arguments.get("offset", 0))
    return (tape.apply(add, x, Node(sinusoidal_positions(first + length, width)[first:])),)


def build_rotary(tape: Tape, options: Options, parameters: Parameters, arguments: Arguments) -> _Outputs:
    """Pairs of features turned by their position."""
    x = arguments.tensor("x")
    return (_turned(tape, options, arguments, x, options.size("head_dim")),)


def _turned(tape: Tape, options: Options, arguments: Arguments, x: Node, width: int) -> Node:
    first, base = int(arguments.get("offset", 0)), float(options.get("base", 10000.0))
    turns = rotary_turns(x.value.shape[-2], width, base=base, first=first)
    return tape.apply(rotate, x, turns=turns, interleaved=bool(options.get("interleaved", True)))


def build_rms_norm(tape: Tape, options: Options, parameters: Parameters, arguments: Arguments) -> _Outputs:
    """torch.nn.RMSNorm; an eps of None is float64's."""
    shape = tuple(int(size) for size in np.atleast_1d(options.get("normalized_shape", ())))
    x = arguments.tensor("x")
    check_shape("argument 'x'", x.value.shape[-len(shape) :], shape)
    weight = parameters.required("weight", *shape) if options.get("elementwise_affine", True) else None
    eps = options.get("eps", None)
    eps = float(np.finfo(np.float64).eps if eps is None else eps)
    return (tape.apply(rms_norm, x, weight, axes=len(shape), eps=eps),)


def build_swiglu(tape: Tape, options: Options, parameters: Parameters, arguments: Arguments) -> _Outputs:
    """`(silu(x W1^T) * x W3^T) W2^T`, with biases where the option says so (Shazeer, "GLU Variants", equation 6)."""
    width, inner = options.size("d_model"), options.size("d_ff")

    def mapped(x: Node, name: str, outputs: int, inputs: int) -> Node:
        weight = parameters.required(f"{name}.weight", outputs, inputs)
        bias = parameters.optional(f"{name}.bias", outputs, present=bool(options.get("bias", False)))
        return tape.apply(linear, x, weight, bias)

    x = arguments.tensor("x")
    opened = tape.apply(ACTIVATIONS["silu"], mapped(x, "w1", inner, width))
    return (mapped(tape.apply(product, opened, mapped(x, "w3", inner, width)), "w2", width, inner),)


def build_mixture_of_experts(tape: Tape, options: Options, parameters: Parameters, arguments: Arguments) -> _Outputs:
    """The dense loop over all experts, and the load-balancing loss."""
    width, inner = options.size("d_model"), options.size("d_ff")
    experts, top_k = options.size("num_experts"), options.size("top_k", 2)
    activation, bias = options.get("activation", "relu"), bool(options.get("bias", True))
    config = LayerConfig(width, 1, inner, activation=activation, bias=bias)
    x = arguments.tensor("x")
    tokens = tape.apply(reshape, x, shape=(-1, width))
    logits = tape.apply(linear, tokens, parameters.required("router.weight", experts, width), None)
    likely = tape.apply(mixture.probabilities, logits)

    picked = mixture.choices(likely.value, top_k)
    chosen = mixture.admitted(picked, experts, None)
    factor = options.get("capacity_factor", None)
    room = None if factor is None else math.ceil(factor * picked.size / experts)
    kept = mixture.admitted(picked, experts, room)

    renormalize = bool(options.get("renormalize", True))
    weights = tape.apply(mixture.gates, likely, chosen=chosen, kept=kept, renormalize=renormalize)
    outputs = [feed_forward(tape, config, parameters.within(f"experts.{e}"), tokens) for e in range(experts)]
    output = tape.apply(reshape, tape.apply(mixture.mixed, weights, *outputs), shape=x.value.shape)
    return output, tape.apply(mixture.balance, likely, parts=chosen.sum(axis=0) / picked.size)


def build_grouped_query_attention(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> _Outputs:
    """Self-attention whose query heads share keys and values (Ainslie et al., "GQA", section 2.2)."""
    width, heads = options.size("d_model"), options.size("num_heads")
    groups = options.size("num_kv_heads", heads)
    size = width // heads
    layout = layout_of(tape, arguments, "x", batch_first=True)
    x = layout.read("x", width)

    def mapped(given: Node, name: str, outputs: int) -> Node:
        weight = parameters.required(f"{name}.weight", outputs, width)
        bias = parameters.optional(f"{name}.bias", outputs, present=bool(options.get("bias", True)))
        return tape.apply(linear, given, weight, bias)

    query = tape.apply(split_heads, mapped(x, "q_proj", width), heads=heads)
    key, value = (
        tape.apply(split_heads, mapped(x, name, groups * size), heads=groups) for name in ("k_proj", "v_proj")
    )
    if options.get("rotary", False):
        query, key = (_turned(tape, options, arguments, node, size) for node in (query, key))
    key, value = (tape.apply(repeat_heads, node, times=heads // groups) for node in (key, value))
    mask = layout.mask("attn_mask", "key_padding_mask", x, x, heads)
    if arguments.get("is_causal", False):
        later = np.triu(np.ones((x.value.shape[1],) * 2, dtype=bool), 1)
        mask = Mask(mask.additive, later if mask.hidden is None else mask.hidden | later)
    context = _attended(tape, query, key, value, mask)
    return (layout.write(mapped(tape.apply(merge_heads, context), "out_proj", width)),)


def build_self_attention(tape: Tape, options: Options, parameters: Parameters, arguments: Arguments) -> _Outputs:
    """Three projections and one head, nothing after it (Vaswani et al., section 3.2.1)."""
    width = options.size("d_model")
    layout = layout_of(tape, arguments, "x", batch_first=True)
    x = layout.read("x", width)
    query, key, value = (
        tape.apply(
            split_heads,
            tape.apply(
                linear,
                x,
                parameters.required(f"{name}.weight", width, width),
                parameters.optional(f"{name}.bias", width, present=bool(options.get("bias", True))),
            ),
            heads=1,
        )
        for name in ("W_q", "W_k", "W_v")
    )
    mask = layout.mask("attn_mask", "key_padding_mask", x, x, 1)
    return (layout.write(tape.apply(merge_heads, _attended(tape, query, key, value, mask))),)


def _attended(tape: Tape, query: Node, key: Node, value: Node, mask: Mask) -> Node:
    scale = 1 / np.sqrt(query.value.shape[-1])
    weights = tape.apply(attention_weights, query, key, mask.additive, hidden=mask.hidden, scale=scale)
    return tape.apply(attention_context, weights, value, hidden=mask.hidden)
