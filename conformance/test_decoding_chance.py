"""DECODE: what is drawn, and how often."""

from typing import Any

import numpy as np
import torch

from reference import decoding_oracle as oracle

from .arguments import array
from .chi_square import require_frequencies
from .clauses import MUST, clause
from .decoding_ways import CASES, ENDINGS, PAIR, PROMPTS, next_tokens, seeded
from .next_tokens import NextTokens
from .trial import Trial

HOLTZMAN = "Holtzman et al. 2020, section 3.1"
HANDBOOK = "NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.5.15"
DRAWS = 20_000
SAMPLING: tuple[dict[str, Any], ...] = ({}, {"temperature": 2.0}, {"top_k": 2}, {"top_p": 0.7, "temperature": 1.5})


@clause("DECODE-05", MUST, HOLTZMAN, CASES)
def test_distribution(trial: Trial) -> None:
    """What is drawn from: softmax of logits over temperature; the top_k; of these the smallest set that reaches top_p."""
    logits = trial.case.rng("logits").normal(size=(4, trial.case.vocabulary)) * 2
    logits[3] = np.log(np.r_[0.5, 0.25, 0.125, np.full(trial.case.vocabulary - 3, 10.0**-9)])
    for temperature in (0.3, 1.0, 2.5):
        for top_k in (None, 1, 2, 99):
            for top_p in (0.05, 0.5, 0.8, 0.97, 1.0):
                found = trial.names.distribution(torch.from_numpy(logits), temperature, top_k, top_p)
                expected = [oracle.distribution(row, temperature, top_k, top_p) for row in logits]
                name = f"temperature={temperature}, top_k={top_k}, top_p={top_p}"
                trial.require_same(name, array(found), np.stack(expected))


@clause("DECODE-06", MUST, HOLTZMAN, PAIR)
def test_equals(trial: Trial) -> None:
    """Of equally probable tokens top_k keeps k and top_p no more than it needs, the first ones."""
    equal = torch.zeros(1, 4, dtype=torch.float64)
    for options, kept in (
        ({"top_k": 3}, 3),
        ({"top_p": 0.5}, 2),
        ({"top_p": 0.51}, 3),
        ({"top_k": 2, "top_p": 0.5}, 1),
    ):
        expected = np.array([[1 / kept] * kept + [0.0] * (4 - kept)])
        trial.require_same(f"{options}", array(trial.names.distribution(equal, **options)), expected)


@clause("DECODE-07", MUST, HOLTZMAN, PAIR)
def test_limits(trial: Trial) -> None:
    """Temperature towards infinity makes all tokens equal, towards 0 leaves the most probable; what is forbidden stays so."""
    logits = torch.from_numpy(trial.case.rng("logits").normal(size=(3, 4)))
    logits[:, 1] = -torch.inf
    uniform = torch.full_like(logits, 1 / 3).masked_fill(logits == -torch.inf, 0.0)
    best = torch.zeros_like(logits).scatter(1, logits.argmax(1, keepdim=True), 1.0)
    for temperature, expected in ((1e20, uniform), (1e-4, best), (10.0**-300, best)):
        found = trial.names.distribution(logits, temperature)
        trial.require_same(f"temperature={temperature}", array(found), array(expected))


@clause("DECODE-08", MUST, HOLTZMAN, CASES)
def test_greedy_limits(trial: Trial) -> None:
    """With top_k=1, with a small top_p and with a small temperature, sampling is greedy decoding."""
    one = next_tokens(trial)
    for ending in ENDINGS:
        greedy = trial.names.greedy(one.step, one.start(3), PROMPTS, 6, **ending)
        for options in ({"top_k": 1}, {"top_p": 10.0**-9}, {"temperature": 1e-6}):
            generator = torch.Generator().manual_seed(1)
            found = trial.names.sample(one.step, one.start(3), PROMPTS, 6, generator=generator, **options, **ending)
            trial.require(found.ids.tolist() == greedy.ids.tolist(), f"{options}, {ending}: not greedy's tokens")
            trial.require_same(f"scores with {options}", array(found.scores), array(greedy.scores))


@clause("DECODE-09", MUST, HANDBOOK, CASES)
def test_frequencies(trial: Trial) -> None:
    """Sequences are drawn as often as their probabilities say, by a chi-square test."""
    one, prompt = next_tokens(trial), [1, 0]
    for number, options in enumerate(SAMPLING):
        for ending in ENDINGS[:2]:
            generator = torch.Generator().manual_seed(number)
            found = trial.names.sample(
                one.step, one.start(DRAWS), [prompt] * DRAWS, 2, generator=generator, **options, **ending
            )
            drawn = [
                tuple(ids[:length]) for ids, length in zip(found.ids.tolist(), found.lengths.tolist(), strict=True)
            ]
            require_frequencies(trial, f"{options} {ending}", drawn, _chances(one, prompt, options, **ending))


@clause("DECODE-13", MUST, HOLTZMAN, PAIR)
def test_generators(trial: Trial) -> None:
    """Equal generators draw equal sequences, others draw others, and torch's own is left alone where one is given."""
    one = next_tokens(trial)

    def drawn(generator: Any) -> Any:
        prompts = [[1]] * 8
        return trial.names.sample(one.step, one.start(8), prompts, 12, generator=generator).ids.tolist()

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        before = torch.get_rng_state()
        for make in (seeded, lambda seed: [seeded(seed + row) for row in range(8)]):
            found = drawn(make(5))
            trial.require(found == drawn(make(5)), "equal generators: different sequences")
            trial.require(found != drawn(make(50)), "different generators: equal sequences")
            trial.require(len({tuple(row) for row in found}) > 1, "sequences of one batch: all equal")
        trial.require(torch.equal(before, torch.get_rng_state()), "torch's own generator: used although one was given")
        found = drawn(None)
        torch.manual_seed(3)
        trial.require(found == drawn(None), "torch's own generator: equal seeds, different sequences")


@clause("DECODE-14", MUST, HOLTZMAN, CASES)
def test_scores(trial: Trial) -> None:
    """The score of what was drawn is its log-probability under the model, whatever was cut, sharpened or forbidden."""
    one = next_tokens(trial)
    options = {"temperature": 0.7, "top_k": 2, "end": 1, "min_length": 2}
    generator = seeded(0)
    found = trial.names.sample(one.step, one.start(3), PROMPTS, 6, generator=generator, **options)
    for row, prompt in enumerate(PROMPTS):
        tokens = found.ids[row, : found.lengths[row]].tolist()
        values = [oracle.log_softmax(one.logits((*prompt, *tokens[:n])))[token] for n, token in enumerate(tokens)]
        trial.require_same(f"score of {tokens}", array(found.scores[row]), np.array(sum(values)))


def _chances(one: NextTokens, prompt: list[int], options: dict[str, Any], end: int | None = None) -> dict[Any, float]:
    """The probability of each sequence of two tokens at most."""
    chances: dict[Any, float] = {}
    for first, p in enumerate(oracle.distribution(one.logits(tuple(prompt)), **options)):
        if first == end:
            chances[(first,)] = float(p)
            continue
        for second, q in enumerate(oracle.distribution(one.logits((*prompt, first)), **options)):
            chances[first, second] = float(p * q)
    return chances
