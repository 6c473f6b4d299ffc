"""Faults of dropout."""

import contextlib
from typing import Any

from torch import Tensor

import handmade.decoder
import handmade.encoder
from handmade.dropout import dropout

from .changes import Came, Right, attributes_of, built, given, instead, returning
from .fault import Fault
from .seams import ATTENDING, ATTENTION, DROPOUT, DROPOUT_MODULE, LAYERED, MODULES, on_both_layers


def _on_the_residual(right: Right, came: Came) -> Any:
    layer = came.self
    p, training = layer.dropout1.p, layer.training

    def residual(x: Tensor, sublayer: Right, norm: Right, norm_first: bool) -> Tensor:
        kept = dropout(x, p, training)
        return kept + sublayer(norm(x)) if norm_first else norm(kept + sublayer(x))

    with contextlib.ExitStack() as changed:
        for side in (handmade.encoder, handmade.decoder):
            changed.enter_context(attributes_of(side, residual=residual))
        for name, part in layer.named_children():
            if name in ("dropout1", "dropout2", "dropout3"):
                changed.enter_context(attributes_of(part, p=0.0))
        return right(**vars(came))


def _never_zero(part: Any) -> None:
    part.p = part.p or 0.1


FAULTS = (
    Fault(
        "dropout on the residual",
        "What a branch is added to is dropped, instead of the branch.",
        ("DROPOUT-09", "DROPOUT-10", "DROPOUT-11", "DROPOUT-16", "DROPOUT-03"),
        on_both_layers("forward", instead(_on_the_residual)),
        ("encoder_layer", "decoder_layer"),
    ),
    Fault(
        "scale 1/(1-p) missing",
        "What dropout keeps is not scaled.",
        ("DROPOUT-04", "DROPOUT-06", "DROPOUT-08", "DROPOUT-09", "DROPOUT-11", "DROPOUT-17"),
        {DROPOUT: returning(lambda output, came: output * (1 - came.p) if came.training else output)},
        ATTENDING,
    ),
    Fault(
        "dropout active in eval",
        "The modules of a layer drop in eval mode too.",
        ("DROPOUT-01",),
        {DROPOUT: given(training=lambda came: True)},
        LAYERED,
    ),
    Fault(
        "dropout left at 0.1 when 0 was asked",
        "A probability of 0 counts as none given.",
        ("DROPOUT-02", "MODE-03", "VALUE-03"),
        {f"{DROPOUT_MODULE}.__init__": built(_never_zero)},
        LAYERED,
    ),
    Fault(
        "attention dropout missing",
        "The weights are not dropped.",
        ("DROPOUT-04", "DROPOUT-06", "DROPOUT-07", "DROPOUT-17"),
        {ATTENTION: given(dropout_p=lambda came: 0.0)},
        ("attention", *MODULES),
    ),
)
