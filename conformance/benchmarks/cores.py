"""The attention cores that are compared, each made for a shape, a mask and a dtype."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from handmade import attention, blockwise_attention, masks
from handmade.blockwise_function import blockwise

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
MASKS = ("none", "causal", "padding", "float")


@dataclass(frozen=True)
class Shape:
    """Batch, heads, queries, keys, features of a head."""

    batch: int
    heads: int
    queries: int
    keys: int
    width: int = 64

    def __str__(self) -> str:
        lengths = str(self.queries) if self.queries == self.keys else f"{self.queries}-{self.keys}"
        return f"{self.batch}x{self.heads}x{lengths}x{self.width}"

    def tensors(self, dtype: torch.dtype, gradient: bool) -> list[Tensor]:
        """Query, key and value."""
        generator = torch.Generator().manual_seed(0)
        sizes = [(self.batch, self.heads, length, self.width) for length in (self.queries, self.keys, self.keys)]
        return [torch.randn(size, generator=generator).to(dtype).requires_grad_(gradient) for size in sizes]

    def mask(self, kind: str, dtype: torch.dtype) -> Tensor | None:
        """Half of the keys padded in the mean, ragged; or numbers for every query and key; None for the other kinds."""
        generator = torch.Generator().manual_seed(1)
        if kind == "padding":
            count = torch.linspace(self.keys / 4, 3 * self.keys / 4, self.batch).round().clamp(min=1)
            return (torch.arange(self.keys) < count[:, None])[:, None, None]
        if kind == "float":
            return torch.randn(self.queries, self.keys, generator=generator).to(dtype)
        return None


def _plain(shape: Shape, kind: str, dtype: torch.dtype) -> Attend:
    mask = (
        masks.causal_keep(shape.queries, shape.keys, torch.device("cpu"))
        if kind == "causal"
        else shape.mask(kind, dtype)
    )
    return lambda q, k, v: attention.attention(q, k, v, mask)[0]


def _blockwise(shape: Shape, kind: str, dtype: torch.dtype) -> Attend:
    mask = shape.mask(kind, dtype)
    return lambda q, k, v: blockwise(q, k, v, mask, kind == "causal", 1 / math.sqrt(shape.width))


def products(shape: Shape, kind: str, _dtype: torch.dtype) -> Attend:
    """The two products of each block and nothing else: no core made of torch's operations can be faster."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = torch.empty(shape.batch, shape.heads, shape.queries, shape.width, dtype=q.dtype)
        blocks = blockwise_attention.prepare(q, k, v, None, kind == "causal", 1.0).blocks
        work = q.new_empty(max(block.score_count for block in blocks))
        for block in blocks:
            queries, keys, values, product = (
                x[block.batch, block.heads, part].flatten(0, 1)
                for x, part in ((q, block.rows), (k, block.keys), (v, block.keys), (out, block.rows))
            )
            scores = work[: block.score_count].view(queries.size(0), queries.size(1), keys.size(1))
            torch.bmm(queries, keys.mT, out=scores)
            if product.is_contiguous():
                torch.bmm(scores, values, out=product)
            else:
                torch.bmm(scores, values)
        return out

    return attend


def _torch(shape: Shape, kind: str, dtype: torch.dtype) -> Attend:
    mask = shape.mask(kind, dtype)
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal")


def _torch_math(shape: Shape, kind: str, dtype: torch.dtype) -> Attend:
    # Not in every torch that the other cores run on.
    from torch.nn.attention import SDPBackend, sdpa_kernel

    chosen = _torch(shape, kind, dtype)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return chosen(q, k, v)

    return attend


CORES: dict[str, Callable[[Shape, str, torch.dtype], Attend]] = {
    "plain": _plain,
    "blockwise": _blockwise,
    "torch math": _torch_math,
    "torch": _torch,
}
REFERENCE = "torch"
# Not a core but the limit of all: see `products`.
LIMIT = "products alone"
