"""NORM: the layer norm itself, and where the layers put it."""

import numpy as np

from .cases.case import Case
from .cases.select import NORMED, each, unmasked
from .clauses import DOCS, MEASURED, MUST, clause
from .norm_definitions import compare_norm
from .trial import Trial

BA = "Ba et al. 2016, section 3"
XIONG = "Xiong et al. 2020, figure 1"
TINY = [
    Case("layer_norm", magnitude=magnitude, layer_norm_eps=eps) for magnitude in (1e-3, 1e-2) for eps in (1e-5, 1e-6)
]


@clause("NORM-01", MUST, BA, lambda c: c.component == "layer_norm")
def test_layer_norm(trial: Trial) -> None:
    """Layer norm subtracts the mean, divides by the root of biased variance plus eps, scales and shifts."""
    trial.compare_output()


@clause("NORM-02", MUST, XIONG, lambda c: c.component in NORMED and not c.norm_first and unmasked(c))
def test_post_norm(trial: Trial) -> None:
    """With norm_first=False, the default, each norm follows the sum of input and sublayer: norm(x + f(x))."""
    trial.compare_output()


@clause("NORM-03", MUST, XIONG, lambda c: c.component in NORMED and c.norm_first and unmasked(c))
def test_pre_norm(trial: Trial) -> None:
    """With norm_first=True each norm precedes its sublayer and the sum keeps the input as it was: x + f(norm(x))."""
    trial.compare_output()


@clause("NORM-04", MUST, DOCS, [*TINY, *each(*NORMED, magnitude=1e-3, norm_first=True),
                                *each(*NORMED, magnitude=1e-3, layer_norm_eps=1e-3)])  # fmt: skip
def test_eps(trial: Trial) -> None:
    """Every norm uses layer_norm_eps, inside the root: at inputs of size 1e-3 it decides the values."""
    compare_norm(trial)


@clause("NORM-05", MUST, DOCS, lambda c: c.component in ("encoder", "decoder") and c.final_norm and unmasked(c))
def test_final_norm(trial: Trial) -> None:
    """A stack with a norm applies it once, after the last layer, for both norm positions."""
    trial.compare_output()


@clause("NORM-06", MUST, DOCS, lambda c: c.component in ("encoder", "decoder") and not c.final_norm and unmasked(c))
def test_no_final_norm(trial: Trial) -> None:
    """A stack without a norm returns what its last layer returned."""
    trial.compare_output()


@clause("NORM-07", MUST, BA, each("layer_norm", elementwise_affine=False))
def test_statistics(trial: Trial) -> None:
    """Without scale and shift each vector comes out with mean 0 and variance v / (v + eps), v being its variance."""
    seen = trial.observe()
    variance = trial.inputs.tensors["input"].var(-1)
    trial.require_same("mean + 1", 1 + seen.output.mean(-1), np.ones_like(variance))
    trial.require_same("variance", seen.output.var(-1), variance / (variance + trial.case.layer_norm_eps))


@clause("NORM-08", MUST, BA, each("layer_norm", elementwise_affine=False, layer_norm_eps=1e-30))
def test_invariance(trial: Trial) -> None:
    """Without scale and shift the norm does not see a shift of its input, nor, eps aside, a positive factor."""
    seen = trial.observe()
    moved = trial.inputs.with_tensor("input", 4.0 * trial.inputs.tensors["input"] + 2.0)
    trial.require_same("output", trial.observe(moved).output, seen.output)


@clause("NORM-09", MUST, MEASURED, [
    Case("layer_norm", dtype=dtype, magnitude=magnitude, layer_norm_eps=eps)
    for dtype in ("float32", "bfloat16") for magnitude in (1e-2, 1.0) for eps in (1e-5, 1e-6)
])  # fmt: skip
def test_low_precision(trial: Trial) -> None:
    """In float32 and bfloat16 a layer norm is as near to the exact values as torch's."""
    trial.compare_output()
