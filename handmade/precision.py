"""The one rule for the precision of sums and exponentials."""

import torch
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which scores, sums and exponentials of `dtype` are computed.

    float16 and bfloat16 keep 11 and 8 significant bits: a sum of a few hundred terms loses the small
    ones, and float16 overflows at 65504. They are computed in float32 and rounded once at the end;
    float32 and float64 are computed as they come.
    """
    return torch.float32 if dtype in HALVES else dtype


def widen(x: Tensor) -> Tensor:
    """`x` in its accumulation dtype; the same tensor where that is its own."""
    return x.to(accumulation_dtype(x.dtype))
