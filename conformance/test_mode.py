"""MODE: train and eval, repetition, and independence of what should not matter."""

from typing import Any

import numpy as np

from .cases.case import Case
from .cases.components import masks_of
from .cases.select import MODULES, NORMED, around, each, few_masks
from .clauses import DOCS, MEASURED, MUST, clause
from .inputs import Inputs
from .trial import Trial

MASKED = {
    "attn_mask": "float3d", "key_padding_mask": "right", "src_mask": "bool3d", "src_key_padding_mask": "holes",
    "tgt_mask": "causal", "tgt_key_padding_mask": "right", "memory_mask": "float", "memory_key_padding_mask": "left",
}  # fmt: skip
# The loss of a mixture of experts is about the whole batch.
AROUND = [case for case in around() if case.component != "mixture_of_experts"]
EVERY = [
    *each("attention", attn_mask="bool"),
    *each("layer_norm"),
    *AROUND,
    *each(*MODULES, **MASKED),
    *each(*MODULES),
]
# What torch takes other kernels for where no gradient is recorded.
FAST: dict[str, Any] = {"mode": "eval", "heads": 4, "head_dim": 3}
PLAIN = each(
    *MODULES[1:], batch=3, src_key_padding_mask="right", tgt_key_padding_mask="holes", memory_key_padding_mask="left"
)


@clause("MODE-01", MUST, DOCS, EVERY)
def test_train_equals_eval(trial: Trial) -> None:
    """Without dropout train and eval mode give the same output and the same gradients."""
    train = trial.observe(gradient=True, mode="train")
    evaluated = trial.observe(gradient=True, mode="eval")
    trial.require_same("output", evaluated.output, train.output)
    trial.require_same_gradients(evaluated, train)


@clause("MODE-02", MUST, DOCS, [
    *(case.but(mode="eval") for case in EVERY),
    *each(*MODULES, **FAST, **MASKED), *each(*MODULES, **FAST, bias=False), *each(*NORMED, **FAST, activation="gelu"),
    *(case for attention in ("none", "bool", "float") for padding in ("none", "right", "float")
      for case in each("multihead_attention", "encoder_layer", "encoder", **FAST, norm_first=False,
                       attn_mask=attention, key_padding_mask=padding, src_mask=attention, src_key_padding_mask=padding)),
])  # fmt: skip
def test_without_gradients(trial: Trial) -> None:
    """In eval mode the real rows of the output do not depend on whether gradients are recorded."""
    trial.require_gradients()
    recorded = trial.observe(gradient=True)
    bare = trial.observe(gradient=False)
    trial.require_same("output", bare.output[trial.inputs.real], recorded.output[trial.inputs.real])


@clause("MODE-03", MUST, MEASURED, EVERY + [case.but(dtype="float32") for case in EVERY])
def test_repetition(trial: Trial) -> None:
    """The same call again gives the same bits."""
    instance = trial.instance()
    first, second = instance.observe(trial.inputs), instance.observe(trial.inputs)
    same = np.array_equal(first.output, second.output, equal_nan=True)
    trial.require(same, "output: two equal calls differ")
    for name, gradient in first.gradients.items():
        trial.require(np.array_equal(gradient, second.gradients[name]), f"gradient of {name}: two equal calls differ")


@clause("MODE-04", MUST, DOCS, lambda c: few_masks(c) and (len(masks_of(c)) == 1 or c.layout != "contiguous"))
def test_arguments_unchanged(trial: Trial) -> None:
    """A call leaves its inputs, its masks and its parameters as they were."""
    modified = trial.run.subject.modified
    trial.require(not modified, f"modified: {', '.join(modified)}")


