"""Token by token: what all ways of decoding share, and the simplest of them.

A step takes the latest token of each sequence and a state, and returns logits of the next token and the new state:
`(ids (N,), state) → (logits (N, V), state)`. A model's `step` is one, with its cache as the state; so is any function.

Prompts may differ in length, and nothing is padded on the left: all sequences start together, a sequence takes its
tokens from its prompt while that lasts, and goes on by itself from there. So it never sees a padded position, and in a
batch it becomes what it becomes alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import checks
from .precision import widen
from .training_loss import log_softmax

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
Prompts = Tensor | Sequence[Sequence[int]]
# From log-probabilities (N, V), and which sequences want a token, (N,), to a token for each.
Choice = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Decoded:
    """What follows the prompts; of a beam search with one dimension more, the beams, best first.

    Attributes:
        ids: (N, length), or (N, width, length); padded after the end token.
        lengths: (N,), or (N, width): tokens before the padding, the end token included.
        scores: likewise, the sum of the logarithms of the probabilities that the step gives these tokens; of a beam
            search divided by the length penalty, and −∞ where there was nothing to fill a beam with.
    """

    ids: Tensor
    lengths: Tensor
    scores: Tensor


@dataclass(frozen=True)
class Rules:
    """When a sequence ends.

    Attributes:
        max_length: tokens after the prompt at most.
        min_length: tokens before the end token at least.
        end: the token that ends a sequence; None for none.
        pad: what stands after the end.

    Raises:
        ValueError: lengths or ids out of range.
        TypeError: what is no integer.
    """

    max_length: int
    min_length: int = 0
    end: int | None = None
    pad: int = 0

    def __post_init__(self) -> None:
        checks.positive("max_length", self.max_length)
        checks.not_negative("min_length", self.min_length)
        checks.not_negative("pad", self.pad)
        if self.end is not None:
            checks.not_negative("end", self.end)
        if self.min_length > self.max_length:
            raise ValueError(f"min_length: expected at most max_length={self.max_length}, got {self.min_length}")

    def check(self, logits: Tensor, prompts: Tensor) -> None:
        """The logits of a first step are such, and all ids are of its vocabulary; the step itself sees the first ids."""
        checks.tensor("logits of step", logits)
        if logits.dim() != 2 or logits.size(0) != prompts.size(0):
            raise ValueError(f"step: expected logits of shape ({prompts.size(0)}, V), got {tuple(logits.shape)}")
        vocabulary = logits.size(1)
        for name, id in (("end", self.end), ("pad", self.pad)):
            if id is not None and id >= vocabulary:
                raise ValueError(f"{name}: expected an id from 0 to {vocabulary - 1}, got {id}")
        checks.indices("prompts", prompts, vocabulary, prompts.device)

    def log_probabilities(self, logits: Tensor, lengths: Tensor) -> Tensor:
        """Those of the next token; −∞ for the end token where a sequence is too short to end.

        What is forbidden is left out, and the others keep the values that the step gives them.

        Args:
            logits: (…, V).
            lengths: (…), tokens that each sequence has beyond its prompt.
        """
        made = log_softmax(widen(logits))
        if bool(made.isnan().any()):
            raise ValueError("step: expected logits that are numbers, one of each row finite, got NaN, ∞ or only −∞")
        if self.end is not None and self.min_length > 0:
            made[..., self.end].masked_fill_(lengths < self.min_length, -torch.inf)
        return made

    def require_possible(self, scores: Tensor) -> None:
        """No sequence has come to where every token is impossible."""
        if bool((scores == -torch.inf).any()):
            forbidden = f" before min_length={self.min_length}" if self.min_length else ""
            raise ValueError(f"step: expected a token besides the end token to be possible{forbidden}, got none")

    def ended(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Which sequences end with these tokens, at these lengths."""
        full = lengths >= self.max_length
        return full if self.end is None else full | (tokens == self.end)


