"""NUM: large and small numbers, long sequences, and numbers that are none."""

from typing import Any

import numpy as np

from .cases.case import Case
from .cases.components import COMPONENTS
from .cases.select import each
from .clauses import MEASURED, MUST, clause
from .inputs import Inputs, visible
from .norm_definitions import compare_norm
from .trial import Trial

DTYPES = ("float64", "float32", "bfloat16", "float16")
LONG: dict[str, Any] = {"batch": 1, "heads": 2, "target": 600, "source": 600}

# Enough rows for the rounding of their means not to be a matter of luck.
MANY: dict[str, Any] = {
    "magnitude": 1e-3,
    "offset": 1.0,
    "batch": 3,
    "heads": 4,
    "head_dim": 8,
    "target": 16,
    "source": 16,
}


@clause("NUM-01", MUST, MEASURED, [
    case for dtype in DTYPES for magnitude in (0.1, 1.0, 10.0, 100.0)
    for case in (*each("attention", "multihead_attention", "layer_norm", dtype=dtype, magnitude=magnitude),
                 *each("encoder_layer", dtype=dtype, magnitude=magnitude, activation="relu" if dtype in DTYPES[:2] else "gelu"))
])  # fmt: skip
def test_scales(trial: Trial) -> None:
    """Inputs of size 0.1, 1, 10 and 100 cost no more digits than they cost torch, in any dtype."""
    trial.compare_output()


@clause("NUM-02", MUST, MEASURED, [
    Case("attention", dtype=dtype, magnitude=magnitude, attn_mask=mask)
    for dtype in DTYPES for magnitude in (100.0, 1000.0) for mask in ("none", "bool", "float")
])  # fmt: skip
def test_large_scores(trial: Trial) -> None:
    """Scores of ten thousand, and of a million, beyond the range of float16, give finite and exact weights."""
    trial.compare_output()


@clause("NUM-03", MUST, MEASURED, [
    *(Case("attention", dtype="float32", batch=1, heads=2, target=length, source=length, is_causal=length % 2 == 1)
      for length in (1, 2, 127, 512, 513, 1024)),
    Case("attention", batch=1, heads=2, target=1, source=1024), Case("attention", batch=1, heads=2, target=127, source=513),
    *(Case("multihead_attention", attends="self", dtype="float32", heads=2, batch=1, target=length, source=length,
           key_padding_mask="half", need_weights=False) for length in (127, 512, 513)),
])  # fmt: skip
def test_lengths(trial: Trial) -> None:
    """Values and gradients hold at lengths around which implementations split their work: 1, 2, 127, 512, 513, 1024."""
    trial.compare_output()
    trial.compare_gradients(lambda _: True)


@clause("NUM-04", MUST, MEASURED, [
    *(Case("attention", attn_mask="window", dtype=dtype, **LONG) for dtype in ("float64", "float32", "bfloat16")),
    Case("multihead_attention", attends="self", attn_mask="window", dtype="float32", **LONG),
    *each("encoder_layer", src_mask="window", dtype="float32", **LONG),
])  # fmt: skip
def test_sliding_window(trial: Trial) -> None:
    """A sliding window over more than 512 keys, most of which no query of a block sees, gives exact values and gradients."""
    trial.compare_output()
    trial.compare_gradients(lambda _: True)


@clause("NUM-05", MUST, MEASURED, [
    *(Case("attention", attn_mask=kind, dtype=dtype, **LONG)
      for kind in ("blocks", "float_blocks") for dtype in ("float64", "float32", "float16")),
    Case("attention", attn_mask="float_large", dtype="float32", **LONG),
    Case("attention", attn_mask="float_large", dtype="bfloat16", **LONG),
    Case("multihead_attention", attn_mask="blocks", key_padding_mask="half", dtype="float32", **LONG),
    Case("multihead_attention", attn_mask="float_blocks", key_padding_mask="float", need_weights=False, **LONG),
])  # fmt: skip
def test_hidden_blocks(trial: Trial) -> None:
    """Whole blocks of keys hidden by a boolean mask, by −∞ or by very negative numbers contribute exactly nothing."""
    trial.compare_output()
    trial.compare_gradients(lambda name: not name.endswith("mask"))


