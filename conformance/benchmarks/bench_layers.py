"""Whole layers and a small model: train step and eval, handmade against torch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor, nn

import handmade
from reference.weights import copy_weights

from .bench_attention import measure

WIDTH, HEADS, HIDDEN, BATCH, LENGTH = 512, 8, 2048, 8, 128
MODELS: dict[str, Callable[[Any], nn.Module]] = {
    "encoder layer": lambda of: of.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True),
    "decoder layer": lambda of: of.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True),
    "model": lambda of: of.Transformer(128, 4, 2, 2, 256, dropout=0.0, batch_first=True),
}


@pytest.mark.parametrize("name", ["handmade", "torch"])
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("model", MODELS)
def bench_model(benchmark: BenchmarkFixture, model: str, mode: str, name: str) -> None:
    """Forward and backward in train mode, forward without gradients in eval mode, where torch has its fast path."""
    reference, module = MODELS[model](nn), MODELS[model](handmade)
    copy_weights(reference, module)
    width = 128 if model == "model" else WIDTH
    generator = torch.Generator().manual_seed(0)
    inputs = [
        torch.randn(BATCH, LENGTH, width, generator=generator) for _ in range(1 if model == "encoder layer" else 2)
    ]

    def call_of(part: nn.Module) -> Callable[[], Any]:
        part.train(mode == "train")

        def call() -> None:
            with torch.set_grad_enabled(mode == "train"):
                out: Tensor = part(*inputs)
            if mode == "train":
                out.sum().backward()

        return call

    benchmark.group = f"{model} {mode}"
    measure(benchmark, call_of({"handmade": module, "torch": reference}[name]), call_of(reference))
    benchmark.extra_info.update(model=model, mode=mode, core=name)
