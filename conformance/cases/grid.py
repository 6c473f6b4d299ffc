"""The cases: for every component the full product of its core options and all pairs of the rest."""

import functools
from typing import Any

from .case import Case
from .chosen import chosen
from .covering import Factors, cover
from .masks import ATTENTION_KINDS, CAUSAL_KINDS, PADDING_KINDS

OFF: dict[str, Any] = {}


def options(field: str, *values: Any) -> tuple[dict[str, Any], ...]:
    """A factor of one field; the default comes first."""
    return tuple({field: value} for value in values)


def attention_masks(field: str, hints: bool = True) -> tuple[dict[str, Any], ...]:
    """A factor of one attention mask, with the hint that it is causal as an alternative of its own."""
    hinted = ({field: "causal", "hint": "true"}, {field: "float_causal", "hint": "false"}) if hints else ()
    return (*options(field, *ATTENTION_KINDS), *hinted)


MODES = options("mode", "train", "eval")
NORMS = options("norm_first", False, True)
WEIGHTS = (OFF, {"need_weights": False}, {"average_attn_weights": False})
BUILD: Factors = {
    "activation": options("activation", "relu", "gelu", "gelu_tanh", "silu", "gelu_callable"),
    "eps": options("layer_norm_eps", 1e-5, 1e-6, 1e-2),
    "bias": options("bias", True, False),
    "batch_first": options("batch_first", True, False),
    "magnitude": options("magnitude", 1.0, 0.1, 10.0),
    "layout": options("layout", "contiguous", "strided", "transposed", "expanded"),
}
RELU_GELU = BUILD["activation"][:2]
SIZES = (
    OFF,
    {"batch": 3},
    {"batch": 1},
    {"batch": None},
    {"heads": 4, "head_dim": 3},
    {"heads": 1, "head_dim": 6},
    {"heads": 2, "head_dim": 5, "dim_feedforward": 7},
)
LENGTHS = (OFF, {"source": 5}, {"target": 7, "source": 5}, {"source": 1}, {"target": 1}, {"target": 2, "source": 2})
STACKED: Factors = {"layers": options("layers", 2, 1, 3), "final_norm": options("final_norm", True, False)}
SOURCE: Factors = {"mask": attention_masks("src_mask"), "padding": options("src_key_padding_mask", *PADDING_KINDS)}
TARGET: Factors = {"mask": attention_masks("tgt_mask"), "padding": options("tgt_key_padding_mask", *PADDING_KINDS)}
MEMORY: Factors = {
    "mask": options("memory_mask", *ATTENTION_KINDS),
    "padding": options("memory_key_padding_mask", *PADDING_KINDS),
}
# Kinds for the roles that are not in the core: every pair with them is covered as well.
SOURCE_PAIRS: Factors = {
    "src_mask": options("src_mask", *ATTENTION_KINDS),
    "src_padding": options("src_key_padding_mask", *PADDING_KINDS),
}
TARGET_PAIRS: Factors = {
    "tgt_mask": options("tgt_mask", *ATTENTION_KINDS),
    "tgt_padding": options("tgt_key_padding_mask", *PADDING_KINDS),
}
MEMORY_PAIRS: Factors = {"memory_mask": MEMORY["mask"], "memory_padding": MEMORY["padding"]}
HEADS: Factors = {
    "keys": (
        OFF,
        {"attends": "self"},
        {"attends": "memory"},
        {"kdim": 5, "vdim": 6},
        {"kdim": 5},
        {"vdim": 6},
    ),
    "bias_kv": options("add_bias_kv", False, True),
    "zero_attn": options("add_zero_attn", False, True),
    "bias": BUILD["bias"],
    "batch_first": BUILD["batch_first"],
    "magnitude": BUILD["magnitude"],
    "layout": BUILD["layout"],
    "sizes": SIZES,
    "lengths": LENGTHS,
}
SDPA_MASKS = (
    OFF,
    {"is_causal": True},
    *({"attn_mask": kind, "mask_shape": shape} for kind in ("bool", "float") for shape in ("LS", "1S", "BHLS", "B1LS", "1HLS", "B11S")),
    {"attn_mask": "float", "mask_shape": "L1"},
    {"attn_mask": "causal", "mask_shape": "LS"},
)  # fmt: skip
SDPA: Factors = {
    "value_dim": options("value_dim", None, 5),
    "attends": options("attends", "cross", "self", "memory"),
    "broadcast": options("broadcast", False, True),
    "magnitude": BUILD["magnitude"],
    "layout": BUILD["layout"],
    "sizes": (OFF, {"batch": 3}, {"batch": 1}, {"head_dim": 1}, {"head_dim": 8}),
    "lengths": LENGTHS,
}


def feasible(fields: dict[str, Any]) -> bool:
    """Whether the options can stand together: false stays false as more are chosen."""
    case = Case("any", **fields)
    shares = case.attends != "cross"
    if shares and (case.kdim or case.vdim or case.value_dim or case.broadcast):
        return False
    if case.attends == "self" and case.key_heads:
        return False
    if case.broadcast and case.layout == "expanded":
        return False
    if case.dtype in ("bfloat16", "float16") and (fields.get("activation") == "relu" or case.magnitude > 1):
        # At a kink, and in scores of a hundred, the rounding of 8 or 11 bits decides which gradient is right.
        return False
    # Causal and padded on the left, a real query sees no key: such rows have a chapter of their own.
    if case.memory_mask in CAUSAL_KINDS and case.memory_key_padding_mask == "left":
        return False
    if case.attn_mask in CAUSAL_KINDS and case.key_padding_mask == "left":
        return False
    # A causal mask and padding on the left leave padded source rows with no key, and what such a row holds is a
    # policy that the cross-attention would see.
    return not (case.src_mask in CAUSAL_KINDS and case.src_key_padding_mask == "left")


