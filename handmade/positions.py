"""Position codes by sines and cosines."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from . import checks
from .dropout import Dropout


def sinusoidal(
    length: int,
    d_model: int,
    offset: int = 0,
    base: float = 10000.0,
    device: Any = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""The code of each position: :math:`P_{p,2i} = \sin(p / b^{2i/d})`, :math:`P_{p,2i+1} = \cos(p / b^{2i/d})`.

    Computed in float64 and rounded once: in float32 the angle of position 10⁵ is off by more than 10⁻³ already.

    Args:
        length: number of positions.
        d_model: d, features; an odd number ends in a sine.
        offset: the first position.
        base: b, whose 2π-fold the longest wavelength approaches.
        device: where; None for torch's default.
        dtype: of the table; None for torch's default.

    Returns:
        (length, d_model).

    Raises:
        ValueError: a negative length or offset, a d_model or base that is not positive.

    Counterpart: none in torch.nn.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """
    checks.not_negative("length", length)
    checks.positive("d_model", d_model)
    checks.not_negative("offset", offset)
    checks.number("base", base)
    if base <= 0:
        raise ValueError(f"base: expected a number greater than 0, got {base}")
    # On the CPU, since not every device has float64.
    exponents = torch.arange(0, d_model, 2, device="cpu", dtype=torch.float64) / d_model
    positions = torch.arange(offset, offset + length, device="cpu", dtype=torch.float64)
    angles = positions.unsqueeze(1) / base**exponents
    pairs = torch.stack((torch.sin(angles), torch.cos(angles)), dim=-1)
    table = pairs.reshape(length, 2 * exponents.size(0))[:, :d_model]
    kind = torch.empty(0, device=device, dtype=dtype)
    return table.to(kind.device, kind.dtype)


class PositionalEncoding(Module):
    """Add each position's code to its vector, then drop some.

    The table is no parameter and not in the state dict. It grows when a longer sequence comes, and is made anew
    where the inputs have another dtype, since a table that was rounded to float32 is no table for float64.

    Args:
        d_model: features.
        max_len: positions in the table at first.
        dropout: probability, after the sum.
        device: of the table.
        dtype: of the table.

    Counterpart: none in torch.nn.
    Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.5 and 5.4.
    """

    pe: Tensor

    def __init__(
        self,
        d_model: int,
        max_len: int = 5000,
        dropout: float = 0.0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.dropout = Dropout(dropout)
        self.register_buffer("pe", sinusoidal(max_len, d_model, device=device, dtype=dtype), persistent=False)

    def _apply(self, *arguments: Any, **keywords: Any) -> Any:
        """As for every module, and then the table anew: one that was rounded to halves is no table for float32."""
        super()._apply(*arguments, **keywords)
        self.pe = sinusoidal(self.pe.size(0), self.d_model, device=self.pe.device, dtype=self.pe.dtype)
        return self

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """Add the codes of positions offset, offset + 1, ….

        Args:
            x: (B, n, d_model), or (n, d_model).
            offset: the position of the first vector, for a sequence that comes in pieces.

        Returns:
            The shape of x.

        Raises:
            ValueError: another number of features, a negative offset.
        """
        checks.floating("x", x)
        checks.sequence("x", x, self.d_model, "d_model")
        checks.not_negative("offset", offset)
        end = offset + x.size(-2)
        self._make_room(end, x)
        return self.dropout(x + self.pe[offset:end])

    def _make_room(self, length: int, like: Tensor) -> None:
        rows = self.pe.size(0)
        if length <= rows and self.pe.dtype == like.dtype and self.pe.device == like.device:
            return
        # Twice the length, so that a sequence that grows by one does not make a table each time.
        rows = rows if length <= rows else max(length, 2 * rows)
        self.pe = sinusoidal(rows, self.d_model, device=like.device, dtype=like.dtype)

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"{self.d_model}, max_len={self.pe.size(0)}"
