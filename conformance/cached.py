"""A subject called with its cache and without, on the same numbers, for CACHE and DECODE."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .arguments import array
from .cases.case import Case
from .cases.masks import padding_mask
from .observation import instantiate
from .trial import Trial


@dataclass(frozen=True)
class Stack:
    """A stack of decoder or encoder layers with the random parameters of a case, and its inputs, batch first.

    Attributes:
        module: in eval mode.
        case: `tgt_key_padding_mask` hides positions, `memory_key_padding_mask` parts of the memory.
        decoder: whether it attends to a memory.
    """

    module: Any
    case: Case
    decoder: bool

    @cached_property
    def x(self) -> Tensor:
        """(N, target, d_model)."""
        return self.tensor("x", self.case.target)

    @cached_property
    def memory(self) -> Tensor:
        """(N, source, d_model)."""
        return self.tensor("memory", self.case.source)

    @cached_property
    def hidden(self) -> Tensor | None:
        """(N, target), True = hidden."""
        return _padding(self.case, "tgt_key_padding_mask", self.case.target)

    @cached_property
    def memory_hidden(self) -> Tensor | None:
        """(N, source), True = hidden."""
        return _padding(self.case, "memory_key_padding_mask", self.case.source)

    def tensor(self, label: str, length: int) -> Tensor:
        """Random numbers (N, length, d_model) of the case's dtype."""
        assert self.case.batch is not None
        drawn = self.case.rng(label).normal(size=(self.case.batch, length, self.case.d_model))
        return torch.from_numpy(drawn).to(getattr(torch, self.case.dtype))

    def whole(self, length: int) -> Tensor:
        """Without a cache: the first positions under a causal mask, (N, length, d_model)."""
        hidden = None if self.hidden is None else self.hidden[:, :length]
        causal = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.layout(self.x[:, :length])
        with torch.no_grad():
            if not self.decoder:
                return self.layout(self.module(x, mask=causal, src_key_padding_mask=hidden))
            return self.layout(
                self.module(
                    x,
                    self.layout(self.memory),
                    tgt_mask=causal,
                    tgt_key_padding_mask=hidden,
                    memory_key_padding_mask=self.memory_hidden,
                )
            )

    def start(self) -> Any:
        """A cache of no positions."""
        if not self.decoder:
            return self.module.start(self.case.batch)
        return self.module.start(self.layout(self.memory), self.memory_hidden)

    def step(self, cache: Any, start: int, count: int = 1, rows: Tensor | None = None) -> Tensor:
        """With a cache: positions from start on, of all sequences or of some, (N, count, d_model)."""
        part = slice(start, start + count)
        x, hidden = self.x[:, part], None if self.hidden is None else self.hidden[:, part]
        if rows is not None:
            x, hidden = x[rows], None if hidden is None else hidden[rows]
        return self.layout(self.module.step(self.layout(x), cache, hidden))

    def layout(self, x: Tensor) -> Tensor:
        """Batch first into the layout of the case, and back."""
        return x if self.case.batch_first else x.transpose(0, 1)


def stack(trial: Trial, component: str) -> Stack:
    """The subject's "decoder" or "encoder" for the case of a trial."""
    case = trial.case.but(component=component)
    module = instantiate(trial.subject.adapters[component], case).module.eval()
    return Stack(module, trial.case, component == "decoder")


def model(trial: Trial) -> nn.Module:
    """The subject's model for the case, in eval mode."""
    return trial.instance().module.eval()


def ids(case: Case, label: str, length: int) -> Tensor:
    """Random ids (N, length) of the case's vocabulary; some are padding where it has one, but for the first."""
    assert case.batch is not None
    made = torch.from_numpy(case.rng(label).integers(0, case.vocabulary, (case.batch, length)))
    if case.padding_idx is None:
        return made
    made[made == case.padding_idx] = (case.padding_idx + 1) % case.vocabulary
    made[1, length // 2 :: 2] = case.padding_idx
    return made


def joined(parts: Iterable[Tensor]) -> np.ndarray:
    """Pieces (N, n, …) one after the other."""
    return array(torch.cat(list(parts), dim=1))


def _padding(case: Case, field: str, length: int) -> Tensor | None:
    kind = getattr(case, field)
    if kind == "none":
        return None
    return torch.from_numpy(padding_mask(kind, case.batch or 1, length, case.rng(field)))
