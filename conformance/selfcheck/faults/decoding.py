"""Faults of decoding."""

from typing import Any

from torch import Tensor

from .changes import Came, Right, given, instead, returning
from .fault import Change, Fault

RULES = "handmade.decoding.Rules"
PENALTY = "handmade.beams.penalty"
DRAW = "handmade.sampling.draw"
DECODING = ("decoding",)


def _on_distribution(change: Change) -> dict[str, Change]:
    """The change to the function as sampling looks it up, and as a caller does."""
    return {f"{place}.distribution": change for place in ("handmade.sampling", "handmade")}


def _on_continuations(change: Change) -> dict[str, Change]:
    return {f"handmade.{place}.continuations": change for place in ("decoding", "beams")}


def _without_the_crossing_one(right: Right, came: Came) -> Any:
    top_p = came.top_p
    made = right(**{**vars(came), "top_p": 1.0})
    if top_p == 1:
        return made
    ordered, tokens = made.sort(dim=-1, descending=True, stable=True)
    kept = ordered.masked_fill(ordered.cumsum(-1) > top_p, 0.0)
    kept[..., 0] = ordered[..., 0]
    return made.new_zeros(made.shape).scatter_(-1, tokens, kept / kept.sum(-1, keepdim=True))


def _one_more(came: Came) -> int | None:
    return None if came.top_k is None else came.top_k + 1


def _first_for_all(came: Came) -> Any:
    several = isinstance(came.generator, list)
    return [came.generator[0]] * len(came.generator) if several else came.generator


def _squared(came: Came) -> Tensor:
    squares = came.probabilities**2
    return squares / squares.sum(-1, keepdim=True)


FAULTS = (
    Fault(
        "length penalty inverted",
        "Log-probabilities are multiplied by the penalty, so that short sequences win.",
        ("DECODE-03", "DECODE-04"),
        {PENALTY: returning(lambda made, came: 1 / made)},
        DECODING,
    ),
    Fault(
        "end token ignored",
        "A sequence goes on behind its end token.",
        ("DECODE-01", "DECODE-03", "DECODE-11"),
        {f"{RULES}.ended": instead(lambda right, came: came.lengths >= came.self.max_length)},
        DECODING,
    ),
    Fault(
        "min_length off by one",
        "The end token is allowed one token too soon.",
        ("DECODE-10",),
        {f"{RULES}.log_probabilities": given(lengths=lambda came: came.lengths + 1)},
        DECODING,
    ),
    Fault(
        "no padding behind the end",
        "Behind the end token stands the token after the padding's.",
        ("DECODE-11", "DECODE-01"),
        _on_continuations(given(pad=lambda came: came.pad + 1)),
        DECODING,
    ),
    Fault(
        "prompts padded on the left for the model",
        "All continuations are read behind the longest prompt.",
        ("DECODE-12", "DECODE-01"),
        _on_continuations(given(starts=lambda came: came.starts * 0 + came.starts.max())),
        DECODING,
    ),
    Fault(
        "top-p drops the token that crosses p",
        "The most probable tokens are kept while their sum stays below p.",
        ("DECODE-05", "DECODE-06", "DECODE-09"),
        _on_distribution(instead(_without_the_crossing_one)),
        DECODING,
    ),
    Fault(
        "top-k keeps one too many",
        "One more token than asked for can be drawn.",
        ("DECODE-05", "DECODE-06", "DECODE-08", "DECODE-09"),
        _on_distribution(given(top_k=_one_more)),
        DECODING,
    ),
    Fault(
        "temperature inverted",
        "Logits are multiplied by the temperature.",
        ("DECODE-05", "DECODE-07", "DECODE-09"),
        _on_distribution(given(temperature=lambda came: 1 / came.temperature)),
        DECODING,
    ),
    Fault(
        "first row's generator for all",
        "Each sequence is drawn with the numbers of the first one's generator.",
        ("DECODE-12",),
        {DRAW: given(generator=_first_for_all)},
        DECODING,
    ),
    Fault(
        "probabilities of draws squared",
        "Tokens are drawn with the squares of their probabilities.",
        ("DECODE-09",),
        {DRAW: given(probabilities=_squared)},
        DECODING,
    ),
)
