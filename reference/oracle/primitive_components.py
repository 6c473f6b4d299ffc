"""The components that are one primitive or a few: from torch's arguments to nodes."""

from __future__ import annotations

import numpy as np

from .attention import attention_context, attention_weights
from .cross_entropy import cross_entropy
from .embedding import embedding, sinusoidal_positions
from .inputs import Arguments, Options, Parameters, check_rank, check_shape
from .layer_norm import layer_norm
from .masks import Mask, single_mask
from .shapes import add, multiply, repeat_heads
from .tape import Node, Tape


def build_attention(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.functional.scaled_dot_product_attention: a bool mask is True = keep."""
    if arguments.get("dropout_p", 0.0) != 0.0:
        raise ValueError(f"argument 'dropout_p': expected 0, got {arguments.get('dropout_p', 0.0)}")
    query, key, value = (arguments.tensor(name) for name in ("query", "key", "value"))
    for name, node in (("query", query), ("key", key), ("value", value)):
        if node.value.ndim < 2:
            raise ValueError(f"argument {name!r}: expected at least 2 axes, got shape {node.value.shape}")
    if arguments.get("enable_gqa", False):
        key = _repeated(tape, "key", key, query)
        value = _repeated(tape, "value", value, query)
    width, keys = query.value.shape[-1], key.value.shape[-2]
    check_shape("argument 'key'", key.value.shape, (*key.value.shape[:-1], width))
    check_shape(
        "argument 'value'",
        value.value.shape,
        (*value.value.shape[:-2], keys, value.value.shape[-1]),
    )
    shapes = [node.value.shape[:-2] for node in (query, key, value)]
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            f"arguments 'query', 'key', 'value': expected batch axes that broadcast, got {shapes}"
        ) from None
    mask = _keep_mask(tape, arguments, (*batch, query.value.shape[-2], keys))
    scale = arguments.get("scale", None)
    weights = tape.apply(
        attention_weights,
        query,
        key,
        mask.additive,
        hidden=mask.hidden,
        scale=1 / np.sqrt(width) if scale is None else float(scale),
    )
    return (tape.apply(attention_context, weights, value, hidden=mask.hidden),)


def _repeated(tape: Tape, name: str, node: Node, query: Node) -> Node:
    check_rank(f"argument {name!r}", node.value.shape, max(query.value.ndim, 3))
    heads, own = query.value.shape[-3], node.value.shape[-3]
    if own == 0 or heads % own:
        raise ValueError(f"argument {name!r}: expected heads that divide the query's {heads}, got {own}")
    return tape.apply(repeat_heads, node, times=heads // own)


def _keep_mask(tape: Tape, arguments: Arguments, scores: tuple[int, ...]) -> Mask:
    given = arguments.mask("attn_mask")
    causal = arguments.get("is_causal", False)
    if given is None:
        queries, keys = np.arange(scores[-2]), np.arange(scores[-1])
        return Mask(None, keys > queries[:, None]) if causal else Mask()
    if causal:
        raise ValueError("argument 'is_causal': expected False beside an attn_mask, got True")
    shape = given.value.shape if isinstance(given, Node) else given.shape
    padded = (1,) * (len(scores) - len(shape)) + shape
    if len(padded) != len(scores) or any(size not in (1, whole) for size, whole in zip(padded, scores, strict=True)):
        raise ValueError(f"argument 'attn_mask': expected a shape that broadcasts to {scores}, got {shape}")
    return single_mask(tape, given if isinstance(given, Node) else ~given, padded)


def build_layer_norm(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.LayerNorm."""
    given = options.get("normalized_shape", None)
    if given is None:
        raise ValueError("option 'normalized_shape': expected an int or a tuple, got None")
    shape = tuple(int(size) for size in np.atleast_1d(given))
    x = arguments.tensor("input")
    check_shape("argument 'input'", x.value.shape[-len(shape) :], shape)
    affine = options.get("elementwise_affine", True)
    weight = parameters.required("weight", *shape) if affine else None
    bias = parameters.optional("bias", *shape, present=affine and options.get("bias", True))
    eps = float(options.get("eps", 1e-5))
    return (tape.apply(layer_norm, x, weight, bias, axes=len(shape), eps=eps),)


def build_embedding(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.Embedding; `scaled` multiplies by sqrt(E), `positions` adds the sinusoids."""
    count, width = options.size("num_embeddings"), options.size("embedding_dim")
    padding = options.get("padding_idx", None)
    if padding is not None and not -count <= padding < count:
        raise ValueError(f"option 'padding_idx': expected a row of {count}, got {padding}")
    tokens = arguments.integers("input")
    weight = parameters.required("weight", count, width)
    x = tape.apply(embedding, weight, tokens=tokens, padding_idx=padding)
    if options.get("scaled", False):
        x = tape.apply(multiply, x, factor=float(np.sqrt(width)))
    if options.get("positions", False):
        check_rank("argument 'input'", tokens.shape, 1, 2)
        first = tokens.ndim == 1 or not options.get("batch_first", False)
        table = sinusoidal_positions(tokens.shape[0 if first else 1], width)
        if tokens.ndim == 2:
            table = table[:, None] if first else table[None]
        x = tape.apply(add, x, Node(table))
    return (x,)


def build_cross_entropy(
    tape: Tape, options: Options, parameters: Parameters, arguments: Arguments
) -> tuple[Node | None, ...]:
    """torch.nn.CrossEntropyLoss with class indices."""
    logits = arguments.tensor("input")
    if logits.value.ndim == 0:
        raise ValueError("argument 'input': expected a class axis, got shape ()")
    loss = tape.apply(
        cross_entropy,
        logits,
        target=arguments.integers("target"),
        ignore_index=int(options.get("ignore_index", -100)),
        label_smoothing=float(options.get("label_smoothing", 0.0)),
        reduction=options.get("reduction", "mean"),
    )
    return (loss,)
