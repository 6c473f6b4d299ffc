"""A fault: a small change to the handmade model, and the clauses that must notice it."""

import contextlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from conformance.cases.components import COMPONENTS

Change = Callable[[Any], Any]
# The fast core of the handmade model, and what says whether it is taken.
BLOCKS = "handmade.blockwise_attention"
BLOCKS_APPLY = "handmade.blockwise_function.applicable"


@dataclass(frozen=True)
class Fault:
    """One thing that a hand-built Transformer may get wrong.

    Attributes:
        name: short, in the field's terms.
        wrong: what it does instead.
        clauses: those that must catch it, the one that is about it first.
        changes: by seam, a dotted name in `handmade`, what makes the wrong function or class of the right one.
        components: where it shows.
    """

    name: str
    wrong: str
    clauses: tuple[str, ...]
    changes: Mapping[str, Change]
    components: tuple[str, ...] = tuple(COMPONENTS)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the handmade model has the fault, and random numbers come from one seed; outside, nothing changed.

        Only names of `handmade` are replaced, so torch and the oracle are what they were, inside as well. It is the
        whole check that runs inside: many clauses call the module, its layers or its class themselves.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.manual_seed(0)
            if not any(seam.startswith(BLOCKS) for seam in self.changes):
                # The faults of the definition show where it is what computes.
                stack.enter_context(mock.patch(BLOCKS_APPLY, return_value=False))
            for seam, change in self.changes.items():
                owner, _, name = seam.rpartition(".")
                if owner.partition(".")[0] != "handmade":
                    raise ValueError(f"fault {self.name}: expected a seam in handmade, got {seam}")
                place = pkgutil.resolve_name(owner)
                made = change(getattr(place, name))
                if inspect.isclass(made):
                    made.__module__, made.__qualname__ = owner, name  # where pickle finds it
                stack.enter_context(mock.patch.object(place, name, made))
            yield
