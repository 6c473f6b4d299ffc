"""The attention core: the handmade ones against torch's, by shape, mask, dtype and direction.

The figure to read is `ratio`: the time of torch's own choice of kernel over this core's, the median over pairs of calls
that take turns within this run. Above 1 this core is faster.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor, nn

import handmade
from reference.weights import copy_weights

from . import peak
from .cores import CORES, LIMIT, MASKS, REFERENCE, Shape, products
from .interleaved import pairs_in, take_turns

SHAPES = (
    Shape(32, 8, 32, 32), Shape(32, 8, 64, 64), Shape(8, 8, 128, 128), Shape(8, 8, 256, 256), Shape(8, 8, 512, 512),
    Shape(2, 8, 1024, 1024), Shape(1, 8, 2048, 2048), Shape(1, 8, 4096, 4096), Shape(8, 8, 1, 2048),
)  # fmt: skip
# The plain core and torch's math keep all scores: beyond this they would take gigabytes.
LONGEST_KEPT = 2048
SECONDS = 0.4


@pytest.fixture(scope="session")
def peaks() -> dict[torch.dtype, float]:
    """The matrix product's peak in this run, by dtype."""
    return {dtype: peak.flops_per_second(dtype) for dtype in (torch.float32, torch.bfloat16)}


@pytest.mark.parametrize("core", [*CORES, LIMIT])
@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize(
    ("kind", "dtype"), [*((kind, "float32") for kind in MASKS), ("none", "bfloat16"), ("causal", "bfloat16")]
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def bench_core(
    benchmark: BenchmarkFixture,
    peaks: dict[torch.dtype, float],
    shape: Shape,
    kind: str,
    dtype: str,
    direction: str,
    core: str,
) -> None:
    """softmax(Q Kᵀ / √E + M) V, forward, or forward and backward."""
    if max(shape.queries, shape.keys) > LONGEST_KEPT and core in ("plain", "torch math"):
        pytest.skip("it keeps all scores")
    if shape.queries != shape.keys and kind == "causal":
        pytest.skip("a single query sees everything")
    if core == LIMIT and (dtype != "float32" or direction != "forward" or kind not in ("none", "causal")):
        pytest.skip("the limit is that of the plainest calls")
    number, backward = getattr(torch, dtype), direction == "both"
    leaves = shape.tensors(number, backward)
    cotangent = torch.randn_like(leaves[0])

    def call_of(name: str) -> Callable[[], Any]:
        attend = {**CORES, LIMIT: products}[name](shape, kind, number)

        def call() -> None:
            with torch.set_grad_enabled(backward):
                out = attend(*leaves)
            if backward:
                torch.autograd.grad(out, leaves, cotangent)

        return call

    work = peak.attention_flops(
        shape.batch, shape.heads, shape.queries, shape.keys, shape.width, kind == "causal", backward
    )
    benchmark.group = f"core {shape} {kind} {dtype} {direction}"
    measure(benchmark, call_of(core), call_of(REFERENCE), work / peaks[number])
    benchmark.extra_info.update(
        shape=str(shape), length=shape.queries, mask=kind, dtype=dtype, direction=direction, core=core
    )


@pytest.mark.parametrize("name", ["handmade", "torch"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("shape", SHAPES[:6:2], ids=str)
def bench_multihead(benchmark: BenchmarkFixture, shape: Shape, need_weights: bool, name: str) -> None:
    """Multi-head self-attention with its projections, in train mode without dropout, forward and backward."""
    reference = nn.MultiheadAttention(shape.heads * shape.width, shape.heads, batch_first=True)
    module = handmade.MultiheadAttention(shape.heads * shape.width, shape.heads, batch_first=True)
    copy_weights(reference, module)
    x = torch.randn(shape.batch, shape.queries, shape.heads * shape.width, generator=torch.Generator().manual_seed(0))

    def call_of(part: nn.Module) -> Callable[[], Any]:
        def call() -> None:
            out: Tensor = part(x, x, x, need_weights=need_weights)[0]
            out.sum().backward()

        return call

    benchmark.group = f"multihead {shape} {'with weights' if need_weights else ''}"
    measure(benchmark, call_of({"handmade": module, "torch": reference}[name]), call_of(reference))


def measure(
    benchmark: BenchmarkFixture, call: Callable[[], Any], reference: Callable[[], Any], fastest: float = 0.0
) -> None:
    """Time a call alone and in turns with the reference.

    Args:
        benchmark: gets the figures.
        call: what is measured.
        reference: what it is compared with.
        fastest: seconds that its products take at the peak; 0 where that is not asked.
    """
    pairs = pairs_in(call, SECONDS)
    benchmark.pedantic(call, rounds=pairs, warmup_rounds=1)
    turns = take_turns(reference, call, pairs)
    benchmark.extra_info["ratio"] = round(turns.ratio, 3)
    benchmark.extra_info["cpu_ms"] = round(1e3 * turns.cpu_seconds[1], 4)
    if fastest:
        benchmark.extra_info["of_peak"] = round(fastest / turns.seconds[1], 3)
