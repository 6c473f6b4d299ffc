"""RMS: normalisation by the root mean square."""

import numpy as np
import torch

from .arguments import array
from .bad_calls import BadCall, change
from .cases.case import Case
from .cases.select import each
from .clauses import DOCS, MEASURED, MUST, clause
from .modules import reference
from .test_error import require_refused_calls, require_refused_options
from .test_init import require_equal
from .trial import Trial

ZHANG = "Zhang and Sennrich 2019, section 4"
DTYPES = ("float64", "float32", "bfloat16", "float16")


@clause("RMS-01", MUST, ZHANG, [
    *(Case("rms_norm", dtype=dtype, layer_norm_eps=eps) for dtype in DTYPES for eps in (1e-5, 1e-2)),
    *(Case("rms_norm", normalized_dims=dims, elementwise_affine=affine) for dims in (1, 2) for affine in (True, False)),
    *(Case("rms_norm", magnitude=magnitude, dtype=dtype) for magnitude in (1e-3, 100.0) for dtype in DTYPES[:3]),
    Case("rms_norm", offset=10.0), Case("rms_norm", layout="transposed"), Case("rms_norm", batch=None, mode="eval"),
])  # fmt: skip
def test_values(trial: Trial) -> None:
    """Each vector is divided by the root of its mean square plus eps, and scaled; nothing is subtracted or added."""
    trial.compare_all()


@clause("RMS-02", MUST, DOCS, [Case("rms_norm", dtype=dtype, magnitude=1e-4) for dtype in DTYPES])
def test_default_eps(trial: Trial) -> None:
    """Without an eps it is the rounding unit of the precision that is computed in, float32 for the halves."""
    computed = torch.float64 if trial.case.dtype == "float64" else torch.float32
    given = trial.call_arguments()
    found, expected = (array(trial.construct(eps=eps)(**given)) for eps in (None, torch.finfo(computed).eps))
    trial.require_same("output", found, expected)


@clause("RMS-03", MUST, ZHANG, each("rms_norm", elementwise_affine=False, layer_norm_eps=1e-30))
def test_mean_is_kept(trial: Trial) -> None:
    """The mean stays: equal numbers come out as 1 or −1. A positive factor is not seen, eps aside, and a shift is."""
    seen, x = trial.observe(), trial.inputs.tensors["x"]
    trial.require_same("output of 4x", trial.observe(trial.inputs.with_tensor("x", 4 * x)).output, seen.output)
    equal = trial.inputs.with_tensor("x", np.broadcast_to(x[..., :1], x.shape).copy())
    trial.require_same("output of equal numbers", trial.observe(equal).output, np.sign(equal.tensors["x"]))
    shifted = trial.observe(trial.inputs.with_tensor("x", x + 2)).output
    trial.require(trial.apart(shifted, seen.output) != "", "expected another output for a shifted input")


@clause("RMS-04", MUST, ZHANG, each("rms_norm", elementwise_affine=False, layer_norm_eps=1e-2))
def test_size(trial: Trial) -> None:
    """Without a scale the mean square comes out as m / (m + eps), m being that of the input."""
    squares = (trial.inputs.tensors["x"] ** 2).mean(-1)
    found = (trial.observe().output ** 2).mean(-1)
    trial.require_same("mean square", found, squares / (squares + trial.case.layer_norm_eps))


@clause("RMS-05", MUST, DOCS, each("rms_norm", normalized_dims=2) + each("rms_norm", elementwise_affine=False))
def test_start(trial: Trial) -> None:
    """The scale is called weight and starts at 1; there is no bias, and torch's state loads into it and back."""
    mine, theirs = trial.construct(), reference(trial.case)
    require_equal(trial, mine, theirs)
    theirs.load_state_dict(mine.state_dict(), strict=True)
    mine.load_state_dict(theirs.state_dict(), strict=True)


@clause("RMS-06", MUST, MEASURED, each("rms_norm") + each("rms_norm", normalized_dims=2))
def test_refused(trial: Trial) -> None:
    """Tensors that do not end in normalized_shape are refused, and sizes and an eps that are no numbers."""
    require_refused_calls(
        trial,
        lambda _, given: [
            BadCall("fewer features", ("input", "x"), {"x": given["x"][..., :-1]}),
            BadCall("a list", ("input", "x"), {"x": given["x"].tolist()}),
        ],
    )
    require_refused_options(trial, lambda _: [change("normalized_shape", 2.5), change("eps", "small")])
