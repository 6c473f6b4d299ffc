"""Claims on attention by one head."""

import inspect
import itertools
import math
import warnings

import pytest
import torch
from torch import Tensor

from handmade import Linear, MultiheadAttention, SelfAttention, generate_square_subsequent_mask, text_layers
from handmade.attention import attention

from .claim import Claim
from .figures import saturation
from .measures import depends, normal, random, same


def test_rows_are_distributions() -> None:
    _, weights = attention(normal(2, 5, 8), normal(2, 7, 8, seed=1), normal(2, 7, 8, seed=2))
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert same(weights.sum(-1), torch.ones(2, 5, dtype=torch.float64))
    hidden = torch.zeros(5, 7, dtype=torch.bool)
    assert attention(normal(5, 8), normal(7, 8), normal(7, 8), hidden)[1].abs().max() == 0
    assert torch.full((7,), -torch.inf).softmax(-1).isnan().all()


def test_outputs_are_averages() -> None:
    value = normal(7, 3, seed=2)
    context, weights = attention(normal(5, 8), normal(7, 8, seed=1), value)
    for i in range(5):
        assert same(context[i], torch.stack([weights[i, j] * value[j] for j in range(7)]).sum(0))
    assert (context <= value.amax(0)).all()
    assert (context >= value.amin(0)).all()


def test_rows_are_queries() -> None:
    query, key = normal(5, 8), normal(5, 8, seed=1)
    scores = query @ key.T
    query[2], key[4] = normal(8, seed=2), normal(8, seed=3)
    changed = query @ key.T != scores
    expected = torch.zeros(5, 5, dtype=torch.bool)
    expected[2], expected[:, 4] = True, True
    assert torch.equal(changed, expected)
    assert math.isclose((query @ key.T)[1, 3].item(), (query[1] * key[3]).sum().item())


def test_variance_of_scores(claim: Claim) -> None:
    for one in saturation():
        assert one.variance == pytest.approx(1 if one.scaled else one.d_k, rel=0.06)
    plain, scaled = saturation()[-2:]
    claim.states("measured {:.1f} at d_k = 1024, and scaled {:.2f}", plain.variance, scaled.variance)
    equal = normal(2000, 1024)
    product = (equal * equal).sum(-1).mean().item() / 32
    assert product == pytest.approx(32, rel=0.02)
    claim.states("√d_k: {:.1f}", product)


def test_saturation(claim: Claim) -> None:
    plain = [one for one in saturation() if not one.scaled]
    scaled = [one for one in saturation() if one.scaled]
    last = (plain[-1].largest, scaled[-1].largest)
    claim.states("weights is {:.2f} on average, scaled {:.2f}", *last)
    claim.states("falls from {:.2f} at d_k = 4 to {:.2f}", plain[0].gradient, plain[-1].gradient)
    claim.states("stays at {:.2f}", scaled[-1].gradient)
    for smaller, larger in itertools.pairwise(plain):
        assert larger.largest > smaller.largest
        assert larger.entropy < smaller.entropy
        assert larger.gradient < smaller.gradient
    assert max(one.largest for one in scaled) - min(one.largest for one in scaled) < 0.02


def test_look_up_in_the_limit() -> None:
    key, value = torch.eye(6, dtype=torch.float64), normal(6, 3)
    context, _ = attention(key[[4, 0]], key, value, scale=50.0)
    assert same(context, value[[4, 0]])
    assert not same(attention(key[[4, 0]], key, value, scale=1.0)[0], value[[4, 0]], 0.1)


def test_a_linear_layer() -> None:
    layer, x = random(lambda: Linear(8, 3)), normal(2, 5, 8)
    assert layer.weight.shape == (3, 8)
    assert layer.bias is not None
    assert same(layer(x), x @ layer.weight.T + layer.bias)
    square = random(lambda: Linear(8, 8))
    assert not same(square(x), x @ square.weight, 0.1)


def test_transposed_batch() -> None:
    k = normal(2, 5, 8)
    assert torch.equal(k[0].transpose(-2, -1), k[0].T)
    assert torch.equal(k.transpose(-2, -1), k.mT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert k.T.shape == (8, 5, 2)
    assert k.mT.shape == (2, 8, 5)


def test_wider_values() -> None:
    query, key, value = normal(5, 8), normal(7, 8), normal(7, 3)
    assert attention(query, key, value)[0].shape == (5, 3)
    with pytest.raises(RuntimeError):
        attention(query, normal(7, 6), value)
    with pytest.raises(RuntimeError):
        attention(query, key, normal(6, 3))


def test_number_of_masks() -> None:
    layer, x = random(lambda: MultiheadAttention(8, 2, batch_first=True)), normal(2, 5, 8)
    causal = generate_square_subsequent_mask(5, dtype=torch.bool)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    both, _ = layer(x, x, x, padding, attn_mask=causal)
    union = (causal | padding[:, None, :]).repeat_interleave(2, dim=0)
    assert same(layer(x, x, x, attn_mask=union)[0], both)
    memory = normal(2, 7, 8)
    assert layer(x, memory, memory)[0].shape == (2, 5, 8)


def test_the_function_has_no_mask() -> None:
    def first(words: Tensor) -> Tensor:
        return text_layers.attention(words, words, words)[0]

    assert "mask" not in " ".join(inspect.signature(text_layers.attention).parameters)
    words = normal(5, 8)
    assert text_layers.attention(words, words, words)[1].min() > 0
    assert depends(first, words).all()


def test_self_check() -> None:
    assert random(lambda: SelfAttention(8))(normal(2, 5, 8)).shape == (2, 5, 8)
