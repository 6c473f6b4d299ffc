"""Multi-head attention."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init

from . import attention_core, checks, masks
from .linear import Linear, linear
from .precision import accumulation_dtype


class MultiheadAttention(Module):
    r"""Attention in several subspaces at once: :math:`\mathrm{concat}(\mathrm{head}_1, …)\,W^O + b^O`.

    :math:`\mathrm{head}_i = \mathrm{attention}(Q W_i^Q, K W_i^K, V W_i^V)`. Heads are contiguous slices of the
    feature dimension. Where query, key and value share one feature size, their projections are packed in
    `in_proj_weight`; with `kdim` or `vdim` they are `q_proj_weight`, `k_proj_weight`, `v_proj_weight`; the
    biases are packed in both layouts.

    Args:
        embed_dim: features of the query and of the output, a multiple of num_heads.
        num_heads: number of heads.
        dropout: probability with which an attention weight is dropped, in train mode.
        bias: whether the four projections have biases.
        add_bias_kv: append a learnt key `bias_k` and value `bias_v` after the keys.
        add_zero_attn: append a key and a value of zeros after those.
        kdim: features of the key; None for embed_dim.
        vdim: features of the value; None for embed_dim.
        batch_first: tensors are (batch, length, features) instead of (length, batch, features).
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: sizes that are not positive or do not divide, a dropout outside [0, 1].

    Counterpart: `torch.nn.MultiheadAttention`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2.
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter
    k_proj_weight: Parameter
    v_proj_weight: Parameter
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        checks.positive("embed_dim", embed_dim)
        checks.positive("num_heads", num_heads)
        checks.divisible("embed_dim", embed_dim, "num_heads", num_heads)
        checks.probability("dropout", dropout)
        for name, size in (("kdim", kdim), ("vdim", vdim)):
            if size is not None:
                checks.not_negative(name, size)
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn

        packed = self.kdim == embed_dim and self.vdim == embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if packed else (embed_dim, embed_dim),
            "k_proj_weight": None if packed else (embed_dim, self.kdim),
            "v_proj_weight": None if packed else (embed_dim, self.vdim),
            "in_proj_weight": (3 * embed_dim, embed_dim) if packed else None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            value = None if shape is None else Parameter(torch.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, value)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values, in torch's order: Xavier for projections and bias_k, bias_v; biases 0."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for appended in (self.bias_k, self.bias_v):
            if appended is not None:
                init.xavier_normal_(appended)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from each query to all keys.

        Args:
            query: (L, N, embed_dim), (N, L, embed_dim) where batch comes first, or (L, embed_dim) unbatched.
            key: (S, N, kdim), likewise.
            value: (S, N, vdim), likewise.
            key_padding_mask: (N, S) or (S,); True = hidden, or added to the scores. Keys that it removes
                entirely cannot reach the output even if they are NaN or infinite.
            need_weights: return the weights as well.
            attn_mask: (L, S) or (N·num_heads, L, S), batch-major; True = hidden, or added to the scores.
            average_attn_weights: return the mean of the weights over the heads.
            is_causal: a hint that attn_mask is causal. The mask decides; without one the hint is refused.

        Returns:
            The output, shaped as the query, and the weights (N, L, S), or (N, num_heads, L, S) per head, after
            dropout (no N when unbatched; S counts appended keys), or None without need_weights. A dead row has
            weights 0, so its output is `out_proj.bias`.

        Raises:
            ValueError: shapes that do not fit, is_causal without attn_mask.
            TypeError: a mask that is neither boolean nor floating.
        """
        self._check(query, key, value, key_padding_mask, attn_mask, is_causal)
        batched = query.dim() == 3
        self_attention = query is key and key is value
        if not batched:
            query, key, value = (x.unsqueeze(1) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))

        q, k, v = self.project(query, key, value, self_attention)
        if key_padding_mask is not None:
            # A weight of 0 does not silence NaN or infinity, since 0 · ∞ is NaN: the rows must go.
            gone = masks.hidden_keys(key_padding_mask).t().unsqueeze(-1)
            k, v = k.masked_fill(gone, 0.0), v.masked_fill(gone, 0.0)
        k, v, appended = self.append(k, v)
        attn_mask, key_padding_mask = (masks.visible_columns(m, appended) for m in (attn_mask, key_padding_mask))

        batch = query.size(1)
        mask = masks.merge(attn_mask, key_padding_mask, batch, self.num_heads, accumulation_dtype(query.dtype))
        q, k, v = (self.split_heads(x) for x in (q, k, v))
        dropout_p = self.dropout if self.training else 0.0
        context, weights = attention_core.attend(q, k, v, mask, dropout_p, need_weights=need_weights)
        output = self.out_proj(self.join_heads(context))

        returned = weights.mean(1) if weights is not None and average_attn_weights else weights
        if not batched:
            return output.squeeze(1), None if returned is None else returned.squeeze(0)
        return output.transpose(0, 1) if self.batch_first else output, returned

    def split_heads(self, x: Tensor) -> Tensor:
        """(length, batch, embed_dim) → (batch, heads, length, head_dim)."""
        return x.reshape(x.size(0), x.size(1), self.num_heads, self.head_dim).permute(1, 2, 0, 3)

    def join_heads(self, context: Tensor) -> Tensor:
        """(batch, heads, length, head_dim) → (length, batch, embed_dim)."""
        return context.permute(2, 0, 1, 3).reshape(context.size(2), context.size(0), self.embed_dim)

    def project(self, query: Tensor, key: Tensor, value: Tensor, self_attention: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, (length, batch, embed_dim) each; self-attention takes one product for the three."""
        if self.in_proj_weight is not None and self_attention:
            q, k, v = linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
            return q, k, v
        q, k, v = (project(x) for project, x in zip(self.projections(), (query, key, value), strict=True))
        return q, k, v

    def projections(self) -> list[Callable[[Tensor], Tensor]]:
        """Those of queries, of keys and of values, each by itself."""
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [functools.partial(linear, weight=w, bias=b) for w, b in zip(weights, biases, strict=True)]

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int]:
        """Keys and values with `bias_k`/`bias_v`, then zeros, at their end, and how many were appended."""
        length = k.size(0)
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (torch.cat([x, b.expand(1, x.size(1), -1)]) for x, b in ((k, self.bias_k), (v, self.bias_v)))
        if self.add_zero_attn:
            k, v = (torch.cat([x, x.new_zeros(1, *x.shape[1:])]) for x in (k, v))
        return k, v, k.size(0) - length

    def _check(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
    ) -> None:
        checks.sequence("query", query, self.embed_dim, "embed_dim")
        checks.sequence("key", key, self.kdim, "kdim", query.dim())
        checks.sequence("value", value, self.vdim, "vdim", query.dim())
        for name, x in (("query", query), ("key", key), ("value", value)):
            checks.same_kind(name, x, "the parameters", self.out_proj.weight)
        batch_dim, length_dim = (0, 1) if self.batch_first else (1, 0)
        if query.dim() == 2:
            length_dim = 0
        checks.matching("value", value, "key", key, [length_dim], "length")
        if query.dim() == 3:
            checks.matching("key", key, "query", query, [batch_dim], "batch size")
            checks.matching("value", value, "query", query, [batch_dim], "batch size")
        checks.attention_masks(
            attn_mask,
            key_padding_mask,
            is_causal,
            query=query,
            batch=query.size(batch_dim) if query.dim() == 3 else None,
            heads=self.num_heads,
            queries=query.size(length_dim),
            keys=key.size(length_dim),
        )

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"
