"""The handmade model's blockwise attention: derivatives of every kind, what it leaves out, what it keeps in memory."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from handmade import attention, blocks, blockwise_function, masks, transforms
from handmade.attention_function import scaled_dot_product_attention
from handmade.blockwise_function import blockwise
from handmade.normalization import layer_norm
from handmade.normalization_function import normalize

pytestmark = pytest.mark.skipif(
    not transforms.KNOWS_TRANSFORMS,
    reason=f"torch {torch.__version__} has no torch.func: its attention is the plain one",
)
func: Any = getattr(torch, "func", None)
MASKS = ("none", "causal", "bool", "float", "padding")


def tensors(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value: batch 2, 3 heads, 5 queries, 6 keys, 4 and 3 features."""
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, 3, *size, generator=generator, dtype=dtype) for size in ((5, 4), (6, 4), (6, 3)))  # type: ignore[return-value]


def mask_of(kind: str) -> Tensor | None:
    generator = torch.Generator().manual_seed(1)
    if kind == "bool":
        keep = torch.rand(5, 6, generator=generator) < 0.6
        keep[2] = False
        return keep
    if kind == "float":
        return torch.randn(3, 5, 6, generator=generator, dtype=torch.float64)
    return torch.rand(2, 1, 1, 6, generator=generator) < 0.5 if kind == "padding" else None


def in_blocks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool = False) -> Tensor:
    return blockwise(query, key, value, mask, is_causal, None)


def plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool = False) -> Tensor:
    keep = masks.causal_keep(query.size(-2), key.size(-2), query.device) if is_causal else mask
    return attention.attention(query, key, value, keep)[0]


@pytest.mark.parametrize("kind", MASKS)
def test_derivatives(kind: str) -> None:
    """First and second derivatives, forward mode, and forward over reverse agree with finite differences."""
    mask = mask_of(kind)
    leaves = [x.requires_grad_() for x in tensors()]
    if kind == "float":
        assert mask is not None
        leaves.append(mask.requires_grad_())

    def call(*given: Tensor) -> Tensor:
        query, key, value, *more = given
        return blockwise(query, key, value, more[0] if more else mask, kind == "causal", None)

    with mock.patch.multiple(blocks, ROWS=2, ROWS_UNDER_A_MASK=2, FEWEST_ROWS=1, SMALL=0, SCORES=30):
        assert gradcheck(call, leaves, check_forward_ad=True, check_undefined_grad=True, fast_mode=True)
        assert gradgradcheck(call, leaves, check_fwd_over_rev=True, fast_mode=True)


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": lambda f, q, k, v, m: func.grad(lambda q: f(q, k, v, m).sin().sum())(q),
    "vmap": lambda f, q, k, v, m: func.vmap(lambda q, k: f(q, k, v[0], m))(q, k),
    "vmap of the mask": lambda f, q, k, v, m: func.vmap(lambda m: f(q, k, v, m))(torch.stack([m, 2 * m])),
    "vmap of grad": lambda f, q, k, v, m: func.vmap(
        func.grad(lambda q, k, m: f(q, k, v[0], m).sin().sum(), argnums=(0, 1, 2)), in_dims=(0, 0, None)
    )(q, k, m),
    "grad of vmap": lambda f, q, k, v, m: func.grad(
        lambda q: func.vmap(lambda q, k: f(q, k, v[0], m))(q, k).sin().sum()
    )(q),
    "jvp": lambda f, q, k, v, m: func.jvp(f, (q, k, v, m), (q.cos(), k.cos(), v.cos(), m.cos()))[1],
    "jacrev": lambda f, q, k, v, m: func.jacrev(lambda m: f(q, k, v, m))(m),
    "jacfwd": lambda f, q, k, v, m: func.jacfwd(lambda v: f(q, k, v, m))(v),
    "hessian": lambda f, q, k, v, m: func.hessian(lambda q: f(q, k[:1], v[:1], m).sin().sum())(q[:1]),
    "grad of grad": lambda f, q, k, v, m: func.grad(
        lambda k: func.grad(lambda q: f(q, k, v, m).sin().sum())(q).cos().sum()
    )(k),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    """torch.func gives of the blocks what it gives of the plain core."""
    mask = mask_of("float")
    found, expected = (TRANSFORMS[name](core, *tensors(), mask) for core in (in_blocks, plain))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_precision(dtype: torch.dtype) -> None:
    """In every dtype the blocks are as near to the exact values as the plain core."""
    query, key, value = (3 * x.to(dtype) for x in tensors())
    exact = plain(query.double(), key.double(), value.double(), None, False)
    found, other = (core(query, key, value, None) for core in (in_blocks, plain))
    assert found.dtype == dtype
    near, reference = ((x.double() - exact).square().mean().sqrt() for x in (found, other))
    assert near <= 2 * reference + torch.finfo(dtype).eps


