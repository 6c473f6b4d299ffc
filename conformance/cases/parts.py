"""The parts around torch.nn's Transformer, and those that it lacks: how each is built and called, batch first."""

from typing import Any

from .case import Case
from .component import Attention, Component, Shapes

_SELF = Attention("x", "x", "attn_mask", "key_padding_mask", "attn_mask", None)


def _size(case: Case) -> tuple[int, int]:
    return (1 if case.batch is None else case.batch, case.target)


def _same(name: str, **flags: str) -> Any:
    """A part that maps (batch, length, d_model) to the same; flags by the fields of the case that hold them."""

    def shapes(case: Case) -> Shapes:
        shape = (*_size(case), case.d_model)
        return Shapes({name: shape}, (shape,), flags={flag: getattr(case, field) for flag, field in flags.items()})

    return shapes


def _tokens(name: str) -> Any:
    def shapes(case: Case) -> Shapes:
        return Shapes({}, ((*_size(case), case.d_model),), {name: (_size(case), case.vocabulary)})

    return shapes


def _heads(case: Case) -> Shapes:
    batch, length = _size(case)
    shape = (batch, case.heads, length, case.head_dim)
    return Shapes({"x": shape}, (shape,), flags={"offset": case.first})


def _experts(case: Case) -> Shapes:
    shape = (*_size(case), case.d_model)
    return Shapes({"x": shape}, (shape, ()))


def _logits(case: Case) -> Shapes:
    """(N, C), or (C,), (N, C, L) by the number of dimensions."""
    batch, length = _size(case)
    leading, trailing = {1: ((), ()), 2: ((batch * length,), ()), 3: ((batch,), (length,))}[min(case.dims, 3)]
    target = (*leading, *trailing)
    return Shapes(
        {"input": (*leading, case.vocabulary, *trailing)},
        (target if case.reduction == "none" else (),),
        {"target": (target, case.vocabulary)},
    )


def _sequences(case: Case) -> Shapes:
    batch = _size(case)[0]
    logits = (batch, case.target, case.vocabulary)
    ids = {name: ((batch, length), case.vocabulary) for name, length in (("src", case.source), ("tgt", case.target))}
    return Shapes({}, (logits,), ids)


def _text(case: Case) -> Shapes:
    return Shapes({}, ((*_size(case), case.vocabulary),), {"ids": (_size(case), case.vocabulary)})


def _no_options(_: Case) -> dict[str, Any]:
    return {}


def _embedding(case: Case) -> dict[str, Any]:
    return {"num_embeddings": case.vocabulary, "embedding_dim": case.d_model, "padding_idx": case.padding_idx}


def _token_embedding(case: Case) -> dict[str, Any]:
    return {"vocab_size": case.vocabulary, "d_model": case.d_model}


def _positional_encoding(case: Case) -> dict[str, Any]:
    return {"d_model": case.d_model, "max_len": case.max_len}


def _rotary(case: Case) -> dict[str, Any]:
    return {"head_dim": case.head_dim, "base": case.base, "interleaved": case.interleaved}


def _rms_norm(case: Case) -> dict[str, Any]:
    sizes = (case.target, case.d_model)[-case.normalized_dims :]
    return {
        "normalized_shape": sizes if case.normalized_dims > 1 else case.d_model,
        "eps": case.layer_norm_eps,
        "elementwise_affine": case.elementwise_affine,
    }


def _swiglu(case: Case) -> dict[str, Any]:
    return {"d_model": case.d_model, "d_ff": case.dim_feedforward, "bias": case.bias}


def _mixture_of_experts(case: Case) -> dict[str, Any]:
    return {
        "d_model": case.d_model,
        "d_ff": case.dim_feedforward,
        "num_experts": case.experts,
        "top_k": case.top_k,
        "capacity_factor": case.capacity_factor,
        "activation": case.activation,
        "bias": case.bias,
        "renormalize": case.renormalize,
    }


def _grouped_query_attention(case: Case) -> dict[str, Any]:
    return {
        "d_model": case.d_model,
        "num_heads": case.heads,
        "num_kv_heads": case.key_heads or case.heads,
        "bias": case.bias,
        "rotary": case.rotary,
        "base": case.base,
        "interleaved": case.interleaved,
    }


def _self_attention(case: Case) -> dict[str, Any]:
    return {"d_model": case.d_model, "bias": case.bias}


def _cross_entropy(case: Case) -> dict[str, Any]:
    return {
        "ignore_index": case.ignore_index,
        "label_smoothing": case.label_smoothing,
        "reduction": case.reduction,
    }


def _sequence_model(case: Case) -> dict[str, Any]:
    return {
        "vocab_size": case.vocabulary,
        "d_model": case.d_model,
        "h": case.heads,
        "d_ff": case.dim_feedforward,
        "N": case.layers,
        "norm_first": case.norm_first,
        "tied": case.tied,
        "pad": case.padding_idx,
        "max_len": case.max_len,
    }


def _language_model(case: Case) -> dict[str, Any]:
    return {
        "vocab_size": case.vocabulary,
        "d_model": case.d_model,
        "h": case.heads,
        "d_ff": case.dim_feedforward,
        "N": case.layers,
        "block_size": case.max_len,
    }


PARTS: dict[str, Component] = {
    "embedding": Component((), (), _embedding, _tokens("input")),
    "token_embedding": Component((), (), _token_embedding, _tokens("ids")),
    "positional_encoding": Component(("x",), (), _positional_encoding, _same("x", offset="first")),
    "rotary": Component(("x",), (), _rotary, _heads),
    "rms_norm": Component(("x",), (), _rms_norm, _same("x")),
    "swiglu": Component(("x",), (), _swiglu, _same("x")),
    "mixture_of_experts": Component(("x",), (), _mixture_of_experts, _experts),
    "grouped_query_attention": Component(
        ("x",), (_SELF,), _grouped_query_attention, _same("x", is_causal="is_causal", offset="first")
    ),
    "self_attention": Component(("x",), (_SELF,), _self_attention, _same("x")),
    "cross_entropy": Component(("input",), (), _cross_entropy, _logits),
    # Models and what is decoded from them have no oracle: their clauses are about what they do.
    "sequence_model": Component((), (), _sequence_model, _sequences),
    "language_model": Component((), (), _language_model, _text),
    "text_model": Component((), (), _no_options, _text),
    "decoding": Component((), (), _no_options, _text),
}
