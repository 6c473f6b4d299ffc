"""Token embeddings: a table of vectors, looked up by id."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter, init

from . import checks


def embed(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    r"""Look up the row of each id: :math:`y_i = W_{t_i}`.

    Args:
        input: ids, int32 or int64, any shape.
        weight: (num_embeddings, embedding_dim).
        padding_idx: the row that receives no gradient; negative counts from the end; None for none.

    Returns:
        (*input.shape, embedding_dim).

    Raises:
        TypeError: ids that are neither int32 nor int64.
        ValueError: an id outside 0 … num_embeddings − 1, a device that is not the table's.

    Counterpart: `torch.nn.functional.embedding`.
    """
    checks.indices("input", input, weight.size(0), weight.device)
    # index_select adds up the gradient of a repeated id in order, which indexing does not on several threads.
    rows = weight.index_select(0, input.reshape(-1)).reshape(*input.shape, weight.size(1))
    if padding_idx is None:
        return rows
    padding_idx += weight.size(0) if padding_idx < 0 else 0
    checks.within("padding_idx", padding_idx, weight.size(0))
    return torch.where((input == padding_idx).unsqueeze(-1), rows.detach(), rows)


class Embedding(Module):
    """A learnt vector for each id, with torch's name, shape and initial values.

    Vectors start from the standard normal distribution, that of `padding_idx` from 0.

    Args:
        num_embeddings: number of ids.
        embedding_dim: features.
        padding_idx: the id whose vector is not trained; negative counts from the end; None for none.
        device: of the table.
        dtype: of the table.

    Raises:
        ValueError: a negative size, padding_idx outside the table.

    Counterpart: `torch.nn.Embedding`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        checks.not_negative("num_embeddings", num_embeddings)
        checks.not_negative("embedding_dim", embedding_dim)
        if padding_idx is not None:
            checks.integer("padding_idx", padding_idx)
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(
                    f"padding_idx: expected an id below num_embeddings={num_embeddings}, got {padding_idx}"
                )
            padding_idx %= num_embeddings
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight = Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Standard normal, 0 for padding_idx."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        """Ids of any shape → (*shape, embedding_dim)."""
        return embed(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class TokenEmbedding(Module):
    r"""An embedding times the root of its width: :math:`y_i = \sqrt{d}\,W_{t_i}`.

    Args:
        vocab_size: number of ids.
        d_model: d, features.
        device: of the table.
        dtype: of the table.

    Counterpart: none in torch.nn; `emb` is a `torch.nn.Embedding`.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.4.
    """

    def __init__(self, vocab_size: int, d_model: int, device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.d_model = d_model
        self.emb = Embedding(vocab_size, d_model, device=device, dtype=dtype)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, n) ids, or any shape → (B, n, d_model)."""
        return self.emb(ids) * math.sqrt(self.d_model)
