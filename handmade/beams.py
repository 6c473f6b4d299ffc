"""Decoding by beam search."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import checks
from .decoding import Decoded, Prompts, Rules, Step, continuations, padded
from .precision import widen

Reorder = Callable[[Any, Tensor], Any]


def by_its_method(state: Any, indices: Tensor) -> Any:
    """The state of some sequences of a batch: by its method `reorder`, or None where there is no state."""
    return None if state is None else state.reorder(indices)


def penalty(lengths: Tensor, alpha: float) -> Tensor:
    r"""By what the log-probability of a sequence is divided: :math:`((5 + |y|) / 6)^\alpha`."""
    return ((5.0 + lengths) / 6.0) ** alpha


@torch.no_grad()
def beam_search(
    step: Step,
    state: Any,
    prompts: Prompts,
    max_length: int,
    *,
    width: int,
    length_penalty: float = 0.0,
    min_length: int = 0,
    end: int | None = None,
    pad: int = 0,
    reorder: Reorder = by_its_method,
    allow_wide: bool = False,
) -> Decoded:
    r"""Keep the `width` best beginnings of each sequence, and continue all of them.

    Every beginning is scored by :math:`\log P(y) / \mathrm{lp}(y)` with :math:`\mathrm{lp}(y) = ((5 + |y|) / 6)^\alpha`,
    where :math:`|y|` counts the tokens after the prompt. One that has ended keeps its place among the best with the
    score that it has, so that width 1 is `greedy`, and a width of V^max_length finds the best of all sequences.

    Args:
        step: `(ids (N,), state) → (logits (N, V), state)`, of any number N of sequences.
        state: what the first call of step takes; a model's cache is extended in place, so each call wants a fresh one.
        prompts: (N, n) integers, or a list of N lists that may differ in length; at least one token each.
        max_length: tokens after the prompt at most.
        width: beginnings that are kept, at most the vocabulary, since the first step has no more to offer.
        length_penalty: α; above 0 favours long sequences, 0 compares the probabilities themselves.
        min_length: tokens before the end token at least.
        end: the token that ends a sequence; None for none.
        pad: what stands after the end, any id of the vocabulary.
        reorder: `(state, indices (M,)) → state` of those sequences, one of which may come several times.
        allow_wide: take a width above the vocabulary: the first steps leave beams empty. For an exhaustive search,
            and for wide beams on a small vocabulary; elsewhere such a width is a slip.

    Returns:
        The continuations, best first: ids (N, width, length), lengths and scores (N, width). A beam that nothing could
        fill has length 0 and score −∞.

    Raises:
        ValueError: a width below 1, or above the vocabulary without allow_wide, and what `greedy` refuses.
        TypeError: options that are no numbers.

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", equation 14, for the penalty.
    """
    rules = Rules(max_length, min_length, end, pad)
    checks.positive("width", width)
    checks.finite("length_penalty", length_penalty)
    ids, starts = padded(prompts, pad)
    batch, longest = ids.shape
    shortest = int(starts.min())
    for position in range(1, shortest):
        logits, state = step(ids[:, position - 1], state)
        if position == 1:
            rules.check(logits, ids)

    if getattr(state, "batch_size", batch) != batch:
        raise ValueError(f"state: expected a cache of {batch} sequences, as many as prompts, got {state.batch_size}")
    # Beams of a sequence stand next to each other; at first only one of them is not empty.
    state = reorder(state, torch.arange(batch, device=ids.device).repeat_interleave(width))
    room = ids.new_full((batch, max_length), pad)
    sequences = torch.cat([ids, room], dim=1).unsqueeze(1).repeat(1, width, 1)
    lengths = torch.zeros(batch, width, dtype=torch.int64, device=ids.device)
    running = torch.ones_like(lengths, dtype=torch.bool)
    totals: Tensor | None = None
    first_beams = width * torch.arange(batch, device=ids.device).unsqueeze(1)
    for position in range(shortest, longest + max_length):
        logits, state = step(sequences[:, :, position - 1].reshape(-1), state)
        if totals is None:
            rules.check(logits, ids.repeat_interleave(width, dim=0))
            _check_width(width, logits.size(1), allow_wide)
            totals = torch.full_like(widen(logits[:, 0]), -torch.inf).reshape(batch, width)
            totals[:, 0] = 0.0
        choosing = running & (position >= starts).unsqueeze(1)
        candidates = totals.unsqueeze(-1) + rules.log_probabilities(logits.reshape(batch, width, -1), lengths)
        candidates = torch.where(choosing.unsqueeze(-1), candidates, _as_it_is(totals, logits.size(1)))
        penalties = penalty((lengths + choosing).to(candidates.dtype), length_penalty)
        # Of equals the first comes first, as with greedy decoding; `topk` would take any of them.
        ordered = (candidates / penalties.unsqueeze(-1)).flatten(1).sort(dim=-1, descending=True, stable=True)
        scores, best = (x[:, :width] for x in ordered)

        parents, tokens = best // logits.size(1), best % logits.size(1)
        totals = candidates.flatten(1).gather(1, best)
        choosing, lengths, running = (x.gather(1, parents) for x in (choosing, lengths, running))
        sequences = sequences.gather(1, parents.unsqueeze(-1).expand_as(sequences))
        tokens = torch.where(choosing, tokens, sequences[:, :, position])
        sequences[:, :, position] = tokens
        lengths = lengths + choosing
        running = running & ~(choosing & rules.ended(tokens, lengths))
        if not bool((running & (totals > -torch.inf)).any()):
            break
        state = reorder(state, (first_beams + parents).flatten())
    rules.require_possible(scores[:, 0])
    lengths = lengths.masked_fill(scores == -torch.inf, 0)
    return Decoded(continuations(sequences, starts.unsqueeze(1), lengths, pad), lengths, scores)


def _as_it_is(totals: Tensor, vocabulary: int) -> Tensor:
    """The one candidate of a beam that takes no token: itself, in the place of the first token."""
    made = totals.new_full((*totals.shape, vocabulary), -torch.inf)
    made[..., 0] = totals
    return made


def _check_width(width: int, vocabulary: int, allow_wide: bool) -> None:
    if width > vocabulary and not allow_wide:
        raise ValueError(
            f"width: expected at most the vocabulary, {vocabulary}, got {width}; allow_wide=True takes a wider beam"
        )
