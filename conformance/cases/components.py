"""What each component is: its tensors, its attentions, its constructor options."""

from typing import Any

from .case import Case
from .component import Attention, Component
from .parts import PARTS


def _no_options(_: Case) -> dict[str, Any]:
    return {}


def _layer_norm(case: Case) -> dict[str, Any]:
    sizes = (case.target, case.d_model)[-case.normalized_dims :]
    return {
        "normalized_shape": sizes if case.normalized_dims > 1 else case.d_model,
        "eps": case.layer_norm_eps,
        "elementwise_affine": case.elementwise_affine,
        "bias": case.bias,
    }


def _multihead_attention(case: Case) -> dict[str, Any]:
    return {
        "embed_dim": case.d_model,
        "num_heads": case.heads,
        "bias": case.bias,
        "add_bias_kv": case.add_bias_kv,
        "add_zero_attn": case.add_zero_attn,
        "kdim": case.kdim,
        "vdim": case.vdim,
        "batch_first": case.batch_first,
    }


def _layer(case: Case) -> dict[str, Any]:
    return {
        "d_model": case.d_model,
        "nhead": case.heads,
        "dim_feedforward": case.dim_feedforward,
        "activation": case.activation,
        "layer_norm_eps": case.layer_norm_eps,
        "batch_first": case.batch_first,
        "norm_first": case.norm_first,
        "bias": case.bias,
    }


def _stack(case: Case) -> dict[str, Any]:
    return {**_layer(case), "num_layers": case.layers, "norm": case.final_norm}


def _transformer(case: Case) -> dict[str, Any]:
    return {**_layer(case), "num_encoder_layers": case.layers, "num_decoder_layers": case.layers}


_SELF = Attention("src", "src", "src_mask", "src_key_padding_mask", "src_mask", "is_causal")
_STACK_SELF = Attention("src", "src", "src_mask", "src_key_padding_mask", "mask", "is_causal")
_FULL_SELF = Attention("src", "src", "src_mask", "src_key_padding_mask", "src_mask", "src_is_causal")
_TARGET = Attention("tgt", "tgt", "tgt_mask", "tgt_key_padding_mask", "tgt_mask", "tgt_is_causal")
_MEMORY = Attention("tgt", "memory", "memory_mask", "memory_key_padding_mask", "memory_mask", "memory_is_causal")

# What torch.nn makes a Transformer of; what stands around it, and what it lacks, are the parts.
TRANSFORMER: dict[str, Component] = {
    "attention": Component(
        ("query", "key", "value"), (Attention("query", "key", "attn_mask", None, "attn_mask", None),), _no_options
    ),
    "multihead_attention": Component(
        ("query", "key", "value"),
        (Attention("query", "key", "attn_mask", "key_padding_mask", "attn_mask", "is_causal"),),
        _multihead_attention,
    ),
    "layer_norm": Component(("input",), (), _layer_norm),
    "encoder_layer": Component(("src",), (_SELF,), _layer),
    "decoder_layer": Component(("tgt", "memory"), (_TARGET, _MEMORY), _layer),
    "encoder": Component(("src",), (_STACK_SELF,), _stack),
    "decoder": Component(("tgt", "memory"), (_TARGET, _MEMORY), _stack),
    "transformer": Component(("src", "tgt"), (_FULL_SELF, _TARGET, _MEMORY), _transformer),
}
COMPONENTS: dict[str, Component] = {**TRANSFORMER, **PARTS}

LAYERS = ("encoder_layer", "decoder_layer")
STACKS = ("encoder", "decoder", "transformer")


def length(case: Case, tensor: str) -> int:
    """The number of positions of a tensor of the case."""
    if tensor in ("src", "memory"):
        return case.source
    if tensor in ("key", "value") and case.attends != "self":
        return case.source
    return case.target


def shared_tensors(case: Case) -> dict[str, str]:
    """The tensors that are another one: key and value in self-attention, value where memory is attended to."""
    return {"self": {"key": "query", "value": "query"}, "memory": {"value": "key"}, "cross": {}}[case.attends]


def masks_of(case: Case) -> dict[str, str]:
    """The masks that a case has: field → kind."""
    fields = [
        field for attention in COMPONENTS[case.component].attentions for field in (attention.mask, attention.padding)
    ]
    return {field: getattr(case, field) for field in fields if field and getattr(case, field) != "none"}
