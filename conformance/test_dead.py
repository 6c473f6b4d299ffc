"""DEAD: query rows that see no key."""

from typing import Any

import numpy as np

from .cases.case import Case
from .cases.select import each
from .clauses import MEASURED, MUST, POLICY, clause
from .observation import Observation
from .trial import Trial

DEAD = [
    *(Case("attention", attn_mask=kind, dtype=dtype) for kind in ("dead", "float_dead") for dtype in ("float64", "float32", "bfloat16")),
    *(
        Case("multihead_attention", attn_mask=kind, need_weights=need, average_attn_weights=average, mode=mode)
        for kind in ("dead", "float_dead", "dead3d")
        for need, average in ((False, True), (True, True), (True, False))
        for mode in ("train", "eval")
    ),
    *(Case("multihead_attention", key_padding_mask="all", need_weights=need) for need in (False, True)),
    *(Case("multihead_attention", attends="self", key_padding_mask="all", need_weights=need) for need in (False, True)),
    *(Case("multihead_attention", attends=attends, key_padding_mask="float_all") for attends in ("cross", "self")),
    *(Case("multihead_attention", attends="self", attn_mask="dead", mode="eval", heads=4, head_dim=3, need_weights=need)
      for need in (False, True)),
    Case("multihead_attention", attn_mask="dead", key_padding_mask="float"),
    Case("multihead_attention", attn_mask="bool", key_padding_mask="float_all"),
    Case("multihead_attention", attn_mask="float_dead", key_padding_mask="all"),
    *each("encoder_layer", src_mask="dead"),
    *each("encoder_layer", mode="eval", heads=4, head_dim=3, src_mask="dead"),
    *each("encoder_layer", mode="eval", heads=4, head_dim=3, src_key_padding_mask="all"),
    *each("encoder_layer", src_mask="float_dead", batch_first=False, activation="gelu"),
    *each("encoder_layer", "encoder", src_key_padding_mask="all"),
    *each("encoder_layer", src_key_padding_mask="float_all", norm_first=False),
    *each("decoder_layer", memory_mask="dead", memory_key_padding_mask="float", norm_first=True),
    *each("decoder_layer", tgt_mask="dead", memory_mask="float_dead"),
    *each("decoder_layer", "decoder", memory_key_padding_mask="all"),
    *each("decoder_layer", "decoder", tgt_key_padding_mask="left", tgt_mask="causal"),
]  # fmt: skip


@clause("DEAD-01", MUST, MEASURED, DEAD)
def test_live_rows(trial: Trial) -> None:
    """A row that sees no key leaves all other rows untouched."""
    trial.compare_output()


@clause("DEAD-02", MUST, MEASURED, DEAD)
def test_gradients(trial: Trial) -> None:
    """A row that sees no key, with no cotangent of its own, leaves every gradient untouched and finite."""
    trial.compare_gradients(lambda _: True)


@clause("DEAD-03", POLICY, MEASURED, [
    case for case in DEAD if case.component in ("attention", "multihead_attention") and case.dtype != "bfloat16"
])  # fmt: skip
def test_policy(trial: Trial) -> None:
    """The attention of a row that sees no key, and its weights, are 0, uniform, or NaN, as the subject declares."""
    dead = ~trial.run.inputs.live
    returned = sum(value is not None for value in trial.run.subject.outputs)
    found, zero = (rows(seen, dead, returned) for seen in (trial.run.subject, trial.run.witnesses.oracle))
    trial.policy = "nan" if np.isnan(found).any() else "uniform" if trial.apart(found, zero) else "zero"
    declared = trial.adapter.dead_rows
    trial.require(trial.policy == declared, f"dead rows: expected {declared} as declared, got {trial.policy}")


@clause(
    "DEAD-04", MUST, MEASURED, [Case("multihead_attention", attn_mask="dead", mode=mode) for mode in ("train", "eval")]
)
def test_same_with_weights(trial: Trial) -> None:
    """What becomes of a row that sees no key does not depend on whether weights are asked for."""
    asked = trial.observe().output
    not_asked = trial.observe(trial.inputs.but(flags={"need_weights": False})).output
    trial.require_same("output", not_asked, asked)


STACKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("encoder_layer", {}),
    ("encoder", {"layers": 1, "final_norm": False}),
)


@clause("DEAD-05", MUST, MEASURED, [
    Case(component, mode="eval", heads=4, head_dim=3, src_key_padding_mask=padding, norm_first=norm_first, **options)
    for component, options in STACKED
    for padding in ("all", "everything") for norm_first in (False, True)
])  # fmt: skip
def test_same_without_gradients(trial: Trial) -> None:
    """A sequence that is all padding becomes the same kind of thing (numbers, zeros, NaN) whether gradients are recorded or not."""
    trial.require_gradients()
    recorded, bare = (_kind(trial, gradient) for gradient in (True, False))
    trial.require(
        recorded == bare, f"a sequence that is all padding: {recorded} with gradients recorded, {bare} without"
    )


def _kind(trial: Trial, gradient: bool) -> str:
    try:
        values = trial.observe(gradient=gradient).output[0]
    except Exception as error:
        return type(error).__name__
    return "NaN" if np.isnan(values).any() else "numbers" if values.any() else "zeros"


def rows(seen: Observation, chosen: np.ndarray, returned: int) -> np.ndarray:
    """All numbers of the chosen rows side by side: of the output and, where two outputs are returned, of the weights."""
    values = [value for value in seen.outputs[:returned] if value is not None]
    by_row = [value.swapaxes(1, 2) if value.ndim > chosen.ndim + 1 else value for value in values]
    return np.concatenate([value[chosen].reshape(chosen.sum(), -1) for value in by_row], -1)
