"""The full encoder-decoder Transformer."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, init

from . import checks, masks
from .activations import Activation, relu
from .decoder import TransformerDecoder, TransformerDecoderLayer
from .encoder import TransformerEncoder, TransformerEncoderLayer, check_masks
from .normalization import LayerNorm


class Transformer(Module):
    r"""Encoder and decoder: :math:`\mathrm{decoder}(tgt, \mathrm{encoder}(src))`, each with a final norm.

    Args:
        d_model: features.
        nhead: number of heads, a divisor of d_model.
        num_encoder_layers: number of encoder layers.
        num_decoder_layers: number of decoder layers.
        dim_feedforward: width of the feed-forward networks.
        dropout: probability, see the layers.
        activation: "relu", "gelu" or a callable.
        custom_encoder: used instead of the encoder.
        custom_decoder: used instead of the decoder.
        layer_norm_eps: ε of every norm.
        batch_first: tensors are (batch, length, features) instead of (length, batch, features).
        norm_first: Pre-Norm instead of Post-Norm.
        bias: whether projections and norms have biases.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.Transformer`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        # A stack of somebody else's has masks and lengths of its own, so only our own two are checked beforehand.
        self._own_stacks = custom_encoder is None and custom_decoder is None
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first)
        factory = {"bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(
                TransformerEncoderLayer(*layer, **factory),
                num_encoder_layers,
                LayerNorm(d_model, eps=layer_norm_eps, **factory),
            )
        self.encoder = custom_encoder
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                TransformerDecoderLayer(*layer, **factory),
                num_decoder_layers,
                LayerNorm(d_model, eps=layer_norm_eps, **factory),
            )
        self.decoder = custom_decoder
        self.reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def reset_parameters(self) -> None:
        """Draw every matrix anew from Xavier's uniform distribution, so that the layers start different."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode the source and decode the target.

        Args:
            src: (S, N, d_model), (N, S, d_model) where batch comes first, or (S, d_model) unbatched.
            tgt: (T, N, d_model), likewise.
            src_mask: (S, S) or (N·nhead, S, S); True = hidden, or added to the scores.
            tgt_mask: (T, T) or (N·nhead, T, T), likewise.
            memory_mask: (T, S) or (N·nhead, T, S), likewise.
            src_key_padding_mask: (N, S) or (S,); True = hidden, or added to the scores.
            tgt_key_padding_mask: (N, T) or (T,), likewise.
            memory_key_padding_mask: (N, S) or (S,), likewise; the source's is *not* taken in its place.
            src_is_causal: a hint that src_mask is causal; None finds out.
            tgt_is_causal: the same for tgt_mask.
            memory_is_causal: a hint that memory_mask is causal.

        Returns:
            The shape of tgt.

        Raises:
            ValueError: shapes that do not fit, a causal hint without its mask.
            TypeError: a mask that is neither boolean nor floating.
        """
        checks.sequence("src", src, self.d_model, "d_model")
        checks.sequence("tgt", tgt, self.d_model, "d_model", src.dim())
        if src.dim() == 3:
            checks.matching("tgt", tgt, "src", src, [0 if self.batch_first else 1], "batch size")
        if self._own_stacks:
            for name, x in (("src", src), ("tgt", tgt)):
                checks.same_kind(name, x, "the parameters", next(self.parameters()))
            for queries, keys, mask, padding, hint, names in (
                (src, src, src_mask, src_key_padding_mask, src_is_causal, "src"),
                (tgt, tgt, tgt_mask, tgt_key_padding_mask, tgt_is_causal, "tgt"),
                (tgt, src, memory_mask, memory_key_padding_mask, memory_is_causal, "memory"),
            ):
                check_masks(
                    queries, keys, mask, padding, bool(hint), self.nhead, self.batch_first,
                    (f"{names}_mask", f"{names}_key_padding_mask", f"{names}_is_causal"),
                )  # fmt: skip
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """The causal mask of length sz, to be added to the scores: −∞ above the diagonal, 0 elsewhere."""
        return masks.generate_square_subsequent_mask(sz, device, dtype)
