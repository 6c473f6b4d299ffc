"""Faults of layer norm and of residual connections."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from handmade.normalization import LayerNorm, layer_norm

from .changes import Came, Right, built, given, having, instead, returning
from .fault import Change, Fault
from .seams import (
    DECODER,
    DECODER_LAYER,
    ENCODER,
    LAYER_NORM,
    LAYERED,
    in_both_layers,
    on_both_layers,
    on_both_stacks,
)

NORMED = ("layer_norm", *LAYERED)


def _divided_by(spread: Callable[[Tensor, tuple[int, ...], float], Tensor]) -> dict[str, Change]:
    """Layer norm with another measure of spread below the fraction."""

    def wrong(right: Callable[..., Tensor], came: Came) -> Tensor:
        dims = tuple(range(-len(came.normalized_shape), 0))
        y = (came.input - came.input.mean(dims, keepdim=True)) / spread(came.input, dims, came.eps)
        y = y if came.weight is None else y * came.weight
        return y if came.bias is None else y + came.bias

    return {LAYER_NORM: instead(wrong)}


def _from_the_normalised(right: Right, came: Came) -> Any:
    if not came.norm_first:
        return right(**vars(came))
    normalised = came.norm(came.x)
    return normalised + came.sublayer(normalised)


def _without_residual(right: Right, came: Came) -> Any:
    if came.sublayer.__name__ != "transform":
        return right(**vars(came))
    return came.sublayer(came.norm(came.x)) if came.norm_first else came.norm(came.sublayer(came.x))


def _other_eps(layer: Any) -> None:
    layer.norm2.eps = 1e-6


def _none_in_pre_norm(stack: Any) -> LayerNorm | None:
    return None if stack.layers[0].norm_first else stack.norm


def _normalised_again(output: Tensor, came: Came) -> Tensor:
    return layer_norm(output, output.shape[-1:]) if came.self.norm is None else output


FAULTS = (
    Fault(
        "pre-norm as post-norm",
        "norm_first=True is not heeded.",
        ("NORM-03", "VALUE-03", "VALUE-04"),
        in_both_layers("residual", given(norm_first=lambda came: False)),
        LAYERED,
    ),
    Fault(
        "post-norm as pre-norm",
        "norm_first=False is not heeded.",
        ("NORM-02", "VALUE-03", "VALUE-04"),
        in_both_layers("residual", given(norm_first=lambda came: True)),
        LAYERED,
    ),
    Fault(
        "residual from the normalised input",
        "Pre-Norm adds the branch to the normalised input.",
        ("NORM-03",),
        in_both_layers("residual", instead(_from_the_normalised)),
        LAYERED,
    ),
    Fault(
        "residual of the feed-forward missing",
        "The feed-forward network's output is not added to its input.",
        ("VALUE-03", "VALUE-04", "NORM-02", "NORM-03"),
        in_both_layers("residual", instead(_without_residual)),
        LAYERED,
    ),
    Fault(
        "norm2 and norm3 of the decoder swapped",
        "The norms of cross-attention and feed-forward network take each other's place.",
        ("VALUE-04", "NORM-02", "NORM-03"),
        {f"{DECODER_LAYER}.forward": having(norm2=lambda layer: layer.norm3, norm3=lambda layer: layer.norm2)},
        ("decoder_layer", "decoder", "transformer"),
    ),
    Fault(
        "norm1 and norm2 swapped",
        "The norms of the first two branches take each other's place.",
        ("VALUE-03", "VALUE-04", "NORM-02", "NORM-03"),
        on_both_layers("forward", having(norm1=lambda layer: layer.norm2, norm2=lambda layer: layer.norm1)),
        LAYERED,
    ),
    Fault(
        "eps 1e-6 instead of 1e-5 in one norm only",
        "The second norm of each layer has an eps of its own.",
        ("NORM-04", "NORM-02", "NORM-03", "NUM-06"),
        on_both_layers("__init__", built(_other_eps)),
        LAYERED,
    ),
    Fault(
        "unbiased variance",
        "The variance is divided by d − 1.",
        ("NORM-01", "NORM-07", "NUM-06"),
        _divided_by(lambda x, dims, eps: (x.var(dims, keepdim=True, unbiased=True) + eps).sqrt()),
        NORMED,
    ),
    Fault(
        "eps added to the standard deviation",
        "eps stands outside the root.",
        ("NORM-04", "NORM-01", "NORM-07", "NUM-06"),
        _divided_by(lambda x, dims, eps: x.var(dims, keepdim=True, unbiased=False).sqrt() + eps),
        NORMED,
    ),
    Fault(
        "variance in one pass",
        "The variance is E[x²] − E[x]², which cancels where the mean is large beside the spread.",
        ("NUM-06",),
        _divided_by(
            lambda x, dims, eps: ((x * x).mean(dims, keepdim=True) - x.mean(dims, keepdim=True) ** 2 + eps).sqrt()
        ),
        NORMED,
    ),
    Fault(
        "affine ignored",
        "Scale and shift of a norm do nothing.",
        ("NORM-01", "GRAD-02"),
        {LAYER_NORM: given(weight=lambda came: None, bias=lambda came: None)},
        NORMED,
    ),
    Fault(
        "bias of the norm ignored",
        "The shift of a norm does nothing.",
        ("NORM-01", "GRAD-02"),
        {LAYER_NORM: given(bias=lambda came: None)},
        NORMED,
    ),
    Fault(
        "final norm of the encoder missing",
        "The encoder returns what its last layer returned.",
        ("NORM-05", "VALUE-05", "VALUE-06", "VALUE-14"),
        {f"{ENCODER}.forward": having(norm=lambda stack: None)},
        ("encoder", "transformer"),
    ),
    Fault(
        "final norm of the decoder missing",
        "The decoder returns what its last layer returned.",
        ("NORM-05", "VALUE-05", "VALUE-06", "VALUE-14"),
        {f"{DECODER}.forward": having(norm=lambda stack: None)},
        ("decoder", "transformer"),
    ),
    Fault(
        "final norm missing in pre-norm only",
        "A stack of Pre-Norm layers is left without its last norm.",
        ("NORM-05", "VALUE-14", "VALUE-06"),
        on_both_stacks("forward", having(norm=_none_in_pre_norm)),
        ("encoder", "decoder", "transformer"),
    ),
    Fault(
        "superfluous final norm",
        "A stack that was given no norm normalises all the same.",
        ("NORM-06",),
        on_both_stacks("forward", returning(_normalised_again)),
        ("encoder", "decoder"),
    ),
)