@clause("MODE-05", MUST, MEASURED, [case.but(batch=3) for case in EVERY if case.component != "layer_norm"])
def test_batch_permutation(trial: Trial) -> None:
    """Permuting the sequences of a batch permutes the output and the gradients of the inputs."""
    order = np.array([2, 0, 1])
    seen = trial.observe(gradient=True)
    permuted = trial.observe(by_sequence(trial.inputs, order), gradient=True)
    trial.require_same("output", permuted.output, seen.output[order])
    trial.require_gradients()
    for name in trial.inputs.tensors:
        trial.require_same(f"gradient of {name}", permuted.gradients[name], seen.gradients[name][order])


@clause("MODE-06", MUST, MEASURED, [case.but(batch=3) for case in EVERY if case.component != "layer_norm"])
def test_batch_independence(trial: Trial) -> None:
    """A sequence's output is the same in a batch as alone."""
    whole = trial.observe().output
    for item in range(3):
        alone = trial.observe(by_sequence(trial.inputs, np.array([item])))
        trial.require_same(f"output of sequence {item}", alone.output, whole[[item]])


@clause("MODE-07", MUST, MEASURED, PLAIN)
def test_position_permutation(trial: Trial) -> None:
    """Without positions and attention masks, permuting source and target positions permutes the output alike."""
    rng = trial.case.rng("permutation")
    order = {size: rng.permutation(size) for size in (trial.case.source, trial.case.target)}
    moved = trial.inputs
    for name, value in moved.tensors.items():
        moved = moved.with_tensor(name, value[:, order[value.shape[1]]])
    for name, mask in moved.masks.items():
        moved = moved.with_mask(name, mask[:, order[mask.shape[1]]])
    seen, again = trial.observe().output, trial.observe(moved).output
    trial.require_same("output", again, seen[:, order[seen.shape[1]]])


@clause("MODE-08", MUST, MEASURED, [
    Case("multihead_attention", attends=attends, key_padding_mask=padding, add_bias_kv=appended)
    for attends in ("memory", "cross") for padding in ("none", "float") for appended in (False, True)
])  # fmt: skip
def test_key_permutation(trial: Trial) -> None:
    """Permuting keys together with their values and masks leaves the output as it is."""
    order = trial.case.rng("permutation").permutation(trial.case.source)
    moved = trial.inputs
    for name in ("key", "value"):
        if name in moved.tensors:
            moved = moved.with_tensor(name, moved.tensors[name][:, order])
    for name, mask in moved.masks.items():
        moved = moved.with_mask(name, mask[:, order])
    trial.require_same("output", trial.observe(moved).output, trial.observe().output)


@clause("MODE-09", MUST, MEASURED, [
    Case("attention", attn_mask="none"), Case("attention", dtype="float32", target=33, source=33),
    *(Case("multihead_attention", attends=attends, mode=mode, batch=3) for attends in ("cross", "memory") for mode in ("train", "eval")),
    Case("multihead_attention", dtype="float32", batch=3, target=33, source=33),
])  # fmt: skip
def test_query_independence(trial: Trial) -> None:
    """A query's output is the same beside other queries as alone."""
    whole = trial.observe().output
    for place in range(trial.case.target):
        alone = trial.inputs.with_tensor("query", trial.inputs.tensors["query"][..., [place], :])
        trial.require_same(f"output of query {place}", trial.observe(alone).output, whole[..., [place], :])


def by_sequence(inputs: Inputs, order: np.ndarray) -> Inputs:
    """The inputs with their sequences reordered, or some of them only."""
    heads, batch = inputs.case.heads, len(inputs.real)
    masks = {}
    for name, mask in inputs.masks.items():
        if name.endswith("padding_mask"):
            mask = mask[order]
        elif mask.ndim == 3:
            mask = mask.reshape(batch, heads, *mask.shape[1:])[order].reshape(-1, *mask.shape[1:])
        masks[name] = mask
    return inputs.but(
        tensors={name: value[order] for name, value in inputs.tensors.items()},
        masks=masks,
        cotangents=tuple(None if value is None else value[order] for value in inputs.cotangents),
        integers={name: value[order] for name, value in inputs.integers.items()},
        real=inputs.real[order],
        live=inputs.live[order],
    )
