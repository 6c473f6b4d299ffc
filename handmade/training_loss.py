"""What a model that predicts the next token is trained by: shifted targets and the cross-entropy."""

import torch
from torch import Tensor

from . import checks
from .precision import widen

REDUCTIONS = ("mean", "sum", "none")


def log_softmax(input: Tensor, dim: int = -1) -> Tensor:
    r"""Logarithms of the softmax: :math:`x_j - m - \log\sum_k e^{x_k - m}` with :math:`m = \max_k x_k`.

    Args:
        input: any shape.
        dim: the dimension that is normalised.

    Returns:
        The shape and dtype of `input`.

    Counterpart: `torch.nn.functional.log_softmax`.
    """
    checks.floating("input", input)
    return _log_softmax(widen(input), dim).to(input.dtype)


def _log_softmax(x: Tensor, dim: int) -> Tensor:
    if x.size(dim) == 0:
        return x
    # The maximum only keeps the exponential in range; its value cancels, and so does its derivative.
    shifted = x - x.detach().amax(dim, keepdim=True)
    return shifted - torch.log(torch.exp(shifted).sum(dim, keepdim=True))


def cross_entropy(
    input: Tensor,
    target: Tensor,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Negative log-likelihood of the target classes: :math:`-(1-\epsilon)\log p_t - \tfrac{\epsilon}{C}\sum_c\log p_c`.

    Args:
        input: logits, (C,), (N, C) or (N, C, d₁, …).
        target: int64 classes, the shape of `input` without C.
        ignore_index: the target of a position that counts for nothing, whatever its logits.
        reduction: "mean" over the positions that count (NaN where none does), "sum", or "none".
        label_smoothing: ε in [0, 1].

    Returns:
        A scalar, or the shape of `target` for "none", in the dtype of `input`.

    Raises:
        TypeError: logits that are not floating, targets that are not int64.
        ValueError: shapes that do not fit, a class outside 0 … C − 1, an unknown reduction, ε outside [0, 1].

    Counterpart: `torch.nn.functional.cross_entropy` with class indices and without class weights.
    Source: Szegedy et al. 2016, "Rethinking the Inception Architecture", section 7, for the smoothing.
    """
    _check(input, target, ignore_index, reduction, label_smoothing)
    ignored = target == ignore_index
    scores = input if input.dim() == 1 else input.movedim(1, -1)
    # Ignored logits are replaced, not only left out of the sum: 0 times NaN would be NaN in the gradient.
    logs = _log_softmax(widen(scores).masked_fill(ignored.unsqueeze(-1), 0.0), -1)
    chosen = target.masked_fill(ignored, 0).unsqueeze(-1)
    losses = -logs.gather(-1, chosen).squeeze(-1)
    # Without smoothing the other classes are not read: a probability of 0 there is no harm.
    if label_smoothing > 0:
        losses = (1 - label_smoothing) * losses - label_smoothing * logs.mean(-1)
    losses = losses.masked_fill(ignored, 0.0)
    if reduction == "sum":
        losses = losses.sum()
    elif reduction == "mean":
        losses = losses.sum() / (~ignored).sum()
    return losses.to(input.dtype)


def shift_right(targets: Tensor, start: int) -> Tensor:
    """The decoder's inputs for `targets`: each target one place later, the start token first, the last left out.

    Args:
        targets: (B, m) ids, or (m,).
        start: the id that begins every sequence.

    Returns:
        The shape of `targets`.

    Raises:
        ValueError: no dimension, or no position; a negative start.
        TypeError: targets or a start that are no integers.

    Source: Vaswani et al. 2017, "Attention Is All You Need", figure 1, "outputs (shifted right)".
    """
    checks.tensor("targets", targets)
    checks.not_negative("start", start)
    if targets.is_floating_point() or targets.dtype == torch.bool:
        raise TypeError(f"targets: expected ids, integers, got {targets.dtype}")
    if targets.dim() == 0 or targets.size(-1) == 0:
        raise ValueError(f"targets: expected at least one position, got shape {tuple(targets.shape)}")
    first = torch.full_like(targets[..., :1], start)
    return torch.cat((first, targets[..., :-1]), dim=-1)


def _check(input: Tensor, target: Tensor, ignore_index: int, reduction: str, label_smoothing: float) -> None:
    checks.floating("input", input)
    checks.integer("ignore_index", ignore_index)
    checks.probability("label_smoothing", label_smoothing)
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction: expected one of {list(REDUCTIONS)}, got {reduction!r}")
    if input.dim() == 0:
        raise ValueError("input: expected at least one dimension, that of the classes, got none")
    axis = 0 if input.dim() == 1 else 1
    positions = (*input.shape[:axis], *input.shape[axis + 1 :])
    checks.shape("target", target, positions, meaning="that of input without its classes")
    checks.indices("target", target, input.size(axis), input.device, also=ignore_index, dtypes=(torch.int64,))
