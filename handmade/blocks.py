"""Which queries work in one block, and which keys they need: what attention block by block goes through."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Scores in a block, for each thread: few enough to stay in its cache, enough for the products to be worth a call.
SCORES = 2**18
# Rows in a block: more of them make better products; under a mask an eighth of them all, to leave out what is hidden.
ROWS = 256
ROWS_UNDER_A_MASK = 128
PARTS_UNDER_A_MASK = 8
FEWEST_ROWS = 64
# Below so many scores a mask is not looked into: what could be left out costs less than finding it.
SMALL = 2**14
# No number of a mask below it: then nothing is hidden, and `exp` is as fast as without a mask.
MILD = -40.0


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


def plan(sizes: tuple[int, int, int, int], mask: Tensor | None, is_causal: bool) -> list[Block]:
    """The blocks of a problem: each query in one of them, no key that none of its queries sees.

    Args:
        sizes: batch, heads, queries, keys.
        mask: (B or 1, H or 1, L or 1, S); True = keep, or added to the scores; None for no mask.
        is_causal: query i sees keys 0 … i.
    """
    batch, heads, queries, keys = sizes
    threads, rows = torch.get_num_threads(), ROWS
    if is_causal or (mask is not None and mask.size(2) > 1):
        rows = min(ROWS_UNDER_A_MASK, max(FEWEST_ROWS, queries // PARTS_UNDER_A_MASK))
    # A batch of products is shared out by heads: each thread is to have one, in long sequences of twice the scores.
    rows = max(1, min(rows, queries, 2 * SCORES // keys))
    at_once = threads * max(1, SCORES // (rows * (math.ceil(keys / 2) if is_causal else keys)))
    items, together = max(1, at_once // heads), min(heads, at_once)
    parts = [slice(i, min(i + rows, queries)) for i in range(0, queries, rows)]
    spans = None
    if mask is not None and mask.size(1) == 1 and queries * keys > SMALL and not mild(mask):
        spans = _spans(mask, parts, keys)
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


def mild(mask: Tensor) -> bool:
    """Whether a mask of numbers hides nothing, and so little that no exponential underflows that counts."""
    return mask.dtype != torch.bool and float(mask.amin(-1).amin()) > MILD


def _spans(mask: Tensor, parts: list[slice], keys: int) -> list[list[tuple[int, int, int]]]:
    """What the parts of the rows see, for each item of the batch, or once for all of them.

    Returns:
        The first key that is seen, the end of those that are, the first of them to which the mask does something.
    """
    by_part = [mask[:, :, part] if mask.size(2) > 1 else mask for part in parts[: None if mask.size(2) > 1 else 1]]
    boolean = mask.dtype == torch.bool
    seen = torch.stack([(part if boolean else part != -math.inf).flatten(1, 2).any(1) for part in by_part], 1)
    touched = torch.stack([(~part if boolean else part != 0).flatten(1, 2).any(1) for part in by_part], 1)
    places = torch.arange(keys, device=mask.device)
    first = torch.where(seen, places, keys).amin(-1, keepdim=True)
    last = torch.where(seen, places + 1, 0).amax(-1)
    from_on = torch.where(touched & (places >= first), places, keys).amin(-1)
    found = torch.stack([first.squeeze(-1), last, from_on], -1).tolist()
    # A part that sees nothing is hidden everywhere, where another item's part in the same block sees something.
    whole = [[(f, t, m) if f < t else (t, t, 0) for f, t, m in item] for item in found]
    return [item * len(parts) if len(item) == 1 else item for item in whole]
