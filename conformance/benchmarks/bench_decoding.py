"""Decoding with the cache: how a step's time grows with the length, and what a step costs without."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import handmade

from .interleaved import pairs_in, take_turns

VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS, SOURCE = 1000, 256, 8, 1024, 3, 32
SHORT, LENGTHS, BATCHES = 64, (64, 256, 512, 1024), (1, 8)
TEXT = 512
# Steps in one call: enough that the copy of the cache, from which each call starts, counts for little.
STEPS = 16
# Seconds that a benchmark may spend on calls that take turns.
SECONDS = 6.0


def model() -> handmade.SequenceModel:
    """An encoder-decoder with random initial values."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return handmade.SequenceModel(VOCABULARY, WIDTH, HEADS, HIDDEN, LAYERS, max_len=2 * LENGTHS[-1]).eval()


def ids(batch: int, length: int) -> Tensor:
    """Random ids (batch, length)."""
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def steps(made: handmade.SequenceModel, batch: int, length: int) -> Callable[[], Any]:
    """A call that decodes STEPS positions from `length` on, with the cache."""
    tgt, everyone = ids(batch, length + STEPS), torch.arange(batch)
    cache = made.start(ids(batch, SOURCE))
    made.step(tgt[:, : length - 1], cache)

    def call() -> None:
        state = cache.reorder(everyone)
        for place in range(length - 1, length - 1 + STEPS):
            made.step(tgt[:, place], state)

    return call


def forward(made: handmade.SequenceModel, batch: int, length: int) -> Callable[[], Any]:
    """A call that finds the logits of one position without a cache: from the whole prefix of `length`, and the memory."""
    src, tgt = ids(batch, SOURCE), ids(batch, length)
    memory = made.encode(src).detach()

    def call() -> None:
        with torch.no_grad():
            made.decode(tgt, memory, src)[:, -1]

    return call


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("length", LENGTHS)
def bench_step(benchmark: BenchmarkFixture, length: int, batch: int) -> None:
    """STEPS steps at a length; the ratio is the time of as many at length 64 over theirs."""
    made = model()
    benchmark.group = f"decoding {batch}: to length {SHORT}"
    _measure(benchmark, steps(made, batch, length), steps(made, batch, SHORT), 1.0)
    benchmark.extra_info.update(core=f"length {length}", length=length, batch=batch)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("length", LENGTHS)
def bench_without(benchmark: BenchmarkFixture, length: int, batch: int) -> None:
    """STEPS steps at a length; the ratio is the time of as many without the cache over theirs."""
    made = model()
    benchmark.group = f"decoding {batch}: to no cache"
    _measure(benchmark, steps(made, batch, length), forward(made, batch, length), float(STEPS))
    benchmark.extra_info.update(core=f"length {length}", length=length, batch=batch)


def bench_text(benchmark: BenchmarkFixture) -> None:
    """A whole text of TEXT tokens, greedily; the ratio is the time without the cache over that with it."""
    made, src, start = model(), ids(1, SOURCE), ids(1, 1)
    memory = made.encode(src).detach()

    def without(latest: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        prefix = torch.cat([before, latest.unsqueeze(1)], dim=1)
        return made.decode(prefix, memory, src)[:, -1], prefix

    def text(step: Callable[..., Any], state: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: handmade.greedy(step, state(), start, TEXT)

    call, other = text(made.step, lambda: made.start(src)), text(without, lambda: start[:, :0])
    benchmark.group = f"{TEXT} tokens: to no cache"
    benchmark.pedantic(call, rounds=3, warmup_rounds=1)
    turns = take_turns(other, call, 3)
    benchmark.extra_info.update(core="greedy", ratio=round(turns.ratio, 3), cpu_ms=round(1e3 * turns.cpu_seconds[1], 1))


def _measure(benchmark: BenchmarkFixture, call: Callable[[], Any], other: Callable[[], Any], times: float) -> None:
    """Time a call alone, and in turns with another, of which it is `times` as much."""
    pairs = pairs_in(call, SECONDS)
    benchmark.pedantic(call, rounds=pairs, warmup_rounds=1)
    turns = take_turns(other, call, pairs)
    benchmark.extra_info["ratio"] = round(times * turns.ratio, 3)
    benchmark.extra_info["cpu_ms"] = round(1e3 * turns.cpu_seconds[1], 4)
