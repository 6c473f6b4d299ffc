"""Self-attention whose query heads share keys and values in groups."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from . import attention_core, checks, masks
from .attention_function import repeat_heads
from .linear import Linear
from .precision import accumulation_dtype
from .rotary import RotaryEmbedding


class GroupedQueryAttention(Module):
    """Self-attention in which num_heads / num_kv_heads consecutive query heads read one key and value head.

    As many key heads as query heads is multi-head attention, a single one multi-query attention; what is between
    keeps fewer keys and values for generation.

    Args:
        d_model: features.
        num_heads: query heads.
        num_kv_heads: key and value heads; None for num_heads.
        bias: whether the four projections have one.
        rotary: turn queries and keys by their position.
        base: of the rotation.
        interleaved: pairing of the rotation; see `rotary.rotate`.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: sizes that are not positive or not multiples of one another, rotary with an odd head.

    Counterpart: none in torch.nn; `scaled_dot_product_attention` with enable_gqa is the core of it.
    Source: Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models", section 2.2.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        bias: bool = True,
        rotary: bool = False,
        base: float = 10000.0,
        interleaved: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        checks.positive("d_model", d_model)
        checks.positive("num_heads", num_heads)
        checks.positive("num_kv_heads", num_kv_heads)
        checks.divisible("d_model", d_model, "num_heads", num_heads)
        checks.divisible("num_heads", num_heads, "num_kv_heads", num_kv_heads)
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = d_model // num_heads
        width = num_kv_heads * self.head_dim
        self.rotary = RotaryEmbedding(self.head_dim, base, interleaved) if rotary else None
        self.q_proj = Linear(d_model, d_model, bias, device, dtype)
        self.k_proj = Linear(d_model, width, bias, device, dtype)
        self.v_proj = Linear(d_model, width, bias, device, dtype)
        self.out_proj = Linear(d_model, d_model, bias, device, dtype)

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        offset: int = 0,
    ) -> Tensor:
        """Attend from each position to all.

        Args:
            x: (N, L, d_model).
            attn_mask: (L, L) or (N·num_heads, L, L), batch-major; True = hidden, or added to the scores.
            key_padding_mask: (N, L); True = hidden, or added to the scores.
            is_causal: hide later positions; without attn_mask only.
            offset: the first position, for the rotation.

        Returns:
            (N, L, d_model).

        Raises:
            ValueError: shapes or dtypes that do not fit, attn_mask together with is_causal.
        """
        checks.sequence("x", x, self.d_model, "d_model", dim=3)
        checks.same_kind("x", x, "the parameters", self.q_proj.weight)
        checks.not_negative("offset", offset)
        batch, length, _ = x.shape
        if is_causal:
            if attn_mask is not None:
                raise ValueError("attn_mask: expected None together with is_causal=True, got a mask")
            attn_mask = ~masks.causal_keep(length, length, x.device)
        sizes: dict[str, Any] = {"batch": batch, "heads": self.num_heads, "queries": length, "keys": length}
        checks.attention_masks(attn_mask, key_padding_mask, False, query=x, **sizes)

        k, v = masks.silence(key_padding_mask, self.k_proj(x), self.v_proj(x))
        q, k, v = (self.split_heads(part) for part in (self.q_proj(x), k, v))
        if self.rotary is not None:
            q, k = self.rotary(q, offset), self.rotary(k, offset)
        k, v = (repeat_heads(part, self.num_heads) for part in (k, v))
        mask = masks.merge(attn_mask, key_padding_mask, batch, self.num_heads, accumulation_dtype(x.dtype))
        context, _ = attention_core.attend(q, k, v, mask)
        return self.out_proj(context.transpose(1, 2).reshape(batch, length, self.d_model))

    def split_heads(self, x: Tensor) -> Tensor:
        """(N, L, heads·head_dim) → (N, heads, L, head_dim), contiguous features to each head."""
        return x.reshape(*x.shape[:2], x.size(-1) // self.head_dim, self.head_dim).transpose(1, 2)

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"d_model={self.d_model}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}"
