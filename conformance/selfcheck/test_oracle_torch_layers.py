"""Layer norm, feed-forward network, layers and stacks of the oracle, outputs and gradients, against torch.nn."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from conformance.selfcheck.oracle_checks import (
    INNER,
    LAYOUTS,
    SOURCE,
    TARGET,
    WIDTH,
    Array,
    agree,
    layer_options,
    masks,
    random_arrays,
    randomised,
    sequence,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")


@pytest.mark.parametrize(
    "options",
    [
        {"normalized_shape": 5},
        {"normalized_shape": (3, 5), "eps": 0.1},
        {"normalized_shape": (5,), "bias": False},
        {"normalized_shape": 5, "elementwise_affine": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 3, 5)], ids=str)
def test_layer_norm_agrees(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    module = randomised(nn.LayerNorm(**options))
    agree("layer_norm", options, module, {"input": random_arrays(8, shape)[0]})


TORCH_ACTIVATIONS: dict[str, Any] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    def __init__(self, activation: Any, bias: bool) -> None:
        super().__init__()
        self.linear1 = nn.Linear(WIDTH, INNER, bias=bias)
        self.linear2 = nn.Linear(INNER, WIDTH, bias=bias)
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.linear2(self.activation(self.linear1(input)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", TORCH_ACTIVATIONS)
def test_feed_forward_agrees(activation: str, bias: bool) -> None:
    options = {
        "d_model": WIDTH,
        "dim_feedforward": INNER,
        "activation": activation,
        "bias": bias,
    }
    module = randomised(FeedForward(TORCH_ACTIVATIONS[activation], bias))
    agree("feed_forward", options, module, {"input": random_arrays(9, (2, 3, WIDTH))[0]})


LAYER_MASKS = ["none", "2d bool", "pad bool", "2d+pad float", "3d float", "3d+pad bool"]


def torch_options(options: dict[str, Any]) -> dict[str, Any]:
    return options | {"activation": TORCH_ACTIVATIONS[options.get("activation", "relu")]}


def target_side(kind: str, layout: str) -> dict[str, Array]:
    return {
        "tgt": sequence(12, TARGET, WIDTH, layout),
        **masks(kind, "tgt_mask", "tgt_key_padding_mask", TARGET, TARGET, layout, 20),
        **masks(kind, "memory_mask", "memory_key_padding_mask", TARGET, SOURCE, layout, 30),
    }


@pytest.mark.parametrize("kind", LAYER_MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", TORCH_ACTIVATIONS)
def test_layers_agree(activation: str, norm_first: bool, bias: bool, layout: str, kind: str) -> None:
    options = layer_options(layout, activation=activation, norm_first=norm_first, bias=bias, layer_norm_eps=1e-3)
    source = sequence(10, SOURCE, WIDTH, layout)
    of_source = masks(kind, "src_mask", "src_key_padding_mask", SOURCE, SOURCE, layout)
    module = randomised(nn.TransformerEncoderLayer(**torch_options(options)))
    agree("encoder_layer", options, module, {"src": source, **of_source})
    module = randomised(nn.TransformerDecoderLayer(**torch_options(options)))
    agree("decoder_layer", options, module, {"memory": source, **target_side(kind, layout)})


@pytest.mark.parametrize("kind", LAYER_MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_stacks_agree(norm_first: bool, norm: bool, layout: str, kind: str) -> None:
    options = layer_options(layout, norm_first=norm_first, bias=not norm or norm_first)
    final = {"bias": options["bias"], "eps": 1e-5}
    source = sequence(10, SOURCE, WIDTH, layout)
    of_source = masks(kind, "mask", "src_key_padding_mask", SOURCE, SOURCE, layout)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**options), 2, nn.LayerNorm(WIDTH, **final) if norm else None
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**options), 2, nn.LayerNorm(WIDTH, **final) if norm else None
    )
    options |= {"num_layers": 2, "norm": norm}
    agree("encoder", options, randomised(encoder), {"src": source, **of_source})
    arguments = {"memory": source, **target_side(kind, layout)}
    agree("decoder", options, randomised(decoder), arguments)


@pytest.mark.parametrize("kind", LAYER_MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_agrees(norm_first: bool, bias: bool, layout: str, kind: str) -> None:
    options = layer_options(
        layout,
        num_encoder_layers=2,
        num_decoder_layers=1,
        norm_first=norm_first,
        bias=bias,
        activation="gelu",
    )
    arguments = {
        "src": sequence(10, SOURCE, WIDTH, layout),
        **masks(kind, "src_mask", "src_key_padding_mask", SOURCE, SOURCE, layout),
        **target_side(kind, layout),
    }
    agree("transformer", options, randomised(nn.Transformer(**options)), arguments)


def test_causal_decoding_agrees() -> None:
    options = layer_options("batch_first", num_encoder_layers=1, num_decoder_layers=2)
    arguments = {
        "src": sequence(10, SOURCE, WIDTH, "batch_first"),
        "tgt": sequence(11, TARGET, WIDTH, "batch_first"),
        "tgt_mask": np.triu(np.ones((TARGET, TARGET), dtype=bool), 1),
        "tgt_is_causal": True,
    }
    agree("transformer", options, randomised(nn.Transformer(**options)), arguments)
