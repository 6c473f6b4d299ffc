"""MASK: attention masks and padding masks, each kind in each role, alone and together."""

import numpy as np

from .cases.case import Case
from .cases.components import COMPONENTS, masks_of
from .cases.grid import grid
from .cases.masks import EDGE_KINDS
from .cases.select import MODULES, each, few_masks, has_kind
from .clauses import DOCS, MEASURED, MUST, POLICY, SHOULD, clause
from .inputs import Inputs
from .trial import Trial

PADDED = {"src_key_padding_mask": "right", "tgt_key_padding_mask": "holes", "memory_key_padding_mask": "right"}
PADDING_CASES = [
    Case("multihead_attention", attends="memory", key_padding_mask="left"),
    Case("multihead_attention", attends="self", key_padding_mask="holes", need_weights=False),
    Case("multihead_attention", kdim=5, vdim=6, add_bias_kv=True, key_padding_mask="float"),
    *each(*MODULES[1:], **PADDED),
    *each(*MODULES[1:], mode="eval", batch_first=False, src_key_padding_mask="float", tgt_key_padding_mask="right",
          tgt_mask="causal", memory_key_padding_mask="float"),
]  # fmt: skip


@clause("MASK-01", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, "bool"))
def test_boolean(trial: Trial) -> None:
    """In torch.nn's modules True in a boolean attention mask (L, S) hides the key from the query, for all heads."""
    trial.compare_output()


@clause("MASK-02", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, "float"))
def test_floating(trial: Trial) -> None:
    """A floating attention mask (L, S) is added to the scaled scores."""
    trial.compare_output()


@clause("MASK-03", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, "bool3d"))
def test_boolean_per_head(trial: Trial) -> None:
    """A boolean attention mask (N·heads, L, S) has one mask for each head of each sequence, sequence-major."""
    trial.compare_output()


@clause("MASK-04", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, "float3d"))
def test_floating_per_head(trial: Trial) -> None:
    """A floating attention mask (N·heads, L, S) is added for each head of each sequence, sequence-major."""
    trial.compare_output()


@clause("MASK-05", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, "right", padding=True))
def test_padding_right(trial: Trial) -> None:
    """True in a key padding mask hides that key of that sequence from all queries; padding at the end."""
    trial.compare_output()


@clause("MASK-06", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, "left", padding=True))
def test_padding_left(trial: Trial) -> None:
    """A key padding mask may hide keys at the beginning."""
    trial.compare_output()


@clause("MASK-07", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, "holes", padding=True))
def test_padding_holes(trial: Trial) -> None:
    """A key padding mask may hide keys anywhere."""
    trial.compare_output()


@clause("MASK-08", MUST, DOCS, lambda c: few_masks(c) and has_kind(c, "float", padding=True))
def test_padding_floating(trial: Trial) -> None:
    """A floating key padding mask is added to the scores of its keys."""
    trial.compare_output()


@clause("MASK-09", MUST, DOCS, lambda c: few_masks(c) and any(
    a.padding and getattr(c, a.mask) != "none" and getattr(c, a.padding) != "none" for a in COMPONENTS[c.component].attentions
))  # fmt: skip
def test_both(trial: Trial) -> None:
    """With an attention mask and a padding mask a key is hidden where either hides it, and floating masks add up."""
    trial.compare_output()


@clause("MASK-10", MUST, DOCS, lambda c: few_masks(c) and c.memory_mask != "none")
def test_memory_mask(trial: Trial) -> None:
    """memory_mask (T, S) acts on the cross-attention alone, between target queries and memory keys."""
    trial.compare_output()


@clause("MASK-11", MUST, DOCS, lambda c: few_masks(c) and c.memory_key_padding_mask != "none")
def test_memory_padding(trial: Trial) -> None:
    """memory_key_padding_mask hides memory keys in the cross-attention; the source's padding mask does not stand in."""
    trial.compare_output()


@clause("MASK-12", MUST, DOCS, lambda c: c.component == "attention" and c.attn_mask in ("bool", "causal"))
def test_attention_boolean(trial: Trial) -> None:
    """In scaled_dot_product_attention True in a boolean mask keeps the key, the opposite of torch.nn's modules."""
    trial.compare_output()


@clause("MASK-13", MUST, DOCS, lambda c: c.component == "attention" and c.attn_mask == "float")
def test_attention_floating(trial: Trial) -> None:
    """In scaled_dot_product_attention a floating mask is added to the scaled scores."""
    trial.compare_output()


