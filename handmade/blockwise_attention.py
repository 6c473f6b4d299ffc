r"""Attention block by block: exact softmax, a backward pass by hand, memory that grows with the length.

The scores of a block of queries, against all keys that any of them sees, fit in a processor's cache and are never kept.
Of each row forward keeps the sum of its exponentials, :math:`z`, and what was subtracted from its scores, :math:`m`,
from which backward makes the weights again.

Forward, for a block: :math:`S = s\,QK^T + M`, :math:`P = e^{S - m}`, :math:`z = P1`, :math:`O = PV / z`.
Backward, with keys as rows, :math:`G = dO / z`: :math:`P^T = e^{s\,KQ^T + M^T - m}`, :math:`dV = P^T G`,
:math:`dS^T = P^T \odot (V\,G^T - \delta)` with :math:`\delta_i = \sum_d G_{id} O_{id}`, :math:`dQ = s\,dS\,K`,
:math:`dK = s\,dS^T Q`, :math:`dM = dS`.

What pays, measured on two threads of torch 2.13, where a product of QKᵀ takes 0.5 to 0.7 ns a score:
nothing subtracted, m = 0, until a sum of exponentials shows that something was lost (0.13 ns for the maximum and its
subtraction, against nothing for looking at the sums); `exp`, 0.15 ns, where it cannot underflow, and elsewhere `exp2`,
0.25 ns, since `exp` takes 3 to 20 ns for what comes out as 0; hiding keys after the exponential, therefore; one piece of
scratch memory of 2 MiB, which the allocator keeps, since a page that is new to a process costs as much as 500 scores;
dividing the output instead of the scores, and in backward the cotangent of a block; leaving out the keys that a mask
hides; and products into what is contiguous, since a batch of them goes head by head into anything else.

Source: Dao et al. 2022, "FlashAttention", algorithms 1 and 4, without the rescaling: a block has all its keys at once.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .blocks import Block, mild, plan

# A sum of exponentials between this and its inverse has lost nothing to overflow or underflow, and leaves to the values,
# which it multiplies, most of float32's range.
SAFE = 1e9
LOG2_E = 1 / math.log(2)
# Torch 2.0 multiplies what is in a small product's place by β = 0, and a NaN that happens to be there stays.
_ONES = torch.ones(2, 2, 2, device="cpu")
_PLACE = torch.full_like(_ONES, math.nan)
OVERWRITES = bool(torch.baddbmm(_PLACE, _ONES, _ONES, beta=0, out=_PLACE).isfinite().all())


@dataclass(frozen=True)
class Problem:
    """What both directions share: the tensors, the mask, and the plan of the blocks.

    Attributes:
        query: (B, H, L, E).
        key: (B, H, S, E).
        value: (B, H, S, Ev).
        mask: (B or 1, H or 1, L or 1, S); True = keep, or added to the scores; None for no mask.
        is_causal: query i sees keys 0 … i.
        scale: s.
        blocks: which cover every query once.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    is_causal: bool
    scale: float
    blocks: list[Block]

    @property
    def added(self) -> bool:
        """Whether the mask is of numbers; a score may be lost in one, and is then to be lost in backward, too."""
        return self.mask is not None and self.mask.dtype != torch.bool

    @functools.cached_property
    def underflows(self) -> bool:
        """Whether the mask is of numbers and hides by them, so that exponentials come out as 0."""
        return self.added and self.mask is not None and not mild(self.mask)

    @functools.cached_property
    def keep(self) -> Tensor:
        """A boolean mask as 1 and 0; of a causal one, what every block on the diagonal needs."""
        if self.mask is not None:
            return self.mask.to(self.query.dtype)
        most = max(block.rows.stop - block.rows.start for block in self.blocks)
        return self.query.new_ones(most, most).tril_()[None, None]

    @functools.cached_property
    def hidden(self) -> Tensor:
        """Where `keep` is 0."""
        return self.keep == 0

    @functools.cached_property
    def summand(self) -> Tensor:
        """Any mask as what is added to the scores."""
        if self.added:
            assert self.mask is not None
            return self.mask
        return torch.zeros_like(self.keep).masked_fill_(self.hidden, -math.inf)

    def add_mask(self, scores: Tensor, block: Block, transposed: bool = False) -> None:
        """Add the mask to a block's scores, (heads, rows, keys) or transposed, in place.

        What a causal mask hides is replaced instead, whatever it is: a later NaN must not reach an earlier row.
        """
        if self.is_causal:
            self._at_mask(
                lambda part, hidden: part.masked_fill_(hidden, -math.inf), scores, "hidden", block, transposed
            )
        else:
            self._at_mask(torch.Tensor.add_, scores, "summand", block, transposed)

    def exponentiate(self, scores: Tensor, block: Block, shift: Tensor | None, transposed: bool = False) -> None:
        """Exponentials of a block's scores, in place, 0 where the mask hides.

        Args:
            scores: (heads, rows, keys) or transposed; the mask is in them if there is a shift or it is of numbers.
            block: whose they are.
            shift: what is subtracted, (heads, rows, 1) or transposed; None for nothing.
            transposed: keys are rows.
        """
        if shift is not None:
            scores.sub_(shift)
        if shift is not None or self.underflows:
            scores.mul_(LOG2_E).exp2_()
            return
        scores.exp_()
        if not self.added:
            self._at_mask(torch.Tensor.mul_, scores, "keep", block, transposed)

    def _at_mask(
        self, apply: Callable[[Tensor, Tensor], Tensor], scores: Tensor, form: str, block: Block, transposed: bool
    ) -> None:
        start, count = block.masked.start - block.keys.start, block.masked.stop - block.masked.start
        if count == 0:
            return
        mask = getattr(self, form)
        if self.is_causal:
            part = mask[0, 0, : block.rows.stop - block.rows.start, :count]
            apply(scores.narrow(1 if transposed else 2, start, count), part.mT if transposed else part)
            return
        part = _part(mask, block.batch, block.heads, block.rows)[..., block.masked]
        by_head = scores.unflatten(0, (block.batch.stop - block.batch.start, -1))
        apply(by_head.narrow(2 if transposed else 3, start, count), part.mT if transposed else part)


