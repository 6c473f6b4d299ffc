"""Faults that the suite must catch: each a small change to the handmade model."""

import inspect
import pkgutil

from . import (
    attention_core,
    blocks,
    caches,
    decoding,
    dropout,
    feed_forward,
    gradients,
    heads,
    mask_values,
    masks,
    norms,
    parts,
    precision,
    stacks,
    state,
    weights,
)
from .changes import derived, given
from .fault import Fault

FAULTS: tuple[Fault, ...] = (
    *attention_core.FAULTS,
    *blocks.FAULTS,
    *masks.FAULTS,
    *mask_values.FAULTS,
    *heads.FAULTS,
    *weights.FAULTS,
    *norms.FAULTS,
    *feed_forward.FAULTS,
    *stacks.FAULTS,
    *dropout.FAULTS,
    *gradients.FAULTS,
    *precision.FAULTS,
    *state.FAULTS,
    *caches.FAULTS,
    *decoding.FAULTS,
    *parts.FAULTS,
)
# What looks like a fault and is none, with the reason.
EQUIVALENT: dict[str, str] = {**masks.EQUIVALENT}

# Everything that a fault replaces, replaced by what does the same: no clause may see a difference.
NOTHING = Fault(
    "nothing",
    "Every seam goes through the machinery of the faults, and nothing is wrong.",
    (),
    {
        seam: derived() if inspect.isclass(pkgutil.resolve_name(seam)) else given()
        for fault in FAULTS
        for seam in fault.changes
    },
)

__all__ = ["EQUIVALENT", "FAULTS", "NOTHING", "Fault"]
