"""The decoder-only language model."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, init

from . import checks, kv_cache, masks
from .activations import Activation, gelu
from .dropout import Dropout
from .embedding import Embedding
from .encoder import TransformerEncoder, TransformerEncoderLayer
from .kv_cache import KeyValueCache
from .linear import Linear
from .normalization import LayerNorm
from .training_loss import cross_entropy


class LanguageModel(Module):
    r"""Predict each next id from those before: :math:`\mathrm{logits} = W\,\mathrm{norm}(\mathrm{blocks}(E_t + P))`.

    The blocks are encoder layers under a causal mask, since there is no memory to attend to.

    Args:
        vocab_size: number of ids.
        d_model: features.
        h: number of heads, a divisor of d_model.
        d_ff: width of the feed-forward networks.
        N: number of blocks.
        block_size: the longest sequence; each place has a learnt vector.
        dropout: probability, after the embeddings and in the blocks.
        norm_first: Pre-Norm instead of Post-Norm.
        activation: "relu", "gelu" or a callable.
        tied: the token embedding and the head share one matrix.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.Embedding`, `torch.nn.TransformerEncoder` and `torch.nn.Linear`; torch has no whole of them.
    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        h: int,
        d_ff: int,
        N: int,
        block_size: int,
        *,
        dropout: float = 0.0,
        norm_first: bool = True,
        activation: str | Activation = gelu,
        tied: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        checks.positive("vocab_size", vocab_size)
        checks.positive("h", h)
        checks.divisible("d_model", d_model, "h", h)
        checks.positive("block_size", block_size)
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.vocab_size = vocab_size
        self.block_size = block_size
        self.wte = Embedding(vocab_size, d_model, **factory)
        self.wpe = Embedding(block_size, d_model, **factory)
        self.drop = Dropout(dropout)
        block = TransformerEncoderLayer(
            d_model, h, d_ff, dropout, activation, batch_first=True, norm_first=norm_first, **factory
        )
        self.blocks = TransformerEncoder(block, N, LayerNorm(d_model, **factory))
        self.lm_head = Linear(d_model, vocab_size, bias=False, **factory)
        if tied:
            self.lm_head.weight = self.wte.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every matrix anew from the normal distribution of deviation 0.02, so that the blocks start different."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Score the ids that come next.

        Args:
            ids: (B, n), 1 ≤ n ≤ block_size.
            targets: (B, n), the id after each; −100 where none counts; None to continue the sequence only.

        Returns:
            With targets the logits (B, n, vocab_size) and the mean cross-entropy; without them the logits of the
            last position alone, (B, 1, vocab_size), and None.

        Raises:
            TypeError: ids that are neither int32 nor int64.
            ValueError: ids outside the vocabulary, an empty or too long sequence, targets of another shape.
        """
        x = self.hidden(ids)
        return predict(x, self.lm_head, targets)

    def hidden(self, ids: Tensor) -> Tensor:
        """The vectors (B, n, d_model) that the head turns into logits, for ids (B, n)."""
        checks.token_ids("ids", ids, self.vocab_size, self.wte.weight.device, self.block_size)
        length = ids.size(1)
        places = torch.arange(length, device=ids.device)
        causal = masks.generate_square_subsequent_mask(length, device=ids.device, dtype=torch.bool)
        x = self.drop(self.wte(ids) + self.wpe(places))
        return self.blocks(x, mask=causal, is_causal=True)

    def start(self, batch_size: int) -> KeyValueCache:
        """The cache of `batch_size` sequences without a token."""
        return self.blocks.start(batch_size)

    @torch.no_grad()
    def step(self, ids: Tensor, cache: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        """Go on with a text: the logits are those that the whole text has at the new positions.

        Args:
            ids: (B,) the next id of each sequence, or (B, n) the next ones.
            cache: from `start`; extended in place.

        Returns:
            Logits (B, vocab_size) or (B, n, vocab_size), without gradient, and the cache.

        Raises:
            TypeError: ids that are neither int32 nor int64.
            ValueError: ids outside the vocabulary, none at all, more than block_size together, a cache of another
                batch size.
        """
        kv_cache.check("cache", cache)
        new = cache.new_ids("ids", ids, self.vocab_size, self.wte.weight.device)
        end = cache.length + new.size(1)
        if end > self.block_size:
            raise ValueError(f"ids: expected at most block_size={self.block_size} ids in a sequence, got {end}")
        x = self.drop(self.wte(new) + self.wpe.weight[cache.length : end])
        return self.lm_head(self.blocks.step(x, cache)).reshape(*ids.shape, -1), cache


def predict(x: Tensor, head: Linear, targets: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Logits and loss from the last layer's vectors.

    Args:
        x: (B, n, d_model).
        head: d_model → vocab_size.
        targets: (B, n), or None, where only the last position is wanted.

    Returns:
        Logits (B, n, vocab_size) and the mean cross-entropy, or (B, 1, vocab_size) and None.

    Raises:
        ValueError: targets of another shape or outside the vocabulary.
    """
    if targets is None:
        return head(x[:, -1:]), None
    checks.shape("targets", targets, x.shape[:2], meaning="that of ids")
    logits = head(x)
    return logits, cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))
