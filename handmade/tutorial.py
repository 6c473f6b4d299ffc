"""The blocks of a first Transformer, with few arguments: the layers of this package, batch first and without dropout.

Their parameters are those of torch.nn's layers, so state dicts are exchanged with those as they are.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ModuleList

from . import checks, masks
from .activations import relu
from .decoder import TransformerDecoder, TransformerDecoderLayer
from .encoder import TransformerEncoder, TransformerEncoderLayer
from .feed_forward import feed_forward
from .linear import Linear


class FeedForward(Module):
    r"""Widen, rectify, narrow: :math:`W_2\,\max(0, W_1 x + b_1) + b_2`.

    Args:
        d_model: features.
        d_ff: width between the two projections.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `linear1`, ReLU and `linear2` of torch's layers.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.3.
    """

    def __init__(self, d_model: int, d_ff: int, device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.linear1 = Linear(d_model, d_ff, device=device, dtype=dtype)
        self.linear2 = Linear(d_ff, d_model, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) → the same shape."""
        return feed_forward(x, self.linear1, relu, lambda hidden: hidden, self.linear2)


class TransformerBlock(TransformerEncoderLayer):
    """Self-attention of h heads and the feed-forward network, each in a residual connection with a norm behind it.

    Args:
        d_model: features.
        h: number of heads, a divisor of d_model.
        d_ff: width of the feed-forward network.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.TransformerEncoderLayer(d_model, h, d_ff, dropout=0, batch_first=True)`.
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, d_model: int, h: int, d_ff: int, device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__(d_model, h, d_ff, dropout=0.0, batch_first=True, device=device, dtype=dtype)


class Encoder(TransformerEncoder):
    """N blocks in turn, each with initial values of its own, without a final norm.

    Args:
        d_model: features.
        h: number of heads, a divisor of d_model.
        d_ff: width of the feed-forward networks.
        N: number of blocks.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.TransformerEncoder`, whose layers start equal.
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self, d_model: int, h: int, d_ff: int, N: int, device: Any = None, dtype: torch.dtype | None = None
    ) -> None:
        checks.not_negative("N", N)
        blocks = [TransformerBlock(d_model, h, d_ff, device, dtype) for _ in range(N)]
        super().__init__(ModuleList(), 0)
        self.layers, self.num_layers = ModuleList(blocks), N


class DecoderBlock(TransformerDecoderLayer):
    """Causal self-attention, attention to the memory, feed-forward network, each in a residual connection.

    Without a `tgt_mask` the self-attention is causal, which torch's layer leaves to its caller.

    Args:
        d_model: features.
        h: number of heads, a divisor of d_model.
        d_ff: width of the feed-forward network.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.TransformerDecoderLayer(d_model, h, d_ff, dropout=0, batch_first=True)`.
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, d_model: int, h: int, d_ff: int, device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__(d_model, h, d_ff, dropout=0.0, batch_first=True, device=device, dtype=dtype)

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, *rest: Any, **named: Any) -> Tensor:
        """Transform the target (B, m, d_model), looking at the memory (B, n, d_model) → (B, m, d_model).

        The arguments and errors are those of `TransformerDecoderLayer`.
        """
        return super().forward(tgt, memory, _or_causal(tgt_mask, tgt), *rest, **named)


class Decoder(TransformerDecoder):
    """N decoder blocks in turn, each with initial values of its own, without a final norm.

    Without a `tgt_mask` the self-attentions are causal.

    Args:
        d_model: features.
        h: number of heads, a divisor of d_model.
        d_ff: width of the feed-forward networks.
        N: number of blocks.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.TransformerDecoder`, whose layers start equal.
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self, d_model: int, h: int, d_ff: int, N: int, device: Any = None, dtype: torch.dtype | None = None
    ) -> None:
        checks.not_negative("N", N)
        blocks = [DecoderBlock(d_model, h, d_ff, device, dtype) for _ in range(N)]
        super().__init__(ModuleList(), 0)
        self.layers, self.num_layers = ModuleList(blocks), N

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, *rest: Any, **named: Any) -> Tensor:
        """Transform the target (B, m, d_model), looking at the memory (B, n, d_model) → (B, m, d_model).

        The arguments and errors are those of `TransformerDecoder`.
        """
        return super().forward(tgt, memory, _or_causal(tgt_mask, tgt), *rest, **named)


def _or_causal(mask: Tensor | None, x: Tensor) -> Tensor:
    if mask is not None:
        return mask
    checks.tensor("tgt", x)
    length = x.size(-2) if x.dim() > 1 else 0
    return masks.generate_square_subsequent_mask(length, device=x.device, dtype=torch.bool)
