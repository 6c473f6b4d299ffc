"""GATE: the gated feed-forward network, and the variants of GELU."""

from typing import Any

import numpy as np
import torch
from torch.nn import init

from .arguments import array
from .bad_calls import BadCall, change
from .cases.case import Case
from .cases.select import each
from .clauses import MEASURED, MUST, clause
from .test_error import require_refused_calls, require_refused_options
from .trial import Trial

SHAZEER = "Shazeer 2020, section 2"
HENDRYCKS = "Hendrycks and Gimpel 2016, section 2"
DTYPES = ("float64", "float32", "bfloat16", "float16")
VARIANTS = ("gelu", "gelu_tanh", "gelu_sigmoid", "silu")


@clause("GATE-01", MUST, SHAZEER, [
    *(Case("swiglu", bias=bias, dtype=dtype) for bias in (True, False) for dtype in DTYPES),
    Case("swiglu", dim_feedforward=1), Case("swiglu", heads=2, head_dim=5, dim_feedforward=33, batch=3),
    *(Case("swiglu", magnitude=magnitude, bias=False) for magnitude in (0.1, 10.0)), Case("swiglu", mode="eval", batch=1),
])  # fmt: skip
def test_swiglu(trial: Trial) -> None:
    """SwiGLU is W2 (silu(W1 x) ⊙ W3 x): the branch that is bent is w1, the one that it opens is w3."""
    trial.compare_all()


@clause("GATE-02", MUST, SHAZEER, [Case("swiglu", heads=heads, head_dim=4, bias=False) for heads in (3, 4, 32)])
def test_size(trial: Trial) -> None:
    """Without a d_ff it is 8d/3, rounded up, to a multiple where one is asked for, so that there are 8d² numbers."""
    width = trial.case.d_model
    for multiple in (1, 16):
        module: Any = trial.construct(d_ff=None, multiple_of=multiple)
        inner = module.w1.out_features
        count = sum(parameter.numel() for parameter in module.parameters())
        trial.require(count == 3 * width * inner, f"expected three matrices of {width} × {inner}, got {count} numbers")
        trial.require(inner % multiple == 0, f"d_ff: expected a multiple of {multiple}, got {inner}")
        excess = count - 8 * width**2
        trial.require(0 <= excess < 3 * width * multiple, f"expected about 8d² = {8 * width**2} numbers, got {count}")


@clause("GATE-03", MUST, SHAZEER, [Case("swiglu", bias=False)])
def test_closed(trial: Trial) -> None:
    """A gate of 0 lets nothing through, and passes the gradient to the branch that opens it alone."""
    trial.require_gradients()
    module = trial.torch_module()
    init.zeros_(module.w1.weight)
    given = trial.call_arguments()
    made = module(**given)
    trial.require(not made.any(), "expected 0 behind a closed gate")
    made.sum().backward()
    trial.require(not module.w3.weight.grad.any(), "expected no gradient behind a closed gate")
    trial.require(bool(module.w1.weight.grad.any()), "expected a gradient in the gate")


@clause("GATE-04", MUST, HENDRYCKS, [
    case for kind in VARIANTS for dtype in ("float64", "float32", "bfloat16")
    for case in each("encoder_layer", "decoder_layer", activation=kind, dtype=dtype)
])  # fmt: skip
def test_variants(trial: Trial) -> None:
    """GELU, its tanh and its logistic approximation, and SiLU, are what they are in a layer, with their derivatives."""
    trial.compare_all()


@clause("GATE-05", MUST, HENDRYCKS, each("encoder_layer", norm_first=False))
def test_apart(trial: Trial) -> None:
    """The tanh approximation is within 0.0005 of GELU and the logistic one within 0.0205, and they come as near as that."""
    trial.torch_module()
    x = torch.linspace(-8, 8, 16001, dtype=torch.float64)
    kinds = trial.adapter.namespace.activations  # type: ignore[attr-defined]
    exact, tanh, logistic = (array(kinds[kind](x)) for kind in ("gelu_callable", "gelu_tanh", "gelu_sigmoid"))
    for name, found, least, most in (("tanh", tanh, 4e-4, 5e-4), ("logistic", logistic, 2e-2, 2.05e-2)):
        apart = float(np.abs(found - exact).max())
        trial.require(least < apart < most, f"{name}: expected {least} to {most} from GELU, got {apart:.3g}")


@clause("GATE-06", MUST, MEASURED, each("swiglu"))
def test_refused(trial: Trial) -> None:
    """Another number of features and another dtype are refused, and sizes that are not positive."""
    require_refused_calls(
        trial,
        lambda _, given: [
            BadCall("fewer features", ("x",), {"x": given["x"][..., :-1]}),
            BadCall("another dtype", ("x",), {"x": given["x"].float()}),
            BadCall("a list", ("x",), {"x": given["x"].tolist()}),
        ],
    )
    bad = [change("d_model", 0), change("d_ff", 0), change("d_ff", 2.5), change("multiple_of", 0)]
    require_refused_options(trial, lambda _: bad)
