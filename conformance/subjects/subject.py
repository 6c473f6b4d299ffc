"""A subject: its name, its adapters, its runs, and what it supports."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from reference.torch_modules import TORCH

from .. import capabilities
from ..cases.case import CONSTRUCTOR, Case
from ..clauses import Clause, load_all
from ..runs import Runs
from ..versions.sample import sampled
from .adapter import Adapter
from .torch_interface import TorchInterface

# torch's names of a case's constructor options.
OPTIONS = {field: {"final_norm": "norm"}.get(field, field) for field in CONSTRUCTOR}


HALVES = ("bfloat16", "float16")
DEFAULTS = {field.name: field.default for field in dataclasses.fields(Case)}


class Subject:
    """An implementation under test.

    Attributes:
        name: as it was asked for.
        adapters: by component.
        strict: a SHOULD fails it like a MUST.
        is_torch: it is torch, so that what differs is torch's fault and fails nobody.
    """

    def __init__(
        self, name: str, adapters: Mapping[str, Adapter], strict: bool = False, is_torch: bool = False
    ) -> None:
        self.name = name
        self.adapters = adapters
        self.strict = strict
        self.is_torch = is_torch
        self.runs = Runs(adapters)

    def cases(self, clause: Clause, device: str = "cpu", sample: int = 1) -> list[Case]:
        """The cases on which this subject can be asked a clause, each once.

        Args:
            clause: whose cases, which may have become others: see `adapt`.
            device: where those run that ask for none.
            sample: of the shared cases about one in so many; see `sampled`.
        """
        asked: dict[Case, None] = {}
        for case in sampled(clause, sample):
            placed = case if case.device != "cpu" else case.but(device=device)
            adapted = self.adapt(placed)
            if adapted is not None and clause.covers(adapted, instead_of=placed):
                asked[adapted] = None
        return list(asked)

    def checks(self, device: str = "cpu") -> list[tuple[str, Case]]:
        """All that it can be asked: the clauses' ids, each with each of its cases."""
        return [(clause.id, case) for clause in load_all().values() for case in self.cases(clause, device)]

    def adapt(self, case: Case) -> Case | None:
        """The case with the values that the adapter fixes, or None where there is no such component.

        A case that wants another value than the adapter's becomes the one with the adapter's, except where the
        adapter names several, of which others are left out. What cannot be trained is called in eval mode.
        """
        adapter = self.adapters.get(case.component)
        if adapter is None:
            return None
        if not adapter.gradients:
            case = case.but(mode="eval")
        if isinstance(adapter, TorchInterface):
            return case
        wanted = {field: adapter.reference.get(name, DEFAULTS[field]) for field, name in OPTIONS.items()}
        changes: dict[str, Any] = {}
        for field, value in {**wanted, **adapter.fixed}.items():
            if not isinstance(value, set | frozenset | list | tuple):
                changes[field] = value
            elif getattr(case, field) not in value:
                return None
        adapted = case.but(**changes)
        # At a kink the rounding of 8 or 11 bits decides which gradient is right: such cases are not in the grid either.
        if adapted.dtype in HALVES and adapted.activation == "relu" != case.activation:
            return None
        return adapted

    def refusal(self, case: Case) -> str | None:
        """Why the subject says that it cannot do a case, or None."""
        adapter = self.adapters[case.component]
        if not adapter.gradients and case.mode == "train":
            return "train mode"
        missing = capabilities.refusal(capabilities.of_any(case))
        if not missing and isinstance(adapter, TorchInterface) and adapter.namespace.modules is TORCH.modules:
            missing = capabilities.refusal(capabilities.of_torch(case, adapter.backend))
        if missing:
            return missing
        if isinstance(adapter, TorchInterface):
            return None
        if case.batch is None:
            return "unbatched"
        if self.adapt(case) != case:
            return "other options than its own"
        for entry in adapter.unsupported:
            field, _, value = entry.partition("=")
            found = getattr(case, field)
            if (str(found) == value) if value else found != DEFAULTS[field]:
                return entry
        return None
