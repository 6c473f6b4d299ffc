"""The entry: one component's outputs and gradients, from arrays alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from . import module_components as modules
from . import part_components as parts
from . import primitive_components as primitives
from .inputs import Arguments, Options, Parameters, check_names, check_shape, float_leaves
from .tape import Array, Node, Tape

_Builder = Callable[[Tape, Options, Parameters, Arguments], "tuple[Node | None, ...]"]

_LAYER = "d_model nhead dim_feedforward activation layer_norm_eps batch_first norm_first bias"
_DECODER = "tgt memory tgt_mask memory_mask tgt_key_padding_mask memory_key_padding_mask tgt_is_causal memory_is_causal"

# For each component its builder, its options and its arguments.
_COMPONENTS: Final[dict[str, tuple[_Builder, str, str]]] = {
    "attention": (
        primitives.build_attention,
        "",
        "query key value attn_mask dropout_p is_causal scale enable_gqa",
    ),
    "multihead_attention": (
        modules.build_multihead_attention,
        "embed_dim num_heads bias add_bias_kv add_zero_attn kdim vdim batch_first",
        "query key value key_padding_mask need_weights attn_mask average_attn_weights is_causal",
    ),
    "layer_norm": (
        primitives.build_layer_norm,
        "normalized_shape eps elementwise_affine bias",
        "input",
    ),
    "feed_forward": (modules.build_feed_forward, _LAYER, "input"),
    "encoder_layer": (
        modules.build_encoder_layer,
        _LAYER,
        "src src_mask src_key_padding_mask is_causal",
    ),
    "decoder_layer": (modules.build_decoder_layer, _LAYER, _DECODER),
    "encoder": (
        modules.build_encoder,
        f"{_LAYER} num_layers norm",
        "src mask src_key_padding_mask is_causal",
    ),
    "decoder": (modules.build_decoder, f"{_LAYER} num_layers norm", _DECODER),
    "transformer": (
        modules.build_transformer,
        f"{_LAYER} num_encoder_layers num_decoder_layers",
        "src tgt src_mask tgt_mask memory_mask src_key_padding_mask tgt_key_padding_mask "
        "memory_key_padding_mask src_is_causal tgt_is_causal memory_is_causal",
    ),
    "embedding": (
        primitives.build_embedding,
        "num_embeddings embedding_dim padding_idx scaled positions batch_first",
        "input",
    ),
    "cross_entropy": (
        primitives.build_cross_entropy,
        "ignore_index label_smoothing reduction",
        "input target",
    ),
    "token_embedding": (parts.build_token_embedding, "vocab_size d_model", "ids"),
    "positional_encoding": (parts.build_positional_encoding, "d_model max_len", "x offset"),
    "rotary": (parts.build_rotary, "head_dim base interleaved", "x offset"),
    "rms_norm": (parts.build_rms_norm, "normalized_shape eps elementwise_affine", "x"),
    "swiglu": (parts.build_swiglu, "d_model d_ff bias", "x"),
    "mixture_of_experts": (
        parts.build_mixture_of_experts,
        "d_model d_ff num_experts top_k capacity_factor activation bias renormalize",
        "x",
    ),
    "grouped_query_attention": (
        parts.build_grouped_query_attention,
        "d_model num_heads num_kv_heads bias rotary base interleaved",
        "x attn_mask key_padding_mask is_causal offset",
    ),
    "self_attention": (parts.build_self_attention, "d_model bias", "x attn_mask key_padding_mask"),
}


@dataclass(frozen=True)
class Evaluation:
    """What a component computes.

    Attributes:
        outputs: each output, or `None` for one that was not asked for.
        gradients: for every float argument and every parameter, by name, the gradient of
            `sum over outputs of sum(cotangent * output)`.
    """

    outputs: tuple[Array | None, ...]
    gradients: dict[str, Array]


def evaluate(
    component: str,
    options: Mapping[str, object],
    parameters: Mapping[str, Array],
    arguments: Mapping[str, object],
    cotangents: Sequence[Array | None],
) -> Evaluation:
    """Compute a component's outputs and all its gradients in float64.

    Formula: `outputs = f(parameters, arguments)`, `gradients = J^T cotangents`, J the
    derivative of f. Masks of the modules: bool True = hidden, float = added to the scores;
    attn_mask of "attention": bool True = keep. A row that sees no key has weights, context
    and gradients 0. The modules' is_causal flags are hints and change nothing.

    Args:
        component: "attention", "multihead_attention", "layer_norm", "feed_forward",
            "encoder_layer", "decoder_layer", "encoder", "decoder", "transformer",
            "embedding", "cross_entropy", or one of those that torch.nn lacks, "token_embedding",
            "positional_encoding", "rotary", "swiglu", "mixture_of_experts",
            "grouped_query_attention", "self_attention", and "rms_norm".
        options: the constructor's arguments by torch's names, a missing one at torch's
            default; activation is a key of `ACTIVATIONS`; encoder and decoder
            take `num_layers` and `norm` (a final norm or not) beside the layer's; embedding
            takes `scaled` and `positions` (bool) beside torch's; dropout is always off.
        parameters: arrays by torch's state_dict names; an absent bias is no bias.
        arguments: the forward arguments by torch's names and in torch's shapes, `None` for
            an absent one; the feed-forward block's is `input`.
        cotangents: one for each output, in its shape; `None` = zero.

    Returns:
        The outputs (two for "multihead_attention" and "mixture_of_experts", else one) and the gradients, zeros where
        nothing flows.

    Raises:
        ValueError: an unknown component, option or argument, a missing or leftover
            parameter, or a shape, type or value that does not fit.

    torch counterpart: the module or function of that name in torch.nn, and its backward.
    Source: Vaswani et al., "Attention Is All You Need", section 3.
    """
    check_names("component", [component], _COMPONENTS)
    build, option_names, argument_names = _COMPONENTS[component]
    tape = Tape()
    leaves = float_leaves(parameters)
    own = Parameters(leaves, set())
    read = Arguments(arguments, argument_names.split())
    # NaN and infinity are legitimate inputs here: IEEE results, no warnings.
    with np.errstate(all="ignore"):
        outputs = build(tape, Options(options, option_names.split()), own, read)
        own.check_all_used()
        found = tape.cotangents(_seeds(outputs, cotangents))
    gradients = {
        name: np.array(found.get(node, np.zeros_like(node.value))) for name, node in (read.leaves | leaves).items()
    }
    values = tuple(None if node is None else np.array(node.value) for node in outputs)
    return Evaluation(values, gradients)


def _seeds(outputs: tuple[Node | None, ...], cotangents: Sequence[Array | None]) -> dict[Node, Array]:
    if len(cotangents) != len(outputs):
        raise ValueError(f"cotangents: expected {len(outputs)}, one per output, got {len(cotangents)}")
    seeds: dict[Node, Array] = {}
    for index, (node, given) in enumerate(zip(outputs, cotangents, strict=True)):
        if given is None:
            continue
        if node is None:
            raise ValueError(f"cotangents[{index}]: expected None for an absent output")
        cotangent = np.asarray(given, dtype=np.float64)
        check_shape(f"cotangents[{index}]", cotangent.shape, node.value.shape)
        seeds[node] = cotangent
    return seeds
