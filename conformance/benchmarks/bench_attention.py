"""The attention core: the handmade one against torch's function and torch's module.

A time on a shared machine says little; the figure to read is `ratio`, torch's time over the handmade one's, the median
over pairs of calls that alternate in order (A B, B A) within this run. Above 1 the handmade core is faster.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor, nn

import handmade
from reference.weights import copy_weights

SHAPES = ((8, 8, 32, 64), (8, 8, 128, 64), (2, 8, 512, 64))
PAIRS = 15


@pytest.fixture(params=SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def shape(request: pytest.FixtureRequest) -> tuple[int, int, int, int]:
    """Batch, heads, length, head_dim."""
    return request.param


@pytest.fixture(params=[False, True], ids=["full", "causal"])
def causal(request: pytest.FixtureRequest) -> bool:
    """Whether later keys are hidden."""
    return request.param


@pytest.fixture
def heads(shape: tuple[int, int, int, int]) -> list[Tensor]:
    """Query, key and value."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for _ in range(3)]


@pytest.mark.parametrize("name", ["handmade", "torch"])
def bench_core(benchmark: BenchmarkFixture, name: str, heads: list[Tensor], causal: bool) -> None:
    """softmax(Q Kᵀ / √E) V, forward."""
    query, key, value = heads
    cores: dict[str, Callable[[], Any]] = {
        "handmade": lambda: handmade.scaled_dot_product_attention(query, key, value, is_causal=causal),
        "torch": lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal),
    }
    _measure(benchmark, "core", cores, name, heads[0].shape, causal)


@pytest.mark.parametrize("name", ["handmade", "torch"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["", "weights"])
def bench_multihead(
    benchmark: BenchmarkFixture, name: str, shape: tuple[int, int, int, int], causal: bool, need_weights: bool
) -> None:
    """Multi-head self-attention with its projections, forward, in train mode without dropout."""
    batch, count, length, width = shape
    reference = nn.MultiheadAttention(count * width, count, batch_first=True)
    module = handmade.MultiheadAttention(count * width, count, batch_first=True)
    copy_weights(reference, module)
    x = torch.randn(batch, length, count * width, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(length, length, dtype=torch.bool).triu(1) if causal else None
    modules: dict[str, Callable[[], Any]] = {
        "handmade": lambda: module(x, x, x, attn_mask=mask, need_weights=need_weights),
        "torch": lambda: reference(x, x, x, attn_mask=mask, need_weights=need_weights),
    }
    kind = "multihead with weights" if need_weights else "multihead"
    _measure(benchmark, kind, modules, name, torch.Size(shape), causal)


def _measure(
    benchmark: BenchmarkFixture,
    kind: str,
    calls: dict[str, Callable[[], Any]],
    name: str,
    shape: torch.Size,
    causal: bool,
) -> None:
    benchmark.group = f"{kind} {tuple(shape)} {'causal' if causal else 'full'}"
    with torch.no_grad():
        benchmark(calls[name])
        benchmark.extra_info["ratio"] = round(ratio(calls["torch"], calls["handmade"]), 3)
    benchmark.extra_info["torch"] = torch.__version__
    benchmark.extra_info["threads"] = torch.get_num_threads()


def ratio(a: Callable[[], Any], b: Callable[[], Any], pairs: int = PAIRS) -> float:
    """The median of time(a) / time(b) over pairs whose order alternates."""
    ratios = []
    for number in range(pairs):
        first, second = (a, b) if number % 2 == 0 else (b, a)
        times = [_time(first), _time(second)]
        ratios.append(times[0] / times[1] if number % 2 == 0 else times[1] / times[0])
    return statistics.median(ratios)


def _time(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
