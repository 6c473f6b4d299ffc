"""Claims on norms."""

import pytest
import torch
from torch import nn

from handmade import LayerNorm, RMSNorm, Transformer, TransformerEncoder, TransformerEncoderLayer
from handmade.activations import relu
from handmade.feed_forward import feed_forward

from .claim import Claim
from .figures import DEPTHS, gradients
from .measures import apart, initial, normal, parameters, random, same


def test_mean_and_variance() -> None:
    norm, x = LayerNorm(16).double(), 5 + 3 * normal(4, 16)
    y, v = norm(x), x.var(-1, unbiased=False)
    assert y.mean(-1).abs().max() < 1e-14
    assert same(y.var(-1, unbiased=False), v / (v + 1e-5))
    assert norm(1e-4 * x).var(-1, unbiased=False).max() < 0.1
    learnt = random(lambda: LayerNorm(16))
    assert learnt(x).mean(-1).abs().min() > 1e-3


def test_layer_norm_alone() -> None:
    norm, x, other = LayerNorm(8).double(), normal(5, 8), normal(5, 8, seed=1)
    alone = norm(x)
    assert torch.equal(norm(torch.stack([x, other]))[0], alone)
    assert torch.equal(norm(x[2]), alone[2])


def batch_norm() -> nn.BatchNorm1d:
    """torch's, in float64."""
    return initial(lambda: nn.BatchNorm1d(8))


def test_batch_norm_in_training(claim: Claim) -> None:
    x, other, third = (normal(1, 8, 5, seed=seed) for seed in range(3))
    padded = torch.cat([other[:, :, :2], torch.zeros(1, 8, 3).double()], -1)
    first, second, beside_padding = (
        batch_norm().train()(torch.cat([x, neighbour]))[0] for neighbour in (other, third, padded)
    )
    without_padding = batch_norm().train()(torch.cat([x, other[:, :, :2]], -1))[0, :, :5]
    neighbour, padding = apart(second, first), apart(beside_padding, without_padding)
    claim.states("moves a sequence by {:.2f}, and padding by {:.2f}", neighbour, padding)


def test_batch_norm_at_inference() -> None:
    norm, x = batch_norm(), normal(3, 8, 5)
    norm.train()(2 + 3 * x)
    norm.eval()
    assert torch.equal(norm(x[:1]), norm(x)[:1])
    with pytest.raises(ValueError, match="more than 1 value"):
        norm.train()(x[:1, :, 0])


def test_two_places() -> None:
    x = normal(2, 5, 8)
    for norm_first in (False, True):
        layer = random(lambda: TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first))  # noqa: B023

        def attend(y: torch.Tensor, layer: TransformerEncoderLayer = layer) -> torch.Tensor:
            return layer.self_attn(y, y, y)[0]

        def transform(y: torch.Tensor, layer: TransformerEncoderLayer = layer) -> torch.Tensor:
            return feed_forward(y, layer.linear1, relu, lambda z: z, layer.linear2)

        if norm_first:
            h = x + attend(layer.norm1(x))
            expected = h + transform(layer.norm2(h))
        else:
            h = layer.norm1(x + attend(x))
            expected = layer.norm2(h + transform(h))
        assert same(layer(x), expected)


def test_residual_path() -> None:
    stack = random(lambda: Transformer(8, 2, 3, 3, 16, norm_first=True)).encoder
    x = y = normal(5, 2, 8)
    assert isinstance(stack, TransformerEncoder)
    for layer in stack.layers:
        y = layer(y)
    assert isinstance(stack.norm, LayerNorm)
    assert same(stack(x), stack.norm(y))
    assert apart(stack(x), y) > 0.1


def test_gradients_at_initialisation(claim: Claim) -> None:
    post, pre = ([gradients(norm_first)[n][-1] for n in DEPTHS] for norm_first in (False, True))
    claim.states("stays at {:.0f} to {:.0f} under Post-Norm", min(post), max(post))
    claim.states("at 24 layers {:.1f} times", post[-1] / pre[-1])
    times_root = [norm * n**0.5 for norm, n in zip(pre, DEPTHS, strict=True)]
    assert max(times_root) / min(times_root) < 1.25
    for norm_first in (False, True):
        first = [gradients(norm_first)[n][0] for n in DEPTHS]
        assert max(first) / min(first) < 1.5


def test_rms_norm() -> None:
    norm, x = random(lambda: RMSNorm(8, eps=1e-5)), 2 + normal(4, 8)
    assert norm.weight is not None
    expected = x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight
    assert same(norm(x), expected)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]


def test_rms_norm_against_layer_norm(claim: Claim) -> None:
    root, layer = RMSNorm(16, eps=1e-5).double(), LayerNorm(16, eps=1e-5).double()
    assert (parameters(root), parameters(layer)) == (16, 32)
    x = normal(50, 16)
    centred = x - x.mean(-1, keepdim=True)
    assert same(root(centred), layer(centred))
    claim.states("they are {:.2f} apart", apart(root(1 + x), layer(1 + x)))
