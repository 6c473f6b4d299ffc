"""Peak memory of forward and backward, beyond inputs, outputs and gradients, in processes of their own."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from .memory import in_a_process_of_its_own

LENGTHS = (2048, 4096, 8192, 16384)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("core", ["blockwise", "torch", "plain"])
def bench_memory(benchmark: BenchmarkFixture, core: str, length: int) -> None:
    """Batch 1, 8 heads of 64 features, float32; the plain core only while it fits into a few gigabytes."""
    if core == "plain" and length > LENGTHS[1]:
        pytest.skip("it would take gigabytes")
    extra = benchmark.pedantic(in_a_process_of_its_own, (core, length), rounds=1)
    if extra is None:
        pytest.skip("this system does not tell what a process takes")
    benchmark.group = f"memory 1x8x{length}x64"
    benchmark.extra_info.update(core=core, length=length, extra_mib=round(extra / 2**20, 1))
