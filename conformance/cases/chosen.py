"""Cases chosen by hand: options that are worth a few cases, and would double the grid as factors of it."""

from typing import Any

from .case import Case
from .masks import EDGE_KINDS


def chosen() -> list[Case]:
    """All of them."""
    return [*accelerator(), *edges(), *large_numbers(), *many(), *inference(), *followed()]


def accelerator() -> list[Case]:
    """A few cases of every component for an accelerator; skipped, and shown so, where there is none."""
    return [
        Case(component, device="accelerator", dtype="float32", norm_first=norm_first, **masks)
        for component, masks in (
            ("attention", {"attn_mask": "bool"}),
            ("attention", {"is_causal": True}),
            ("multihead_attention", {"attn_mask": "float3d", "key_padding_mask": "right"}),
            ("encoder_layer", {"src_mask": "causal", "src_key_padding_mask": "right"}),
            ("decoder_layer", {"tgt_mask": "causal", "memory_key_padding_mask": "holes"}),
            ("transformer", {"tgt_mask": "causal", "src_key_padding_mask": "right"}),
        )
        for norm_first in ((False, True) if component not in ("attention", "multihead_attention") else (False,))
    ]


def edges() -> list[Case]:
    """Masks that hide the first and the last key, as many keys as queries and not."""
    square: dict[str, Any] = {"target": 5, "source": 5}
    return [
        *(Case("attention", attn_mask=kind, **sizes) for kind in EDGE_KINDS for sizes in ({}, square)),
        Case("attention", attn_mask="shuffled", mask_shape="BHLS", dtype="float32"),
        *(Case("multihead_attention", attn_mask=kind, attends="self", mode="eval") for kind in EDGE_KINDS),
        *(Case("multihead_attention", attn_mask=f"{kind}3d", need_weights=False) for kind in EDGE_KINDS),
        *(Case(side, src_mask=kind, mode=mode, norm_first=norm_first)
          for side, kind in (("encoder_layer", "window"), ("encoder_layer", "shuffled"), ("encoder", "window"))
          for mode, norm_first in (("train", True), ("eval", False))),
        Case("encoder", src_mask="float_shuffled"),
        Case("decoder_layer", tgt_mask="window", memory_mask="shuffled"),
        Case("decoder_layer", memory_mask="window", norm_first=True, **square),
        Case("decoder", tgt_mask="window", memory_mask="float_shuffled", norm_first=True),
        Case("decoder", tgt_mask="shuffled", mode="eval"),
        Case("transformer", src_mask="window", tgt_mask="shuffled"),
        Case("transformer", tgt_mask="window", memory_mask="window", **square),
    ]  # fmt: skip


def large_numbers() -> list[Case]:
    """Floating masks with large finite numbers."""
    return [
        *(Case("attention", attn_mask="float_large", dtype=dtype) for dtype in ("float64", "float32")),
        Case("multihead_attention", attn_mask="float_large"),
        Case("multihead_attention", attn_mask="float_large3d", key_padding_mask="right", dtype="float32"),
        Case("encoder_layer", src_mask="float_large", mode="eval"),
        Case("encoder", src_mask="float_large", src_key_padding_mask="holes", norm_first=True),
        Case("decoder_layer", tgt_mask="float_large", memory_mask="float_large"),
        Case("transformer", src_mask="float_large", memory_mask="float_large"),
    ]


def many() -> list[Case]:
    """More heads and more layers than elsewhere, several groups of heads, and attention without a batch."""
    eight: dict[str, Any] = {"heads": 8, "head_dim": 2}
    per_head: dict[str, Any] = {"attn_mask": "bool", "mask_shape": "BHLS"}
    groups = ((4, 2), (6, 2), (6, 3))
    return [
        *(Case("attention", heads=heads, key_heads=key_heads) for heads, key_heads in groups),
        *(Case("attention", heads=4, key_heads=2, **mask) for mask in ({"is_causal": True}, per_head)),
        *(Case("attention", dims=2, **mask) for mask in ({}, {"is_causal": True}, {"attn_mask": "bool"})),
        Case("multihead_attention", **eight),
        Case("multihead_attention", attends="self", attn_mask="bool3d", **eight),
        Case("encoder", layers=5, **eight),
        Case("decoder", layers=5, norm_first=True, **eight),
        Case("transformer", layers=5, tgt_mask="causal"),
    ]  # fmt: skip


