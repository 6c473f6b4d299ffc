"""The normalisation of scores into weights."""

import torch
from torch import Tensor


def softmax(scores: Tensor) -> Tensor:
    r"""Normalise the last dimension: :math:`w_j = e^{s_j - m} / \sum_k e^{s_k - m}` with :math:`m = \max_k s_k`.

    A dead row, whose scores are all −∞, has no distribution: it gets weights 0 and passes gradient 0.

    Args:
        scores: (..., keys), −∞ where a key is hidden.

    Returns:
        (..., keys); every row sums to 1, a dead row to 0.

    Counterpart: `torch.softmax`, which gives NaN for a dead row.
    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
    """
    if scores.size(-1) == 0:
        return scores
    # The maximum only keeps the exponential in range; its value cancels, and so does its derivative.
    maximum = scores.detach().amax(-1, keepdim=True)
    maximum = maximum.masked_fill(maximum == -torch.inf, 0.0)
    exponentials = torch.exp(scores - maximum)
    total = exponentials.sum(-1, keepdim=True)
    return exponentials / total.masked_fill(total == 0, 1.0)
