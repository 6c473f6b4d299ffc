"""Whole models out of torch.nn's parts: what a handmade model is compared with, under the same names.

Sinusoidal positions are the oracle's; all else is torch's. There is no dropout, and the masks are those that torch's
documentation asks the caller for.
"""

import math
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .oracle.embedding import sinusoidal_positions


class TokenEmbedding(nn.Module):
    """An embedding times √d_model."""

    def __init__(self, vocab_size: int, d_model: int, **factory: Any) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocab_size, d_model, **factory)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, n) → (B, n, d_model)."""
        return self.emb(ids) * math.sqrt(self.emb.embedding_dim)


def add_positions(x: Tensor) -> Tensor:
    """The vectors (B, n, d_model) plus the sinusoidal code of their places."""
    return x + torch.from_numpy(sinusoidal_positions(x.size(1), x.size(2))).to(x)


def causal_mask(ids: Tensor) -> Tensor:
    """The boolean causal mask of ids (B, n), True = hidden."""
    return torch.ones(ids.size(1), ids.size(1), dtype=torch.bool, device=ids.device).triu(1)


class SequenceModel(nn.Module):
    """Encoder-decoder from ids to logits, on `torch.nn.Transformer`.

    Args:
        vocab_size: number of ids.
        d_model: features.
        h: number of heads.
        d_ff: width of the feed-forward networks.
        N: number of encoder layers, and of decoder layers.
        norm_first: Pre-Norm instead of Post-Norm.
        tied: both embeddings and the generator share one matrix.
        pad: the id of padding, or None.
        factory: `device`, `dtype`.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        h: int,
        d_ff: int,
        N: int,
        *,
        norm_first: bool = False,
        tied: bool = True,
        pad: int | None = None,
        **factory: Any,
    ) -> None:
        super().__init__()
        self.pad = pad
        self.src_embedding = TokenEmbedding(vocab_size, d_model, **factory)
        self.tgt_embedding = TokenEmbedding(vocab_size, d_model, **factory)
        self.transformer = transformer(d_model, h, N, d_ff, norm_first, **factory)
        self.generator = nn.Linear(d_model, vocab_size, **factory)
        if tied:
            self.tgt_embedding.emb.weight = self.generator.weight = self.src_embedding.emb.weight

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Source (B, n) and shifted target (B, m) → logits (B, m, vocab_size)."""
        src_padding, tgt_padding = (None if self.pad is None else ids == self.pad for ids in (src, tgt))
        x = self.transformer(
            add_positions(self.src_embedding(src)),
            add_positions(self.tgt_embedding(tgt)),
            tgt_mask=causal_mask(tgt),
            src_key_padding_mask=src_padding,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=src_padding,
        )
        return self.generator(x)


class TextModel(nn.Module):
    """Encoder-decoder whose halves read the same ids, on `torch.nn.Transformer` with Pre-Norm.

    Args:
        vocab_size: number of ids.
        dim: features.
        n_heads: number of heads.
        n_layer: number of encoder layers, and of decoder layers.
        factory: `device`, `dtype`.
    """

    def __init__(self, vocab_size: int, dim: int, n_heads: int, n_layer: int, **factory: Any) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab_size, dim, **factory)
        self.transformer = transformer(dim, n_heads, n_layer, 4 * dim, norm_first=True, **factory)
        self.lm_head = nn.Linear(dim, vocab_size, bias=False, **factory)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (B, n) → logits (B, n, vocab_size)."""
        x = add_positions(self.wte(ids))
        return self.lm_head(self.transformer(x, x, tgt_mask=causal_mask(ids)))


class LanguageModel(nn.Module):
    """Decoder-only model from ids to logits, on `torch.nn.TransformerEncoder` under a causal mask.

    Args:
        vocab_size: number of ids.
        d_model: features.
        h: number of heads.
        d_ff: width of the feed-forward networks.
        N: number of blocks.
        block_size: number of places that have a vector.
        tied: the token embedding and the head share one matrix.
        factory: `device`, `dtype`.
    """

    def __init__(
        self, vocab_size: int, d_model: int, h: int, d_ff: int, N: int, block_size: int, tied: bool, **factory: Any
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab_size, d_model, **factory)
        self.wpe = nn.Embedding(block_size, d_model, **factory)
        layer = nn.TransformerEncoderLayer(d_model, h, d_ff, 0.0, F.gelu, batch_first=True, norm_first=True, **factory)
        norm = nn.LayerNorm(d_model, **factory)
        self.blocks = nn.TransformerEncoder(layer, N, norm, enable_nested_tensor=False)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **factory)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Ids (B, n) → logits (B, n, vocab_size)."""
        places = torch.arange(ids.size(1), device=ids.device)
        return self.lm_head(self.blocks(self.wte(ids) + self.wpe(places), mask=causal_mask(ids)))


def transformer(d_model: int, h: int, layers: int, d_ff: int, norm_first: bool, **factory: Any) -> nn.Transformer:
    """`torch.nn.Transformer`, batch first and without dropout."""
    with warnings.catch_warnings():
        # torch warns that a stack cannot use nested tensors; the reference does not want them.
        warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
        return nn.Transformer(
            d_model, h, layers, layers, d_ff, dropout=0.0, batch_first=True, norm_first=norm_first, **factory
        )
