"""What decoding must find, by trying everything: NumPy and lists, one sequence at a time, nothing kept.

A model is a function from all tokens so far to the logits of the next one.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

Model = Callable[[tuple[int, ...]], np.ndarray]
Found = tuple[tuple[int, ...], float]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """(V,) → (V,)."""
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def continuations(
    model: Model, prompt: Sequence[int], max_length: int, min_length: int = 0, end: int | None = None
) -> Iterator[Found]:
    """Every continuation that ends with `end`, after min_length tokens at least, or has max_length tokens.

    Yields:
        The tokens after the prompt, and the logarithm of the probability that the model gives them.
    """
    open_ones: list[Found] = [((), 0.0)]
    while open_ones:
        tokens, total = open_ones.pop()
        for token, value in enumerate(log_softmax(model((*prompt, *tokens)))):
            if token == end and len(tokens) < min_length:
                continue
            longer = ((*tokens, token), total + float(value))
            if token == end or len(longer[0]) == max_length:
                yield longer
            else:
                open_ones.append(longer)


def score(found: Found, length_penalty: float) -> float:
    """The log-probability divided by ((5 + length) / 6)^length_penalty (Wu et al. 2016, equation 14)."""
    tokens, total = found
    return total / ((5 + len(tokens)) / 6) ** length_penalty


def exhaustive(
    model: Model,
    prompt: Sequence[int],
    max_length: int,
    min_length: int = 0,
    end: int | None = None,
    length_penalty: float = 0.0,
) -> list[Found]:
    """All continuations with their scores, the best first."""
    found = continuations(model, prompt, max_length, min_length, end)
    return sorted(((one[0], score(one, length_penalty)) for one in found), key=lambda one: -one[1])


def beams(
    model: Model,
    prompt: Sequence[int],
    max_length: int,
    width: int,
    min_length: int = 0,
    end: int | None = None,
    length_penalty: float = 0.0,
) -> list[Found]:
    """Beam search: at each length the `width` best beginnings, among which those that have ended stay as they are."""
    kept: list[Found] = [((), 0.0)]
    for length in range(max_length):
        longer: list[Found] = []
        for tokens, total in kept:
            if tokens and tokens[-1] == end:
                longer.append((tokens, total))
                continue
            values = log_softmax(model((*prompt, *tokens)))
            allowed = [token for token in range(len(values)) if token != end or length >= min_length]
            longer += [((*tokens, token), total + float(values[token])) for token in allowed]
        kept = sorted(longer, key=lambda one: -score(one, length_penalty))[:width]
    return [(one[0], score(one, length_penalty)) for one in kept]


def greedy(model: Model, prompt: Sequence[int], max_length: int, min_length: int = 0, end: int | None = None) -> Found:
    """The most probable token each time, and the logarithm of the probability of all."""
    tokens: tuple[int, ...] = ()
    total = 0.0
    while len(tokens) < max_length and (not tokens or tokens[-1] != end):
        values = log_softmax(model((*prompt, *tokens)))
        allowed = [token for token in range(len(values)) if token != end or len(tokens) >= min_length]
        best = max(allowed, key=lambda token: values[token])
        tokens, total = (*tokens, best), total + float(values[best])
    return tokens, total


def distribution(
    logits: np.ndarray, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
) -> np.ndarray:
    """The probabilities (V,) of a draw: tokens taken from the most probable on, until there are k or they reach p.

    Where both are given, p is a part of the probability of the k.
    """
    probabilities = np.exp(log_softmax(logits / temperature))
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top_k]
    left = probabilities[order].sum()
    made, reached = np.zeros(len(logits)), 0.0
    for token in order:
        if top_p < 1 and reached >= top_p:
            break
        made[token] = probabilities[token]
        reached += probabilities[token] / left
    return made / made.sum()
