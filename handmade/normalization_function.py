"""Layer normalisation as a function with a backward pass by hand: half the passes over memory that autograd's takes.

The backward pass is made of operations that can be differentiated again, from what the gradients depend on and nothing
kept beside it; so derivatives of derivatives need nothing more. Forward mode and maps over batches go through the plain
operations.
"""

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


def normalize(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    r"""Centre and scale: :math:`\hat x = (x - \mu)\,r` with :math:`r = 1/\sqrt{\sigma^2 + \epsilon}`.

    Args:
        x: any shape.
        dims: over which mean and biased variance are taken.
        eps: ε.

    Returns:
        x̂, of the shape of x, and r, of size 1 in `dims`.
    """
    centered = x - x.mean(dims, keepdim=True)
    factor = torch.rsqrt((centered * centered).mean(dims, keepdim=True) + eps)
    return centered * factor, factor


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Scale and shift, by what there is."""
    if weight is not None and bias is not None:
        return torch.addcmul(bias, x, weight)
    if weight is not None:
        return x * weight
    return x if bias is None else x + bias


class LayerNormalization(Function):
    r"""`affine` of `normalize`.

    Backward, with :math:`g = \gamma \odot dy` and means over `dims`:
    :math:`dx = r\,(g - \overline{g} - \hat x\,\overline{g \odot \hat x})`, :math:`d\gamma = \sum dy \odot \hat x`,
    :math:`d\beta = \sum dy`.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, dims: tuple[int, ...], eps: float) -> Tensor:
        """Two pieces of memory of the size of x: a page that is new to a process costs more than a pass over it."""
        centered = x - x.mean(dims, keepdim=True)
        out = centered * centered
        factor = out.mean(dims, keepdim=True).add_(eps).rsqrt_()
        if weight is None:
            torch.mul(centered, factor, out=out)
            return out if bias is None else out.add_(bias)
        torch.mul(centered.mul_(factor), weight, out=out)
        return out if bias is None else out.add_(bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensor) -> None:
        """Keep the inputs: x̂ is made again, which takes two passes and no memory meanwhile."""
        x, weight, bias, ctx.dims, ctx.eps = inputs
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight, bias)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor | None) -> Any:
        """The gradients of x, weight and bias."""
        if cotangent is None:
            return (None,) * 5
        x, weight = ctx.saved_tensors
        normalized, factor = normalize(x, ctx.dims, ctx.eps)
        along = cotangent * normalized
        of_weight = along.sum_to_size(weight.shape) if ctx.needs_input_grad[1] else None
        of_bias = cotangent.sum_to_size(x.shape[-len(ctx.dims) :]) if ctx.needs_input_grad[2] else None
        of_x = None
        if ctx.needs_input_grad[0]:
            scaled, along = (cotangent, along) if weight is None else (cotangent * weight, along * weight)
            centered = scaled - scaled.mean(ctx.dims, keepdim=True)
            of_x = factor * torch.addcmul(centered, normalized, along.mean(ctx.dims, keepdim=True), value=-1)
        return of_x, of_weight, of_bias, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        """The tangent of the output."""
        x, weight, _ = ctx.saved_tensors
        normalized, factor = normalize(x, ctx.dims, ctx.eps)
        out = torch.zeros_like(x)
        if tangents[0] is not None:
            centered = tangents[0] - tangents[0].mean(ctx.dims, keepdim=True)
            share = (tangents[0] * normalized).mean(ctx.dims, keepdim=True)
            moved = factor * torch.addcmul(centered, normalized, share, value=-1)
            out = out + (moved if weight is None else moved * weight)
        if tangents[1] is not None:
            out = out + normalized * tangents[1]
        return out if tangents[2] is None else out + tangents[2]

    @staticmethod
    def vmap(_info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        """The plain operations, mapped."""
        dims, eps = inputs[3:]

        def plain(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
            return affine(normalize(x, dims, eps)[0], weight, bias)

        return torch.func.vmap(plain, in_dims[:3])(*inputs[:3]), 0


# `Function.apply` asks for the signature at each call, which takes longer to find than a small norm to compute.
LayerNormalization.forward.__signature__ = inspect.signature(LayerNormalization.forward)  # type: ignore[attr-defined]