def _part(x: Tensor, batch: slice, heads: slice, rows: slice) -> Tensor:
    """Some of a tensor's first three dimensions, where one of size 1 serves all."""
    for dim, part in enumerate((batch, heads, rows)):
        if x.size(dim) > 1:
            x = x.narrow(dim, part.start, part.stop - part.start)
    return x


def _flat(x: Tensor, batch: slice, heads: slice, rows: slice) -> Tensor:
    """A block's part of a (B, H, length, width) tensor as (heads, rows, width)."""
    if (batch.stop, heads.stop, rows.stop) == x.shape[:3] and batch.start == heads.start == rows.start == 0:
        return x.flatten(0, 1)
    return x[batch, heads, rows].flatten(0, 1)


def prepare(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Problem:
    """The problem of these tensors, all with four dimensions; see `Problem`."""
    blocks = plan((query.size(0), query.size(1), query.size(2), key.size(2)), mask, is_causal)
    return Problem(query, key, value, mask, is_causal, scale, blocks)


def forward(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, and what backward needs of each row.

    Returns:
        The outputs (B, H, L, Ev); what was subtracted from the scores, (B, H, L, 1), or nothing, (0,); and the sum of
        their exponentials, (B, H, L, 1). A row that sees no key has output 0 and sum 1.
    """
    query, key, value = problem.query, problem.key, problem.value
    out = _empty_laid_out_as(query, value.size(-1))
    shifts, sums = query.new_empty(0), query.new_empty((*query.shape[:3], 1))
    # Elsewhere than on a CPU to look at the sums would be to wait for them.
    shifted = query.device.type != "cpu"
    most = max(block.score_count for block in problem.blocks)
    work = query.new_empty(most + max(block.row_count for block in problem.blocks) * value.size(-1))
    for block in problem.blocks:
        rows, keys = (block.batch, block.heads, block.rows), (block.batch, block.heads, block.keys)
        q, k, v = _flat(query, *rows), _flat(key, *keys), _flat(value, *keys)
        scores, shift = _view(work, q.size(0), q.size(1), k.size(1)), None
        while True:
            _product(q, k.mT, problem.scale, scores)
            if shifted or problem.added:
                problem.add_mask(scores, block)
            if shifted:
                shift = _maximum(scores)
            problem.exponentiate(scores, block, shift)
            total = scores.sum(-1, keepdim=True)
            if shifted or not lost(total):
                break
            shifted = True
        if shift is not None:
            shifts = shifts if shifts.numel() else torch.zeros_like(sums)
            _flat(shifts, *rows).copy_(shift)
            total.masked_fill_(total == 0, 1.0)
        _flat(sums, *rows).copy_(total)
        part = _flat(out, *rows)
        product = part if part.is_contiguous() else _view(work[most:], *part.shape)
        torch.mul(torch.bmm(scores, v, out=product), total.reciprocal_(), out=part)
    return out, shifts, sums


def _maximum(scores: Tensor) -> Tensor:
    """The largest score of each row, 0 where it sees nothing."""
    if scores.size(-1) == 0:
        return scores.new_zeros((*scores.shape[:-1], 1))
    found = scores.amax(-1, keepdim=True)
    return found.masked_fill_(found == -math.inf, 0.0)


def lost(sums: Tensor) -> bool:
    """Whether a sum of exponentials of scores as they are is too large or too small, or no number."""
    least, most = (float(x) for x in sums.aminmax())
    return not (least >= 1 / SAFE and most <= SAFE)


def backward(
    problem: Problem, out: Tensor, shifts: Tensor, sums: Tensor, cotangent: Tensor, mask_shape: torch.Size | None
) -> list[Tensor | None]:
    """Gradients of query, key, value and, where its shape is given, of the mask; the other arguments as in `forward`.

    Weights are exponentials over sums. Here the sums divide the cotangent instead, which has fewer elements.
    """
    query, key, value = problem.query, problem.key, problem.value
    of_query, of_key, of_value = (_empty_laid_out_as(x, x.size(-1)) for x in (query, key, value))
    # Every row is in one block, a key in as many as there are parts of the rows that see it.
    whole = slice(0, query.size(2)), slice(0, key.size(2))
    once = all((block.rows, block.keys) == whole for block in problem.blocks)
    if not once:
        of_key.zero_()
        of_value.zero_()
    of_mask = None if mask_shape is None else query.new_zeros(mask_shape)
    most = max(block.score_count for block in problem.blocks)
    work = query.new_empty(2 * most)
    for block in problem.blocks:
        rows, keys = (block.batch, block.heads, block.rows), (block.batch, block.heads, block.keys)
        q, do = _flat(query, *rows), _flat(cotangent, *rows) * _flat(sums, *rows).reciprocal()
        along = (do * _flat(out, *rows)).sum(-1, keepdim=True).neg_()
        k, v = _flat(key, *keys), _flat(value, *keys)
        weights, of_scores = (_view(x, k.size(0), k.size(1), q.size(1)) for x in (work, work[most:]))
        shift = _flat(shifts, *rows).mT if shifts.numel() else None
        _product(k, q.mT, problem.scale, weights)
        if shift is not None or problem.added:
            problem.add_mask(weights, block, transposed=True)
        problem.exponentiate(weights, block, shift, transposed=True)
        of_scores.copy_(along.mT).baddbmm_(v, do.mT)
        _add_product(_flat(of_value, *keys), weights, do, fresh=once)
        of_scores.mul_(weights)
        _add_product(_flat(of_key, *keys), of_scores, q, problem.scale, fresh=once)
        _add_product(_flat(of_query, *rows), of_scores.mT, k, problem.scale, fresh=True)
        if of_mask is not None:
            place = _part(of_mask, *rows)[..., block.keys]
            by_head = of_scores.mT.unflatten(0, (block.batch.stop - block.batch.start, -1))
            place += by_head.sum_to_size(place.shape)
    return [of_query, of_key, of_value, of_mask]


def _product(left: Tensor, right: Tensor, factor: float, out: Tensor) -> None:
    """Assign factor · left · right."""
    if OVERWRITES:
        torch.baddbmm(out, left, right, beta=0, alpha=factor, out=out)
    else:
        torch.bmm(left, right, out=out).mul_(factor)


def _add_product(target: Tensor, left: Tensor, right: Tensor, factor: float = 1.0, fresh: bool = False) -> None:
    """Add factor · left · right, or, to what is fresh, assign it.

    A batch of products goes head by head, and slowly, into what is not contiguous.
    """
    if target.is_contiguous():
        if fresh:
            _product(left, right, factor, target)
        else:
            target.baddbmm_(left, right, alpha=factor)
        return
    # With a target of its own, for autocast would compute anything else in halves.
    product = torch.bmm(left, right, out=target.new_empty(target.shape))
    if fresh:
        torch.mul(product, factor, out=target)
    else:
        target.add_(product, alpha=factor)


def _view(scratch: Tensor, *sizes: int) -> Tensor:
    return scratch[: math.prod(sizes)].view(sizes)


def _empty_laid_out_as(x: Tensor, width: int) -> Tensor:
    """(B, H, length, width), sequence-major in memory where `x` is, so that heads join without a copy."""
    batch, heads, length = x.shape[:3]
    if x.stride(2) > x.stride(1):
        return x.new_empty(length, batch, heads, width).permute(1, 2, 0, 3)
    return x.new_empty(batch, heads, length, width)
