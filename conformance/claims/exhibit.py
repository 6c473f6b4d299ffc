"""An exhibit: the layer of the walk-through's hand-written model, written from its formulas.

Its residual connections start from the *normalised* input: n = norm₁(x), h = n + attn(n), y = h + mlp(norm₂(h)).
So it is neither of torch's layers: Pre-Norm would add attn(n) to x, Post-Norm would normalise after the sum.
"""

import math

from torch import Tensor
from torch.nn import Module, Parameter

from handmade import Linear, MultiheadAttention, TransformerEncoderLayer
from handmade.activations import relu
from handmade.feed_forward import feed_forward
from handmade.softmax import softmax

from .measures import AModule


class PublishedNorm(Module):
    """A layer norm that divides by the *unbiased* deviation, with ε outside the root: γ (x − μ) / (s + ε) + β.

    Without ε it is layer norm times √((d − 1)/d).
    """

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        like = Linear(features, features)
        self.weight = Parameter(like.weight.new_ones(features))
        self.bias = Parameter(like.weight.new_zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        """(..., features) → the same shape."""
        return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.bias


class PublishedLayer(Module):
    """The encoder layer: the parameters of `TransformerEncoderLayer`, and a residual from the normalised input.

    Args:
        like: the layer whose parts it shares; its `norm_first` plays no part.
    """

    def __init__(self, like: TransformerEncoderLayer) -> None:
        super().__init__()
        self.self_attn: MultiheadAttention = like.self_attn
        self.linear1, self.linear2 = like.linear1, like.linear2
        self.norm1: Module = like.norm1
        self.norm2: Module = like.norm2

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, n, d) → (B, n, d); there is no padding mask."""
        n = self.norm1(x)
        attended, _ = self.self_attn(n, n, n, need_weights=False, attn_mask=mask)
        h = n + attended
        return h + feed_forward(self.norm2(h), self.linear1, relu, _identity, self.linear2)


def with_published_norms(layer: AModule) -> AModule:
    """The layer with the published norm in place of norm1 and norm2, the same γ and β."""
    for name in ("norm1", "norm2"):
        norm = getattr(layer, name)
        other = PublishedNorm(norm.weight.numel()).to(norm.weight.dtype)
        other.load_state_dict(norm.state_dict())
        setattr(layer, name, other)
    return layer


def published_attention(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """Its attention without the projections: all three are reshaped by the *query's* batch and length.

    Args:
        q: (B, m, d).
        k: (B, n, d); it must have the query's length.
        v: (B, n, d).
        heads: number of heads.

    Returns:
        (B, m, d).

    Raises:
        RuntimeError: the lengths differ.
    """
    batch, length, width = q.shape
    q, k, v = (x.view(batch, length, heads, width // heads).transpose(1, 2) for x in (q, k, v))
    weights = softmax(q @ k.transpose(-2, -1) / math.sqrt(width // heads))
    return (weights @ v).transpose(1, 2).contiguous().view(batch, length, width)


def _identity(x: Tensor) -> Tensor:
    return x