@clause("NUM-06", MUST, MEASURED, [
    *(case for dtype in ("float64", "float32") for eps in (1e-5, 1e-6)
      for case in each("layer_norm", "encoder_layer", "decoder_layer", "encoder", dtype=dtype, layer_norm_eps=eps, **MANY)),
    *(Case("layer_norm", dtype=dtype, **{**MANY, "magnitude": 1.0, "offset": 8.0}) for dtype in ("bfloat16", "float16")),
])  # fmt: skip
def test_norm_of_a_large_mean(trial: Trial) -> None:
    """A mean a thousand times the spread, 1e-3, costs a norm no more digits than torch's, whose eps and definition it has."""
    compare_norm(trial)


@clause("NUM-07", MUST, MEASURED, [
    *each("attention"), *each("attention", attn_mask="bool"), Case("attention", is_causal=True, dtype="float32"),
    *each("multihead_attention", "encoder_layer", "decoder_layer", attn_mask="bool", src_mask="bool", memory_mask="bool"),
    *each("multihead_attention", attn_mask="float", key_padding_mask="left"), *each("multihead_attention", attends="memory"),
])  # fmt: skip
def test_not_finite(trial: Trial) -> None:
    """NaN in a query makes its row NaN; NaN in a key or value, and infinity in a value, those of all queries that see it."""
    attention = COMPONENTS[trial.case.component].attentions[-1]
    reached = sees_last_key(trial.inputs)
    for name, value in trial.inputs.tensors.items():
        contents = (np.nan,) if name in ("query", "key") else (np.nan, np.inf, -np.inf)
        rows = np.broadcast_to(np.arange(reached.shape[-1]) == value.shape[-2] - 1, reached.shape)
        if name in (attention.key, "value"):
            rows = reached if name != attention.query else rows | reached
        for content in contents:
            poisoned = value.copy()
            poisoned[..., -1, :] = content
            seen = trial.observe(trial.inputs.with_tensor(name, poisoned)).output
            swallowed = int(np.isfinite(seen[rows]).sum())
            trial.require(
                swallowed == 0, f"{content} at the last position of {name}: {swallowed} finite elements see it"
            )


@clause("NUM-08", MUST, "Dao et al. 2022, theorem 1", [
    *(Case("attention", attn_mask=kind, mask_shape=shape) for kind, shape in (
        ("none", "LS"), ("bool", "LS"), ("float", "BHLS"), ("bool", "B11S"), ("dead", "LS"), ("window", "1HLS"),
        ("dead_group", "B11S"), ("dead_group", "B1LS"))),
    Case("attention", is_causal=True), Case("attention", is_causal=True, target=7, source=5), Case("attention", magnitude=100.0),
    Case("attention", heads=4, key_heads=2, attn_mask="bool"), Case("attention", dims=5, broadcast=True),
    Case("multihead_attention", need_weights=False, attn_mask="float3d", key_padding_mask="holes"),
    Case("multihead_attention", need_weights=False, attends="self", key_padding_mask="half", batch=3),
    *each("encoder_layer", src_mask="causal", src_key_padding_mask="right"),
    *each("decoder_layer", tgt_mask="window", memory_key_padding_mask="left"),
])  # fmt: skip
def test_blocks(trial: Trial) -> None:
    """However an attention splits its work into blocks, outputs and gradients are the same."""
    whole = trial.observe(gradient=True)
    for rows, scores in ((1, 1), (1, 10**6), (2, 20), (3, 60), (3, 10**6), (4, 7), (100, 200)):
        with trial.adapter.split(rows, scores):
            split = trial.observe(gradient=True)
        trial.require_same(f"output in blocks of {rows} rows", split.output, whole.output)
        trial.require_same_gradients(split, whole)


def sees_last_key(inputs: Inputs) -> np.ndarray:
    """(…, queries): which rows of the output see the last key of the last attention, in any head."""
    seen = visible(inputs, COMPONENTS[inputs.case.component].attentions[-1])[..., -1]
    return seen if inputs.case.component == "attention" else np.asarray(seen.any(1))
