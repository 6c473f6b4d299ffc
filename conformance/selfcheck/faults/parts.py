"""Faults of the parts around the Transformer: embeddings, position codes, RMSNorm, gates, experts, groups, the loss."""

import torch
from torch import Tensor

from handmade.embedding import TokenEmbedding

from .changes import Came, Right, given, having, instead, returning
from .fault import Fault
from .seams import (
    CROSS_ENTROPY,
    EMBED,
    GROUP_HEADS,
    LOG_SOFTMAX,
    REPEATED_GROUPS,
    RMS_NORM,
    ROTARY_ANGLES,
    ROTATE,
    ROUTE,
    SILU_OF_GATE,
    SINGLE_HEAD,
    SINUSOIDAL,
    SPREAD,
    SWIGLU,
    TOKEN_EMBEDDING,
    WITHIN_CAPACITY,
)


def _own_wavelengths(right: Right, came: Came) -> Tensor:
    table = right(**{**vars(came), "d_model": 2 * came.d_model})
    return torch.stack((table[:, ::4], table[:, 3::4]), -1).flatten(1)[:, : came.d_model]


def _in_halves(table: Tensor, came: Came) -> Tensor:
    return torch.cat((table[:, ::2], table[:, 1::2]), dim=1)


def _without_the_mean(right: Right, came: Came) -> Tensor:
    dims = tuple(range(-len(came.normalized_shape), 0))
    return right(**{**vars(came), "input": came.input - came.input.mean(dims, keepdim=True)})


def _eps_outside(right: Right, came: Came) -> Tensor:
    dims = tuple(range(-len(came.normalized_shape), 0))
    y = came.input / ((came.input**2).mean(dims, keepdim=True).sqrt() + (came.eps or 0.0))
    return y if came.weight is None else y * came.weight


def _late_tokens_first(right: Right, came: Came) -> Tensor:
    return right(**{**vars(came), "experts": came.experts.flip(1)}).flip(1)


