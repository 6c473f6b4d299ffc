"""The error budget: every tolerance of the suite, in one place.

An error is a distance from the float64 oracle. A subject may be `FACTOR` times as far from it as torch is at the same
precision, plus a floor of a few roundings, because torch's error can be 0 by chance:

    rms(subject − oracle) ≤ k · t · rms(oracle) + floor
    max|subject − oracle| ≤ k · max(max|torch − oracle|, t · max|oracle|) + floor

where t is torch's relative rms error in this tensor, or in a gradient its typical one in the run, or what half a
rounding in the inputs and parameters makes of the exact values, whichever is largest: in a tensor of six elements, and
behind a saturated softmax, a small error of torch's is luck. Of one and the same pair of attentions at inputs of size
10 the ratio of errors has median 1 and reaches 5 over forty seeds. What half a rounding of the inputs does as well is
nobody's fault. A factor of 3 is generous, and a wrong epsilon still shows. Where torch itself is wrong, beyond `TRUST`
roundings, its error is no yardstick.

An error that is a common factor of all elements, a wrong scale, does not average out as rounding does: an output's error
along the oracle's values may be no more than chance makes of it.

Where torch has no such component, or raises, it is taken to be `ASSUMED` roundings off, in rms and at worst, as it
typically is.

A gradient is a difference of terms of its siblings' size (a saturated softmax passes 1e-9 of what its value gets), so
the rounding of those terms belongs to its floor; they are products of two inputs and grow with the square of their
magnitude.
"""

from dataclasses import dataclass

import torch

FACTOR = {"output": 3.0, "gradient": 4.0}
# In float64 the oracle rounds as much as the subject does, so the floor is the relative agreement that is asked for.
FLOAT64_AGREEMENT = 1e-12
FLOOR_RMS = {"float64": FLOAT64_AGREEMENT * 2**52, "float32": 2.0, "float16": 0.5, "bfloat16": 0.5}
FLOOR_MAX = {"float64": FLOAT64_AGREEMENT * 2**52, "float32": 8.0, "float16": 2.0, "bfloat16": 2.0}
FLOOR_TERMS = {"float64": 64.0, "float32": 16.0, "float16": 0.25, "bfloat16": 0.25}
# Roundings (ε) that torch would be off, where it gives nothing; its own components are between 0.3 and 3 off.
ASSUMED = 2.0
# Standard deviations of its mean by which rounding may look like a common factor of all elements.
SLOPE = 6.0
# Roundings (ε) of relative rms error up to which torch is believed: the condition numbers of the cases stay below.
TRUST = {
    "output": {"float64": 1e4, "float32": 1e3, "float16": 100.0, "bfloat16": 32.0},
    "gradient": {"float64": 1e4, "float32": 1e3, "float16": 500.0, "bfloat16": 64.0},
}
# A gradient whose rms is below this many ε of its siblings' is zero in exact arithmetic (a key's bias, say).
ZERO_GRADIENT = 1e3
# Agreement of two runs of one subject that may differ in the order of their sums only: roundings of the largest element.
SAME = 64.0
# What explains a difference leaves no more than this part of it.
EXPLAINED = 1e-2
# What is above it, in float64 at inputs of size 1, is no rounding: something has changed.
APART = 1e-9
# How far the loss curves of two equal trainings may be apart: early, relative to the loss, and over all steps, relative to
# the largest loss. While the loss falls steeply a step multiplies the distance that is there, so the later part has room.
CURVES = {"float32": (1e-4, 5e-2), "float64": (1e-12, 1e-9)}
# The chance with which a correct implementation may fail a statistical clause.
SIGNIFICANCE = 1e-9
# How far a float32 output of size 1 may move when its mask, bfloat16 numbers, comes in another dtype: sums in that dtype.
MASK_OF_ANOTHER_DTYPE = 0.01
# A median error that has grown by more than this factor from one version of torch to another has drifted.
DRIFT = 1.5


def epsilon(dtype: str) -> float:
    """The rounding unit of a dtype."""
    return torch.finfo(getattr(torch, dtype)).eps


@dataclass(frozen=True)
class Measure:
    """A root mean square and a largest absolute value."""

    rms: float
    worst: float


def budget(kind: str, dtype: str, torch_error: Measure, scale: Measure, terms: float, typical: float) -> Measure:
    """The largest errors that conform.

    Args:
        kind: "output" or "gradient".
        dtype: of the case.
        torch_error: torch's own, or that of inputs half a rounding away where it is larger.
        scale: of the oracle's values.
        terms: size of the terms that a gradient is a difference of; 0 for an output.
        typical: torch's typical relative rms error in this run.
    """
    eps = epsilon(dtype)
    trust = TRUST[kind][dtype] * eps
    typical = min(typical, trust)
    floor = FLOOR_TERMS[dtype] * eps * terms
    rms = max(min(torch_error.rms, trust * scale.rms), typical * scale.rms)
    worst = max(min(torch_error.worst, trust * scale.worst), typical * scale.worst)
    return Measure(
        FACTOR[kind] * rms + FLOOR_RMS[dtype] * eps * scale.rms + floor,
        FACTOR[kind] * worst + FLOOR_MAX[dtype] * eps * scale.worst + 4 * floor,
    )


def assumed(dtype: str, scale: float) -> float:
    """The error of a torch that gives nothing.

    Args:
        dtype: of the case.
        scale: rms or largest absolute value of the oracle's values.
    """
    return ASSUMED * epsilon(dtype) * scale


def like_float32(relative: float) -> bool:
    """Whether a relative error in float64 is of the size that a step in float32 leaves."""
    return epsilon("float32") / 100 < relative < epsilon("float32") * 10


def slope(limit: float, scale: float, size: int) -> float:
    """The largest common factor, less 1, that conforms: independent roundings average out over the elements.

    Args:
        limit: the largest rms error that conforms.
        scale: rms of the oracle's values.
        size: number of elements.
    """
    return limit / scale * min(1.0, SLOPE / size**0.5) if scale > 0 else 0.0


def trusted(kind: str, dtype: str, scale: float, terms: float) -> float:
    """The rms error up to which torch is right."""
    eps = epsilon(dtype)
    return TRUST[kind][dtype] * eps * scale + FLOOR_TERMS[dtype] * eps * terms


def ratio(dtype: str, error: float, torch_error: float, scale: float, terms: float, typical: float) -> float | None:
    """An error as a multiple of torch's, taken to be no less than is typical of it in the run.

    None where the exact value is zero, and where both errors are the rounding of larger terms that cancel.
    """
    if scale <= ZERO_GRADIENT * epsilon("float64") * terms or not torch_error < float("inf"):
        return None
    if scale == 0 or max(error, torch_error) <= epsilon(dtype) * terms:
        return None
    return error / max(torch_error, typical * scale, epsilon(dtype) / 4 * scale)
