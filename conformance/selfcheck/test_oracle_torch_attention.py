"""Attention and multi-head attention of the oracle, outputs and gradients, against torch.nn."""

from typing import Any

import pytest
from torch import nn
from torch.nn import functional as F

from conformance.selfcheck.oracle_checks import (
    HEADS,
    LAYOUTS,
    SOURCE,
    TARGET,
    WIDTH,
    agree,
    masks,
    random_arrays,
    random_mask,
    randomised,
    sequence,
)

MASK_KINDS = [
    "none",
    *(f"{where} {kind}" for where in ("2d", "3d", "pad", "2d+pad", "3d+pad") for kind in ("bool", "float")),
    "2d+pad mixed",
]
ATTENTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"kdim": 5, "vdim": 4},
    {"kdim": 5, "bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "vdim": 4},
]

pytestmark = pytest.mark.filterwarnings("ignore:Support for mismatched")


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("options", ATTENTIONS, ids=str)
def test_multihead_attention_agrees(options: dict[str, Any], layout: str, kind: str) -> None:
    options = options | {
        "embed_dim": WIDTH,
        "num_heads": HEADS,
        "batch_first": layout == "batch_first",
    }
    arguments = {
        "query": sequence(1, TARGET, WIDTH, layout),
        "key": sequence(2, SOURCE, options.get("kdim", WIDTH), layout),
        "value": sequence(3, SOURCE, options.get("vdim", WIDTH), layout),
        **masks(kind, "attn_mask", "key_padding_mask", TARGET, SOURCE, layout),
    }
    for flags in ({"need_weights": False}, {}, {"average_attn_weights": False}):
        module = randomised(nn.MultiheadAttention(**options))
        agree("multihead_attention", options, module, arguments | flags)


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((3, 5), (4, 5), (4, 5)), {}),
        (((3, 5), (4, 5), (4, 2)), {"scale": 0.3}),
        (((2, 3, 5), (2, 4, 5), (2, 4, 7)), {"is_causal": True}),
        (((2, 5, 3), (2, 3, 3), (2, 3, 3)), {"is_causal": True}),
        (((2, 1, 3, 5), (1, 3, 4, 5), (2, 3, 4, 6)), {}),
        (((2, 4, 3, 5), (2, 2, 4, 5), (2, 2, 4, 5)), {"enable_gqa": True}),
        (((2, 6, 3, 5), (2, 2, 3, 5), (2, 2, 3, 4)), {"enable_gqa": True, "is_causal": True}),
        (((2, 2, 3, 5), (2, 2, 4, 5), (2, 2, 4, 5)), {"mask": (3, 4)}),
        (((2, 2, 3, 5), (2, 2, 4, 5), (2, 2, 4, 3)), {"mask": (2, 1, 3, 4), "scale": 2.0}),
        (((2, 2, 3, 5), (2, 2, 4, 5), (2, 2, 4, 5)), {"mask": (2, 1, 1, 4)}),
        (((2, 4, 3, 5), (2, 2, 4, 5), (2, 2, 4, 5)), {"mask": (4, 3, 4), "enable_gqa": True}),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_attention_agrees(shapes: tuple[tuple[int, ...], ...], options: dict[str, Any], kind: str) -> None:
    query, key, value = random_arrays(6, *shapes)
    arguments: dict[str, Any] = {"query": query, "key": key, "value": value, **options}
    shape = arguments.pop("mask", None)
    if shape is not None:
        mask = random_mask(7, kind, *shape)
        arguments["attn_mask"] = ~mask if kind == "bool" else mask
    agree("attention", {}, F.scaled_dot_product_attention, arguments)
