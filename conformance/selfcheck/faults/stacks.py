"""Faults of the stacks."""

from typing import Any

from torch.nn import ModuleList

from handmade.encoder import TransformerEncoder

from .changes import Came, Right, attributes_of, derived, having, instead
from .fault import Fault
from .seams import DECODER, ENCODER, LAYERED, TRANSFORMER, in_both_layers, on_both_stacks


def _first_repeated(stack: Any) -> ModuleList:
    return ModuleList([stack.layers[0]] * len(stack.layers))


def _memory_unnormalised(right: Right, came: Came) -> Any:
    without_norm = having(norm=lambda stack: None)(TransformerEncoder.forward)
    with attributes_of(TransformerEncoder, forward=without_norm):
        return right(**vars(came))


FAULTS = (
    Fault(
        "all encoder layers share the first one's weights",
        "The encoder applies its first layer again and again.",
        ("VALUE-05", "VALUE-14", "GRAD-02"),
        {f"{ENCODER}.forward": having(layers=_first_repeated)},
        ("encoder", "transformer"),
    ),
    Fault(
        "all decoder layers share the first one's weights",
        "The decoder applies its first layer again and again.",
        ("VALUE-05", "VALUE-14", "GRAD-02"),
        {f"{DECODER}.forward": having(layers=_first_repeated)},
        ("decoder", "transformer"),
    ),
    Fault(
        "layers beyond the third skipped",
        "A stack applies three of its layers at most.",
        ("VALUE-05",),
        on_both_stacks("forward", having(layers=lambda stack: stack.layers[:3])),
        ("encoder", "decoder", "transformer"),
    ),
    Fault(
        "memory taken before the encoder's final norm",
        "The Transformer's decoder looks at what the last encoder layer returned.",
        ("VALUE-06", "VALUE-15"),
        {f"{TRANSFORMER}.forward": instead(_memory_unnormalised)},
        ("transformer",),
    ),
    Fault(
        "deepcopy shares a sub-module",
        "A copy of a layer has the very feed-forward projections of the original.",
        ("STATE-03", "INIT-10", "INIT-03"),
        in_both_layers("Linear", derived(__deepcopy__=lambda self, memo: self)),
        LAYERED,
    ),
)
