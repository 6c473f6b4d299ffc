"""Blockwise attention as a function that autograd, torch.func and torch.compile can handle.

Two `Function`s, since the backward pass is to be differentiated as well: the forward pass, and the backward pass as a
forward pass of its own. What is not the first derivative in reverse mode, everyday training, goes through the plain
core: the derivatives of derivatives, forward mode, and maps over batches.
"""

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import attention, blockwise_attention, masks, transforms
from .precision import widen

Tensors = tuple[Tensor | None, ...]


class Blockwise(Function):
    """`blockwise_attention.forward` of query, key, value, mask, is_causal and scale, all floats of one dtype."""

    @staticmethod
    def forward(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Any:
        """Block by block."""
        return blockwise_attention.forward(blockwise_attention.prepare(query, key, value, mask, is_causal, scale))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what backward needs; of the outputs only the first is a result."""
        *tensors, ctx.is_causal, ctx.scale = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *output)
        ctx.save_for_forward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        """The gradients, by the other function."""
        if cotangents[0] is None:
            return (None,) * 6
        wants_mask = ctx.needs_input_grad[3]
        gradients = BlockwiseBackward.apply(*ctx.saved_tensors, cotangents[0], ctx.is_causal, ctx.scale, wants_mask)
        return (*gradients, None, None)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        """The tangent of the outputs."""

        def outputs(given: Any) -> tuple[Tensor, ...]:
            query, key, value, mask = given
            return plain(query, key, value, mask, ctx.is_causal, ctx.scale)[:1]

        return (*_tangents(outputs, ctx.saved_tensors[:4], tangents[:4]), None, None)

    @staticmethod
    def vmap(_info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        """The plain core, mapped."""
        return torch.func.vmap(lambda *given: plain(*given, *inputs[4:]), in_dims[:4])(*inputs[:4]), (0, 0, 0)


class BlockwiseBackward(Function):
    """Gradients of query, key, value and mask, from those, what forward returned, and the outputs' cotangent."""

    @staticmethod
    def forward(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        out: Tensor,
        shifts: Tensor,
        sums: Tensor,
        cotangent: Tensor,
        is_causal: bool,
        scale: float,
        wants_mask: bool,
    ) -> Any:
        """Block by block."""
        problem = blockwise_attention.prepare(query, key, value, mask, is_causal, scale)
        shape = mask.shape if mask is not None and wants_mask else None
        return tuple(blockwise_attention.backward(problem, out, shifts, sums, cotangent, shape))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensors) -> None:
        """Keep what the plain core needs."""
        query, key, value, mask, _, _, _, cotangent, ctx.is_causal, ctx.scale, ctx.wants_mask = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query, key, value, mask, cotangent)
        ctx.save_for_forward(query, key, value, mask, cotangent)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        """The gradients of the gradients, through the plain core."""
        tensors: Tensors = ctx.saved_tensors
        used = [i for i, x in enumerate(cotangents) if x is not None]
        if not used:
            return (None,) * 11

        def gradients(given: Any) -> tuple[Tensor, ...]:
            query, key, value, mask, along = given
            made: Any = plain_gradients(query, key, value, mask, along, ctx.is_causal, ctx.scale, ctx.wants_mask)
            return tuple(made[i] for i in used)

        places, floating, function = _of_floating(gradients, tensors)
        pull: Any = torch.func.vjp(function, *floating)[1]
        found: list[Tensor | None] = [None] * 5
        for place, x in zip(places, pull(tuple(cotangents[i] for i in used)), strict=True):
            found[place] = x
        return (*found[:4], None, None, None, found[4], None, None, None)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        """The tangents of the gradients."""

        def gradients(given: Any) -> tuple[Tensor, ...]:
            query, key, value, mask, along = given
            return _present(plain_gradients(query, key, value, mask, along, ctx.is_causal, ctx.scale, ctx.wants_mask))

        made = _tangents(gradients, ctx.saved_tensors, (*tangents[:4], tangents[7]))
        return made if ctx.wants_mask else (*made[:3], None)

    @staticmethod
    def vmap(_info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        """The plain core, mapped."""
        places = (0, 1, 2, 3, 7)
        dims = tuple(in_dims[i] for i in places)
        made = torch.func.vmap(lambda *given: _present(plain_gradients(*given, *inputs[8:])), dims)(
            *(inputs[i] for i in places)
        )
        return (*made, None)[:4], (0, 0, 0, 0 if len(made) == 4 else None)


# `Function.apply` asks for the signature at each call, which takes longer to find than a short attention to compute.
Blockwise.forward.__signature__ = inspect.signature(Blockwise.forward)  # type: ignore[attr-defined]
BlockwiseBackward.forward.__signature__ = inspect.signature(BlockwiseBackward.forward)  # type: ignore[attr-defined]


def plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Any:
    """What `Blockwise` gives, by the plain core, and zeros for what the plain gradients have no need of."""
    if is_causal:
        mask = masks.causal_keep(query.size(-2), key.size(-2), query.device)
    unused = query.new_zeros((*query.shape[:-1], 1))
    return attention.attention(query, key, value, mask, 0.0, scale)[0], unused, unused


def plain_gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    cotangent: Tensor,
    is_causal: bool,
    scale: float,
    wants_mask: bool,
) -> Tensors:
    """What `BlockwiseBackward` gives, by operations that can all be differentiated again."""
    keep = masks.causal_keep(query.size(-2), key.size(-2), query.device) if is_causal else mask
    _, weights = attention.attention(query, key, value, keep, 0.0, scale)
    of_weights = cotangent @ value.mT
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True))
    of_mask = of_scores.sum_to_size(mask.shape) if mask is not None and wants_mask else None
    return scale * (of_scores @ key), scale * (of_scores.mT @ query), weights.mT @ cotangent, of_mask


