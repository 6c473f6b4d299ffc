"""The decoder layer and the stack of them."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from . import cached_attention, checks, kv_cache, masks
from .activations import Activation, relu, resolve
from .dropout import Dropout
from .encoder import check_masks, check_sequence, copies, mask_length, stepping
from .feed_forward import Map, feed_forward
from .kv_cache import KeyValueCache, KeyValues
from .linear import Linear
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm
from .residual import residual


class TransformerDecoderLayer(Module):
    r"""Self-attention, cross-attention to the memory, feed-forward network, each in a residual connection.

    In the cross-attention (`multihead_attn`) the queries come from the target, keys and values from the memory,
    which is not normalised again.

    Args:
        d_model: features.
        nhead: number of heads, a divisor of d_model.
        dim_feedforward: width of the feed-forward network.
        dropout: probability, for both attentions' weights, inside the feed-forward network and after each sublayer.
        activation: "relu", "gelu" or a callable.
        layer_norm_eps: ε of the three norms.
        batch_first: tensors are (batch, length, features) instead of (length, batch, features).
        norm_first: Pre-Norm instead of Post-Norm.
        bias: whether projections and norms have biases.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.TransformerDecoderLayer`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        checks.not_negative("dim_feedforward", dim_feedforward)
        super().__init__()
        factory = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **factory)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **factory)
        self.linear1 = Linear(d_model, dim_feedforward, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **factory)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = resolve(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Transform the target, looking at the memory.

        Args:
            tgt: (T, N, d_model), (N, T, d_model) where batch comes first, or (T, d_model) unbatched.
            memory: (S, N, d_model), likewise.
            tgt_mask: (T, T) or (N·nhead, T, T); True = hidden, or added to the scores.
            memory_mask: (T, S) or (N·nhead, T, S), likewise.
            tgt_key_padding_mask: (N, T) or (T,); True = hidden, or added to the scores.
            memory_key_padding_mask: (N, S) or (S,), likewise.
            tgt_is_causal: a hint that tgt_mask is causal; the mask decides.
            memory_is_causal: the same for memory_mask.

        Returns:
            The shape of tgt.

        Raises:
            ValueError: shapes that do not fit, a causal hint without its mask.
            TypeError: a mask that is neither boolean nor floating.
        """
        check_sequence("tgt", tgt, self.self_attn)
        check_sequence("memory", memory, self.multihead_attn, like=tgt)
        heads, batch_first = self.self_attn.num_heads, self.self_attn.batch_first
        check_masks(
            tgt, tgt, tgt_mask, tgt_key_padding_mask, tgt_is_causal, heads, batch_first,
            ("tgt_mask", "tgt_key_padding_mask", "tgt_is_causal"),
        )  # fmt: skip
        check_masks(
            tgt, memory, memory_mask, memory_key_padding_mask, memory_is_causal, heads, batch_first,
            ("memory_mask", "memory_key_padding_mask", "memory_is_causal"),
        )  # fmt: skip

        def attend_to_target(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def attend_to_memory(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )[0]

        return self._sublayers(tgt, attend_to_target, attend_to_memory)

    def step(
        self, tgt: Tensor, own: KeyValues, memory: KeyValues, mask: Tensor | None, memory_mask: Tensor | None
    ) -> Tensor:
        """Transform new positions, given what is kept of those before and of the memory.

        Args:
            tgt: (n, N, d_model), or (N, n, d_model) where batch comes first.
            own: keys and values of the positions before; those of tgt are appended.
            memory: keys and values of the memory.
            mask: broadcasts to (N, nhead, n, length), True = keep; None where all is visible.
            memory_mask: broadcasts to (N, nhead, n, S), likewise.

        Returns:
            The shape of tgt.
        """
        return self._sublayers(
            tgt,
            lambda x: cached_attention.attend_to_own(self.self_attn, x, own, mask),
            lambda x: cached_attention.attend_to_memory(self.multihead_attn, x, memory, memory_mask),
        )

    def _sublayers(self, x: Tensor, attend_to_target: Map, attend_to_memory: Map) -> Tensor:
        def transform(x: Tensor) -> Tensor:
            return self.dropout3(feed_forward(x, self.linear1, self.activation, self.dropout, self.linear2))

        x = residual(x, lambda x: self.dropout1(attend_to_target(x)), self.norm1, self.norm_first)
        x = residual(x, lambda x: self.dropout2(attend_to_memory(x)), self.norm2, self.norm_first)
        return residual(x, transform, self.norm3, self.norm_first)


class TransformerDecoder(Module):
    r"""N decoder layers in turn, all looking at the same memory: :math:`\mathrm{norm}(f_N(… f_1(x, m) …, m))`.

    Args:
        decoder_layer: the layer, copied num_layers times; the copies start equal and share nothing.
        num_layers: N; with 0 only the final norm is left.
        norm: the final norm, or None.

    Raises:
        ValueError: a negative num_layers.

    Counterpart: `torch.nn.TransformerDecoder`.
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Transform the target, looking at the memory.

        Args:
            tgt: (T, N, d_model), (N, T, d_model) where batch comes first, or (T, d_model) unbatched.
            memory: (S, N, d_model), likewise.
            tgt_mask: (T, T) or (N·nhead, T, T); True = hidden, or added to the scores.
            memory_mask: (T, S) or (N·nhead, T, S), likewise.
            tgt_key_padding_mask: (N, T) or (T,); True = hidden, or added to the scores.
            memory_key_padding_mask: (N, S) or (S,), likewise.
            tgt_is_causal: a hint that tgt_mask is causal; None finds out.
            memory_is_causal: a hint that memory_mask is causal.

        Returns:
            The shape of tgt.

        Raises:
            ValueError: shapes that do not fit, a causal hint without its mask.
            TypeError: a mask that is neither boolean nor floating.
        """
        x = tgt
        hint = masks.is_causal_mask(tgt_mask, tgt_is_causal, mask_length("tgt_mask", tgt_mask))
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=hint,
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)

    @torch.no_grad()
    def start(self, memory: Tensor, memory_key_padding_mask: Tensor | None = None) -> KeyValueCache:
        """Project the memory once, for all steps that follow.

        Args:
            memory: (S, N, d_model), or (N, S, d_model) where batch comes first.
            memory_key_padding_mask: (N, S); True = hidden.

        Returns:
            A cache of no positions, for `step`.

        Raises:
            ValueError: shapes that do not fit.
            TypeError: a mask that is not boolean.
        """
        layers, hidden = stepping(self.layers), memory_key_padding_mask
        first = layers[0].multihead_attn
        checks.sequence("memory", memory, first.kdim, "d_model", dim=3)
        checks.same_kind("memory", memory, "the parameters", first.out_proj.weight)
        batch, length = kv_cache.sizes(memory, first)
        if hidden is not None:
            kv_cache.check_hidden("memory_key_padding_mask", hidden, (batch, length))
        own = [cached_attention.nothing_kept(layer.self_attn, batch) for layer in layers]
        kept = [cached_attention.keys_of_memory(layer.multihead_attn, memory, hidden) for layer in layers]
        return KeyValueCache(batch, own, kept, None if hidden is None else ~hidden[:, None, None, :])

    @torch.no_grad()
    def step(self, tgt: Tensor, cache: KeyValueCache, tgt_key_padding_mask: Tensor | None = None) -> Tensor:
        """Transform new positions; all of them together, step by step, come out as from `forward` under a causal mask.

        Args:
            tgt: (n, N, d_model), or (N, n, d_model) where batch comes first: the positions after those in the cache.
            cache: from `start`; extended in place.
            tgt_key_padding_mask: (N, n); True = hidden, from these positions and all later ones.

        Returns:
            The shape of tgt. No gradient is recorded.

        Raises:
            ValueError: shapes that do not fit, a cache of another batch size.
            TypeError: a mask that is not boolean.
        """
        layers = stepping(self.layers)
        hidden_name = "tgt_key_padding_mask"
        kv_cache.check("cache", cache)
        cache.require_layers(len(layers), layers[0].self_attn, memory=True)
        x, mask = tgt, cache.extend("tgt", tgt, layers[0].self_attn, tgt_key_padding_mask, hidden_name)
        for layer, own, memory in zip(layers, cache.own, cache.memory, strict=True):
            x = layer.step(x, own, memory, mask, cache.memory_mask)
        return x if self.norm is None else self.norm(x)
