"""DTYPE: float32, bfloat16, float16, and other devices."""

import contextlib

import torch

from . import tolerance
from .cases.case import Case
from .cases.select import MODULES, around, each
from .clauses import DOCS, MEASURED, MUST, clause
from .comparison import compare
from .inputs import representable
from .modules import output
from .runs import reference_observation
from .test_mode import MASKED
from .trial import Trial

DTYPES = ("float64", "float32", "bfloat16", "float16")


@clause("DTYPE-01", MUST, DOCS, [
    case.but(dtype=dtype) for dtype in DTYPES for case in (*each("attention", "layer_norm", *MODULES), *each(*MODULES, **MASKED), *around())
])  # fmt: skip
def test_kept(trial: Trial) -> None:
    """The output has the dtype of the inputs and the parameters."""
    expected = getattr(torch, trial.case.dtype)
    for dtype in trial.observe().dtypes[: 1 if trial.case.component == "mixture_of_experts" else None]:
        trial.require(dtype in (expected, None), f"expected {expected}, got {dtype}")


@clause("DTYPE-02", MUST, MEASURED, lambda c: c.dtype == "float32" and c.device == "cpu")
def test_float32(trial: Trial) -> None:
    """In float32 the output is as near to the exact values as torch's, by the error budget."""
    trial.compare_output()


@clause("DTYPE-03", MUST, MEASURED, lambda c: c.dtype == "bfloat16")
def test_bfloat16(trial: Trial) -> None:
    """In bfloat16 the output is as near to the exact values as torch's, by the error budget."""
    trial.compare_output()


@clause("DTYPE-04", MUST, MEASURED, lambda c: c.dtype == "float16")
def test_float16(trial: Trial) -> None:
    """In float16 the output is as near to the exact values as torch's, by the error budget."""
    trial.compare_output()


@clause("DTYPE-05", MUST, MEASURED, lambda c: c.device == "accelerator")
def test_accelerator(trial: Trial) -> None:
    """On an accelerator the output is as near to the exact values as torch's there, by the error budget."""
    trial.compare_output()


@clause("DTYPE-06", MUST, MEASURED, [
    *each("attention", *MODULES, **MASKED), *each("attention", *MODULES, heads=4, head_dim=3, **MASKED)
])  # fmt: skip
def test_float64_throughout(trial: Trial) -> None:
    """In float64 nothing is computed in less: the output agrees with the exact values to 1e-12."""
    trial.compare_output()


@clause("DTYPE-07", MUST, MEASURED, [
    *(case for mode in ("train", "eval") for case in each("attention", *MODULES, dtype="float32", mode=mode, **MASKED)),
    *(case for padding in ("none", "ragged")
      for case in each("encoder", dtype="float32", mode="eval", heads=4, head_dim=3, src_key_padding_mask=padding, norm_first=False)),
])  # fmt: skip
def test_autocast(trial: Trial) -> None:
    """Under autocast to bfloat16 the output is as near to the exact values as torch's under it."""
    inputs, instance, reference = trial.inputs, trial.instance(), None
    exact, alone = trial.run.witnesses.oracle.output, trial.run.witnesses.alone
    rows = inputs.real & inputs.live
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = instance.observe(inputs).output
        with contextlib.suppress(Exception):
            reference = reference_observation(inputs, instance.state).output
    name = "output under autocast"
    trial.comparisons.append(compare(name, "output", "bfloat16", found, reference, exact, rows, alone=alone))
    trial.settle()


@clause("DTYPE-08", MUST, MEASURED, [
    Case("attention", dtype="float32", mask_shape="LS"),
    *(Case("multihead_attention", attends="self", dtype="float32", need_weights=need) for need in (True, False)),
])  # fmt: skip
def test_masks_of_another_dtype(trial: Trial) -> None:
    """A floating mask of another dtype than the query's is added as the number that it is, or refused."""
    keys = trial.case.target if trial.case.attends == "self" else trial.case.source
    bias = representable(trial.case.rng("mask").normal(size=(trial.case.target, keys)), "bfloat16")
    module, given = trial.torch_module(), trial.call_arguments()
    expected = output(module, {**given, "attn_mask": torch.from_numpy(bias).float()})
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        try:
            found = output(module, {**given, "attn_mask": torch.from_numpy(bias).to(dtype)})
        except Exception:
            continue
        distance = float((found.float() - expected).abs().max())
        trial.require(distance < tolerance.MASK_OF_ANOTHER_DTYPE, f"attn_mask of {dtype}: {distance:.3g} apart")
