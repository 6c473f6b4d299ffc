"""The three ways of decoding, called alike, for DECODE."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference import decoding_oracle as oracle

from .arguments import array
from .cases.case import Case
from .next_tokens import NextTokens
from .trial import Trial

CASES = [Case("decoding", vocabulary=vocabulary, batch=3) for vocabulary in (3, 4, 7)]
TINY = CASES[:2]
PAIR = CASES[1:2]
PROMPTS = [[0], [1, 2, 2], [2, 0]]
# Whether sequences end by a token, and how soon.
ENDINGS: tuple[dict[str, Any], ...] = ({}, {"end": 2}, {"end": 0, "min_length": 2})
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam_search": {"width": 3, "length_penalty": 0.8},
    "sample": {"temperature": 1.5},
}


class Prefixes:
    """All ids so far of each sequence, and which row of the batch it came from: the state of a step without a cache."""

    def __init__(self, rows: Tensor, ids: Tensor) -> None:
        self.rows, self.ids = rows, ids

    def reorder(self, indices: Tensor) -> "Prefixes":
        """Those of some sequences."""
        return Prefixes(self.rows[indices], self.ids[indices])


def all_ways(
    trial: Trial,
    one: NextTokens,
    max_length: int,
    prompts: Sequence[Sequence[int]] = PROMPTS,
    seeds: Sequence[int] = (0, 1, 2),
    **options: Any,
) -> Iterator[tuple[str, Any]]:
    """The prompts continued in each of the three ways, by its name."""
    for name, own in WAYS.items():
        random = {"generator": [seeded(seed) for seed in seeds]} if name == "sample" else {}
        start = one.start(len(prompts))
        yield name, getattr(trial.names, name)(one.step, start, prompts, max_length, **own, **random, **options)


def require_row(trial: Trial, what: str, together: Any, row: int, alone: Any) -> None:
    """A row of what was decoded together is what was decoded alone."""
    width = alone.ids.size(-1)
    same = torch.equal(together.ids[row, ..., :width], alone.ids[0])
    trial.require(same, f"{what}: expected {alone.ids[0].tolist()}, got {together.ids[row].tolist()} in the batch")
    trial.require(torch.equal(together.lengths[row], alone.lengths[0]), f"{what}: other lengths in the batch")
    trial.require_same(f"scores of {what}", array(together.scores[row]), array(alone.scores[0]))


def seeded(seed: int) -> torch.Generator:
    """A generator with this seed."""
    return torch.Generator().manual_seed(seed)


def next_tokens(trial: Trial) -> NextTokens:
    """The model of a case."""
    return NextTokens(trial.case.rng("model"), trial.case.vocabulary)


def require_found(trial: Trial, what: str, decoded: Any, row: Any, expected: oracle.Found, pad: int = 0) -> None:
    """One sequence of what was decoded has these tokens, padding behind them, and this score."""
    length, tokens = int(decoded.lengths[row]), decoded.ids[row].tolist()
    wanted = [*expected[0], *[pad] * (len(tokens) - len(expected[0]))]
    trial.require(
        length == len(expected[0]) and tokens == wanted,
        f"{what}: expected {list(expected[0])} and {pad} behind it, got {length} of {tokens}",
    )
    trial.require_same(f"score of {what}", array(decoded.scores[row]), np.array(expected[1]))
