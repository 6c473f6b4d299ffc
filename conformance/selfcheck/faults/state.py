"""Faults of parameters, buffers and initial values."""

from typing import Any

import torch

from .changes import built, derived
from .fault import Fault
from .seams import LAYERED, MODULES, MULTIHEAD, in_both_layers, on_both_layers


def _buffer(attn: Any) -> None:
    attn.register_buffer("scale", torch.tensor(attn.head_dim**-0.5))


def _attention_last(layer: Any) -> None:
    layer._modules["self_attn"] = layer._modules.pop("self_attn")


def _kernel(self, *given, **options):  # type: ignore[no-untyped-def]
    super(type(self), self).__init__(*given, **options)
    self.kernel = self._parameters.pop("weight")


def _drawn_again(attn: Any) -> None:
    attn.reset_parameters()


FAULTS = (
    Fault(
        "an extra persistent buffer",
        "Attention keeps its scale in the state dict.",
        ("STATE-01",),
        {f"{MULTIHEAD}.__init__": built(_buffer)},
        MODULES,
    ),
    Fault(
        "parameters in another order",
        "A layer's attention comes after its feed-forward network and its norms.",
        ("STATE-01",),
        on_both_layers("__init__", built(_attention_last)),
        LAYERED,
    ),
    Fault(
        "a parameter renamed",
        "linear1 and linear2 call their weight kernel.",
        ("STATE-01", "INIT-01"),
        in_both_layers("Linear", derived(__init__=_kernel, weight=property(lambda self: self.kernel))),
        LAYERED,
    ),
    Fault(
        "initialisation differs for the same seed",
        "Attention draws its parameters twice: the same distribution, other numbers.",
        ("INIT-01", "INIT-02"),
        {f"{MULTIHEAD}.__init__": built(_drawn_again)},
        MODULES,
    ),
)
