"""Faults of the feed-forward network."""

import functools

from handmade.activations import gelu, relu
from handmade.linear import linear

from .changes import derived, given, returning
from .fault import Fault
from .seams import LAYERED, in_both_layers

FAULTS = (
    Fault(
        "no activation",
        "The two projections follow each other.",
        ("VALUE-03", "VALUE-04"),
        in_both_layers("feed_forward", given(activation=lambda came: lambda x: x)),
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
