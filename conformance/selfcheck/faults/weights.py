"""Faults of the attention weights that are returned."""

from typing import Any

from torch import Tensor

from .changes import Came, Right, instead, returning
from .fault import Fault
from .seams import ATTENTION, MULTIHEAD

Returned = tuple[Tensor, Tensor | None]


def _summed(returned: Returned, came: Came) -> Returned:
    output, weights = returned
    averaged = weights is not None and came.average_attn_weights
    return output, weights * came.self.num_heads if averaged else weights


def _over_the_batch(right: Right, came: Came) -> Any:
    output, weights = right(**{**vars(came), "average_attn_weights": False})
    return output, weights.mean(0) if weights is not None and came.average_attn_weights else weights


def _before_dropout(right: Right, came: Came) -> Any:
    context, _ = right(**vars(came))
    _, weights = right(**{**vars(came), "dropout_p": 0.0})
    return context, weights


FAULTS = (
    Fault(
        "weights summed over the heads",
        "The returned weights are the sum of the heads' instead of their mean.",
        ("WEIGHT-01", "WEIGHT-06"),
        {f"{MULTIHEAD}.forward": returning(_summed)},
        ("multihead_attention",),
    ),
    Fault(
        "weights before dropout",
        "The returned weights are those before dropout.",
        ("DROPOUT-04", "DROPOUT-05"),
        {ATTENTION: instead(_before_dropout)},
        ("multihead_attention",),
    ),
    Fault(
        "weights averaged over the wrong axis",
        "The returned weights are the mean over the batch instead of the heads.",
        ("WEIGHT-01", "WEIGHT-06"),
        {f"{MULTIHEAD}.forward": instead(_over_the_batch)},
        ("multihead_attention",),
    ),
)
