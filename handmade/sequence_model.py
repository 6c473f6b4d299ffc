"""The encoder-decoder from token ids to logits."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module, init

from . import checks, kv_cache, masks
from .decoder import TransformerDecoder
from .embedding import TokenEmbedding
from .kv_cache import KeyValueCache, some
from .linear import Linear
from .positions import PositionalEncoding
from .transformer import Transformer


class SequenceModel(Module):
    r"""Translate one sequence of ids into another: embeddings, positions, encoder and decoder, generator.

    :math:`\mathrm{logits} = W\,\mathrm{decoder}(P + \sqrt{d} E_{tgt}, \mathrm{encoder}(P + \sqrt{d} E_{src})) + b`.

    Args:
        vocab_size: V, number of ids, of source and target alike.
        d_model: d, features.
        h: number of heads, a divisor of d_model.
        d_ff: width of the feed-forward networks.
        N: number of encoder layers, and of decoder layers.
        dropout: probability, after the positions and in the layers.
        norm_first: Pre-Norm instead of Post-Norm.
        tied: both embeddings and the generator share one matrix, which saves 2·V·d parameters.
        pad: the id that fills short sequences up, which no position attends to; None for none.
        max_len: length of the position table at first; it grows on demand.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.Embedding`, `torch.nn.Transformer` and `torch.nn.Linear`; torch has no whole of them.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3 and figure 1; tying: section 3.4.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        h: int,
        d_ff: int,
        N: int,
        *,
        dropout: float = 0.0,
        norm_first: bool = False,
        tied: bool = True,
        pad: int | None = None,
        max_len: int = 5000,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        checks.positive("vocab_size", vocab_size)
        checks.positive("h", h)
        checks.divisible("d_model", d_model, "h", h)
        if pad is not None:
            checks.within("pad", pad, vocab_size)
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.vocab_size = vocab_size
        self.pad = pad
        self.src_embedding = TokenEmbedding(vocab_size, d_model, **factory)
        self.tgt_embedding = TokenEmbedding(vocab_size, d_model, **factory)
        self.positions = PositionalEncoding(d_model, max_len, dropout, **factory)
        self.transformer = Transformer(
            d_model, h, N, N, d_ff, dropout, batch_first=True, norm_first=norm_first, **factory
        )
        self.generator = Linear(d_model, vocab_size, **factory)
        if tied:
            self.tgt_embedding.emb.weight = self.src_embedding.emb.weight
            self.generator.weight = self.src_embedding.emb.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw embeddings and generator anew, so small that embeddings times √d, and tied logits, are of size 1."""
        for weight in (self.src_embedding.emb.weight, self.tgt_embedding.emb.weight, self.generator.weight):
            init.normal_(weight, std=weight.size(1) ** -0.5)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Score, for each place of the target, the id that comes next.

        Args:
            src: (B, n) ids.
            tgt: (B, m) ids, the target shifted right (see `shift_right`); position i sees positions 0 … i of it.

        Returns:
            Logits (B, m, vocab_size).

        Raises:
            TypeError: ids that are neither int32 nor int64.
            ValueError: ids outside the vocabulary, empty sequences, shapes that do not fit.
        """
        self._check(tgt=tgt, src=src)
        return self.decode(tgt, self.encode(src), src)

    def encode(self, src: Tensor) -> Tensor:
        """The memory (B, n, d_model) of a source (B, n)."""
        self._check(src=src)
        return self.transformer.encoder(self.positions(self.src_embedding(src)), src_key_padding_mask=self.padding(src))

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Logits (B, m, vocab_size) of a target (B, m), given the source's memory and, for its padding, the source."""
        self._check(tgt=tgt, src=src)
        causal = masks.generate_square_subsequent_mask(tgt.size(1), device=tgt.device, dtype=torch.bool)
        x = self.transformer.decoder(
            self.positions(self.tgt_embedding(tgt)),
            memory,
            tgt_mask=causal,
            tgt_key_padding_mask=self.padding(tgt),
            memory_key_padding_mask=self.padding(src),
            tgt_is_causal=True,
        )
        return self.generator(x)

    @torch.no_grad()
    def start(self, src: Tensor) -> KeyValueCache:
        """Read a source (B, n), and keep for all steps what the decoder makes of it.

        Raises:
            TypeError: ids that are neither int32 nor int64.
            ValueError: ids outside the vocabulary, empty sequences.
        """
        memory, decoder = self.encode(src), cast(TransformerDecoder, self.transformer.decoder)
        return decoder.start(memory, some(self.padding(src)))

    @torch.no_grad()
    def step(self, ids: Tensor, cache: KeyValueCache) -> tuple[Tensor, KeyValueCache]:
        """Go on with a target: the logits are those of `forward` at the new positions, given all positions so far.

        Args:
            ids: (B,) the next id of each sequence, or (B, m) the next ones.
            cache: from `start`; extended in place.

        Returns:
            Logits (B, vocab_size) or (B, m, vocab_size), without gradient, and the cache.

        Raises:
            TypeError: ids that are neither int32 nor int64.
            ValueError: ids outside the vocabulary, none at all, a cache of another batch size.
        """
        decoder = cast(TransformerDecoder, self.transformer.decoder)
        kv_cache.check("cache", cache)
        new = cache.new_ids("ids", ids, self.vocab_size, self.generator.weight.device)
        x = self.positions(self.tgt_embedding(new), offset=cache.length)
        x = decoder.step(x, cache, some(self.padding(new)))
        return self.generator(x).reshape(*ids.shape, -1), cache

    def padding(self, ids: Tensor) -> Tensor | None:
        """Where `ids` are padding, (B, n), True = hidden; None where no id is."""
        return None if self.pad is None else ids == self.pad

    def _check(self, **given: Tensor) -> None:
        for name, ids in given.items():
            checks.token_ids(name, ids, self.vocab_size, self.generator.weight.device)
        if len(given) == 2:
            checks.matching("tgt", given["tgt"], "src", given["src"], [0], "batch size")

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"pad={self.pad}, tied={self.generator.weight is self.src_embedding.emb.weight}"
