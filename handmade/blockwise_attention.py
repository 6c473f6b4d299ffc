r"""Attention block by block: exact softmax, a backward pass by hand, memory that grows with the length.

The scores of a block of queries, against all keys that any of them sees, fit in a processor's cache and are never kept.
Of each row forward keeps what was subtracted from its scores, :math:`m`, and the sum of their exponentials, :math:`z`,
from which backward makes the weights again.

Forward, for a block: :math:`S = s\,QK^T + M`, :math:`P = e^{S - m}`, :math:`z = P1`, :math:`O = PV / z`.
Backward, with keys as rows, :math:`G = dO / z`: :math:`P^T = e^{s\,KQ^T + M^T - m}`, :math:`dV = P^T G`,
:math:`dS^T = P^T \odot (V\,G^T - \delta)` with :math:`\delta_i = \sum_d G_{id} O_{id}`, :math:`dQ = s\,dS\,K`,
:math:`dK = s\,dS^T Q`, :math:`dM = dS`.

What pays, measured on two threads of torch 2.13: exponentials in place, of a block in the cache; `exp`, which there is
faster than `exp2`; no maximum where a bound on the scores is cheap, two passes of five; dividing the output instead of
the scores, and in backward the cotangent of a block; leaving out the keys that a mask hides; and products into what is
contiguous, since a batch of them goes head by head into anything else.

Source: Dao et al. 2022, "FlashAttention", algorithms 1 and 4, without the rescaling: a block has all its keys at once.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Scores in a block: few enough to stay in the cache, enough for the products to be worth a call.
BLOCK_SCORES = 2**20
# Rows in a block: more of them make better products; under a mask an eighth of them all, to leave out what is hidden.
ROWS = 256
ROWS_UNDER_A_MASK = 128
PARTS_UNDER_A_MASK = 8
FEWEST_ROWS = 32
# Below so many scores a mask is not looked into: what could be left out costs less than finding it.
SMALL = 2**14
# Scores up to which the exponentials of all keys can be summed without subtracting a maximum.
BOUND = 40.0


@dataclass(frozen=True)
class Block:
    """Rows of some heads, and the keys that they see.

    Attributes:
        batch, heads, rows: which queries.
        keys: from the first key that any of them sees to the last.
        masked: those of the keys, from one on to the last, to which a mask must be applied.
    """

    batch: slice
    heads: slice
    rows: slice
    keys: slice
    masked: slice

    @property
    def row_count(self) -> int:
        """Rows of all its heads together."""
        parts = (self.batch, self.heads, self.rows)
        return math.prod(part.stop - part.start for part in parts)

    @property
    def score_count(self) -> int:
        """Scores of all its rows together."""
        return self.row_count * (self.keys.stop - self.keys.start)


@dataclass(frozen=True)
class Problem:
    """What both directions share: the tensors, the mask, and the plan of the blocks.

    Attributes:
        query: (B, H, L, E).
        key: (B, H, S, E).
        value: (B, H, S, Ev).
        mask: (B or 1, H or 1, L or 1, S), added to the scores; None for no mask. Of a causal one, the triangle that every
            block on the diagonal needs.
        is_causal: query i sees keys 0 … i.
        absorbing: the mask holds finite numbers, in which a score may be lost: then it must be lost in backward, too.
        scale: s.
        blocks: which cover every query once.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    is_causal: bool
    absorbing: bool
    scale: float
    blocks: list[Block]

    def apply_mask(self, scores: Tensor, block: Block, transposed: bool = False) -> None:
        """Add the mask to a block's scores, (heads, rows, keys) or transposed, in place."""
        if block.masked.start == block.masked.stop:
            return
        assert self.mask is not None
        start, count = block.masked.start - block.keys.start, block.masked.stop - block.masked.start
        if self.is_causal:
            added = self.mask[0, 0, : block.rows.stop - block.rows.start, :count]
            scores.narrow(1 if transposed else 2, start, count).add_(added.mT if transposed else added)
            return
        added = _part(self.mask, block.batch, block.heads, block.rows)[..., block.masked]
        by_head = scores.unflatten(0, (block.batch.stop - block.batch.start, -1))
        by_head.narrow(2 if transposed else 3, start, count).add_(added.mT if transposed else added)


def _part(x: Tensor, batch: slice, heads: slice, rows: slice) -> Tensor:
    """Some of a tensor's first three dimensions, where one of size 1 serves all."""
    for dim, part in enumerate((batch, heads, rows)):
        if x.size(dim) > 1:
            x = x.narrow(dim, part.start, part.stop - part.start)
    return x


def _flat(x: Tensor, batch: slice, heads: slice, rows: slice) -> Tensor:
    """A block's part of a (B, H, length, width) tensor as (heads, rows, width)."""
    return x[batch, heads, rows].flatten(0, 1)


