"""What the tests of claims share: numbers, modules with known parameters, distances, dependence."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

AModule = TypeVar("AModule", bound=nn.Module)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def initial(make: Callable[[], AModule], seed: int = 0) -> AModule:
    """A module in float64 and eval mode as its constructor leaves it, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make().double().eval()


def random(make: Callable[[], AModule], seed: int = 0) -> AModule:
    """A module in float64 and eval mode with random norms and biases, which initial values would hide."""
    module = initial(make, seed)
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.add_(0.2 * normal(*parameter.shape, seed=1000 * (seed + 1) + i))
    return module


def parameters(module: nn.Module, dimensions: int | None = None) -> int:
    """How many numbers a module learns; of its matrices alone where `dimensions` is 2."""
    return sum(p.numel() for p in module.parameters() if dimensions in (None, p.dim()))


def rms(x: Tensor) -> float:
    """The root of the mean square."""
    return x.detach().pow(2).mean().sqrt().item()


def apart(a: Tensor, b: Tensor) -> float:
    """The distance of a from b, relative to b."""
    return rms(a - b) / rms(b)


def same(a: Tensor, b: Tensor, limit: float = 1e-12) -> bool:
    """Whether two float64 tensors are equal up to the order of sums."""
    return a.shape == b.shape and bool((a - b).abs().max() <= limit * b.abs().max().clamp(min=1.0))


def depends(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Which position of the output depends on which position of the input: (n,) booleans for each of m outputs.

    Args:
        function: (n, d) → (m, e).
        x: (n, d).

    Returns:
        (m, n).
    """
    jacobian = torch.autograd.functional.jacobian(function, x)
    return jacobian.abs().amax((1, 3)) > 0
