"""Masks as the modules take them: attention mask and key padding, merged once per call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .inputs import check_shape
from .shapes import add, pad_columns, reshape
from .tape import Array, Node, Tape


@dataclass(frozen=True)
class Mask:
    """What the scores (N, H, L, S) meet before the softmax.

    Attributes:
        additive: added to the scores, broadcastable to them; `None` = nothing.
        hidden: bool, broadcastable to the scores, True = hidden; `None` = all visible.
    """

    additive: Node | None = None
    hidden: Array | None = None


def single_mask(tape: Tape, given: Node | Array | None, shape: tuple[int, ...]) -> Mask:
    """Read one mask in the shape in which it broadcasts to the scores.

    Formula: bool: `hidden = given`; float: `additive = given`, `hidden = (given = -inf)`.

    Args:
        tape: where a float mask is recorded.
        given: a float mask's node, a bool mask (True = hidden), or `None`.
        shape: four axes with as many entries as the mask has.

    Returns:
        The mask.
    """
    if given is None:
        return Mask()
    if not isinstance(given, Node):
        return Mask(None, given.reshape(shape))
    additive = tape.apply(reshape, given, shape=shape)
    return Mask(additive, _hidden_by(additive.value))


def merge_masks(
    tape: Tape,
    attention: Node | Array | None,
    padding: Node | Array | None,
    scores: tuple[int, int, int, int],
    names: tuple[str, str],
    *,
    batched: bool,
) -> Mask:
    """Merge an attention mask with a key padding mask.

    Formula: a key is hidden where either mask hides it; the float masks add up.

    Args:
        tape: where float masks are recorded.
        attention: (L, S) or (N * H, L, S), batch-major; bool True = hidden, float = added.
        padding: (N, S), or (S,) for unbatched input; bool True = hidden, float = added.
        scores: N, H, L, S.
        names: the arguments' names, for the errors.
        batched: whether the input has a batch axis.

    Returns:
        The merged mask, broadcastable to (N, H, L, S).

    Raises:
        ValueError: a mask has another shape.

    torch counterpart: the masks of torch.nn.MultiheadAttention.
    """
    batch, heads, queries, keys = scores
    shape: tuple[int, ...] = (1, 1, queries, keys)
    if attention is not None:
        found = _shape_of(attention)
        stacked = (batch * heads, queries, keys)
        check_shape(f"argument {names[0]!r}", found, (queries, keys), stacked)
        shape = scores if len(found) == 3 else shape
    by_attention = single_mask(tape, attention, shape)
    if padding is not None:
        expected = (batch, keys) if batched else (keys,)
        check_shape(f"argument {names[1]!r}", _shape_of(padding), expected)
    by_padding = single_mask(tape, padding, (batch, 1, 1, keys))

    hidden = _either(by_attention.hidden, by_padding.hidden)
    additive = by_attention.additive or by_padding.additive
    if by_attention.additive is not None and by_padding.additive is not None:
        additive = tape.apply(add, by_attention.additive, by_padding.additive)
        # Two finite masks may overflow to -inf together, and -inf is hidden.
        hidden = _either(hidden, _hidden_by(additive.value))
    return Mask(additive, hidden)


def with_visible_columns(tape: Tape, mask: Mask, columns: int) -> Mask:
    """Append keys that every query sees: `bias_k` and the zero key are never masked.

    Args:
        tape: where a float mask is recorded.
        mask: a mask over S keys.
        columns: how many keys are appended.

    Returns:
        The mask over S + columns keys.
    """
    additive, hidden = mask.additive, mask.hidden
    if additive is not None:
        additive = tape.apply(pad_columns, additive, columns=columns)
    if hidden is not None:
        visible = np.zeros((*hidden.shape[:-1], columns), dtype=bool)
        hidden = np.concatenate([hidden, visible], axis=-1)
    return Mask(additive, hidden)


def _shape_of(mask: Node | Array) -> tuple[int, ...]:
    return mask.value.shape if isinstance(mask, Node) else mask.shape


def _hidden_by(additive: Array) -> Array | None:
    hidden = np.isneginf(additive)
    return hidden if hidden.any() else None


def _either(left: Array | None, right: Array | None) -> Array | None:
    if left is None or right is None:
        return right if left is None else left
    return np.asarray(left | right)
