"""Claims on residual connections."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from handmade import LayerNorm, TransformerEncoderLayer
from handmade.residual import residual
from handmade.tutorial import FeedForward

from .claim import Claim
from .exhibit import PublishedLayer
from .measures import apart, initial, normal, random, rms, same


def layers(norm_first: bool, depth: int = 6, d: int = 16) -> list[TransformerEncoderLayer]:
    """Layers without dropout, with random parameters that are not each other's."""

    def layer(seed: int) -> TransformerEncoderLayer:
        return random(lambda: TransformerEncoderLayer(d, 4, 4 * d, batch_first=True, norm_first=norm_first), seed)

    return [layer(seed) for seed in range(depth)]


def test_zero_sublayer(claim: Claim) -> None:
    x, norm = 1 + 3 * normal(2, 5, 64), LayerNorm(64).double()
    assert torch.equal(residual(x, torch.zeros_like, norm, norm_first=True), x)
    after = residual(x, torch.zeros_like, norm, norm_first=False)
    assert same(after, norm(x))
    assert same(residual(2 * x + 7, torch.zeros_like, norm, norm_first=False), after, 1e-5)
    claim.states("{:.2f} apart", apart(after, x))


def test_gradients_pass(claim: Claim) -> None:
    parts = [initial(lambda: FeedForward(32, 128), seed) for seed in range(24)]

    def gradient(step: Callable[[Tensor, FeedForward], Tensor]) -> float:
        x = normal(5, 32).requires_grad_()
        y = x
        for part in parts:
            y = step(y, part)
        cotangent = normal(5, 32, seed=1)
        (given,) = torch.autograd.grad((y * cotangent).sum(), x)
        return rms(given) / rms(cotangent)

    without, with_them = gradient(lambda y, part: part(y)), gradient(lambda y, part: y + part(y))
    claim.states("{:.0e} of the output's without connections, {:.1f} with them", without, with_them)


def test_values_grow(claim: Claim) -> None:
    x, norm = normal(2, 8, 64), LayerNorm(64).double()
    sizes = {}
    for norm_first in (True, False):
        y, grown = x, [rms(x)]
        for seed in range(24):
            y = initial(lambda: TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=norm_first), seed)(y)  # noqa: B023
            grown.append(rms(y))
        sizes[norm_first] = grown
        assert rms(norm(y)) == pytest.approx(1, rel=1e-3)
    assert sizes[False][1:] == pytest.approx([1.0] * 24, rel=1e-3)
    assert sizes[True][-1] == max(sizes[True])
    claim.states("rms {:.1f} to {:.1f} in 24 layers", sizes[True][0], sizes[True][-1])


def left_over(norm_first: bool, published: bool = False) -> float:
    """x_N − x_0 − Σ F_i relative to x_N, where F_i is what the sublayers of layer i put out."""
    x = x_0 = normal(2, 5, 16)
    added: list[Tensor] = []
    for layer in layers(norm_first):
        for part in (layer.self_attn, layer.linear2):
            part.register_forward_hook(lambda _, __, out: added.append(out[0] if isinstance(out, tuple) else out))
        x = PublishedLayer(layer)(x) if published else layer(x)
    assert len(added) == 12
    return rms(x - x_0 - torch.stack(added).sum(0)) / rms(x)


def test_sum_of_layers(claim: Claim) -> None:
    assert left_over(norm_first=True) < 1e-14
    post, published = left_over(norm_first=False), left_over(norm_first=True, published=True)
    claim.states(
        "{:.2f} under Post-Norm, torch's default, where a norm follows every sum, and {:.2f} in", post, published
    )


def test_a_layer_may_take_it_away() -> None:
    x = normal(2, 5, 16)
    assert residual(x, torch.neg, lambda y: y, norm_first=True).abs().max() == 0
    with torch.no_grad():
        layer = random(lambda: FeedForward(16, 32))
        layer.linear1.weight.copy_(torch.cat([torch.eye(16), -torch.eye(16)]))
        layer.linear2.weight.copy_(torch.cat([-torch.eye(16), torch.eye(16)], 1))
        for linear in (layer.linear1, layer.linear2):
            assert linear.bias is not None
            linear.bias.zero_()
    assert residual(x, layer, lambda y: y, norm_first=True).abs().max() == 0


def test_widths_of_sums() -> None:
    x = normal(5, 16)
    with pytest.raises(RuntimeError):
        residual(x, lambda y: y[:, :8], lambda y: y, norm_first=True)
    assert residual(x, lambda y: y[:, :1], lambda y: y, norm_first=True).shape == x.shape
    layer = TransformerEncoderLayer(16, 4, 99)
    assert (layer.linear1.weight.shape, layer.linear2.weight.shape) == ((99, 16), (16, 99))
