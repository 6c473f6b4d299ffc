"""VALUE and GRAD on a trained encoder and real sentences, whose activations have outliers that random ones lack."""

import numpy as np

from . import pretrained, tolerance
from .cases.case import Case
from .clauses import MEASURED, MUST, clause
from .comparison import compare, rms
from .pretrained.hidden_states import HiddenStates, hidden_states, similarities
from .tolerance import Measure
from .trial import Trial

TRAINED = Case(
    "encoder",
    weights="trained",
    heads=12,
    head_dim=32,
    dim_feedforward=1536,
    layers=6,
    activation="gelu",
    layer_norm_eps=1e-12,
    final_norm=False,
    mode="eval",
    batch=50,
    source=pretrained.LONGEST,
    src_key_padding_mask="right",
)
DTYPES = [TRAINED.but(dtype=dtype) for dtype in ("float64", "float32")]


@clause("VALUE-30", MUST, MEASURED, DTYPES)
def test_hidden_states(trial: Trial) -> None:
    """After each layer of a trained encoder the hidden states of sentences padded together equal the reference's."""
    seen = _hidden_states(trial)
    for number, states in enumerate(zip(seen.subject, seen.reference, seen.oracle, strict=True)):
        name = f"hidden states after layers.{number}"
        trial.comparisons.append(compare(name, "output", trial.case.dtype, *states, seen.real))
    trial.settle()


@clause("VALUE-31", MUST, MEASURED, DTYPES)
def test_ranking(trial: Trial) -> None:
    """The pairs of sentences rank by similarity as they do exactly, as far as the error budget can tell them apart."""
    seen = _hidden_states(trial)
    states = seen.subject[-1], seen.reference[-1], seen.oracle[-1]
    found, reference, exact = (similarities(one, seen.real) for one in states)
    gap = _resolution(trial.case.dtype, reference, exact)
    swapped = (exact[:, None] - exact > gap) & (found[:, None] <= found)
    trial.require(not swapped.any(), f"similarities: {swapped.sum()} comparisons of two pairs come out the other way")


@clause("GRAD-20", MUST, MEASURED, [TRAINED.but(batch=8)])
def test_gradients(trial: Trial) -> None:
    """The gradients of a loss on the mean hidden states equal the reference's, for every parameter of a trained encoder."""
    trial.compare_gradients(lambda _: True)


def _hidden_states(trial: Trial) -> HiddenStates:
    trial.torch_module()
    return hidden_states(trial.adapter, trial.case)


def _resolution(dtype: str, reference: np.ndarray, exact: np.ndarray) -> float:
    """How far apart two similarities must be for every conforming implementation to rank them alike."""
    if dtype == "float64":
        return 0.0
    apart = reference - exact
    measured = Measure(rms(apart), float(np.abs(apart).max()))
    scale = Measure(rms(exact), float(np.abs(exact).max()))
    return 2 * tolerance.budget("output", dtype, measured, scale, 0.0, 0.0).worst
