"""Decoding by the name of the way."""

import inspect
from collections.abc import Callable
from typing import Any

from .beams import beam_search
from .decoding import Decoded, Prompts, Step, greedy
from .sampling import sample

STRATEGIES: dict[str, Callable[..., Decoded]] = {"greedy": greedy, "beam": beam_search, "sample": sample}


def decode(
    step: Step, state: Any, prompts: Prompts, max_length: int, strategy: str = "greedy", **options: Any
) -> Decoded:
    """Continue prompts in one of the three ways.

    Args:
        step: `(ids (N,), state) → (logits (N, V), state)`.
        state: what the first call of step takes; a model's cache is extended in place, so each call wants a fresh one.
        prompts: (N, n) integers, or a list of N lists that may differ in length; at least one token each.
        max_length: tokens after the prompt at most.
        strategy: "greedy", "beam" (`beam_search`) or "sample".
        options: of that function.

    Returns:
        What the function returns.

    Raises:
        ValueError: an unknown strategy, an option that it does not have, and what the function refuses.
    """
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"strategy: expected one of {list(STRATEGIES)}, got {strategy!r}")
    function = STRATEGIES[strategy]
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise ValueError(f"{name}: expected an option of {strategy}, one of {known}, got it with {options[name]!r}")
    for parameter in inspect.signature(function).parameters.values():
        if (
            parameter.kind is parameter.KEYWORD_ONLY
            and parameter.default is parameter.empty
            and parameter.name not in options
        ):
            raise ValueError(f"{parameter.name}: expected with strategy {strategy!r}, got none")
    return function(step, state, prompts, max_length, **options)
