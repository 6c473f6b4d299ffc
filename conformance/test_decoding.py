"""DECODE: greedy decoding and beam search find what trying everything finds."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reference import decoding_oracle as oracle

from .arguments import array
from .bad_calls import change
from .cached import ids, model
from .cases.case import Case
from .clauses import MUST, PAPER, clause
from .decoding_ways import (
    CASES,
    ENDINGS,
    PAIR,
    PROMPTS,
    TINY,
    WAYS,
    Prefixes,
    all_ways,
    next_tokens,
    require_found,
    require_row,
    seeded,
)
from .test_error import require_refusals
from .trial import Trial

WU = "Wu et al. 2016, section 7"
SEARCH = "the definition, tried exhaustively"
MODELS = [
    Case("sequence_model", norm_first=norm_first, padding_idx=padding, batch=3)
    for norm_first, padding in ((False, None), (True, 0))
] + [Case("language_model", norm_first=norm_first, batch=3, max_len=12) for norm_first in (False, True)]
LENGTH_PENALTIES = (0.0, 0.6, 3.0)


@clause("DECODE-01", MUST, SEARCH, CASES)
def test_greedy(trial: Trial) -> None:
    """Greedy decoding takes the most probable token each time, up to the end token or max_length."""
    one = next_tokens(trial)
    for ending in ENDINGS:
        found = trial.names.greedy(one.step, one.start(3), PROMPTS, 6, pad=1, **ending)
        for row, prompt in enumerate(PROMPTS):
            require_found(trial, f"{prompt} {ending}", found, row, oracle.greedy(one.logits, prompt, 6, **ending), 1)


@clause("DECODE-02", MUST, SEARCH, CASES)
def test_width_1(trial: Trial) -> None:
    """A beam of width 1 is greedy decoding, whatever the length penalty, and where all tokens are as probable, too."""
    one = next_tokens(trial)
    level = [
        function(always([0.0] * 64), None, PROMPTS, 3, **options)
        for function, options in ((trial.names.greedy, {}), (trial.names.beam_search, {"width": 1}))
    ]
    trial.require(level[1].ids[:, 0].tolist() == level[0].ids.tolist(), "equal logits: not greedy's tokens")
    for ending in ENDINGS:
        greedy = trial.names.greedy(one.step, one.start(3), PROMPTS, 6, **ending)
        for alpha in LENGTH_PENALTIES:
            options = {"width": 1, "length_penalty": alpha, **ending}
            beam = trial.names.beam_search(one.step, one.start(3), PROMPTS, 6, **options)
            trial.require(beam.ids[:, 0].tolist() == greedy.ids.tolist(), f"tokens with {options}: not greedy's")
            trial.require(beam.lengths[:, 0].tolist() == greedy.lengths.tolist(), f"lengths with {options}")


@clause("DECODE-03", MUST, SEARCH, TINY)
def test_exhaustive(trial: Trial) -> None:
    """A beam as wide as there are sequences finds all of them, in the order of their scores."""
    one, length = next_tokens(trial), 4
    for ending in ENDINGS:
        for alpha in LENGTH_PENALTIES:
            options = {"length_penalty": alpha, **ending}
            width = one.vocabulary**length
            found = trial.names.beam_search(
                one.step, one.start(3), PROMPTS, length, width=width, allow_wide=True, pad=1, **options
            )
            for row, prompt in enumerate(PROMPTS):
                everything = oracle.exhaustive(one.logits, prompt, length, **options)
                for place, expected in enumerate(everything):
                    require_found(trial, f"{prompt} {options} place {place}", found, (row, place), expected, 1)
                rest = found.scores[row, len(everything) :]
                trial.require(bool((rest == -torch.inf).all()), f"{prompt} {options}: expected empty beams behind them")
                trial.require(not found.lengths[row, len(everything) :].any(), "empty beams: expected length 0")


@clause("DECODE-04", MUST, WU, CASES)
def test_beams(trial: Trial) -> None:
    """A beam search keeps the best beginnings of each length, those that have ended among them."""
    one = next_tokens(trial)
    for ending in ENDINGS:
        for alpha in LENGTH_PENALTIES:
            for width in (2, 3):
                options = {"width": width, "length_penalty": alpha, **ending}
                found = trial.names.beam_search(one.step, one.start(3), PROMPTS, 6, **options)
                for row, prompt in enumerate(PROMPTS):
                    for place, expected in enumerate(oracle.beams(one.logits, prompt, 6, **options)):
                        require_found(trial, f"{prompt} {options} place {place}", found, (row, place), expected)


@clause("DECODE-10", MUST, SEARCH, CASES)
def test_min_length(trial: Trial) -> None:
    """Before min_length tokens no sequence ends, and the others keep their probabilities."""
    one = next_tokens(trial)
    for end in range(3):
        for least in range(5):
            for name, found in all_ways(trial, one, 5, end=end, min_length=least):
                early = (found.ids[..., :least] == end) & (found.scores > -torch.inf).unsqueeze(-1)
                trial.require(not bool(early.any()), f"{name}: the end token {end} before {least} others")
                short = (found.lengths < min(least + 1, 5)) & (found.scores > -torch.inf)
                trial.require(not bool(short.any()), f"{name}: a sequence of less than {least} tokens and the end")


@clause("DECODE-11", MUST, SEARCH, CASES)
def test_after_the_end(trial: Trial) -> None:
    """Behind the end token stands padding only; lengths count up to the end token and no further."""
    one = next_tokens(trial)
    for end in range(3):
        for name, found in all_ways(trial, one, 6, end=end, pad=1):
            rows = zip(found.ids.flatten(0, -2).tolist(), found.lengths.flatten().tolist(), strict=True)
            for tokens, length in rows:
                inside, behind = tokens[:length], tokens[length:]
                trial.require(set(behind) <= {1}, f"{name}: expected padding from {length} on, got {tokens}")
                trial.require(end not in inside[:-1], f"{name}: goes on behind the end token {end}: {tokens}")
                ended = length == 6 or (length > 0 and inside[-1] == end) or length == 0
                trial.require(ended, f"{name}: expected {end} at the end or 6 tokens, got {inside}")


@clause("DECODE-12", MUST, SEARCH, CASES)
def test_ragged(trial: Trial) -> None:
    """Prompts of several lengths in one batch become what each becomes alone, in all three ways."""
    one = next_tokens(trial)
    for ending in ENDINGS:
        together = dict(all_ways(trial, one, 5, **ending))
        for row, prompt in enumerate(PROMPTS):
            for name, alone in all_ways(trial, one, 5, [prompt], seeds=[row], **ending):
                require_row(trial, f"{name} {ending} of {prompt}", together[name], row, alone)


@clause("DECODE-15", MUST, SEARCH, PAIR)
def test_strategies(trial: Trial) -> None:
    """`decode` is the function that its strategy names, with that function's options."""
    one = next_tokens(trial)
    ways: list[tuple[str, dict[str, Any]]] = [
        ("greedy", {"end": 2}),
        ("beam", {"width": 3, "length_penalty": 1.0, "end": 2}),
        ("sample", {"temperature": 2.0, "top_k": 3, "top_p": 0.9}),
    ]
    for strategy, options in ways:
        function = getattr(trial.names, {"beam": "beam_search"}.get(strategy, strategy))
        seeds = [{"generator": seeded(4)} if strategy == "sample" else {} for _ in range(2)]
        named = trial.names.decode(one.step, one.start(3), PROMPTS, 5, strategy, **options, **seeds[0])
        direct = function(one.step, one.start(3), PROMPTS, 5, **options, **seeds[1])
        trial.require(named.ids.tolist() == direct.ids.tolist(), f"decode with {strategy}: other tokens")
    default = trial.names.decode(one.step, one.start(3), PROMPTS, 5)
    greedy = trial.names.greedy(one.step, one.start(3), PROMPTS, 5)
    trial.require(default.ids.tolist() == greedy.ids.tolist(), "decode without a strategy: not greedy")