def test_nan_in_a_mask_is_not_left_out() -> None:
    """A mask that is no number at the first or last key makes its row no number, however the work is split."""
    query, key, value = tensors()
    mask = torch.zeros(5, 6, dtype=torch.float64)
    mask[1, 0] = mask[3, -1] = torch.nan
    with mock.patch.multiple(blocks, ROWS_UNDER_A_MASK=2, FEWEST_ROWS=1, SMALL=0):
        found = in_blocks(query, key, value, mask).isnan()
    assert found[:, :, [1, 3]].all()
    assert not found[:, :, [0, 2, 4]].any()


def test_what_is_hidden_is_left_out() -> None:
    """A causal mask halves the scores, a window leaves its band, and padding to half the keys half of them."""
    length = 1024
    band = torch.ones(length, length, dtype=torch.bool).triu(-32).tril(32)
    short = (torch.arange(length) < length // 2)[None, None, None]
    whole = scores(None, False, length)
    assert scores(None, True, length) < 0.6 * whole
    assert scores(torch.ones(length, length, dtype=torch.bool).tril(), False, length) < 0.6 * whole
    assert scores(band, False, length) < 0.25 * whole
    assert scores(short, False, length) <= 0.5 * whole


def scores(keep: Tensor | None, is_causal: bool, length: int) -> int:
    """How many scores the plan of the blocks computes, of one head."""
    added = None if keep is None else torch.zeros(keep.shape).masked_fill(~keep, -torch.inf)
    if added is not None:
        added = added[(None,) * (4 - added.dim())]
    return sum(block.score_count for block in blocks.plan((1, 1, length, length), added, is_causal))


class Allocations(TorchDispatchMode):
    """The largest tensor that any operation returns, in bytes."""

    largest = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returned = function(*args, **(kwargs or {}))
        for value in returned if isinstance(returned, tuple | list) else [returned]:
            if isinstance(value, Tensor):
                self.largest = max(self.largest, value.untyped_storage().nbytes())
        return returned


@pytest.mark.parametrize("is_causal", [False, True])
def test_memory_grows_with_the_length(is_causal: bool) -> None:
    """Forward and backward, nothing is allocated that is larger than the inputs or a block."""
    for length in (512, 2048):
        leaves = [torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3)]
        with Allocations() as seen:
            blockwise(leaves[0], leaves[1], leaves[2], None, is_causal, None).sum().backward()
        block = 4 * blocks.SCORES * torch.get_num_threads()
        # Backward holds the weights of a block and their gradient in one piece; a long sequence's block is doubled.
        assert seen.largest <= max(4 * block, 4 * leaves[0].numel())
        assert 4 * block < 4 * 2 * 2048 * 2048  # the plain core's scores would be larger


def test_what_goes_to_the_plain_core() -> None:
    """Nothing to compute, nothing to compute with, a compiler that traces, what only stands for a tensor."""
    query, key, value = tensors()
    assert blockwise_function.applicable(query, key, value)
    assert not blockwise_function.applicable(query[:0], key, value)
    assert not blockwise_function.applicable(query, key[..., :0, :], value[..., :0, :])
    assert not blockwise_function.applicable(*(x.to("meta") for x in (query, key, value)))
    with mock.patch.object(transforms, "KNOWS_TRANSFORMS", False):
        assert not blockwise_function.applicable(query, key, value)
    with FakeTensorMode():
        x = torch.empty(2, 3, 5, 4)
        assert scaled_dot_product_attention(x, x, x).shape == x.shape


@pytest.mark.parametrize("name", ["attention", "layer norm"])
def test_forward_mode_twice(name: str) -> None:
    """A forward derivative of a forward derivative is that of the plain operations."""
    query, key, value = tensors()
    functions: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
        "attention": (
            lambda q: scaled_dot_product_attention(q, key, value).sum(),
            lambda q: plain(q, key, value, None).sum(),
        ),
        "layer norm": (
            lambda q: layer_norm(q, (4,)).sin().sum(),
            lambda q: normalize(q, (-1,), 1e-5)[0].sin().sum(),
        ),
    }
    found, expected = (func.jacfwd(func.jacfwd(function))(query[:1, :1]) for function in functions[name])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_backward_under_autocast() -> None:
    """Gradients are computed in the dtype of the tensors, sequence-major ones too."""
    leaves = [x.float().transpose(1, 2).contiguous().requires_grad_() for x in tensors()]

    def gradients() -> tuple[Tensor, ...]:
        query, key, value = (x.transpose(1, 2) for x in leaves)
        return torch.autograd.grad(in_blocks(query, key, value, None).sum(), leaves)

    expected = gradients()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gradients()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("content", [torch.nan, torch.inf])
def test_a_later_key_that_is_no_number(content: float) -> None:
    """Under a causal mask it reaches the rows that see it and no others."""
    query, key, value = (x[..., :5, :] for x in tensors())
    key = key.clone()
    key[..., 3, 0] = content
    found = in_blocks(query, key, value, None, is_causal=True)
    assert found[..., :3, :].isfinite().all()
    assert not found[..., 3:, :].isfinite().all(-1).all()
