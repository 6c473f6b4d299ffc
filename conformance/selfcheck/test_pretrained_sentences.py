"""The trained encoder is loaded rightly, and its numbers are what the suite wants them for."""

import numpy as np
import pytest

from conformance import pretrained
from conformance.inputs import make_inputs
from conformance.pretrained.hidden_states import hidden_states, similarities
from conformance.subjects.load import load
from conformance.test_pretrained import TRAINED

needs_the_package = pytest.mark.skipif(bool(pretrained.requirement()), reason=pretrained.requirement())


def test_fifty_different_sentences() -> None:
    assert len(set(pretrained.sentences())) == 50


@needs_the_package
def test_lengths_differ() -> None:
    real = make_inputs(TRAINED).real
    assert real.shape == (TRAINED.batch, TRAINED.source)
    assert real.sum(1).max() == TRAINED.source
    assert len(set(real.sum(1))) > 10


@needs_the_package
def test_paraphrases_are_closest() -> None:
    """Under wrongly loaded weights the two sentences of a pair would not find each other."""
    seen = hidden_states(load("torch").adapters["encoder"], TRAINED)
    closeness = np.full((50, 50), -1.0)
    closeness[np.triu_indices(50, 1)] = similarities(seen.reference[-1], seen.real)
    assert (np.maximum(closeness, closeness.T).argmax(1) == np.arange(50) ^ 1).all()


@needs_the_package
def test_outliers() -> None:
    """The largest activation is far beyond what a normal distribution gives, some 5 times the root mean square."""
    seen = hidden_states(load("torch").adapters["encoder"], TRAINED)
    states = seen.oracle[-2][seen.real]
    assert np.abs(states).max() > 10 * np.sqrt((states**2).mean())
