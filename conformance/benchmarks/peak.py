"""The matrix product's peak on this machine, now: what no attention can be faster than."""

import time

import torch

SIZE = 1024
REPETITIONS = 8


def flops_per_second(dtype: torch.dtype = torch.float32) -> float:
    """Of the best of some products of square matrices, multiplications and additions counted."""
    left, right, out = (torch.randn(SIZE, SIZE).to(dtype) for _ in range(3))
    best = float("inf")
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        best = min(best, time.perf_counter() - started)
    return 2 * SIZE**3 / best


def attention_flops(batch: int, heads: int, queries: int, keys: int, width: int, causal: bool, backward: bool) -> float:
    """Of the products of an attention: two forward and five backward, half of them under a causal mask."""
    products = 7 if backward else 2
    return products * 2.0 * batch * heads * queries * keys * width * (0.5 if causal else 1.0)
