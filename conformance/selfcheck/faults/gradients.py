"""Faults that show in gradients alone."""

from .changes import given
from .fault import Fault
from .seams import ATTENDING, ATTENTION, CROSS_ATTENTION, DECODER_LAYER, LINEAR, MODULES

FAULTS = (
    Fault(
        "gradient through k stopped",
        "The keys are taken for constants.",
        ("GRAD-01", "GRAD-02"),
        {ATTENTION: given(key=lambda came: came.key.detach())},
        ATTENDING,
    ),
    Fault(
        "gradient through memory stopped",
        "The decoder takes the memory for a constant.",
        ("GRAD-01",),
        {f"{DECODER_LAYER}.forward": given(memory=lambda came: came.memory.detach())},
        CROSS_ATTENTION,
    ),
    Fault(
        "bias gradient doubled",
        "A projection's bias gets its gradient twice.",
        ("GRAD-02",),
        {LINEAR: given(bias=lambda came: None if came.bias is None else came.bias + (came.bias - came.bias.detach()))},
        MODULES,
    ),
    Fault(
        "additive mask's gradient dropped",
        "A floating mask is taken for a constant.",
        ("GRAD-03",),
        {ATTENTION: given(attn_mask=lambda came: None if came.attn_mask is None else came.attn_mask.detach())},
        ATTENDING,
    ),
)
