"""WEIGHT: the attention weights that multi-head attention returns."""

import numpy as np

from .cases.case import Case
from .clauses import DOCS, MEASURED, MUST, clause
from .trial import Trial
from .verdicts import Difference

MASKED = [
    Case("multihead_attention", attn_mask="float3d", key_padding_mask="holes", mode=mode, average_attn_weights=average)
    for mode in ("train", "eval")
    for average in (True, False)
]


@clause(
    "WEIGHT-01",
    MUST,
    DOCS,
    lambda c: c.component == "multihead_attention" and c.need_weights and c.average_attn_weights,
)
def test_average(trial: Trial) -> None:
    """With need_weights the weights are returned as their mean over the heads, (batch, queries, keys)."""
    trial.compare_weights()


@clause(
    "WEIGHT-02",
    MUST,
    DOCS,
    lambda c: c.component == "multihead_attention" and c.need_weights and not c.average_attn_weights,
)
def test_per_head(trial: Trial) -> None:
    """With average_attn_weights=False the weights are returned for each head, (batch, heads, queries, keys)."""
    trial.compare_weights()


@clause(
    "WEIGHT-03",
    MUST,
    DOCS,
    lambda c: c.component == "multihead_attention" and not c.need_weights and c.dtype == "float64",
)
def test_none(trial: Trial) -> None:
    """Without need_weights None is returned in their place."""
    outputs = trial.run.subject.outputs
    trial.require(len(outputs) == 2 and outputs[1] is None, f"expected (output, None), got {len(outputs)} outputs")


@clause("WEIGHT-04", MUST, DOCS, [*MASKED, *(case.but(add_bias_kv=True, add_zero_attn=True) for case in MASKED)])
def test_rows(trial: Trial) -> None:
    """The weights of a row are not negative, sum to 1 over the keys, appended ones included, and vanish where hidden."""
    weights = trial.observe().outputs[1]
    if weights is None:
        raise Difference("expected weights, got None")
    trial.require(bool((weights >= 0).all()), f"expected no negative weight, got {weights.min():.3g}")
    trial.require_same("sum over the keys", weights.sum(-1), np.ones(weights.shape[:-1]))
    for item, hidden in enumerate(trial.inputs.masks["key_padding_mask"]):
        padded = weights[item][..., : len(hidden)][..., hidden]
        trial.require(not padded.any(), f"sequence {item}: expected weight 0 on padded keys")


@clause("WEIGHT-05", MUST, MEASURED, [
    Case("multihead_attention", attn_mask=mask, mode=mode) for mask in ("none", "bool", "float3d") for mode in ("train", "eval")
])  # fmt: skip
def test_same_output(trial: Trial) -> None:
    """The output and its gradients do not depend on whether weights are asked for."""
    cotangent = trial.inputs.cotangents[0]
    asked = trial.observe(trial.inputs.but(cotangents=(cotangent, None)), gradient=True)
    case_inputs = trial.inputs.but(flags={**trial.inputs.flags, "need_weights": False}, cotangents=(cotangent, None))
    not_asked = trial.observe(case_inputs, gradient=True)
    trial.require_same("output", not_asked.output, asked.output)
    trial.require_same_gradients(not_asked, asked)


@clause("WEIGHT-06", MUST, DOCS, [Case("multihead_attention", attn_mask="float3d", mode="eval")])
def test_mean_of_heads(trial: Trial) -> None:
    """The averaged weights are the mean of those per head."""
    per_head = trial.observe(trial.inputs.but(flags={"need_weights": True, "average_attn_weights": False})).outputs[1]
    trial.require_same("weights", trial.observe().outputs[1], None if per_head is None else per_head.mean(1))
