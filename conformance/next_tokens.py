"""A small model of the next token, with a state, for DECODE: in torch step by step, in NumPy from the whole prefix."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

WIDTH = 6


@dataclass(frozen=True)
class State:
    """What the model remembers of each sequence: (N, WIDTH)."""

    memory: Tensor

    def reorder(self, indices: Tensor) -> "State":
        """That of some sequences."""
        return State(self.memory.index_select(0, indices))


class NextTokens:
    """A recurrence with random weights: m ← tanh(A m + B[token]), logits = C m.

    The logits depend on all tokens and on their order, so a state that is not that of its sequence shows.

    Args:
        rng: of the weights.
        vocabulary: V.
        sharpness: of the logits.
    """

    def __init__(self, rng: np.random.Generator, vocabulary: int, sharpness: float = 1.0) -> None:
        self.vocabulary = vocabulary
        self.again = rng.normal(size=(WIDTH, WIDTH))
        self.token = rng.normal(size=(vocabulary, WIDTH)) * 2
        self.out = rng.normal(size=(WIDTH, vocabulary)) * sharpness

    def logits(self, tokens: tuple[int, ...]) -> np.ndarray:
        """After these tokens, (V,)."""
        memory = np.zeros(WIDTH)
        for token in tokens:
            memory = np.tanh(memory @ self.again + self.token[token])
        return memory @ self.out

    def start(self, batch: int) -> State:
        """The state before any token."""
        return State(torch.zeros(batch, WIDTH, dtype=torch.float64))

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """The logits (N, V) after one more token of each sequence (N,)."""
        again, token, out = (torch.from_numpy(weights) for weights in (self.again, self.token, self.out))
        memory = torch.tanh(state.memory @ again + token[ids])
        return memory @ out, State(memory)
