"""Faults of the feed-forward network."""

import functools

import torch

from handmade.activations import Activation, gelu, relu
from handmade.linear import linear

from .changes import derived, given, returning
from .fault import Change, Fault
from .seams import LAYERED, in_both_layers


def _as_relu(wrong: Activation) -> dict[str, Change]:
    return in_both_layers("resolve", returning(lambda found, came: wrong if came.activation == "relu" else found))


FAULTS = (
    Fault(
        "no activation",
        "The two projections follow each other.",
        ("VALUE-03", "VALUE-04"),
        in_both_layers("feed_forward", given(activation=lambda came: lambda x: x)),
        LAYERED,
    ),
    Fault(
        "derivative of ReLU at 0 is 1",
        "What is exactly 0 passes its gradient on.",
        ("VALUE-21",),
        _as_relu(lambda x: x.clamp(min=0)),
        LAYERED,
    ),
    Fault(
        "ReLU turns NaN into 0",
        "Only what is greater than 0 passes.",
        ("VALUE-21",),
        _as_relu(lambda x: torch.where(x > 0, x, torch.zeros_like(x))),
        LAYERED,
    ),
    Fault(
        "GELU as ReLU",
        '"gelu" is taken for "relu".',
        ("VALUE-11",),
        in_both_layers("resolve", returning(lambda found, came: relu if came.activation == "gelu" else found)),
        LAYERED,
    ),
    Fault(
        "tanh GELU for exact GELU",
        '"gelu" is computed by its approximation.',
        ("VALUE-11",),
        in_both_layers(
            "resolve",
            returning(
                lambda found, came: functools.partial(gelu, approximate="tanh") if came.activation == "gelu" else found
            ),
        ),
        LAYERED,
    ),
    Fault(
        "bias of the feed-forward ignored",
        "The biases of linear1 and linear2 are not added.",
        ("VALUE-03", "VALUE-04", "GRAD-02"),
        in_both_layers("Linear", derived(forward=lambda self, x: linear(x, self.weight))),
        LAYERED,
    ),
)