def greedy(
    step: Step,
    state: Any,
    prompts: Prompts,
    max_length: int,
    *,
    min_length: int = 0,
    end: int | None = None,
    pad: int = 0,
) -> Decoded:
    """Take the most probable token each time, the first of equals.

    Args:
        step: `(ids (N,), state) → (logits (N, V), state)`.
        state: what the first call of step takes; a model's cache is extended in place, so each call wants a fresh one.
        prompts: (N, n) integers, or a list of N lists that may differ in length; at least one token each.
        max_length: tokens after the prompt at most.
        min_length: tokens before the end token at least.
        end: the token that ends a sequence; None for none.
        pad: what stands after the end, any id of the vocabulary.

    Returns:
        The continuations, without the prompts.

    Raises:
        ValueError: an empty prompt, lengths or ids out of range, logits of another shape.
        TypeError: ids that are no integers.
    """
    return generate(step, state, prompts, lambda scores, _: scores.argmax(-1), Rules(max_length, min_length, end, pad))


@torch.no_grad()
def generate(step: Step, state: Any, prompts: Prompts, choose: Choice, rules: Rules) -> Decoded:
    """Continue each prompt by the tokens that `choose` takes; see `greedy`."""
    ids, starts = padded(prompts, rules.pad)
    batch, longest = ids.shape
    sequences = torch.cat([ids, ids.new_full((batch, rules.max_length), rules.pad)], dim=1)
    lengths, running = torch.zeros_like(starts), torch.ones_like(starts, dtype=torch.bool)
    scores = None
    for position in range(1, longest + rules.max_length):
        logits, state = step(sequences[:, position - 1], state)
        if scores is None:
            rules.check(logits, ids)
            scores = torch.zeros_like(widen(logits[:, 0]))
        choosing = running & (position >= starts)
        log_probabilities = rules.log_probabilities(logits, lengths)
        tokens = torch.where(choosing, choose(log_probabilities, choosing), sequences[:, position])
        sequences[:, position] = tokens
        found = log_probabilities.gather(1, tokens.unsqueeze(1)).squeeze(1)
        rules.require_possible(torch.where(choosing, found, 0.0))
        scores = scores + torch.where(choosing, found, 0.0)
        lengths = lengths + choosing
        running = running & ~(choosing & rules.ended(tokens, lengths))
        if not bool(running.any()):
            break
    assert scores is not None
    return Decoded(continuations(sequences, starts, lengths, rules.pad), lengths, scores)


def padded(prompts: Prompts, pad: int) -> tuple[Tensor, Tensor]:
    """Prompts as one tensor, padded on the right, and their lengths.

    Raises:
        ValueError: no prompt, a prompt without tokens, a negative id.
        TypeError: ids that are no integers.
    """
    if isinstance(prompts, Tensor):
        if prompts.dim() != 2:
            raise ValueError(f"prompts: expected shape (N, n), got {tuple(prompts.shape)}")
        made, lengths = prompts, [prompts.size(1)] * prompts.size(0)
    else:
        if not isinstance(prompts, Sequence) or not all(isinstance(one, Sequence) for one in prompts):
            raise TypeError(f"prompts: expected a tensor (N, n) or a list of N lists, got {prompts!r}")
        lengths = [len(prompt) for prompt in prompts]
        longest = max(lengths, default=0)
        for prompt in prompts:
            for id in prompt:
                checks.integer("prompts", id)
        made = torch.tensor(
            [[*prompt, *[pad] * (longest - len(prompt))] for prompt in prompts], dtype=torch.int64
        ).reshape(len(lengths), longest)
    if not lengths or min(lengths) == 0:
        raise ValueError(f"prompts: expected at least one prompt, of at least one token, got lengths {lengths}")
    # The vocabulary is known after the first step; a negative id is wrong in any.
    checks.indices("prompts", made, 1 + max(int(made.max()), 0), made.device)
    return made.long(), torch.tensor(lengths, device=made.device)


def continuations(sequences: Tensor, starts: Tensor, lengths: Tensor, pad: int) -> Tensor:
    """What stands in each sequence from its start on, as far as it goes, padded on the right.

    Args:
        sequences: (…, T).
        starts: broadcasts to (…).
        lengths: (…).
        pad: what stands after it.

    Returns:
        (…, the greatest length).
    """
    offsets = torch.arange(int(lengths.max()), device=sequences.device)
    places = (starts.unsqueeze(-1) + offsets).clamp(max=sequences.size(-1) - 1)
    found = sequences.gather(-1, places.expand(*lengths.shape, -1))
    return found.masked_fill(offsets >= lengths.unsqueeze(-1), pad)
