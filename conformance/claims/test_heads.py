"""Claims on attention by several heads."""

import pytest
import torch
from torch import Tensor

from handmade import MultiheadAttention, SelfAttention
from handmade.attention import attention

from .claim import Claim
from .measures import apart, initial, normal, parameters, random, same


def layer(heads: int = 2) -> MultiheadAttention:
    """A small attention with random parameters."""
    return random(lambda: MultiheadAttention(8, heads, batch_first=True))


def test_parameters(claim: Claim) -> None:
    with torch.device("meta"):
        attn = MultiheadAttention(512, 8)
    assert parameters(attn, dimensions=2) == 4 * 512**2
    assert parameters(attn) == 4 * 512**2 + 4 * 512
    claim.states(f"{parameters(attn):_} in place of {4 * 512**2:_}".replace("_", " "))


def test_widths() -> None:
    attn = MultiheadAttention(512, 8)
    x = torch.zeros(3, 1, 512)
    assert attn.head_dim == 64
    assert attn.split_heads(x).shape == (1, 8, 3, 64)
    assert attn.join_heads(attn.split_heads(x)).shape == x.shape


def test_joined_matrices(claim: Claim) -> None:
    x, matrices = normal(5, 8), normal(4, 8, 2, seed=1)
    assert same(torch.cat([x @ m for m in matrices], -1), x @ torch.cat(list(matrices), -1))
    q, k, v = (normal(5, 8, seed=seed) for seed in (2, 3, 4))
    parts = [slice(i, i + 2) for i in range(0, 8, 2)]
    by_head = [attention(q[:, part], k[:, part], v[:, part])[0] for part in parts]
    claim.states("({:.2f} apart)", apart(torch.cat(by_head, -1), attention(q, k, v)[0]))


def test_splitting() -> None:
    x = normal(2, 5, 8)
    heads = x.view(2, 5, 2, 4).transpose(1, 2)
    assert all(torch.equal(heads[:, i], x[:, :, 4 * i : 4 * i + 4]) for i in range(2))
    assert torch.equal(heads.transpose(1, 2).reshape(2, 5, 8), x)
    assert torch.equal(layer().split_heads(x.transpose(0, 1)), heads)
    mixed = x.view(2, 2, 5, 4)
    assert mixed.shape == heads.shape
    assert not torch.equal(mixed, heads)


@pytest.mark.parametrize(("heads", "length", "works"), [(2, 5, False), (1, 5, True), (2, 1, True)])
def test_view_after_transpose(heads: int, length: int, works: bool) -> None:
    joined = normal(3, heads, length, 4).transpose(1, 2)
    if works:
        assert joined.view(3, length, -1).shape == (3, length, 4 * heads)
    else:
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            joined.view(3, length, -1)
    assert torch.equal(joined.contiguous().view(3, length, -1), joined.reshape(3, length, -1))


def test_outputs_read_all_heads() -> None:
    attn = layer()
    jacobian = torch.autograd.functional.jacobian(attn.out_proj, normal(8))
    assert jacobian.shape == (8, 8)
    assert jacobian.unflatten(1, (2, 4)).abs().amin(-1).min() > 0


def test_no_network_after_the_heads() -> None:
    def after(joined: Tensor) -> Tensor:
        return attn.out_proj(joined) - attn.out_proj(torch.zeros_like(joined))

    attn, a, b = layer(), normal(5, 8), normal(5, 8, seed=1)
    q, k, v = attn.project(*(a.unsqueeze(1),) * 3, self_attention=True)
    context, _ = attention(attn.split_heads(q), attn.split_heads(k), attn.split_heads(v))
    assert same(attn.out_proj(attn.join_heads(context))[:, 0], attn(*(a.unsqueeze(0),) * 3)[0][0])
    assert same(after(a + b), after(a) + after(b))
    assert same(after(-3 * a), -3 * after(a))


def test_heads_differ() -> None:
    x = normal(2, 5, 8)
    _, weights = initial(lambda: MultiheadAttention(8, 2, batch_first=True))(x, x, x, average_attn_weights=False)
    assert weights is not None
    assert weights.shape == (2, 2, 5, 5)
    assert apart(weights[:, 0], weights[:, 1]) > 0.1


def test_one_head() -> None:
    single, several, x = random(lambda: SelfAttention(8)), layer(heads=1), normal(2, 5, 8)
    projections = (single.W_q, single.W_k, single.W_v)
    assert several.in_proj_weight is not None
    assert several.in_proj_bias is not None
    with torch.no_grad():
        several.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        several.in_proj_bias.copy_(torch.cat([p.bias for p in projections if p.bias is not None]))
        assert not same(several(x, x, x)[0], single(x), 0.1)
        several.out_proj.weight.copy_(torch.eye(8))
        assert several.out_proj.bias is not None
        several.out_proj.bias.zero_()
    assert same(several(x, x, x)[0], single(x))


def test_self_check() -> None:
    x = normal(2, 5, 8)
    output, weights = layer()(x, x, x)
    assert weights is not None
    assert (output.shape, weights.shape) == ((2, 5, 8), (2, 5, 5))
    with pytest.raises(ValueError, match="embed_dim"):
        layer(heads=3)
