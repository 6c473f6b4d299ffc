"""SHAPE: shapes of outputs, unbatched and empty calls, short sequences."""

import numpy as np

from .cases.case import Case
from .cases.select import MODULES, each, few_masks, unmasked
from .child import in_child
from .clauses import DOCS, MEASURED, MUST, clause
from .trial import Trial


@clause("SHAPE-01", MUST, DOCS, unmasked)
def test_output(trial: Trial) -> None:
    """The output has the shape of the query (of the target in a decoder), in the layout of the inputs."""
    found, expected = trial.run.subject, trial.inputs.cotangents
    for number, cotangent in enumerate(expected):
        got = found.outputs[number] if number < len(found.outputs) else None
        wanted = None if cotangent is None else cotangent.shape
        trial.require((None if got is None else got.shape) == wanted, f"output {number}: expected {wanted}, got {got}")


@clause("SHAPE-02", MUST, DOCS, [
    *each("multihead_attention", attn_mask="float3d", key_padding_mask="right", batch=1),
    *each("multihead_attention", attends="self", attn_mask="bool", batch=1, add_bias_kv=True, need_weights=False),
    *each(*MODULES[1:], batch=1, src_mask="float3d", tgt_mask="causal", memory_mask="float",
          src_key_padding_mask="float", tgt_key_padding_mask="right", memory_key_padding_mask="holes"),
    *each(*MODULES[1:], batch=1, batch_first=False, memory_key_padding_mask="holes"),
])  # fmt: skip
def test_unbatched(trial: Trial) -> None:
    """A call without a batch dimension equals the call with a batch of one, gradients included."""
    batched = trial.observe(gradient=True)
    unbatched = trial.observe(gradient=True, batch=None)
    trial.require_same("output", unbatched.output, batched.output)
    trial.require_same_gradients(unbatched, batched)


@clause("SHAPE-03", MUST, DOCS, [*each("attention", *MODULES), *each(*MODULES, batch_first=False, mode="eval")])
def test_empty_batch(trial: Trial) -> None:
    """A batch of no sequences gives an empty output and zero gradients."""
    inputs = trial.inputs
    empty = inputs.but(
        tensors={name: value[:0] for name, value in inputs.tensors.items()},
        cotangents=tuple(None if value is None else value[:0] for value in inputs.cotangents),
    )
    seen = trial.observe(empty, gradient=True)
    trial.require(seen.output.shape[0] == 0, f"expected no sequences, got shape {seen.output.shape}")
    for name, gradient in seen.gradients.items():
        trial.require(not gradient.any(), f"gradient of {name}: expected zeros")


@clause("SHAPE-04", MUST, DOCS, lambda c: few_masks(c) and c.component in MODULES and 1 in (c.target, c.source))
def test_length_one(trial: Trial) -> None:
    """A source or a target of a single position is a sequence like any other."""
    trial.compare_output()


@clause(
    "SHAPE-05", MUST, DOCS, lambda c: c.component == "attention" and (c.dims != 4 or c.broadcast or bool(c.value_dim))
)
def test_attention_shapes(trial: Trial) -> None:
    """Attention takes two to five dimensions, batches that broadcast, and values of another width than the keys."""
    trial.compare_output()


@clause("SHAPE-06", MUST, DOCS, lambda c: few_masks(c) and c.component in MODULES and c.batch is None)
def test_unbatched_values(trial: Trial) -> None:
    """Without a batch dimension the values are the reference's, under every mask."""
    trial.compare_output()


@clause(
    "SHAPE-07", MUST, DOCS, [Case("attention", target=target, source=source) for target, source in ((0, 5), (5, 0))]
)
def test_empty_sequences(trial: Trial) -> None:
    """Attention over no keys is zero, and over no queries empty."""
    seen = trial.observe(trial.inputs)
    trial.require(seen.output.shape == (2, 3, trial.case.target, 4), f"got shape {seen.output.shape}")
    trial.require(not np.any(seen.output), "expected zeros")


ALIKE = {"batch": 3, "heads": 3, "head_dim": 3, "target": 3, "source": 3, "dim_feedforward": 9}


@clause("SHAPE-08", MUST, MEASURED, [
    case for batch_first in (True, False) for case in (
        *each("multihead_attention", attn_mask="bool3d", key_padding_mask="left", batch_first=batch_first, **ALIKE),
        *each(*MODULES[1:], src_mask="bool3d", src_key_padding_mask="left", tgt_mask="float3d", tgt_key_padding_mask="holes",
              memory_mask="bool", memory_key_padding_mask="right", batch_first=batch_first, **ALIKE))
])  # fmt: skip
def test_equal_sizes(trial: Trial) -> None:
    """Where batch, lengths, heads and features of a head are as many, no axis is taken for another."""
    trial.compare_output()


@clause("SHAPE-09", MUST, MEASURED, [Case("attention", dtype=dtype) for dtype in ("float32", "bfloat16")])
def test_sizes_of_zero(trial: Trial) -> None:
    """Attention of which any size is 0, causal or not, returns or raises: it does not kill the process."""
    trial.require_torch_interface()
    done, code = in_child(trial.subject.name, trial.case, ZERO_SIZES)
    trial.require(code == 0, f"{ZERO_SIZES[min(done, len(ZERO_SIZES) - 1)]}: the process ended with {code}")


# Batch, heads, queries, keys and features of a head.
ZERO_SIZES = [
    (0, 2, 3, 3, 4), (1, 0, 3, 3, 4), (1, 2, 0, 3, 4), (1, 2, 3, 0, 4), (1, 2, 3, 3, 0),
    (0, 0, 0, 0, 0), (2, 3, 0, 0, 4), (0, 0, 2, 2, 0),
]  # fmt: skip
