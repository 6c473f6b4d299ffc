"""Attention of a sequence to itself with a single head, and nothing after it."""

import typing
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Module

from . import attention_core, checks, masks
from .linear import Linear
from .precision import accumulation_dtype


class SelfAttention(Module):
    r"""Project three times and attend: :math:`\mathrm{softmax}(QK^T/\sqrt d)\,V` with :math:`Q = W_q x + b_q`, ….

    Args:
        d_model: d, features.
        bias: whether the projections have one.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: a d_model that is not positive.

    Counterpart: none in torch.nn; `MultiheadAttention` with one head has an output projection as well.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
    """

    def __init__(self, d_model: int, bias: bool = True, device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        checks.positive("d_model", d_model)
        self.d_model = d_model
        self.W_q = Linear(d_model, d_model, bias, device, dtype)
        self.W_k = Linear(d_model, d_model, bias, device, dtype)
        self.W_v = Linear(d_model, d_model, bias, device, dtype)

    @typing.overload
    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: Literal[False] = False,
    ) -> Tensor: ...

    @typing.overload
    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        *,
        need_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Attend from each position to all.

        Args:
            x: (B, n, d_model).
            attn_mask: (n, n) or (B, n, n); True = hidden, or added to the scores.
            key_padding_mask: (B, n); True = hidden, or added to the scores.
            need_weights: return the weights as well.

        Returns:
            The context (B, n, d_model), or the context and the weights (B, n, n).

        Raises:
            ValueError: shapes or dtypes that do not fit.
        """
        checks.sequence("x", x, self.d_model, "d_model", dim=3)
        checks.same_kind("x", x, "the parameters", self.W_q.weight)
        batch, length, _ = x.shape
        sizes: dict[str, Any] = {"query": x, "batch": batch, "heads": 1, "queries": length, "keys": length}
        checks.attention_masks(attn_mask, key_padding_mask, False, **sizes)
        k, v = masks.silence(key_padding_mask, self.W_k(x), self.W_v(x))
        mask = masks.merge(attn_mask, key_padding_mask, batch, 1, accumulation_dtype(x.dtype))
        q, k, v = (part.unsqueeze(1) for part in (self.W_q(x), k, v))
        context, weights = attention_core.attend(q, k, v, mask, need_weights=need_weights)
        if not need_weights or weights is None:
            return context.squeeze(1)
        return context.squeeze(1), weights.squeeze(1)
