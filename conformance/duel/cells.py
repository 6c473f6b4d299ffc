"""What a duel times: attention cores by shape, mask and direction. Any torch from 1.13 on imports this."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from conformance.benchmarks.cores import CORES, Shape

Call = Callable[[], Any]
# One call of each takes 1 to 12 ms on one thread: a block of 5 to 20 ms holds at least one.
SHAPES = (Shape(16, 8, 32, 32), Shape(4, 8, 128, 128), Shape(1, 4, 512, 512))
MODULE = Shape(2, 8, 32, 32)
PRODUCT = Shape(1, 1, 256, 256, 256)


@dataclass(frozen=True)
class Cell:
    """One thing that is timed.

    Attributes:
        core: a name of `CORES`; "multihead", torch's module with its projections; or "product", of two matrices.
        shape: batch, heads, queries, keys, features of a head.
        mask: "none", "causal", "padding" or "float".
        direction: "forward", or "both" with the backward pass.
        anchor: whether it is timed to compare others with, and never judged.
    """

    core: str
    shape: Shape
    mask: str = "none"
    direction: str = "forward"
    anchor: bool = False

    @property
    def id(self) -> str:
        """Readable, without spaces."""
        return "-".join((self.core.replace(" ", "_"), str(self.shape), self.mask, self.direction))

    def make(self) -> Call:
        """The call; it or the making raises where this torch lacks what it needs."""
        return {"multihead": _multihead, "product": _product}.get(self.core, _core)(self)


def _core(cell: Cell) -> Call:
    backward = cell.direction == "both"
    leaves = cell.shape.tensors(torch.float32, backward)
    attend = CORES[cell.core](cell.shape, cell.mask, torch.float32)
    cotangent = torch.randn(leaves[0].shape, generator=torch.Generator().manual_seed(2))

    def call() -> None:
        with torch.set_grad_enabled(backward):
            out = attend(leaves[0], leaves[1], leaves[2])
        if backward:
            torch.autograd.grad(out, leaves, cotangent)

    return call


def _multihead(cell: Cell) -> Call:
    width = cell.shape.heads * cell.shape.width
    module = nn.MultiheadAttention(width, cell.shape.heads, batch_first=True).train(cell.direction == "both")
    x = torch.randn(cell.shape.batch, cell.shape.queries, width, generator=torch.Generator().manual_seed(0))

    def call() -> None:
        with torch.set_grad_enabled(module.training):
            out = module(x, x, x, need_weights=False)[0]
        if module.training:
            torch.autograd.grad(out.sum(), list(module.parameters()))

    return call


def _product(cell: Cell) -> Call:
    left, right = (x[0, 0] for x in cell.shape.tensors(torch.float32, False)[:2])
    return lambda: torch.mm(left, right)


def _all() -> tuple[Cell, ...]:
    judged = [
        Cell("torch", shape, mask, direction)
        for shape in SHAPES
        for mask in ("none", "causal")
        for direction in ("forward", "both")
    ]
    anchors = [Cell("plain", shape, anchor=True) for shape in SHAPES]
    return (*judged, Cell("multihead", MODULE, direction="both"), *anchors, Cell("product", PRODUCT, anchor=True))


def plain(cell: Cell) -> Cell:
    """The plain core doing the same: what one environment's time of a cell is compared with."""
    return replace(cell, core="plain", anchor=True)


CELLS = {cell.id: cell for cell in _all()}
# What a worker can time: those of a duel, and the plain core beside each that is judged.
TIMED = {cell.id: cell for one in CELLS.values() for cell in ((one,) if one.anchor else (one, plain(one)))}