@clause("MASK-14", MUST, DOCS, lambda c: c.component == "attention" and c.attn_mask != "none" and c.mask_shape != "LS")
def test_attention_broadcast(trial: Trial) -> None:
    """In scaled_dot_product_attention the mask broadcasts to the scores from any shape that does."""
    trial.compare_output()


@clause("MASK-15", MUST, MEASURED, [*PADDING_CASES, *(case.but(dtype="float32") for case in PADDING_CASES)])
def test_padding_content(trial: Trial) -> None:
    """What stands at padded positions, up to 1e30 in float64 and 1e15 in float32, reaches no real row and no gradient."""
    size = 1e30 if trial.case.dtype == "float64" else 1e15
    clean = trial.observe(gradient=True)
    dirty = trial.observe(with_padding(trial.inputs, size), gradient=True)
    real = trial.inputs.real
    trial.require_same("output", dirty.output[real], clean.output[real])
    trial.require_same_gradients(dirty, clean)


@clause("MASK-16", SHOULD, "torch lets it through: issue 101967 of pytorch/pytorch", [
    *PADDING_CASES, *(case.but(mode="train" if case.mode == "eval" else "eval") for case in PADDING_CASES)
])  # fmt: skip
def test_padding_not_finite(trial: Trial) -> None:
    """NaN and infinity at padded positions reach no real row of the output."""
    real = trial.inputs.real
    clean = trial.observe().output[real]
    for content in (np.nan, np.inf, -np.inf):
        dirty = trial.observe(with_padding(trial.inputs, content)).output[real]
        trial.require_same(f"output with {content} in the padding", dirty, clean)


@clause("MASK-17", POLICY, MEASURED, [
    *each(*MODULES[1:], **PADDED),
    *each("encoder_layer", "encoder", mode="eval", heads=4, head_dim=3, src_key_padding_mask="right"),
])  # fmt: skip
def test_padded_rows(trial: Trial) -> None:
    """Padded queries are computed like all others; an implementation may make their rows zero instead."""
    padded = ~trial.run.inputs.real
    trial.policy = "zero" if not trial.run.subject.output[padded].any() else "computed"
    if trial.policy == "computed" and trial.adapter.padded_rows == "computed":
        trial.compare_output(padded & trial.run.inputs.live)
    expected = trial.adapter.padded_rows
    trial.require(trial.policy == expected, f"padded rows: expected {expected} as declared, got {trial.policy}")


@clause("MASK-18", MUST, MEASURED, [
    *each("attention", attn_mask="nothing"),
    *each(*MODULES, attn_mask="nothing", key_padding_mask="nothing", src_mask="nothing", src_key_padding_mask="nothing",
          tgt_mask="nothing", tgt_key_padding_mask="nothing", memory_mask="nothing", memory_key_padding_mask="nothing"),
])  # fmt: skip
def test_nothing_hidden(trial: Trial) -> None:
    """A mask that hides nothing changes nothing, gradients included."""
    masked = trial.observe(gradient=True)
    bare = trial.observe(trial.inputs.but(masks={}), gradient=True)
    trial.require_same("output", masked.output, bare.output)
    trial.require_same_gradients(masked, bare)


@clause("MASK-19", MUST, MEASURED, [
    *each("attention", attn_mask="bool"),
    *each(*MODULES, attn_mask="bool3d", key_padding_mask="left", src_mask="bool", src_key_padding_mask="holes",
          tgt_mask="causal", tgt_key_padding_mask="right", memory_mask="bool3d", memory_key_padding_mask="right"),
])  # fmt: skip
def test_boolean_equals_infinite(trial: Trial) -> None:
    """A boolean mask equals the floating mask with −∞ where it hides and 0 elsewhere."""
    keeps = trial.case.component == "attention"
    infinite = {name: np.where(mask ^ keeps, -np.inf, 0.0) for name, mask in trial.inputs.masks.items()}
    boolean = trial.observe(gradient=True)
    floating = trial.observe(trial.inputs.but(masks=infinite), gradient=True)
    trial.require_same("output", floating.output[trial.inputs.real], boolean.output[trial.inputs.real])


@clause(
    "MASK-20", MUST, MEASURED, each(*MODULES, attn_mask="bool", src_mask="bool", tgt_mask="bool", memory_mask="bool")
)
def test_mask_reaches(trial: Trial) -> None:
    """Each mask acts: taking any one of them away changes the output."""
    whole = trial.observe().output
    for name in trial.inputs.masks:
        without = trial.observe(trial.inputs.with_mask(name, None)).output
        trial.require(bool(trial.apart(without, whole)), f"{name}: taken away, nothing changed")


