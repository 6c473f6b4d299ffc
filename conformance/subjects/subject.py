"""A subject: its name, its adapters, its runs, and what it supports."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..cases.case import Case
from ..runs import Runs
from .adapter import Adapter
from .torch_interface import TorchInterface

# A case's fields that are constructor options, by torch's names where those differ.
OPTIONS = {
    "norm_first": "norm_first",
    "activation": "activation",
    "layer_norm_eps": "layer_norm_eps",
    "bias": "bias",
    "final_norm": "norm",
    "add_bias_kv": "add_bias_kv",
    "add_zero_attn": "add_zero_attn",
    "kdim": "kdim",
    "vdim": "vdim",
    "elementwise_affine": "elementwise_affine",
    "batch_first": "batch_first",
}


class Subject:
    """An implementation under test.

    Attributes:
        name: as it was asked for.
        adapters: by component.
        strict: a SHOULD fails it like a MUST.
    """

    def __init__(self, name: str, adapters: Mapping[str, Adapter], strict: bool = False) -> None:
        self.name = name
        self.adapters = adapters
        self.strict = strict
        self.runs = Runs(adapters)

    def adapt(self, case: Case) -> Case | None:
        """The case as this subject can be asked it: with its own options, or None where it has no such component.

        An adapter fixes the options that it does not take; a case that wants another value becomes the one with its
        value, except where the adapter names several, of which others are left out.
        """
        adapter = self.adapters.get(case.component)
        if adapter is None:
            return None
        if isinstance(adapter, TorchInterface):
            return case
        changes: dict[str, Any] = {}
        for field, name in OPTIONS.items():
            default = next(f.default for f in dataclasses.fields(Case) if f.name == field)
            allowed = adapter.reference.get(name, default)
            if not isinstance(allowed, set | frozenset | list | tuple):
                changes[field] = allowed
            elif getattr(case, field) not in allowed:
                return None
        return case.but(**changes)

    def refusal(self, case: Case) -> str | None:
        """Why the subject says that it cannot do a case, or None."""
        adapter = self.adapters[case.component]
        if isinstance(adapter, TorchInterface):
            return None
        if case.batch is None:
            return "unbatched"
        for entry in adapter.unsupported:
            field, _, value = entry.partition("=")
            found = getattr(case, field)
            default = next(f.default for f in dataclasses.fields(Case) if f.name == field)
            if (str(found) == value) if value else found != default:
                return entry
        return None