def inference() -> list[Case]:
    """Eval mode with an even number of heads: without a gradient recorded, torch has kernels of its own for these."""
    built: dict[str, Any] = {"mode": "eval", "heads": 4, "head_dim": 3}
    masks: tuple[dict[str, Any], ...] = (
             {"src_mask": "float"}, {"src_mask": "float3d"}, {"src_mask": "bool"}, {"src_mask": "causal"},
             {"src_key_padding_mask": "float"}, {"src_key_padding_mask": "holes"},
             {"src_mask": "float", "src_key_padding_mask": "float"})  # fmt: skip
    return [
        *(Case("encoder_layer", activation="gelu", **built, **mask) for mask in masks),
        *(Case("encoder", norm_first=True, layers=1, **built, **mask) for mask in masks[:1] + masks[4:6]),
        *(Case(layer, activation="gelu_tanh_module", norm_first=norm_first, **built)
          for layer in ("encoder_layer", "decoder_layer", "encoder") for norm_first in (False, True)),
        Case("multihead_attention", attends="self", attn_mask="float", **built),
        Case("multihead_attention", attends="self", key_padding_mask="float", need_weights=False, **built),
        Case("transformer", src_key_padding_mask="right", tgt_mask="causal", **built),
    ]  # fmt: skip


def followed() -> list[Case]:
    """Plain cases of what differs between versions of torch, or might: see `versions/behaviours.toml`."""
    built: dict[str, Any] = {"mode": "eval", "heads": 4, "head_dim": 3}
    alone: dict[str, Any] = {"attends": "self", **built}
    halves = ("float32", "bfloat16", "float16")
    return [
        *(Case("encoder_layer", norm_first=norm_first, activation=activation, layer_norm_eps=1e-3, dtype=dtype, **built)
          for norm_first in (False, True) for activation in ("relu", "gelu") for dtype in ("float64", "float32")),
        *(Case("encoder_layer", bias=False, norm_first=norm_first, **built) for norm_first in (False, True)),
        *(Case("encoder_layer", src_mask=mask, **built) for mask in ("float", "bool3d")),
        Case("encoder_layer", src_key_padding_mask="float", **built),
        Case("encoder", src_key_padding_mask="right", **built),
        *(Case("encoder_layer", layout=layout, **built) for layout in ("strided", "transposed", "expanded")),
        *(Case("multihead_attention", layout=layout, **alone) for layout in ("strided", "transposed", "expanded")),
        *(Case("multihead_attention", attn_mask="bool3d", key_padding_mask=padding, need_weights=need, **alone)
          for padding in ("none", "right") for need in (True, False)),
        *(Case("multihead_attention", attends="self", dtype=dtype, need_weights=need) for dtype in halves for need in (True, False)),
        *(Case("multihead_attention", attends="self", attn_mask=kind, hint=hint, need_weights=need)
          for kind, hint, need in (("causal", "true", False), ("float_causal", "true", False), ("causal", "default", True))),
        *(Case("multihead_attention", attends="self", key_padding_mask="float", attn_mask=kind) for kind in ("none", "float")),
        *(Case("attention", attn_mask="float", mask_shape=shape, source=40, dtype="float32")
          for shape in ("L1", "1S", "11", "B1L1", "B11S", "1HLS", "B111", "BHLS", "H1S")),
        *(Case("attention", is_causal=True, target=target, source=source, dtype="float32", heads=2, head_dim=8)
          for target, source in ((1, 8), (8, 3), (40, 700))),
    ]  # fmt: skip
