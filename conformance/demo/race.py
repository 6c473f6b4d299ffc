"""Two models that start from the same weights and see the same batches: what they lose at each step, and what they learn."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import handmade
from reference import torch_models
from reference.weights import copy_weights

from . import digits

Report = Callable[[int, float, float], None]


@dataclass(frozen=True)
class Settings:
    """The size of the models and of their training.

    Attributes:
        eps: of Adam, far above the rounding of gradients: a gradient that is zero but for rounding, as that of a key's
            bias, would otherwise be divided by its own size, and move its parameter anywhere.
    """

    steps: int = 400
    batch: int = 64
    d_model: int = 64
    heads: int = 4
    d_ff: int = 128
    layers: int = 1
    norm_first: bool = False
    dtype: str = "float64"
    learning_rate: float = 4e-3
    warm_up: int = 50
    eps: float = 1e-3
    held_out: int = 500
    seed: int = 1


@dataclass(frozen=True)
class Race:
    """What came of it.

    Attributes:
        handmade: the handmade model, trained.
        torch: the one on torch.nn.Transformer, trained.
        losses: (steps, 2), of the two before each step.
        unseen: the strings that were held out.
    """

    handmade: nn.Module
    torch: nn.Module
    losses: np.ndarray
    unseen: list[str]


def run(settings: Settings, report: Report | None = None) -> Race:
    """Train both; `report` is told the steps done and the two losses."""
    rng = np.random.default_rng(settings.seed)
    unseen = digits.draw(rng, settings.held_out)
    known = set(unseen)
    mine, theirs = models(settings)
    runners: tuple[tuple[nn.Module, Callable[..., Tensor], torch.optim.Optimizer], ...] = (
        (mine, handmade.cross_entropy, _optimizer(mine, settings)),
        (theirs, F.cross_entropy, _optimizer(theirs, settings)),
    )
    losses = np.zeros((settings.steps, 2))
    for step in range(settings.steps):
        sources, targets = digits.encode(digits.draw(rng, settings.batch, without=known))
        for runner, (model, cross_entropy, optimizer) in enumerate(runners):
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * _schedule(step, settings)
            logits = model(sources, handmade.shift_right(targets, digits.START))
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=digits.PAD)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[step, runner] = loss.item()
        if report is not None:
            report(step + 1, *losses[step])
    return Race(mine.eval(), theirs.eval(), losses, unseen)


def models(settings: Settings) -> tuple[nn.Module, nn.Module]:
    """The handmade model with initial values of its own, and torch's with the same."""
    sizes = (digits.VOCABULARY, settings.d_model, settings.heads, settings.d_ff, settings.layers)
    options: dict[str, Any] = {"norm_first": settings.norm_first, "tied": True, "pad": digits.PAD}
    options["dtype"] = getattr(torch, settings.dtype)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        mine = handmade.SequenceModel(*sizes, **options)
        theirs = torch_models.SequenceModel(*sizes, **options)
    copy_weights(mine, theirs)
    return mine, theirs


def accuracy(model: nn.Module, strings: Sequence[str]) -> float:
    """The part of the strings that come out backwards without a mistake."""
    sources, targets = digits.encode(strings)
    written = transcribe(model, sources, targets.size(1))
    return ((written == targets) | (targets == digits.PAD)).all(1).double().mean().item()


def transcribe(model: nn.Module, sources: Tensor, length: int) -> Tensor:
    """Greedy decoding: ids (batch, length), the likeliest next one each time.

    Gradients are recorded, though not used: without them torch takes another path in eval mode, and warns of it.
    """
    written = torch.full((sources.size(0), 1), digits.START)
    for _ in range(length):
        written = torch.cat((written, model(sources, written)[:, -1:].argmax(-1)), dim=1)
    return written[:, 1:]


def cross_attention(model: Any, source: Tensor, target: Tensor) -> np.ndarray:
    """The weights (target, source) of the last decoder layer's attention to the memory, a mean over its heads.

    Args:
        model: either of the two; their parts have the same names.
        source: ids (1, n), without padding.
        target: ids (1, m), shifted right.
    """
    attention = model.transformer.decoder.layers[-1].multihead_attn
    seen: list[tuple[Tensor, ...]] = []
    hook = attention.register_forward_pre_hook(lambda _, given: seen.append(given[:3]))
    model(source, target)
    hook.remove()
    return attention(*seen[0], need_weights=True)[1][0].detach().double().numpy()


def _optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98), eps=settings.eps)


def _schedule(step: int, settings: Settings) -> float:
    """A linear rise, then half a cosine down to 0."""
    return min(1.0, (step + 1) / settings.warm_up) * 0.5 * (1 + math.cos(math.pi * step / settings.steps))
