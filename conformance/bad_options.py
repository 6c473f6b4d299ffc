"""Wrong constructor options as data; see `bad_calls`.

torch takes a negative number of layers, and a negative dropout of `MultiheadAttention`, so they do not stand here.
"""

from collections.abc import Iterator

from .bad_calls import BadCall, change
from .cases.case import Case
from .cases.components import LAYERS


def sizes(case: Case) -> Iterator[BadCall]:
    """Sizes that are not positive, or heads that do not divide the features."""
    if case.component == "layer_norm":
        yield change("normalized_shape", -1)
        return
    features, heads = ("embed_dim", "num_heads") if case.component == "multihead_attention" else ("d_model", "nhead")
    for name in (features, heads):
        yield change(name, 0)
        yield change(name, -1)
    yield change(heads, case.heads + 2, features)
    for name in ("kdim", "vdim") if features == "embed_dim" else ("dim_feedforward",):
        yield change(name, -1)


def values(case: Case) -> Iterator[BadCall]:
    """A dropout that is no probability, an activation that is none."""
    yield change("dropout", 1.1)
    if case.component != "multihead_attention":
        yield change("dropout", -0.1)
        yield change("activation", "swish")
        yield change("activation", 3)


def kinds(case: Case) -> Iterator[BadCall]:
    """Arguments of the wrong kind."""
    if case.component == "layer_norm":
        yield change("normalized_shape", 2.5)
        yield change("eps", "small")
        return
    if case.component == "multihead_attention":
        yield change("embed_dim", float(case.d_model))
        yield change("dropout", "much")
        return
    yield change("d_model", float(case.d_model))
    yield change("dim_feedforward", 2.5)
    yield change("dropout", "much")
    yield change("layer_norm_eps", "small")
    if case.component not in LAYERS:
        for name in (
            ("num_encoder_layers", "num_decoder_layers") if case.component == "transformer" else ("num_layers",)
        ):
            yield change(name, 1.5, "num_layers")
