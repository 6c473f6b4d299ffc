"""The layers of the text model: attention called with queries, keys and values, projections without biases."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import Module

from . import attention_core, checks
from .activations import relu
from .dropout import Dropout
from .linear import Linear
from .normalization import LayerNorm
from .precision import widen
from .residual import residual
from .softmax import softmax


@dataclass(frozen=True)
class ModelArgs:
    """What a text model is made of.

    Attributes:
        n_embd: features of the embeddings.
        n_heads: number of heads, a divisor of dim.
        dim: features of the layers; equal to n_embd, since residual connections join the two.
        dropout: probability.
        max_seq_len: the longest sequence that the causal mask allows.
        vocab_size: number of ids.
        block_size: the longest sequence that has positions; at most max_seq_len.
        n_layer: number of encoder layers, and of decoder layers.

    Raises:
        ValueError: sizes that are not positive or do not fit together.
    """

    n_embd: int
    n_heads: int
    dim: int
    dropout: float
    max_seq_len: int
    vocab_size: int
    block_size: int
    n_layer: int

    def __post_init__(self) -> None:
        for name in ("n_embd", "n_heads", "dim", "max_seq_len", "vocab_size", "block_size"):
            checks.positive(name, getattr(self, name))
        checks.not_negative("n_layer", self.n_layer)
        checks.probability("dropout", self.dropout)
        checks.divisible("dim", self.dim, "n_heads", self.n_heads)
        if self.dim != self.n_embd:
            raise ValueError(
                f"dim: expected n_embd={self.n_embd}, which the residual connections add it to, got {self.dim}"
            )
        if self.block_size > self.max_seq_len:
            raise ValueError(f"block_size: expected at most max_seq_len={self.max_seq_len}, got {self.block_size}")


def attention(
    query: Tensor, key: Tensor, value: Tensor, dropout: Callable[[Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    r"""Attention and its weights: :math:`\mathrm{softmax}(QK^T/\sqrt{d_k})\,V`.

    Args:
        query: (..., L, d_k).
        key: (..., S, d_k).
        value: (..., S, d_v).
        dropout: acts on the weights, or None.

    Returns:
        The context (..., L, d_v) and the weights (..., L, S), after dropout.

    Counterpart: `torch.nn.functional.scaled_dot_product_attention`, which returns no weights.
    Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1.
    """
    weights = softmax(widen(query) @ widen(key).transpose(-2, -1) / math.sqrt(query.size(-1) or 1))
    if dropout is not None:
        weights = dropout(weights)
    return (weights @ widen(value)).to(query.dtype), weights.to(query.dtype)


class MultiHeadAttention(Module):
    """Attention of several heads, called with queries, keys and values; no projection has a bias.

    Args:
        args: sizes and dropout.
        is_causal: query i sees keys 0 … i only.

    Counterpart: `torch.nn.MultiheadAttention(dim, n_heads, bias=False, batch_first=True)`; wq, wk and wv are the
    thirds of its `in_proj_weight`, wo is its `out_proj`.
    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(self, args: ModelArgs, is_causal: bool = False) -> None:
        super().__init__()
        self.n_heads = args.n_heads
        self.is_causal = is_causal
        self.wq = Linear(args.n_embd, args.dim, bias=False)
        self.wk = Linear(args.n_embd, args.dim, bias=False)
        self.wv = Linear(args.n_embd, args.dim, bias=False)
        self.wo = Linear(args.dim, args.dim, bias=False)
        self.attn_dropout = Dropout(args.dropout)
        self.resid_dropout = Dropout(args.dropout)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Queries (B, L, n_embd), keys and values (B, S, n_embd) → (B, L, dim)."""
        queries, keys, values = (
            self.split_heads(project(x)) for project, x in ((self.wq, q), (self.wk, k), (self.wv, v))
        )
        dropout_p = self.attn_dropout.p if self.training else 0.0
        context, _ = attention_core.attend(queries, keys, values, dropout_p=dropout_p, is_causal=self.is_causal)
        return self.resid_dropout(self.wo(context.transpose(1, 2).reshape(q.size(0), q.size(1), self.wo.in_features)))

    def split_heads(self, x: Tensor) -> Tensor:
        """(B, length, dim) → (B, heads, length, dim / heads)."""
        return x.reshape(x.size(0), x.size(1), self.n_heads, x.size(-1) // self.n_heads).transpose(1, 2)


class MLP(Module):
    r"""The feed-forward network without biases, with dropout behind it: :math:`\mathrm{drop}(W_2\,\max(0, W_1 x))`.

    Args:
        dim: features.
        hidden_dim: width between the two projections.
        dropout: probability.

    Counterpart: `linear1`, ReLU, `linear2` and the last dropout of torch's layers; they have another one inside.
    """

    def __init__(self, dim: int, hidden_dim: int, dropout: float) -> None:
        super().__init__()
        self.w1 = Linear(dim, hidden_dim, bias=False)
        self.w2 = Linear(hidden_dim, dim, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) → the same shape."""
        return self.dropout(self.w2(relu(self.w1(x))))


class EncoderLayer(Module):
    """Self-attention and feed-forward network under Pre-Norm.

    Counterpart: `torch.nn.TransformerEncoderLayer` with `norm_first=True`.
    """

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.attention_norm = LayerNorm(args.n_embd)
        self.attention = MultiHeadAttention(args, is_causal=False)
        self.ffn_norm = LayerNorm(args.n_embd)
        self.feed_forward = MLP(args.dim, 4 * args.dim, args.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, n_embd) → the same shape."""
        x = residual(x, lambda y: self.attention(y, y, y), self.attention_norm, norm_first=True)
        return residual(x, self.feed_forward, self.ffn_norm, norm_first=True)


class DecoderLayer(Module):
    """Causal self-attention, attention to the encoder's output and feed-forward network under Pre-Norm.

    Counterpart: `torch.nn.TransformerDecoderLayer` with `norm_first=True` and a causal `tgt_mask`.
    """

    def __init__(self, args: ModelArgs) -> None:
        super().__init__()
        self.attention_norm_1 = LayerNorm(args.n_embd)
        self.mask_attention = MultiHeadAttention(args, is_causal=True)
        self.attention_norm_2 = LayerNorm(args.n_embd)
        self.attention = MultiHeadAttention(args, is_causal=False)
        self.ffn_norm = LayerNorm(args.n_embd)
        self.feed_forward = MLP(args.dim, 4 * args.dim, args.dropout)

    def forward(self, x: Tensor, enc_out: Tensor) -> Tensor:
        """The target (B, m, n_embd) and the encoder's output (B, n, n_embd) → (B, m, n_embd)."""
        x = residual(x, lambda y: self.mask_attention(y, y, y), self.attention_norm_1, norm_first=True)
        x = residual(x, lambda y: self.attention(y, enc_out, enc_out), self.attention_norm_2, norm_first=True)
        return residual(x, self.feed_forward, self.ffn_norm, norm_first=True)