@clause("MASK-21", MUST, MEASURED, [
    *(case for case in grid() if masks_of(case) and few_masks(case) and case.magnitude == 10),
    *each("attention", "multihead_attention", attn_mask="bool", magnitude=1e3),
    *each("attention", "multihead_attention", attn_mask="bool", magnitude=1e5),
    *each("encoder_layer", "decoder_layer", src_mask="bool", tgt_mask="bool", memory_mask="bool", weights="large"),
    *each("encoder_layer", "decoder_layer", src_key_padding_mask="right", tgt_key_padding_mask="holes",
          memory_key_padding_mask="left", weights="large"),
    *each("encoder_layer", "encoder", src_mask="causal", weights="large"),
    Case("multihead_attention", attn_mask="bool", key_padding_mask="float", magnitude=1e5),
    Case("multihead_attention", attn_mask="float", key_padding_mask="right", magnitude=1e5),
])  # fmt: skip
def test_large_scores(trial: Trial) -> None:
    """A hidden key stays hidden when the scores are large: no finite fill is large enough for all of them."""
    trial.compare_output()


@clause("MASK-22", MUST, DOCS, lambda c: len(masks_of(c)) > 2 and c.dtype == "float64")
def test_many(trial: Trial) -> None:
    """All masks of a component act at once, each in its own role."""
    trial.compare_output()


@clause("MASK-23", MUST, DOCS, lambda c: any(kind.removesuffix("3d") in EDGE_KINDS for kind in masks_of(c).values()))
def test_edges(trial: Trial) -> None:
    """A mask may hide any key, the first and the last too, and is not taken for a causal one that it resembles."""
    trial.compare_output()


@clause("MASK-24", MUST, DOCS, lambda c: any(kind.startswith("float_large") for kind in masks_of(c).values()))
def test_large_numbers(trial: Trial) -> None:
    """A large finite number in a floating mask is added like any other: a query that gets it for all keys sees all."""
    trial.compare_output()


@clause("MASK-25", MUST, DOCS, [
    *each("encoder", src_key_padding_mask="ragged", mode="eval", heads=4, head_dim=3),
    *each("encoder", src_key_padding_mask="ragged", mode="eval", heads=1, head_dim=6, layers=1),
    *each("encoder", src_key_padding_mask="ragged", mode="eval", layers=1),
    *each("encoder_layer", "decoder", "transformer", src_key_padding_mask="ragged", memory_key_padding_mask="ragged",
          norm_first=False),
])  # fmt: skip
def test_ragged(trial: Trial) -> None:
    """Sequences of all lengths stand in one batch, the longest without any padding."""
    trial.compare_output()


@clause("MASK-26", POLICY, "torch lets it through: issue 101967 of pytorch/pytorch", [
    Case("attention", attn_mask="bool", dtype=dtype, mode=mode) for dtype in ("float64", "float32") for mode in ("train", "eval")
])  # fmt: skip
def test_hidden_not_finite(trial: Trial) -> None:
    """NaN in a key or value that a boolean mask of scaled_dot_product_attention hides may be kept out, or let through."""
    keep = trial.inputs.masks["attn_mask"].copy()
    keep[..., 1] = False
    inputs = trial.inputs.with_mask("attn_mask", keep)
    trial.policy = "kept out"
    for name in ("key", "value"):
        poisoned = inputs.tensors[name].copy()
        poisoned[..., 1, :] = np.nan
        if np.isnan(trial.observe(inputs.with_tensor(name, poisoned)).output).any():
            trial.policy = "let through"


def with_padding(inputs: Inputs, content: float) -> Inputs:
    """The inputs with `content` at every padded position of the tensors whose keys are padded."""
    for attention in COMPONENTS[inputs.case.component].attentions:
        mask = inputs.masks.get(attention.padding or "")
        if mask is None:
            continue
        names = (
            {attention.key}
            if attention.key != "key"
            else {"query" if inputs.case.attends == "self" else "key", "value"}
        )
        hidden = mask if mask.dtype == bool else np.isneginf(mask)
        for name in names & set(inputs.tensors):
            inputs = inputs.with_tensor(name, np.where(hidden[..., None], content, inputs.tensors[name]))
    return inputs