@functools.cache
def grid() -> tuple[Case, ...]:
    """All cases, each once, in a fixed order."""
    build = {**BUILD, "sizes": SIZES}
    made = [
        *_rows("encoder_layer", {"norm": NORMS, **SOURCE, "mode": MODES, "activation": RELU_GELU}, build),
        *_rows("encoder_layer", {"norm": NORMS, "activation": BUILD["activation"]}, {**build, **SOURCE}),
        *_rows("decoder_layer", {"norm": NORMS, **TARGET, "mode": MODES}, {**build, "lengths": LENGTHS, **MEMORY_PAIRS}),
        *_rows("decoder_layer", {"norm": NORMS, **MEMORY}, {**build, "mode": MODES, "lengths": LENGTHS, **TARGET_PAIRS}),
        *_rows("encoder", {"norm": NORMS, **SOURCE, "mode": MODES}, {**build, **STACKED}),
        *_rows("decoder", {"norm": NORMS, **TARGET, "mode": MODES}, {**build, **STACKED, "lengths": LENGTHS, **MEMORY_PAIRS}),
        *_rows("decoder", {"norm": NORMS, **MEMORY}, {**build, "mode": MODES, **STACKED, "lengths": LENGTHS, **TARGET_PAIRS}),
        *_rows("transformer", {"norm": NORMS, **TARGET, "mode": MODES}, _whole(SOURCE_PAIRS, MEMORY_PAIRS)),
        *_rows("transformer", {"norm": NORMS, **MEMORY}, _whole({"mode": MODES}, SOURCE_PAIRS, TARGET_PAIRS)),
        *_rows("transformer", {"norm": NORMS, **SOURCE}, _whole({"mode": MODES}, TARGET_PAIRS, MEMORY_PAIRS)),
        *_rows(
            "multihead_attention",
            {
                "mask": attention_masks("attn_mask"),
                "padding": options("key_padding_mask", *PADDING_KINDS),
                "weights": WEIGHTS,
                "mode": MODES,
            },
            HEADS,
        ),
        *_rows("attention", {"mask": SDPA_MASKS, "scale": options("scale", None, 0.3), "groups": options("key_heads", None, 1)}, SDPA),
        *_rows("attention", {"dims": ({"dims": 3}, {"dims": 5}), "mask": SDPA_MASKS[:2] + SDPA_MASKS[2:3] + SDPA_MASKS[8:9]}, SDPA),
        *_rows(
            "layer_norm",
            {
                "eps": BUILD["eps"],
                "affine": (OFF, {"bias": False}, {"elementwise_affine": False}),
                "dims": options("normalized_dims", 1, 2),
                "magnitude": BUILD["magnitude"],
            },
            {"layout": BUILD["layout"], "sizes": SIZES[:5]},
        ),
        *_unmasked(build),
        *_dtypes(build),
        *chosen(),
    ]  # fmt: skip
    return tuple(dict.fromkeys(made))


def _whole(*roles: Factors) -> Factors:
    merged = {**BUILD, "sizes": SIZES, "layers": options("layers", 2, 1), "lengths": LENGTHS}
    for role in roles:
        merged.update(role)
    return merged


def _rows(component: str, core: Factors, others: Factors) -> list[Case]:
    return [Case(component, **row) for row in cover(core, others, feasible)]


def _unmasked(build: Factors) -> list[Case]:
    """The layers and stacks without any mask: above, every mask is there in most rows."""
    core: Factors = {"norm": NORMS, "mode": MODES}
    return [
        *_rows("encoder_layer", core, build),
        *_rows("decoder_layer", core, {**build, "lengths": LENGTHS}),
        *_rows("encoder", core, {**build, **STACKED}),
        *_rows("decoder", core, {**build, **STACKED, "lengths": LENGTHS}),
        *_rows("transformer", core, _whole()),
    ]


def _dtypes(build: Factors) -> list[Case]:
    """Every component in every other dtype, with its pairs of options."""
    core: Factors = {"dtype": options("dtype", "float32", "bfloat16", "float16"), "mode": MODES}
    normed: Factors = {**core, "norm": NORMS}
    heads = {"mask": attention_masks("attn_mask"), "padding": options("key_padding_mask", *PADDING_KINDS)}
    return [
        *_rows("attention", core, {"mask": SDPA_MASKS, "scale": options("scale", None, 0.3), **SDPA}),
        *_rows("multihead_attention", core, {**heads, "weights": WEIGHTS, **HEADS}),
        *_rows("layer_norm", core, {"eps": BUILD["eps"], "magnitude": BUILD["magnitude"], "layout": BUILD["layout"]}),
        *_rows("encoder_layer", normed, {**build, **SOURCE}),
        *_rows("decoder_layer", normed, {**build, **TARGET, **MEMORY_PAIRS}),
        *_rows("encoder", normed, {**build, **STACKED, **SOURCE}),
        *_rows("decoder", normed, {**build, **STACKED, **TARGET, **MEMORY_PAIRS}),
        *_rows("transformer", normed, _whole(SOURCE_PAIRS, TARGET_PAIRS, MEMORY_PAIRS)),
    ]


def coverage(cases: tuple[Case, ...]) -> dict[str, int]:
    """Counts that the summary prints."""
    return {
        "cases": len(cases),
        "configurations": len({case.configuration for case in cases}),
        "components": len({case.component for case in cases}),
        **{
            dtype: sum(1 for case in cases if case.dtype == dtype)
            for dtype in ("float64", "float32", "bfloat16", "float16")
        },
    }
