"""Claims on position codes."""

import math

import pytest
import torch
from torch import Tensor

from handmade import PositionalEncoding, TransformerEncoderLayer, generate_square_subsequent_mask, sinusoidal

from .claim import Claim
from .figures import FARTHEST, products
from .measures import apart, normal, random, rms, same

ORDER = torch.tensor([2, 1, 0])


def codes(length: int, d: int) -> Tensor:
    """Position codes in float64."""
    return sinusoidal(length, d, dtype=torch.float64)


def encoder_layer() -> TransformerEncoderLayer:
    """A small layer with random parameters."""
    return random(lambda: TransformerEncoderLayer(8, 2, 16, batch_first=True))


def test_order_is_not_seen(claim: Claim) -> None:
    layer, words = encoder_layer(), normal(1, 3, 8)
    assert same(layer(words[:, ORDER]), layer(words)[:, ORDER])
    mask = generate_square_subsequent_mask(3, dtype=torch.float64)
    distance = apart(layer(words[:, ORDER], src_mask=mask), layer(words, src_mask=mask)[:, ORDER])
    claim.states("({:.2f} apart)", distance)


def test_codes_show_order() -> None:
    layer, words = encoder_layer(), normal(1, 3, 8)
    assert apart(layer(words[:, ORDER] + codes(3, 8)), layer(words + codes(3, 8))[:, ORDER]) > 0.1


def test_self_checks() -> None:
    d, n = 8, 5
    encoding = PositionalEncoding(d, max_len=100)
    out = encoding(torch.zeros(2, n, d))
    assert encoding.pe.shape == (100, d)
    assert out.shape == (2, n, d)
    assert torch.equal(out[0, 0, 0::2], torch.zeros(d // 2))
    assert torch.equal(out[0, 0, 1::2], torch.ones(d // 2))
    for position, dimension, value in (
        (1, 0, math.sin(1)),
        (1, 1, math.cos(1)),
        (3, 2, math.sin(3 / 10000 ** (2 / 8))),
    ):
        assert out[0, position, dimension].item() == pytest.approx(value, rel=1e-6)
    assert torch.equal(out[0], out[1])
    assert list(encoding.parameters()) == []
    assert torch.allclose(encoding(torch.ones(2, n, d)), out + 1)


def test_wavelengths_grow() -> None:
    table = codes(2, 512)
    angles = torch.atan2(table[1, 0::2], table[1, 1::2])
    wavelengths = 2 * math.pi / angles
    factors = wavelengths[1:] / wavelengths[:-1]
    assert wavelengths[0].item() == pytest.approx(2 * math.pi)
    assert factors.min() > 1
    assert factors.max() / factors.min() == pytest.approx(1)
    assert wavelengths[-1] < 10000 * 2 * math.pi


def test_even_and_odd_columns() -> None:
    def recipe(d: int) -> Tensor:
        table = torch.zeros(10, d, dtype=torch.float64)
        angles = torch.arange(10, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, d, 2) / d).double()
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()
        return table

    assert torch.allclose(recipe(8), codes(10, 8), atol=1e-6)
    with pytest.raises(RuntimeError):
        recipe(7)
    assert torch.equal(codes(3, 7)[:, 6], (torch.arange(3, dtype=torch.float64) / 10000 ** (6 / 7)).sin())


def test_two_ways_to_the_frequencies() -> None:
    def frequencies(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        two_i = torch.arange(0, 512, 2, dtype=dtype)
        return torch.exp(two_i * -(math.log(10000.0) / 512)), 1 / 10000 ** (two_i / 512)

    one, other = frequencies(torch.float64)
    assert torch.allclose(one, other, rtol=1e-13, atol=0)
    one, other = frequencies(torch.float32)
    assert torch.allclose(one, other, rtol=1e-5, atol=0)
    assert not torch.equal(one, other)


def test_a_position_has_one_code() -> None:
    encoding = PositionalEncoding(8, dtype=torch.float64)
    short, long = normal(2, 5, 8), normal(3, 40, 8)
    assert torch.allclose(encoding(short) - short, codes(5, 8).expand(2, 5, 8), atol=1e-12)
    assert torch.allclose((encoding(long) - long)[:, :5], codes(5, 8).expand(3, 5, 8), atol=1e-12)


def test_equal_division() -> None:
    short, long = (torch.arange(n) / n for n in (5, 10))
    assert short.tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert (short[1].item(), long[1].item()) == pytest.approx((0.2, 0.1))


def rotation(k: int, d: int) -> Tensor:
    """The matrix that turns every pair (sin, cos) by k positions."""
    sines, cosines = codes(k + 1, d)[k, 0::2], codes(k + 1, d)[k, 1::2]
    blocks = torch.stack([torch.stack([cosines, sines], -1), torch.stack([-sines, cosines], -1)], -2)
    return torch.block_diag(*blocks)


def test_pairs_share_a_rotation(claim: Claim) -> None:
    d = 8
    for table in (codes(10, d), codes(6, d)):
        assert same(rotation(3, d) @ table[1], table[4])
        assert same(rotation(3, d) @ table[2], table[5])
        assert same(table[1] @ table[4], table[2] @ table[5])
        claim.states("({:.2f} of its size", apart(table[5] - table[2], table[4] - table[1]))
    across = products()
    assert (across.max(0) - across.min(0)).max() < 1e-12
    assert abs(across - across[:, ::-1]).max() < 1e-12
    assert across[0, FARTHEST] == pytest.approx(1)
    assert across[0].argmax() == FARTHEST


def test_a_shift_is_linear() -> None:
    table = codes(1000, 64)
    for k in (1, 7, 100):
        assert same(table[:-k] @ rotation(k, 64).T, table[k:], 1e-11)
        assert same(rotation(k, 64) @ rotation(k, 64).T, torch.eye(64, dtype=torch.float64))


def test_extrapolation_does_not_follow(claim: Claim) -> None:
    table, seen = codes(41, 512), torch.arange(10)
    readout = torch.linalg.pinv(table[seen]) @ seen.double()
    assert (table[seen] @ readout - seen).abs().max() < 1e-9
    at_14, at_40 = ((table[position] @ readout).item() for position in (14, 40))
    claim.states("gives {:.1f} at position 14 and {:.1f} at position 40", at_14, at_40)
    basis = torch.linalg.qr(table[seen].T).Q
    claim.states("a part of {:.2f} is no combination", rms(table[40] - basis @ (basis.T @ table[40])) / rms(table[40]))
    assert same(rotation(31, 512) @ table[9], table[40], 1e-11)


def test_rows_of_one_table() -> None:
    encoding = PositionalEncoding(8, dtype=torch.float64)
    source, target = encoding(torch.zeros(1, 7, 8).double()), encoding(torch.zeros(1, 4, 8).double())
    assert torch.equal(source[:, :4], target)