def _interleaved_groups(right: Right, came: Came) -> Tensor:
    x = came.x
    return torch.cat([x] * (came.heads // x.size(-3)), dim=-3)


def _mean_over_all(right: Right, came: Came) -> Tensor:
    if came.reduction != "mean":
        return right(**vars(came))
    return right(**{**vars(came), "reduction": "sum"}) / max(came.target.numel(), 1)


def _bare_exponentials(right: Right, came: Came) -> Tensor:
    return came.x - torch.log(torch.exp(came.x).sum(came.dim, keepdim=True))


def _one_smoothing_less(came: Came) -> float:
    classes = came.input.size(0 if came.input.dim() == 1 else 1)
    return min(1.0, came.label_smoothing * classes / (classes - 1))


def _unscaled(right: Right, came: Came) -> Tensor:
    owner: TokenEmbedding = came.self
    return owner.emb(came.ids)


FAULTS = (
    Fault(
        "padding row trained",
        "The embedding's padding row receives the gradient of its tokens.",
        ("EMBED-03", "EMBED-01"),
        {EMBED: given(padding_idx=lambda came: None)},
        ("embedding",),
    ),
    Fault(
        "embedding without its scale",
        "Token embeddings are not multiplied by the root of their width.",
        ("EMBED-02",),
        {f"{TOKEN_EMBEDDING}.forward": instead(_unscaled)},
        ("token_embedding",),
    ),
    Fault(
        "positions counted from 1",
        "The first token gets the code of position 1.",
        ("POSITION-01", "POSITION-02"),
        {SINUSOIDAL: given(offset=lambda came: came.offset + 1)},
        ("positional_encoding",),
    ),
    Fault(
        "sine and cosine of different wavelengths",
        "Each feature has a wavelength of its own, where two share one.",
        ("POSITION-01", "POSITION-02"),
        {SINUSOIDAL: instead(_own_wavelengths)},
        ("positional_encoding",),
    ),
    Fault(
        "all sines before all cosines",
        "Sines and cosines fill a half of the features each, where they alternate.",
        ("POSITION-01", "POSITION-02"),
        {SINUSOIDAL: returning(_in_halves)},
        ("positional_encoding",),
    ),
    Fault(
        "rotation the other way",
        "Pairs of features turn by the negative angle, which no product of query and key shows.",
        ("POSITION-07",),
        {ROTATE: given(angles=lambda came: -came.angles)},
        ("rotary",),
    ),
    Fault(
        "pairing of the rotation ignored",
        "Neighbours are turned together where one of each half should be.",
        ("POSITION-07", "POSITION-10", "GROUP-01"),
        {ROTATE: given(interleaved=lambda came: True)},
        ("rotary", "grouped_query_attention"),
    ),
    Fault(
        "offset of the rotation ignored",
        "Every piece of a sequence is turned as if it were the first.",
        ("POSITION-07", "POSITION-06"),
        {ROTARY_ANGLES: given(offset=lambda came: 0)},
        ("rotary",),
    ),
    Fault(
        "angles in float32",
        "The angles of the rotation are rounded to float32.",
        ("POSITION-07",),
        {ROTARY_ANGLES: returning(lambda angles, came: angles.float())},
        ("rotary",),
    ),
    Fault(
        "RMSNorm subtracts the mean",
        "The mean is taken off first, as layer norm does.",
        ("RMS-01", "RMS-03"),
        {RMS_NORM: instead(_without_the_mean)},
        ("rms_norm",),
    ),
    Fault(
        "eps of RMSNorm outside the root",
        "eps is added to the root mean square.",
        ("RMS-01", "RMS-04"),
        {RMS_NORM: instead(_eps_outside)},
        ("rms_norm",),
    ),
    Fault(
        "scale of RMSNorm ignored",
        "The scale of an RMSNorm does nothing.",
        ("RMS-01",),
        {RMS_NORM: given(weight=lambda came: None)},
        ("rms_norm",),
    ),
    Fault(
        "gate and branch swapped",
        "The activation bends the branch w3 and w1 is what it opens.",
        ("GATE-01",),
        {f"{SWIGLU}.forward": having(w1=lambda layer: layer.w3, w3=lambda layer: layer.w1)},
        ("swiglu",),
    ),
    Fault(
        "gate of a logistic function alone",
        "The gate is σ(x), where it is x σ(x).",
        ("GATE-01", "GATE-03"),
        {SILU_OF_GATE: instead(lambda right, came: torch.sigmoid(came.input))},
        ("swiglu",),
    ),
    Fault(
        "gates not renormalised",
        "The weights of the chosen experts are their probabilities among all.",
        ("EXPERT-01", "EXPERT-02", "EXPERT-03"),
        {ROUTE: given(renormalize=lambda came: False)},
        ("mixture_of_experts",),
    ),
    Fault(
        "second choices ignored",
        "Each token goes to its most probable expert only.",
        ("EXPERT-01", "EXPERT-02"),
        {ROUTE: given(top_k=lambda came: 1)},
        ("mixture_of_experts",),
    ),
    Fault(
        "capacity ignored",
        "An expert takes every token that wants it.",
        ("EXPERT-04", "EXPERT-05"),
        {WITHIN_CAPACITY: given(capacity=lambda came: None)},
        ("mixture_of_experts",),
    ),
    Fault(
        "late tokens first",
        "Where an expert is full it is the earlier tokens that are dropped.",
        ("EXPERT-04", "EXPERT-05"),
        {WITHIN_CAPACITY: instead(_late_tokens_first)},
        ("mixture_of_experts",),
    ),
    Fault(
        "load-balancing loss without the number of experts",
        "The loss is Σ f P, which shrinks with the number of experts.",
        ("EXPERT-06", "EXPERT-07"),
        {SPREAD: returning(lambda loss, came: loss / came.routing.probabilities.size(-1))},
        ("mixture_of_experts",),
    ),
    Fault(
        "gradient of the load-balancing loss stopped",
        "The loss does not reach the router.",
        ("EXPERT-01",),
        {SPREAD: returning(lambda loss, came: loss.detach())},
        ("mixture_of_experts",),
    ),
    Fault(
        "groups of queries interleaved",
        "Query head h reads the keys of head h modulo the groups, where consecutive heads share one.",
        ("GROUP-01", "GROUP-02"),
        {REPEATED_GROUPS: instead(_interleaved_groups)},
        ("grouped_query_attention",),
    ),
    Fault(
        "groups cut out of every so manieth feature",
        "A head takes every so manieth feature, where it takes consecutive ones.",
        ("GROUP-01", "GROUP-02"),
        {GROUP_HEADS: instead(lambda right, came: came.x.unflatten(-1, (came.self.head_dim, -1)).permute(0, 3, 1, 2))},
        ("grouped_query_attention",),
    ),
    Fault(
        "queries and keys of the single head swapped",
        "W_q makes the keys and W_k the queries.",
        ("GROUP-05", "GROUP-06"),
        {f"{SINGLE_HEAD}.forward": having(W_q=lambda layer: layer.W_k, W_k=lambda layer: layer.W_q)},
        ("self_attention",),
    ),
    Fault(
        "smoothing spread over the other classes",
        "The target gets no part of the smoothing back.",
        ("LOSS-02",),
        {CROSS_ENTROPY: given(label_smoothing=_one_smoothing_less)},
        ("cross_entropy",),
    ),
    Fault(
        "mean over ignored positions as well",
        "The sum is divided by the number of all positions.",
        ("LOSS-04", "LOSS-01", "LOSS-02"),
        {CROSS_ENTROPY: instead(_mean_over_all)},
        ("cross_entropy",),
    ),
    Fault(
        "exponentials of the bare logits",
        "The loss exponentiates logits without taking their maximum off.",
        ("LOSS-03",),
        {LOG_SOFTMAX: instead(_bare_exponentials)},
        ("cross_entropy",),
    ),
)