def _present(made: Tensors) -> tuple[Tensor, ...]:
    """Without the mask's gradient where there is none."""
    return tuple(x for x in made if x is not None)


def _of_floating(
    function: Callable[[Tensors], tuple[Tensor, ...]], tensors: Tensors
) -> tuple[list[int], list[Tensor], Callable[..., tuple[Tensor, ...]]]:
    """A function of some tensors as one of those among them that are floating: their places, they, and it."""
    floating = {i: x for i, x in enumerate(tensors) if x is not None and x.is_floating_point()}

    def moved(*values: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(floating, values, strict=True))
        return function(tuple(given.get(i, x) for i, x in enumerate(tensors)))

    return list(floating), list(floating.values()), moved


def _tangents(
    function: Callable[[Tensors], tuple[Tensor, ...]], tensors: Tensors, tangents: Tensors
) -> tuple[Tensor, ...]:
    """Tangents of a function's results along those of its floating arguments; the others are held."""
    places, floating, moved = _of_floating(function, tensors)
    along = tuple(
        tangents[i] if tangents[i] is not None else torch.zeros_like(x) for i, x in zip(places, floating, strict=True)
    )
    # The pull-back is linear in its cotangent, so its own pull-back of the tangents is the product wanted; forward mode
    # itself cannot be nested.
    made: Any
    made, pull = torch.func.vjp(moved, *floating)[:2]
    push: Any = torch.func.vjp(pull, tuple(torch.zeros_like(x) for x in made))[1]
    return push(along)[0]


def applicable(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> bool:
    """Whether the blockwise core can take these tensors; else the plain one does.

    It cannot where there is nothing to compute or nothing to compute with (the meta device), and where functions with a
    backward pass by hand do not apply.
    """
    something = query.numel() > 0 and key.numel() > 0 and query.device.type != "meta"
    return something and transforms.functions_apply(query, key, value, mask)


def blockwise(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
) -> Tensor:
    r"""Average the values, weighted by how well their keys fit the query, without keeping the weights.

    Args:
        query: (..., L, E); batch dimensions broadcast.
        key: (..., S, E).
        value: (..., S, Ev).
        mask: broadcasts to (..., L, S); True = keep, or added to the scores; None for no mask.
        is_causal: query i sees keys 0 … i.
        scale: s; None for 1/√E.

    Returns:
        (..., L, Ev). A dead row, which sees no key, is 0.
    """
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    batch = query.shape[:-2]
    if not batch == key.shape[:-2] == value.shape[:-2]:
        batch = torch.broadcast_shapes(*(x.shape[:-2] for x in (query, key, value)))
        query, key, value = (x.expand(*batch, *x.shape[-2:]) for x in (query, key, value))
    query, key, value = (_four_dimensional(x) for x in (query, key, value))
    if mask is not None:
        mask = mask.reshape((1,) * (len(batch) + 2 - mask.dim()) + mask.shape)
        if len(batch) > 2:
            mask = mask.expand(*batch[:-1], *mask.shape[-3:])
        mask = _four_dimensional(mask if mask.dtype == torch.bool else widen(mask))
    out, *_ = Blockwise.apply(widen(query), widen(key), widen(value), mask, is_causal, scale)
    return out.reshape(*batch, *out.shape[-2:]).to(query.dtype)


def _four_dimensional(x: Tensor) -> Tensor:
    """(..., heads, length, width) as (batch, heads, length, width)."""
    if x.dim() < 4:
        return x[(None,) * (4 - x.dim())]
    return x if x.dim() == 4 else x.flatten(0, -4)
