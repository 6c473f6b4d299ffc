"""Claims on feed-forward networks."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from handmade import (
    Embedding,
    Encoder,
    FeedForward,
    MixtureOfExperts,
    MultiheadAttention,
    SwiGLU,
    Transformer,
    TransformerBlock,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    gelu,
    silu,
)
from handmade.activations import relu
from handmade.mixture_of_experts import Expert, route

from .claim import Claim
from .measures import depends, normal, parameters, random, same


def network() -> FeedForward:
    """8 → 32 → 8 with random parameters."""
    return random(lambda: FeedForward(8, 32))


def is_linear(function: Callable[[Tensor], Tensor]) -> bool:
    """Whether sums go to sums, a constant aside."""
    a, b, zero = normal(1, 3, 8), normal(1, 3, 8, seed=1), torch.zeros(1, 3, 8).double()
    return same(function(a + b) + function(zero), function(a) + function(b))


def test_nonlinearity() -> None:
    net, attn = network(), random(lambda: MultiheadAttention(8, 2, batch_first=True))
    assert not is_linear(net)
    assert is_linear(lambda x: net.linear2(net.linear1(x)))
    assert not is_linear(lambda x: attn(x, x, x)[0])


def test_parameters() -> None:
    d = 512
    with torch.device("meta"):
        net, attn = FeedForward(d, 4 * d), MultiheadAttention(d, 8)
    assert parameters(net, dimensions=2) == 8 * d**2 == 2 * parameters(attn, dimensions=2)
    assert parameters(net) == 8 * d**2 + 5 * d


def test_part_of_the_parameters(claim: Claim) -> None:
    def part(module: nn.Module, beside: int = 0) -> float:
        inner = sum(p.numel() for name, p in module.named_parameters() if "linear" in name)
        return 100 * inner / (parameters(module) + beside)

    with torch.device("meta"):
        encoder, decoder = TransformerEncoderLayer(512, 8), TransformerDecoderLayer(512, 8)
        whole, table = Transformer(), Embedding(37_000, 512)
    claim.states("encoder block's: {:.1f} %", part(encoder))
    claim.states("two attentions, {:.1f} %", part(decoder))
    claim.states("defaults {:.1f} %", part(whole))
    claim.states("37 000 words {:.1f} %", part(whole, beside=parameters(table)))


def test_exclusive_or() -> None:
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    wanted = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64)

    def best(features: Tensor) -> Tensor:
        with_constant = torch.cat([features, torch.ones(4, 1).double()], 1)
        return with_constant @ torch.linalg.pinv(with_constant) @ wanted

    # The best linear map knows nothing at all of it, and no line parts the two classes' midpoints, which coincide.
    assert same(best(x), torch.full((4,), 0.5, dtype=torch.float64))
    assert torch.equal(x[wanted == 1].mean(0), x[wanted == 0].mean(0))
    assert same(best(relu(x @ normal(2, 4) + normal(4, seed=3))), wanted)


def test_convolution() -> None:
    net, x = network(), normal(2, 5, 8)
    hidden = nn.functional.conv1d(x.mT, net.linear1.weight.unsqueeze(-1), net.linear1.bias)
    out = nn.functional.conv1d(hidden.relu(), net.linear2.weight.unsqueeze(-1), net.linear2.bias)
    assert same(net(x), out.mT)
    order = torch.tensor([3, 1, 4, 0, 2])
    assert same(net(x[:, order]), net(x)[:, order])


def test_between_and_within() -> None:
    net, attn, x = network(), random(lambda: MultiheadAttention(8, 2)), normal(5, 8)
    assert torch.equal(depends(net, x), torch.eye(5, dtype=torch.bool))
    assert depends(lambda y: attn(y, y, y)[0], x).all()
    features = torch.autograd.functional.jacobian(lambda y: net(y), x[0])
    assert features.abs().min() > 0


def test_gelu_is_smooth() -> None:
    def slope(function: Callable[[Tensor], Tensor], at: float) -> float:
        x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
        return torch.autograd.grad(function(x), x)[0].item()

    assert (slope(relu, -1e-9), slope(relu, 1e-9)) == (0, 1)
    assert slope(gelu, -1e-9) == pytest.approx(0.5, abs=1e-8)
    assert slope(gelu, 1e-9) == pytest.approx(0.5, abs=1e-8)


def test_swiglu() -> None:
    net, x = random(lambda: SwiGLU(8)), normal(2, 5, 8)
    opened = x @ net.w1.weight.T
    assert same(silu(opened), opened / (1 + (-opened).exp()))
    assert same(net(x), (opened * opened.sigmoid() * (x @ net.w3.weight.T)) @ net.w2.weight.T)
    assert len(list(net.parameters())) == 3


def test_swiglu_parameters(claim: Claim) -> None:
    with torch.device("meta"):
        divisible, usual = SwiGLU(768), SwiGLU(512)
    assert parameters(divisible) == 8 * 768**2
    assert usual.w1.out_features == 1366
    claim.states("{:.2f} % more", 100 * (parameters(usual) / (8 * 512**2) - 1))


def test_experts(claim: Claim) -> None:
    mixture = random(lambda: MixtureOfExperts(16, 64, num_experts=8, top_k=2))
    touched = parameters(mixture.router) + 2 * parameters(mixture.experts[0])
    claim.states("touches {:.0f} % of the parameters", 100 * touched / parameters(mixture))
    word = normal(1, 16)
    chosen = set(route(mixture.router(word), 2).experts.flatten().tolist())
    before = mixture(word)[0]
    for number in range(8):
        changed = copy.deepcopy(mixture)
        expert = changed.experts[number]
        assert isinstance(expert, Expert)
        nn.init.zeros_(expert.linear2.weight)
        assert torch.equal(changed(word)[0], before) == (number not in chosen)
    many = route(mixture.router(normal(100, 16)), 2).experts
    assert len(set(many.flatten().tolist())) > 4


@pytest.mark.parametrize("make", [
    lambda: FeedForward(8, d_ff=32), lambda: TransformerBlock(8, h=2, d_ff=32), lambda: Encoder(8, h=2, d_ff=32, N=6)
], ids=["feed forward", "block", "encoder"])  # fmt: skip
def test_self_checks(make: Callable[[], nn.Module]) -> None:
    assert make()(torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))).shape == (2, 5, 8)