def plan(sizes: tuple[int, int, int, int], mask: Tensor | None, is_causal: bool) -> list[Block]:
    """The blocks of a problem: each query in one of them, no key that none of its queries sees.

    Args:
        sizes: batch, heads, queries, keys.
        mask: (B or 1, H or 1, L or 1, S), added to the scores; None for no mask.
        is_causal: query i sees keys 0 … i.
    """
    batch, heads, queries, keys = sizes
    rows = ROWS
    if is_causal or (mask is not None and mask.size(2) > 1):
        rows = min(ROWS_UNDER_A_MASK, max(FEWEST_ROWS, queries // PARTS_UNDER_A_MASK))
    rows = max(1, min(rows, queries, BLOCK_SCORES // keys))
    at_once = max(1, BLOCK_SCORES // (rows * keys))
    items, together = max(1, at_once // heads), min(heads, at_once)
    parts = [slice(i, min(i + rows, queries)) for i in range(0, queries, rows)]
    spans = _spans(mask, parts, keys) if mask is not None and queries * keys > SMALL else None
    blocks = []
    for b in range(0, batch, items):
        group = slice(b, min(b + items, batch))
        for number, part in enumerate(parts):
            first, last, from_on = 0, keys, keys if mask is None else 0
            if is_causal:
                last, from_on = min(part.stop, keys), min(part.start, keys)
            elif spans is not None:
                found = [spans[item if len(spans) > 1 else 0][number] for item in range(group.start, group.stop)]
                first, last = min(f for f, _, _ in found), max(t for _, t, _ in found)
                # What one item does not see before its first key, the mask must hide where another begins earlier.
                from_on = first if any(f != first for f, _, _ in found) else min(m for _, _, m in found)
            seen, masked = slice(first, last), slice(min(max(from_on, first), last), last)
            for h in range(0, heads, together):
                blocks.append(Block(group, slice(h, min(h + together, heads)), part, seen, masked))
    return blocks


def _spans(mask: Tensor, parts: list[slice], keys: int) -> list[list[tuple[int, int, int]]]:
    """What the parts of the rows see, for each item of the batch, or once for all of them.

    Returns:
        The first key that is seen, the end of those that are, the first of them to which the mask does something.
    """
    by_part = [mask[:, :, part] if mask.size(2) > 1 else mask for part in parts[: None if mask.size(2) > 1 else 1]]
    seen = torch.stack([(part != -math.inf).flatten(1, 2).any(1) for part in by_part], 1)
    touched = torch.stack([(part != 0).flatten(1, 2).any(1) for part in by_part], 1)
    places = torch.arange(keys, device=mask.device)
    first = torch.where(seen, places, keys).amin(-1, keepdim=True)
    last = torch.where(seen, places + 1, 0).amax(-1)
    from_on = torch.where(touched & (places >= first), places, keys).amin(-1)
    found = torch.stack([first.squeeze(-1), last, from_on], -1).tolist()
    whole = [[(min(f, t), t, m) for f, t, m in item] for item in found]
    return [item * len(parts) if len(item) == 1 else item for item in whole]


def prepare(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Problem:
    """The problem of these tensors, all with four dimensions; see `Problem`."""
    added = None
    if mask is not None and mask.dtype == torch.bool:
        added = torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill_(~mask, -math.inf)
    elif mask is not None:
        added = mask
    blocks = plan((query.size(0), query.size(1), query.size(2), key.size(2)), added, is_causal)
    if is_causal:
        most = max(block.rows.stop - block.rows.start for block in blocks)
        added = query.new_full((most, most), -math.inf).triu(1)[None, None]
    absorbing = mask is not None and mask.dtype != torch.bool
    return Problem(query, key, value, added, is_causal, absorbing, scale, blocks)


def forward(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, and what backward needs of each row.

    Returns:
        The outputs (B, H, L, Ev); what was subtracted from the scores, and the sum of their exponentials,
        both (B, H, L, 1). A row that sees no key has output 0 and sum 1.
    """
    query, key, value = problem.query, problem.key, problem.value
    out = _empty_laid_out_as(query, value.size(-1))
    shifts, sums = query.new_zeros((*query.shape[:3], 1)), query.new_empty((*query.shape[:3], 1))
    shifted, dead_rows = not bounded(problem), problem.mask is not None and not problem.is_causal
    scratch = query.new_empty(max(block.score_count for block in problem.blocks))
    products = query.new_empty(max(block.row_count for block in problem.blocks) * value.size(-1))
    for block in problem.blocks:
        rows, keys = (block.batch, block.heads, block.rows), (block.batch, block.heads, block.keys)
        q, k, v = _flat(query, *rows), _flat(key, *keys), _flat(value, *keys)
        scores = _view(scratch, q.size(0), q.size(1), k.size(1))
        torch.baddbmm(scores, q, k.mT, beta=0, alpha=problem.scale, out=scores)
        problem.apply_mask(scores, block)
        if shifted and k.size(1) > 0:
            shift = scores.amax(-1, keepdim=True)
            if dead_rows:
                shift.masked_fill_(shift == -math.inf, 0.0)
            scores.sub_(shift)
            _flat(shifts, *rows).copy_(shift)
        total = scores.exp_().sum(-1, keepdim=True)
        if dead_rows:
            total.masked_fill_(total == 0, 1.0)
        _flat(sums, *rows).copy_(total)
        part = _flat(out, *rows)
        product = torch.bmm(scores, v, out=_view(products, *part.shape))
        torch.div(product, total, out=part)
    return out, shifts, sums


def backward(
    problem: Problem, out: Tensor, shifts: Tensor, sums: Tensor, cotangent: Tensor, mask_shape: torch.Size | None
) -> list[Tensor | None]:
    """Gradients of query, key, value and, where its shape is given, of the mask; the other arguments as in `forward`.

    Weights are exponentials over sums. Here the sums divide the cotangent instead, which has fewer elements.
    """
    query, key, value = problem.query, problem.key, problem.value
    of_query, of_key, of_value = (_empty_laid_out_as(x, x.size(-1)) for x in (query, key, value))
    for made in (of_query, of_key, of_value):
        made.zero_()
    of_mask = None if mask_shape is None else query.new_zeros(mask_shape)
    most = max(block.score_count for block in problem.blocks)
    scratch = query.new_empty(most), query.new_empty(most)
    for block in problem.blocks:
        rows, keys = (block.batch, block.heads, block.rows), (block.batch, block.heads, block.keys)
        q, do = _flat(query, *rows), _flat(cotangent, *rows) / _flat(sums, *rows)
        along, shift = (do * _flat(out, *rows)).sum(-1, keepdim=True).neg_(), -_flat(shifts, *rows)
        k, v = _flat(key, *keys), _flat(value, *keys)
        weights, of_scores = (_view(x, k.size(0), k.size(1), q.size(1)) for x in scratch)
        if problem.absorbing:
            torch.baddbmm(weights, k, q.mT, beta=0, alpha=problem.scale, out=weights)
            problem.apply_mask(weights, block, transposed=True)
            weights.add_(shift.mT)
        else:
            weights.copy_(shift.mT).baddbmm_(k, q.mT, alpha=problem.scale)
            problem.apply_mask(weights, block, transposed=True)
        weights.exp_()
        of_scores.copy_(along.mT).baddbmm_(v, do.mT)
        _add_product(_flat(of_value, *keys), weights, do)
        of_scores.mul_(weights)
        _add_product(_flat(of_key, *keys), of_scores, q, problem.scale)
        _add_product(_flat(of_query, *rows), of_scores.mT, k, problem.scale)
        if of_mask is not None:
            place = _part(of_mask, *rows)[..., block.keys]
            by_head = of_scores.mT.unflatten(0, (block.batch.stop - block.batch.start, -1))
            place += by_head.sum_to_size(place.shape)
    return [of_query, of_key, of_value, of_mask]


def _add_product(target: Tensor, left: Tensor, right: Tensor, factor: float = 1.0) -> None:
    """Add factor · left · right. A batch of products goes head by head, and slowly, into what is not contiguous."""
    if target.is_contiguous():
        target.baddbmm_(left, right, alpha=factor)
    else:
        target.add_(torch.bmm(left, right), alpha=factor)


def _view(scratch: Tensor, *sizes: int) -> Tensor:
    return scratch[: math.prod(sizes)].view(sizes)


def _empty_laid_out_as(x: Tensor, width: int) -> Tensor:
    """(B, H, length, width), sequence-major in memory where `x` is, so that heads join without a copy."""
    batch, heads, length = x.shape[:3]
    if x.stride(2) > x.stride(1):
        return x.new_empty(length, batch, heads, width).permute(1, 2, 0, 3)
    return x.new_empty(batch, heads, length, width)


def bounded(problem: Problem) -> bool:
    """Whether the exponentials of all scores can be summed as they are, since |q·k| ≤ ‖q‖ ‖k‖.

    Elsewhere than on a CPU to ask would be to wait, and for short sequences it would cost more than the maximum.
    """
    queries, keys, features = problem.query.size(2), problem.key.size(2), problem.query.size(3)
    if problem.query.device.type != "cpu" or queries * keys < 2 * (queries + keys) * features:
        return False
    query, key = (float(x.norm(dim=-1).amax()) for x in (problem.query, problem.key))
    mask = problem.mask if problem.absorbing else None
    added = 0.0 if mask is None else float(mask.masked_fill(mask == -math.inf, 0.0).abs().amax())
    return abs(problem.scale) * query * key + added < BOUND
