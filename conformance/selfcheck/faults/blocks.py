"""Faults of the blockwise core: what only a core that splits its work can get wrong."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from .changes import given, returning
from .fault import BLOCKS, Change, Fault
from .seams import ATTENDING


def _blocks(change: Callable[[Any], dict[str, Any]]) -> dict[str, Change]:
    """Some attributes of every block are others."""
    return {
        f"{BLOCKS}.plan": returning(lambda made, came: [dataclasses.replace(block, **change(block)) for block in made])
    }


FAULTS = (
    Fault(
        "last key of a block left out",
        "A block ends one key too early.",
        ("VALUE-01", "VALUE-02"),
        _blocks(lambda b: {"keys": slice(b.keys.start, max(b.keys.stop - 1, b.keys.start)), "masked": slice(0, 0)}),
        ATTENDING,
    ),
    Fault(
        "mask of a block left out",
        "A block that is partly hidden is taken for one that is wholly seen.",
        ("CAUSAL-02", "MASK-12", "MASK-02"),
        _blocks(lambda b: {"masked": slice(b.keys.stop, b.keys.stop)}),
        ATTENDING,
    ),
    Fault(
        "sums forgotten in backward",
        "The exponentials are taken for weights.",
        ("GRAD-01", "GRAD-02"),
        {f"{BLOCKS}.backward": given(sums=lambda came: torch.ones_like(came.sums))},
        ATTENDING,
    ),
    Fault(
        "delta from another row",
        "What a row's weights sum to is taken off the next row's gradient.",
        ("GRAD-01", "GRAD-02"),
        {f"{BLOCKS}.backward": given(out=lambda came: came.out.roll(1, 2))},
        ATTENDING,
    ),
    Fault(
        "every score called small",
        "No maximum is subtracted, whatever the scores.",
        ("NUM-01", "NUM-02"),
        {f"{BLOCKS}.lost": returning(lambda made, came: False)},
        ATTENDING,
    ),
)