@clause("DECODE-16", MUST, PAPER, MODELS)
def test_models(trial: Trial) -> None:
    """A model decodes with its cache what it decodes without, in all three ways, from prompts of several lengths."""
    made: Any = model(trial)
    src = ids(trial.case, "src", trial.case.source)
    text = trial.case.component == "language_model"

    def uncached(latest: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        longer = Prefixes(state.rows, torch.cat([state.ids, latest.unsqueeze(1)], dim=1))
        with torch.no_grad():
            logits = made(longer.ids)[0] if text else made(src[longer.rows], longer.ids)
        return logits[:, -1], longer

    prompts = [[1], [2, 3, 4], [5, 1]]
    for name, options in WAYS.items():
        function = getattr(trial.names, name)
        seeds = [{"generator": [seeded(n) for n in range(3)]} if name == "sample" else {} for _ in range(2)]
        found = function(
            made.step, made.start(3) if text else made.start(src), prompts, 7, end=2, **options, **seeds[0]
        )
        start = Prefixes(torch.arange(3), torch.zeros(3, 0, dtype=torch.int64))
        expected = function(uncached, start, prompts, 7, end=2, **options, **seeds[1])
        trial.require(found.ids.tolist() == expected.ids.tolist(), f"{name}: other tokens than without the cache")
        trial.require_same(f"scores of {name}", array(found.scores), array(expected.scores))


@clause("DECODE-18", MUST, SEARCH, MODELS)
def test_other_batch(trial: Trial) -> None:
    """A cache of more or fewer sequences than there are prompts is refused, by each of the three ways, at any length."""
    made: Any = model(trial)
    src = ids(trial.case, "src", trial.case.source)
    for name, options in WAYS.items():
        for prompts in ([[1], [2]], [[1, 2], [2, 1, 3]], [[1]] * 5, [[1, 2]] * 4):
            start = made.start(3) if trial.case.component == "language_model" else made.start(src)
            try:
                getattr(trial.names, name)(made.step, start, prompts, 4, **options)
            except ValueError as error:
                trial.require("expected" in str(error), f"{name}: expected a message that says what, got {error}")
            else:
                trial.require(False, f"{name}: {len(prompts)} prompts were taken with a cache of 3 sequences")


@clause("DECODE-17", MUST, SEARCH, PAIR)
def test_errors(trial: Trial) -> None:
    """Empty prompts, ids and options out of range, unknown strategies and options are refused by name."""
    one, names = next_tokens(trial), trial.names

    def attempt(function: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
        def call(**changes: Any) -> Any:
            return function(one.step, one.start(3), **{"prompts": PROMPTS, "max_length": 3, **fixed, **changes})

        return call

    for strategy, more in (("greedy", {}), ("sample", {}), ("beam", {"width": 1})):
        for logits in ([torch.nan, 0.0], [torch.inf, 0.0], [-torch.inf, -torch.inf], [0.0, -torch.inf]):
            outcome = attempted(names.decode, always(logits), None, [[0]], 3, strategy, end=0, min_length=1, **more)
            trial.require(isinstance(outcome, ValueError), f"logits {logits}: expected a ValueError, got {outcome!r}")

    common = [
        *(
            change("prompts", bad)
            for bad in ([], [[0], [], [1]], [[0], [1, 4], [1]], [[0], [-1], [1]], [[0], [1.5], [1]])
        ),
        *(change("prompts", bad) for bad in (torch.zeros(3, 0).long(), torch.zeros(3).long(), torch.zeros(3, 2))),
        change("prompts", [0, 1, 2]),
        *(change("max_length", bad) for bad in (0, -1, 1.5)),
        *(change("min_length", bad) for bad in (-1, 4)),
        *(change(name, bad) for name in ("end", "pad") for bad in (4, -1)),
    ]
    chance = [
        *(change("temperature", bad) for bad in (0, -1.0, float("nan"), float("inf"), "hot")),
        *(change("top_k", bad) for bad in (0, -2, 1.5)),
        *(change("top_p", bad) for bad in (0, -0.1, 1.1, float("nan"))),
        *(change("generator", bad) for bad in ([torch.Generator()], 3)),
    ]
    wide = [*(change("width", bad) for bad in (0, -1, 5, 1.5)), change("length_penalty", "long")]
    by_name = [
        *(change("strategy", bad) for bad in ("beams", ["beam"])),
        change("temperature", 2.0),
        change("width", 2),
    ]
    require_refusals(trial, attempt(names.greedy), common)
    require_refusals(trial, attempt(names.sample), [*common, *chance])
    require_refusals(trial, attempt(names.beam_search, width=2), [*common, *wide])
    require_refusals(trial, attempt(names.decode), [*common, *by_name])
    require_refusals(trial, attempt(names.decode, strategy="sample"), chance)


def always(logits: list[float]) -> Callable[[Tensor, Any], tuple[Tensor, Any]]:
    """A step that gives every sequence these logits."""
    return lambda ids, state: (torch.tensor([logits]).expand(ids.size(0), -1), state)


def attempted(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a call returns or raises."""
    try:
        return function(*arguments, **options)
    except Exception as error:
        return error
