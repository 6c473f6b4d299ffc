"""What DECODE measures with: the oracle that tries everything, the small model, the chi-square test."""

import math

import numpy as np
import pytest
import torch

from conformance.chi_square import CRITICAL, require_frequencies, statistic
from conformance.clauses import load_all
from conformance.next_tokens import NextTokens
from conformance.subjects.load import load
from conformance.trial import Trial
from conformance.verdicts import Difference
from reference import decoding_oracle as oracle

MODEL = NextTokens(np.random.default_rng(0), 4)


@pytest.mark.parametrize("end", [None, 2])
def test_everything_is_found_once(end: int | None) -> None:
    """The continuations differ, and their probabilities add up to 1."""
    found = oracle.exhaustive(MODEL.logits, [1], 3, end=end)
    assert len({tokens for tokens, _ in found}) == len(found) == (64 if end is None else 1 + 3 + 9 * 4)
    assert sum(math.exp(score) for _, score in found) == pytest.approx(1)


def test_wide_beams_find_everything() -> None:
    """Two ways to search agree where the second leaves nothing out, and where the first is of width 1."""
    options = {"min_length": 1, "end": 0}
    everything = oracle.exhaustive(MODEL.logits, [3, 2], 4, length_penalty=0.7, **options)
    assert oracle.beams(MODEL.logits, [3, 2], 4, 999, length_penalty=0.7, **options) == everything
    assert oracle.beams(MODEL.logits, [3, 2], 4, 1, **options) == [oracle.greedy(MODEL.logits, [3, 2], 4, **options)]


def test_length_penalty() -> None:
    """Without one the probabilities are compared; with one a longer sequence of the same probability wins."""
    assert oracle.score(((1, 2), -3.0), 0.0) == -3.0
    assert oracle.score(((1,) * 7, -3.0), 1.0) == pytest.approx(-1.5)


def test_distribution() -> None:
    """By hand: (1/2, 1/4, 1/8, 1/8), of which the second crosses 0.6."""
    logits = np.log([0.5, 0.25, 0.125, 0.125])
    assert oracle.distribution(logits, top_p=0.6) == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert oracle.distribution(logits, top_k=3) == pytest.approx([4 / 7, 2 / 7, 1 / 7, 0])
    assert oracle.distribution(logits, temperature=0.5) == pytest.approx(np.array([16, 4, 1, 1]) / 22)
    assert oracle.distribution(logits, top_k=2, top_p=0.6) == pytest.approx([1, 0, 0, 0])


def test_the_model_is_one() -> None:
    """Step by step in torch it is what it is from the whole prefix in NumPy."""
    state, tokens = MODEL.start(1), (1, 3, 0, 2)
    for number, token in enumerate(tokens):
        logits, state = MODEL.step(torch.tensor([token]), state)
        np.testing.assert_allclose(logits[0].numpy(), MODEL.logits(tokens[: number + 1]), rtol=1e-12, atol=1e-12)


def test_statistic() -> None:
    """Pearson's, by hand; cells that hardly ever come count as one."""
    assert statistic([10, 20, 30], [20.0, 20.0, 20.0]) == (10.0, 2)
    assert statistic([8, 1, 1], [8.0, 1.0, 1.0]) == (0.0, 0)
    assert list(CRITICAL) == sorted(CRITICAL)


def test_chi_square_refuses() -> None:
    """Frequencies that are not those of the chances, and what has no chance."""
    clause = load_all()["DECODE-09"]
    trial = Trial(load("handmade"), clause.cases[0], clause)
    fair = ["a"] * 500 + ["b"] * 500
    require_frequencies(trial, "fair", fair, {"a": 0.5, "b": 0.5})
    with pytest.raises(Difference, match="chi-square"):
        require_frequencies(trial, "unfair", fair, {"a": 0.6, "b": 0.4})
    with pytest.raises(Difference, match="cannot come"):
        require_frequencies(trial, "impossible", [*fair, "c"], {"a": 0.5, "b": 0.5})
