"""The encoder layer and the stack of them."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ModuleList

from . import cached_attention, checks, kv_cache, masks
from .activations import Activation, relu, resolve
from .dropout import Dropout
from .feed_forward import Map, feed_forward
from .kv_cache import KeyValueCache, KeyValues
from .linear import Linear
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm
from .residual import residual


class TransformerEncoderLayer(Module):
    r"""Self-attention, then the feed-forward network, each in a residual connection.

    Post-Norm (the default): :math:`x \leftarrow \mathrm{norm}_1(x + \mathrm{drop}(\mathrm{attn}(x)))`,
    :math:`x \leftarrow \mathrm{norm}_2(x + \mathrm{drop}(\mathrm{ff}(x)))`; Pre-Norm normalises the
    sublayer's input instead (see `residual`).

    Args:
        d_model: features.
        nhead: number of heads, a divisor of d_model.
        dim_feedforward: width of the feed-forward network.
        dropout: probability, for attention weights, inside the feed-forward network and after both sublayers.
        activation: "relu", "gelu" or a callable.
        layer_norm_eps: ε of both norms.
        batch_first: tensors are (batch, length, features) instead of (length, batch, features).
        norm_first: Pre-Norm instead of Post-Norm.
        bias: whether projections and norms have biases.
        device: of the parameters.
        dtype: of the parameters.

    Counterpart: `torch.nn.TransformerEncoderLayer`.
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
        self.linear1 = Linear(d_model, dim_feedforward, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **factory)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = resolve(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Transform the sequence.

        Args:
            src: (L, N, d_model), (N, L, d_model) where batch comes first, or (L, d_model) unbatched.
            src_mask: (L, L) or (N·nhead, L, L); True = hidden, or added to the scores.
            src_key_padding_mask: (N, L) or (L,); True = hidden, or added to the scores.
            is_causal: a hint that src_mask is causal; the mask decides.

        Returns:
            The shape of src.

        Raises:
            ValueError: shapes that do not fit, is_causal without src_mask.
            TypeError: a mask that is neither boolean nor floating.
        """
        check_sequence("src", src, self.self_attn)
        check_masks(
            src, src, src_mask, src_key_padding_mask, is_causal, self.self_attn.num_heads, self.self_attn.batch_first,
            ("src_mask", "src_key_padding_mask", "is_causal"),
        )  # fmt: skip

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]

        return self._sublayers(src, attend)

    def step(self, src: Tensor, own: KeyValues, mask: Tensor | None) -> Tensor:
        """Transform new positions, given what is kept of those before: the layer of a decoder without a memory.

        Args:
            src: (n, N, d_model), or (N, n, d_model) where batch comes first.
            own: keys and values of the positions before; those of src are appended.
            mask: broadcasts to (N, nhead, n, length), True = keep; None where all is visible.

        Returns:
            The shape of src.
        """
        return self._sublayers(src, lambda x: cached_attention.attend_to_own(self.self_attn, x, own, mask))

    def _sublayers(self, x: Tensor, attend: Map) -> Tensor:
        def transform(x: Tensor) -> Tensor:
            return self.dropout2(feed_forward(x, self.linear1, self.activation, self.dropout, self.linear2))

        x = residual(x, lambda x: self.dropout1(attend(x)), self.norm1, self.norm_first)
        return residual(x, transform, self.norm2, self.norm_first)


class TransformerEncoder(Module):
    r"""N encoder layers in turn: :math:`\mathrm{norm}(f_N(… f_1(x)))`.

    Args:
        encoder_layer: the layer, copied num_layers times; the copies start equal and share nothing.
        num_layers: N; with 0 only the final norm is left.
        norm: the final norm, or None.
        enable_nested_tensor: accepted for torch's sake; every path gives the same values here.
        mask_check: likewise.

    Raises:
        ValueError: a negative num_layers.

    Counterpart: `torch.nn.TransformerEncoder`.
    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Transform the sequence.

        Args:
            src: (L, N, d_model), (N, L, d_model) where batch comes first, or (L, d_model) unbatched.
            mask: (L, L) or (N·nhead, L, L); True = hidden, or added to the scores.
            src_key_padding_mask: (N, L) or (L,); True = hidden, or added to the scores.
            is_causal: a hint that mask is causal; None finds out.

        Returns:
            The shape of src.

        Raises:
            ValueError: shapes that do not fit, is_causal=True without mask.
            TypeError: a mask that is neither boolean nor floating.
        """
        x = src
        hint = masks.is_causal_mask(mask, is_causal, mask_length("mask", mask))
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=hint, src_key_padding_mask=src_key_padding_mask)
        return x if self.norm is None else self.norm(x)

    def start(self, batch_size: int) -> KeyValueCache:
        """A cache of no positions, for `step`.

        Args:
            batch_size: N.

        Raises:
            ValueError: no sequence at all.
        """
        checks.positive("batch_size", batch_size)
        layers = stepping(self.layers)
        return KeyValueCache(batch_size, [cached_attention.nothing_kept(one.self_attn, batch_size) for one in layers])

    @torch.no_grad()
    def step(self, src: Tensor, cache: KeyValueCache, src_key_padding_mask: Tensor | None = None) -> Tensor:
        """Transform new positions; all of them together, step by step, come out as from `forward` under a causal mask.

        Args:
            src: (n, N, d_model), or (N, n, d_model) where batch comes first: the positions after those in the cache.
            cache: from `start`; extended in place.
            src_key_padding_mask: (N, n); True = hidden, from these positions and all later ones.

        Returns:
            The shape of src. No gradient is recorded.

        Raises:
            ValueError: shapes that do not fit, a cache of another batch size.
            TypeError: a mask that is not boolean.
        """
        layers = stepping(self.layers)
        hidden_name = "src_key_padding_mask"
        kv_cache.check("cache", cache)
        cache.require_layers(len(layers), layers[0].self_attn, memory=False)
        x, mask = src, cache.extend("src", src, layers[0].self_attn, src_key_padding_mask, hidden_name)
        for layer, own in zip(layers, cache.own, strict=True):
            x = layer.step(x, own, mask)
        return x if self.norm is None else self.norm(x)


def copies(layer: Module, count: int) -> ModuleList:
    """Deep copies of a layer, all with its parameters' values and none with its parameters."""
    checks.not_negative("num_layers", count)
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def stepping(layers: ModuleList) -> list[Any]:
    """The layers of a stack that is called step by step."""
    if not layers or not all(hasattr(layer, "step") for layer in layers):
        raise ValueError(f"layers: expected at least one, each with a `step`, got {[type(x).__name__ for x in layers]}")
    return list(layers)


def mask_length(name: str, mask: Tensor | None) -> int:
    """The number of queries that a mask is made for; the layers refuse one that has none."""
    if mask is None:
        return 0
    checks.tensor(name, mask)
    return mask.size(-2) if mask.dim() > 1 else 0


def check_sequence(name: str, x: Tensor, attn: MultiheadAttention, like: Tensor | None = None) -> None:
    """`x` is a sequence that `attn` takes, and goes with the sequence `like`."""
    checks.sequence(name, x, attn.embed_dim, "d_model", None if like is None else like.dim())
    checks.same_kind(name, x, "the parameters", attn.out_proj.weight)
    if like is not None and x.dim() == 3:
        checks.matching(name, x, "tgt", like, [0 if attn.batch_first else 1], "batch size")


def check_masks(
    queries: Tensor,
    keys: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
    heads: int,
    batch_first: bool,
    names: tuple[str, str, str],
) -> None:
    """The masks fit the attention of `queries` to `keys`, under the names that the caller gave them."""
    batched = queries.dim() == 3
    length = 1 if batched and batch_first else 0
    checks.attention_masks(
        attn_mask,
        key_padding_mask,
        is_causal,
        query=queries,
        batch=queries.size(1 - length) if batched else None,
        heads=heads,
        queries=queries.size(length),
        keys=keys.size(length),
        names=names,
    )
