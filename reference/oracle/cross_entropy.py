"""The cross-entropy loss."""

from __future__ import annotations

import numpy as np

from .tape import Array, Vjp

REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(
    logits: Array,
    *,
    target: Array,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> tuple[Array, Vjp]:
    """The negative log-likelihood of the target classes under the logits' softmax.

    Formula: `l = -(1 - e) log p[t] - (e / C) sum_c log p[c]`, `p = softmax(z)`, e the label
    smoothing; `dz = dl (p - (1 - e) onehot(t) - e / C)`. An ignored position has `l = 0` and
    `dz = 0`, whatever its logits; the mean divides by the number of the others.

    Args:
        logits: z, (C,), (N, C) or (N, C, d1, ...).
        target: integers, the shape of `logits` without the class axis.
        ignore_index: the target that marks an ignored position.
        label_smoothing: e, from 0 to 1.
        reduction: "mean", "sum" or "none".

    Returns:
        The loss, a scalar, or in the shape of `target` for "none", and its vjp. The mean over
        no position is NaN.

    Raises:
        ValueError: shape, class, smoothing or reduction does not fit.

    torch counterpart: torch.nn.functional.cross_entropy with class indices.
    Source: Szegedy et al., "Rethinking the Inception Architecture", section 7.
    """
    axis = 0 if logits.ndim == 1 else 1
    classes = logits.shape[axis]
    _check(logits.shape[:axis] + logits.shape[axis + 1 :], target, ignore_index, classes)
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction: expected one of {REDUCTIONS}, got {reduction!r}")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing: expected a number from 0 to 1, got {label_smoothing}")

    counted = target != ignore_index
    chosen = np.where(counted, target, 0)[..., None]
    scores = np.moveaxis(logits, axis, -1)
    shifted = scores - scores.max(axis=-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))

    losses = -np.take_along_axis(logs, chosen, axis=-1)[..., 0]
    # Without smoothing the other classes are not read: one of log-probability -inf is no harm.
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * logs.mean(axis=-1)
    losses = np.where(counted, losses, 0)
    if reduction == "none":
        value = losses
    elif reduction == "sum":
        value = np.asarray(losses.sum())
    else:
        value = np.asarray(losses.sum() / counted.sum())

    def vjp(cotangent: Array) -> tuple[Array]:
        share = cotangent / counted.sum() if reduction == "mean" else cotangent
        hit = np.arange(classes) == chosen
        slope = np.exp(logs) - (1 - label_smoothing) * hit - label_smoothing / classes
        of_scores = np.where(counted[..., None], np.asarray(share)[..., None] * slope, 0)
        return (np.moveaxis(of_scores, -1, axis),)

    return value, vjp


def _check(expected: tuple[int, ...], target: Array, ignore_index: int, classes: int) -> None:
    if target.shape != expected:
        raise ValueError(f"argument 'target': expected shape {expected}, got {target.shape}")
    wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if wrong.any():
        raise ValueError(f"argument 'target': expected classes from 0 to {classes - 1}, got {target[wrong].flat[0]}")
