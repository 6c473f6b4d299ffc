"""Rotary position codes: each pair of features turns by an angle that grows with the position."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from . import checks
from .precision import widen


def rotary_angles(
    length: int,
    head_dim: int,
    base: float = 10000.0,
    offset: int = 0,
    device: Any = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""The angle of each position and pair of features: :math:`\theta_{p,i} = p\,b^{-2i/d}`.

    Args:
        length: number of positions.
        head_dim: d, features; even.
        base: b.
        offset: the first position.
        device: where; None for the CPU.
        dtype: of the angles; None for float64, since float32 is off by more than 10⁻³ at position 10⁵.

    Returns:
        (length, head_dim / 2).

    Raises:
        ValueError: an odd head_dim, a negative length or offset, a base that is not positive.

    Counterpart: none in torch.nn.
    Source: Su et al. 2021, "RoFormer", section 3.2.2.
    """
    checks.not_negative("length", length)
    checks.not_negative("offset", offset)
    _check(head_dim, base)
    # On the CPU, since not every device has float64.
    exponents = torch.arange(0, head_dim, 2, device="cpu", dtype=torch.float64) / head_dim
    positions = torch.arange(offset, offset + length, device="cpu", dtype=torch.float64)
    return (positions.unsqueeze(1) / base**exponents).to(device or "cpu", dtype or torch.float64)


def rotate(x: Tensor, angles: Tensor, interleaved: bool = True) -> Tensor:
    r"""Turn each pair of features: :math:`(a, b) \mapsto (a\cos\theta - b\sin\theta,\; a\sin\theta + b\cos\theta)`.

    Args:
        x: (..., L, d).
        angles: θ, broadcasts to (..., L, d/2).
        interleaved: the pairs are features (2i, 2i + 1); else (i, i + d/2). A fixed permutation of the features
            turns one into the other.

    Returns:
        The shape and dtype of `x`.

    Raises:
        ValueError: an odd number of features, or not two for each angle.

    Counterpart: none in torch.nn.
    Source: Su et al. 2021, "RoFormer", equations 14, 15 and 34.
    """
    checks.floating("x", x)
    if x.dim() < 2 or x.size(-1) != 2 * angles.size(-1):
        raise ValueError(f"x: expected (..., length, {2 * angles.size(-1)}), got {tuple(x.shape)}")
    wide = widen(x)
    # The angles' own precision decides that of sine and cosine; only these are rounded.
    cos, sin = (turn(angles).to(wide.device, wide.dtype) for turn in (torch.cos, torch.sin))
    if interleaved:
        a, b = wide.unflatten(-1, (-1, 2)).unbind(-1)
    else:
        a, b = wide.chunk(2, dim=-1)
    turned = (a * cos - b * sin, a * sin + b * cos)
    joined = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return joined.to(x.dtype)


class RotaryEmbedding(Module):
    """Rotary position codes for the queries and the keys of a head; there is nothing to learn and nothing to store.

    The product of a turned query and a turned key depends on their positions by the distance alone.

    Args:
        head_dim: features of a head; even.
        base: of the wavelengths.
        interleaved: how features are paired; see `rotate`.

    Raises:
        ValueError: an odd head_dim, a base that is not positive.

    Counterpart: none in torch.nn.
    Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.
    """

    def __init__(self, head_dim: int, base: float = 10000.0, interleaved: bool = True) -> None:
        super().__init__()
        _check(head_dim, base)
        self.head_dim = head_dim
        self.base = base
        self.interleaved = interleaved

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """Turn the vectors of positions offset, offset + 1, ….

        Args:
            x: (..., L, head_dim), queries or keys.
            offset: the position of the first vector, for a sequence that comes in pieces.

        Returns:
            The shape and dtype of `x`.
        """
        checks.floating("x", x)
        if x.dim() < 2 or x.size(-1) != self.head_dim:
            raise ValueError(f"x: expected (..., length, head_dim={self.head_dim}), got {tuple(x.shape)}")
        return rotate(x, rotary_angles(x.size(-2), self.head_dim, self.base, offset), self.interleaved)

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"{self.head_dim}, base={self.base}, interleaved={self.interleaved}"


def _check(head_dim: int, base: float) -> None:
    checks.positive("head_dim", head_dim)
    if head_dim % 2:
        raise ValueError(f"head_dim: expected an even number, since features turn in pairs, got {head_dim}")
    checks.finite("base", base)
    if base <= 0:
        raise ValueError(f"base: expected a number greater than 0, got {base}")
