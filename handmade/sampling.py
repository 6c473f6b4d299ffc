"""Decoding by chance."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import checks
from .decoding import Decoded, Prompts, Rules, Step, generate
from .precision import widen
from .softmax import softmax

Generators = torch.Generator | Sequence[torch.Generator] | None


def sample(
    step: Step,
    state: Any,
    prompts: Prompts,
    max_length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: Generators = None,
    min_length: int = 0,
    end: int | None = None,
    pad: int = 0,
) -> Decoded:
    """Draw each token from its `distribution`.

    Args:
        step: `(ids (N,), state) → (logits (N, V), state)`.
        state: what the first call of step takes; a model's cache is extended in place, so each call wants a fresh one.
        prompts: (N, n) integers, or a list of N lists that may differ in length; at least one token each.
        max_length: tokens after the prompt at most.
        temperature: see `distribution`.
        top_k: likewise.
        top_p: likewise.
        generator: of the random numbers. One for each sequence, in a list, makes what is drawn for a sequence
            independent of the rest of the batch: one number for each of its tokens. None is torch's own.
        min_length: tokens before the end token at least.
        end: the token that ends a sequence; None for none.
        pad: what stands after the end, any id of the vocabulary.

    Returns:
        The continuations, without the prompts; their scores are those of the step, whatever was cut or sharpened.

    Raises:
        ValueError: options out of range, a list of generators of another length, and what `greedy` refuses.
        TypeError: options that are no numbers.
    """
    check_options(temperature, top_k, top_p)

    def choose(log_probabilities: Tensor, choosing: Tensor) -> Tensor:
        return draw(distribution(log_probabilities, temperature, top_k, top_p), generator, choosing)

    return generate(step, state, prompts, choose, Rules(max_length, min_length, end, pad))


def distribution(logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> Tensor:
    r"""The probabilities from which a token is drawn: :math:`\mathrm{softmax}(x / T)`, cut and normalised again.

    First all but the top_k most probable tokens go, then all but the smallest set of the most probable whose
    probabilities, among those left, reach top_p: the token with which the sum reaches it stays. Of equals the first
    come first.

    Args:
        logits: (…, V), or log-probabilities; −∞ for what is forbidden.
        temperature: T; towards 0 only the most probable token is left, towards infinity all are equal.
        top_k: how many tokens stay; None, or more than there are, for all.
        top_p: in (0, 1]; 1 for all.

    Returns:
        (…, V), each row summing to 1.

    Raises:
        ValueError: a temperature not above 0, a top_k below 1, a top_p outside (0, 1].
        TypeError: options that are no numbers.

    Source: Fan et al. 2018, "Hierarchical Neural Story Generation", section 5.3 (k); Holtzman et al. 2020, "The
    Curious Case of Neural Text Degeneration", section 3.1 (p).
    """
    check_options(temperature, top_k, top_p)
    dtype = widen(logits).dtype
    # In float64, which has room for every temperature and top_p; the greatest becomes 0 before it is divided.
    x = logits.double()
    x = (x - x.amax(-1, keepdim=True)) / temperature
    if top_k is None and top_p == 1:
        return softmax(x).to(dtype)
    ordered, tokens = x.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ordered[..., top_k:] = -torch.inf
    kept = softmax(ordered)
    if top_p < 1:
        before = torch.cat([torch.zeros_like(kept[..., :1]), kept.cumsum(-1)[..., :-1]], dim=-1)
        kept = kept.masked_fill(before >= top_p, 0.0)
        kept = kept / kept.sum(-1, keepdim=True)
    return torch.zeros_like(kept).scatter_(-1, tokens, kept).to(dtype)


def draw(probabilities: Tensor, generator: Generators, wanted: Tensor) -> Tensor:
    """A token for each row, drawn with its probabilities: where a uniform number falls among their partial sums.

    Args:
        probabilities: (N, V).
        generator: one, one for each row, or None.
        wanted: (N,), whose own generator is asked; the others' tokens mean nothing.

    Returns:
        (N,).
    """
    rows, sums = probabilities.size(0), probabilities.cumsum(-1)
    if generator is None or isinstance(generator, torch.Generator):
        uniform = torch.rand(rows, generator=generator, dtype=sums.dtype, device=sums.device)
    else:
        if not isinstance(generator, Sequence):
            raise TypeError(f"generator: expected a torch.Generator, a list of them or None, got {generator!r}")
        if len(generator) != rows:
            raise ValueError(f"generator: expected one for each of {rows} sequences, got {len(generator)}")
        uniform = torch.zeros(rows, dtype=sums.dtype, device=sums.device)
        for row in wanted.nonzero().flatten().tolist():
            uniform[row] = torch.rand((), generator=generator[row], dtype=sums.dtype, device=sums.device)
    total = sums[:, -1:]
    # The first sum above the number. Below the total, always: rounding must not lead past the last possible token.
    return ((sums <= uniform.unsqueeze(-1) * total) & (sums < total)).sum(-1)


def check_options(temperature: float, top_k: int | None, top_p: float) -> None:
    """The options of `distribution` are in range."""
    checks.number("temperature", temperature)
    if not 0 < temperature < float("inf"):
        raise ValueError(
            f"temperature: expected a finite number above 0, got {temperature}; `greedy` is the limit at 0"
        )
    if top_k is not None:
        checks.positive("top_k", top_k)
    checks.number("top_p", top_p)
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p: expected a number above 0 and up to 1, got {top_p}")
