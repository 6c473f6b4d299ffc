"""CAUSAL: causal masks, is_causal, and hints."""

from typing import Any

import numpy as np
import torch

from . import capabilities
from .arguments import array
from .cases.case import Case
from .cases.masks import CAUSAL_KINDS
from .cases.select import MODULES, each, few_masks, has_kind
from .clauses import DOCS, MEASURED, MUST, POLICY, clause
from .trial import Trial

CAUSAL = {"attn_mask": "causal", "src_mask": "causal", "tgt_mask": "causal"}


@clause("CAUSAL-01", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, *CAUSAL_KINDS))
def test_mask(trial: Trial) -> None:
    """A causal attention mask, boolean or floating, lets position i see positions 0 … i."""
    trial.compare_output()


@clause("CAUSAL-02", MUST, DOCS, lambda c: c.is_causal)
def test_is_causal(trial: Trial) -> None:
    """In scaled_dot_product_attention is_causal keeps keys 0 … i for query i, aligned upper left when L ≠ S."""
    trial.compare_output()


@clause("CAUSAL-03", MUST, MEASURED, [
    *each("attention", is_causal=True, source=5), Case("attention", is_causal=True), Case("attention", is_causal=True, target=7, source=5),
    *each("multihead_attention", attends="self", attn_mask="causal"),
    *each(*MODULES[1:], **CAUSAL), *each(*MODULES[1:], **CAUSAL, mode="eval", batch_first=False, layers=3),
])  # fmt: skip
def test_no_leak(trial: Trial) -> None:
    """Under a causal mask the output before position t does not depend on the input from t on."""
    inputs, case = trial.inputs, trial.case
    names = [name for name in ("key", "value") if name in inputs.tensors and case.is_causal] or list(inputs.tensors)[
        -1:
    ]
    if case.component in ("encoder_layer", "encoder"):
        names = ["src"]
    elif case.component != "attention":
        names = ["tgt"] if "tgt" in inputs.tensors else ["query"]
    seen = trial.observe().output
    for t in range(1, min(inputs.tensors[name].shape[-2] for name in names)):
        changed = inputs
        for name in names:
            later = np.arange(inputs.tensors[name].shape[-2])[:, None] >= t
            changed = changed.with_tensor(name, np.where(later, -3 * inputs.tensors[name], inputs.tensors[name]))
        again = trial.observe(changed).output
        trial.require_same(f"output before {t}", again[..., :t, :], seen[..., :t, :])


@clause("CAUSAL-04", MUST, DOCS, [
    *each("multihead_attention", attends="self", attn_mask="causal", hint="true"),
    *each("multihead_attention", attends="self", attn_mask="float_causal", hint="true", need_weights=False),
    *each(*MODULES[1:], **CAUSAL, hint="true"), *each(*MODULES[1:], **CAUSAL, hint="false", mode="eval"),
    *each("encoder", "decoder", "transformer", src_mask="float_causal", tgt_mask="float_causal", hint="true", layers=3),
])  # fmt: skip
def test_hint(trial: Trial) -> None:
    """The hint that a mask is causal, true, false or left out, changes nothing when the mask is causal."""
    bare = trial.inputs.but(flags={name: flag for name, flag in trial.inputs.flags.items() if "causal" not in name})
    trial.require_same("output", trial.observe().output, trial.observe(bare).output)


@clause("CAUSAL-05", MUST, DOCS, [
    case for kind in ("causal", "float_causal", "bool", "window", "none")
    for case in each("encoder", "decoder", src_mask=kind, tgt_mask=kind, layers=1, norm_first=False)
])  # fmt: skip
def test_detection(trial: Trial) -> None:
    """A stack that is not told finds out whether its mask is causal, and tells its layers."""
    module = trial.torch_module()
    told: list[dict[str, Any]] = []
    capabilities.require("hooks with keyword arguments")
    module.layers[0].register_forward_pre_hook(lambda _, __, given: told.append(given), with_kwargs=True)
    module(**trial.call_arguments())
    role = "src_mask" if trial.case.component == "encoder" else "tgt_mask"
    hint = told[0].get("is_causal" if role == "src_mask" else "tgt_is_causal")
    trial.require(bool(hint) == (getattr(trial.case, role) in CAUSAL_KINDS), f"layers were told is_causal={hint}")


@clause("CAUSAL-06", POLICY, "left open by torch.nn: its mask wins on one path and the hint on another", [
    Case("multihead_attention", attends="self", attn_mask="bool", hint="wrong", need_weights=need, mode=mode)
    for need in (True, False) for mode in ("train", "eval")
] + each("encoder_layer", src_mask="bool", hint="wrong") + each("decoder_layer", tgt_mask="bool", hint="wrong")
  + each("decoder_layer", memory_mask="bool", hint="wrong", norm_first=True))  # fmt: skip
def test_contradiction(trial: Trial) -> None:
    """Where the hint says causal and the mask is another, the mask wins; an implementation may follow the hint."""
    exact = trial.run.witnesses.oracle.output
    trial.policy = "the hint wins" if trial.apart(trial.run.subject.output, exact) else "the mask wins"
    if trial.subject.strict:
        trial.require(trial.policy == "the mask wins", f"expected the mask to win, but {trial.policy}")


@clause("CAUSAL-07", MUST, DOCS, each("transformer", norm_first=False))
def test_square_subsequent_mask(trial: Trial) -> None:
    """generate_square_subsequent_mask(n) is 0 on and below the diagonal and −∞ above, in the dtype asked for."""
    make = type(trial.torch_module()).generate_square_subsequent_mask
    for size in (0, 1, 2, 5):
        expected = np.where(np.triu(np.ones((size, size), dtype=bool), 1), -np.inf, 0.0)
        trial.require(bool((array(make(size)) == expected).all()), f"size {size}: another mask")
    if trial.subject.is_torch:
        capabilities.require("dtype= of generate_square_subsequent_mask")
    half = make(3, dtype=torch.bfloat16)
    trial.require(half.dtype == torch.bfloat16, f"expected torch.bfloat16, got {half.dtype}")


@clause("CAUSAL-08", POLICY, "left open by torch.nn: it refuses on one path and takes no notice on another", [
    Case("multihead_attention", attends="self", mode=mode, heads=4, head_dim=3, need_weights=need)
    for mode in ("train", "eval") for need in (True, False)
])  # fmt: skip
def test_hint_alone(trial: Trial) -> None:
    """Told that a mask is causal and given none, an implementation refuses, or attends causally; it may ignore the hint."""
    if trial.subject.is_torch:
        capabilities.require("is_causal of MultiheadAttention")
    queries, keys = trial.case.target, trial.case.target
    causal = trial.inputs.with_mask("attn_mask", np.triu(np.ones((queries, keys), dtype=bool), 1))
    try:
        found = trial.observe(trial.inputs.but(flags={**trial.inputs.flags, "is_causal": True})).output
    except Exception:
        trial.policy = "refused"
        return
    trial.policy = "ignored" if trial.apart(found, trial.observe(causal).output) else "causal"
    if trial.subject.strict:
        trial.require(trial.policy != "ignored", "expected the hint to be refused or followed, but it was ignored")
