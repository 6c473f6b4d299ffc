"""Primitives that move, repeat, join or add entries, and the sum that undoes a broadcast."""

from __future__ import annotations

import numpy as np

from .tape import Array, Vjp


def unbroadcast(cotangent: Array, shape: tuple[int, ...]) -> Array:
    """Sum a cotangent over the axes along which an array of `shape` was broadcast.

    Formula: if `y[i, j] = x[j]` then `dx[j] = sum_i dy[i, j]`.

    Args:
        cotangent: the cotangent of the broadcast array.
        shape: the shape before the broadcast.

    Returns:
        The cotangent of the array before the broadcast, in `shape`.
    """
    if cotangent.shape == shape:
        return cotangent
    leading = cotangent.ndim - len(shape)
    stretched = tuple(
        leading + axis for axis, size in enumerate(shape) if size == 1 and cotangent.shape[leading + axis] != 1
    )
    summed = cotangent.sum(axis=tuple(range(leading)) + stretched, keepdims=True)
    return np.reshape(summed, shape)


def add(left: Array, right: Array) -> tuple[Array, Vjp]:
    """`left + right` with broadcasting (torch.add)."""

    def vjp(cotangent: Array) -> tuple[Array, Array]:
        return unbroadcast(cotangent, left.shape), unbroadcast(cotangent, right.shape)

    return left + right, vjp


def multiply(x: Array, *, factor: float) -> tuple[Array, Vjp]:
    """`factor * x` for a constant factor (torch.mul)."""
    return factor * x, lambda cotangent: (factor * cotangent,)


def product(left: Array, right: Array) -> tuple[Array, Vjp]:
    """`left * right`, entry by entry, in one shape (torch.mul)."""
    return left * right, lambda cotangent: (cotangent * right, cotangent * left)


def reshape(x: Array, *, shape: tuple[int, ...]) -> tuple[Array, Vjp]:
    """The same entries in row-major order in another shape (torch.reshape)."""
    return x.reshape(shape), lambda cotangent: (cotangent.reshape(x.shape),)


def swap_axes(x: Array, *, first: int, second: int) -> tuple[Array, Vjp]:
    """Exchange two axes (torch.transpose)."""
    return np.swapaxes(x, first, second), lambda cotangent: (np.swapaxes(cotangent, first, second),)


def rows(x: Array, *, start: int, stop: int) -> tuple[Array, Vjp]:
    """The rows `start <= i < stop` of the first axis (torch.narrow)."""

    def vjp(cotangent: Array) -> tuple[Array]:
        whole = np.zeros_like(x)
        whole[start:stop] = cotangent
        return (whole,)

    return x[start:stop], vjp


def append_row(x: Array, row: Array | None) -> tuple[Array, Vjp]:
    """Append one position to `x` (N, S, E), the same `row` (1, 1, E) in every batch entry.

    `None` appends zeros (torch.cat along the sequence).
    """
    last = np.zeros((1, 1, x.shape[-1]), x.dtype) if row is None else row
    value = np.concatenate([x, np.broadcast_to(last, (x.shape[0], 1, x.shape[-1]))], axis=1)

    def vjp(cotangent: Array) -> tuple[Array, Array | None]:
        of_row = None if row is None else cotangent[:, -1:].sum(axis=0, keepdims=True)
        return cotangent[:, :-1], of_row

    return value, vjp


def pad_columns(x: Array, *, columns: int) -> tuple[Array, Vjp]:
    """Append zero columns on the last axis (torch.nn.functional.pad)."""
    zeros = np.zeros((*x.shape[:-1], columns), x.dtype)
    return np.concatenate([x, zeros], axis=-1), lambda cotangent: (cotangent[..., : x.shape[-1]],)


def split_heads(x: Array, *, heads: int) -> tuple[Array, Vjp]:
    """(N, L, H*D) -> (N, H, L, D): each head holds D contiguous features."""
    batch, length, width = x.shape
    split = (batch, length, heads, width // heads)
    return (
        x.reshape(split).swapaxes(1, 2),
        lambda cotangent: (cotangent.swapaxes(1, 2).reshape(x.shape),),
    )


def merge_heads(x: Array) -> tuple[Array, Vjp]:
    """(N, H, L, D) -> (N, L, H*D): the inverse of `split_heads`."""
    batch, heads, length, width = x.shape
    split = (batch, length, heads, width)
    return (
        x.swapaxes(1, 2).reshape(batch, length, heads * width),
        lambda cotangent: (cotangent.reshape(split).swapaxes(1, 2),),
    )


def repeat_heads(x: Array, *, times: int) -> tuple[Array, Vjp]:
    """Repeat every head of (..., H, S, D) `times` times in a row (torch.repeat_interleave)."""

    def vjp(cotangent: Array) -> tuple[Array]:
        grouped = (*x.shape[:-2], times, *x.shape[-2:])
        return (cotangent.reshape(grouped).sum(axis=-3),)

    return np.repeat(x, times, axis=-3), vjp


def mean_over(x: Array, *, axis: int) -> tuple[Array, Vjp]:
    """The mean over one axis (torch.mean)."""

    def vjp(cotangent: Array) -> tuple[Array]:
        share = np.expand_dims(cotangent, axis) / x.shape[axis]
        return (np.broadcast_to(share, x.shape),)

    return x.mean(axis=axis), vjp
