"""Claims on embeddings."""

import math

import pytest
import torch
from torch import nn

from handmade import Embedding, Linear, TokenEmbedding, sinusoidal

from .claim import Claim
from .measures import initial, normal, parameters, rms, same

IDS = torch.tensor([[1, 2, 3], [1, 4, 0]])


def test_look_up() -> None:
    table = initial(lambda: Embedding(5, 4))
    one_hot = torch.eye(5, dtype=torch.float64)[IDS]
    assert table(IDS).shape == (2, 3, 4)
    assert torch.equal(table(IDS), one_hot @ table.weight)


def test_size_of_embeddings(claim: Claim) -> None:
    d, ids = 512, torch.arange(1000)
    code = rms(sinusoidal(1000, d, dtype=torch.float64))
    embedding = initial(lambda: TokenEmbedding(1000, d))
    with torch.no_grad():
        standard = rms(embedding(ids))
        embedding.emb.weight.div_(math.sqrt(d))
        small = rms(embedding(ids))
    claim.states("rms {:.2f} against {:.2f}", small, code)
    claim.states("rms {:.1f} against {:.2f}", standard, code)
    assert standard > 30 * code


def test_words_drown(claim: Claim) -> None:
    d = 512
    code, words = rms(sinusoidal(1000, d, dtype=torch.float64)), rms(initial(lambda: Embedding(1000, d)).weight)
    claim.states("{:.0f} times as large", code / (words / math.sqrt(d)))
    claim.states("{:.2f} against {:.2f}", words, code)
    assert words > code


def test_a_token_has_one_vector() -> None:
    out = initial(lambda: TokenEmbedding(5, 4))(torch.tensor([[1, 2, 1], [3, 1, 1]]))
    assert all(torch.equal(out[place], out[0, 0]) for place in ((0, 2), (1, 1), (1, 2)))
    assert not torch.equal(out[0, 1], out[0, 0])


def test_one_hot_vectors() -> None:
    vectors = torch.eye(1000, dtype=torch.float64)
    assert torch.equal(vectors @ vectors.T, torch.eye(1000, dtype=torch.float64))
    assert torch.allclose(torch.pdist(vectors[:50]), torch.tensor(math.sqrt(2), dtype=torch.float64))
    assert vectors.count_nonzero() / vectors.numel() == 1 / 1000
    d = 64
    assert torch.linalg.matrix_rank(normal(1000, d)) == d


def test_weight_tying(claim: Claim) -> None:
    v, d = 30_000, 512
    with torch.device("meta"):
        source, target, output = Embedding(v, d), Embedding(v, d), Linear(d, v, bias=False)
    model = nn.ModuleList([source, target, output])
    apart = parameters(model)
    output.weight = target.weight
    once = apart - parameters(model)
    source.weight = target.weight
    twice = apart - parameters(model)
    assert (once, twice) == (v * d, 2 * v * d)
    claim.states("{:.2f} million, and {:.2f} million", once / 1e6, twice / 1e6)


def test_tied_table_finds_its_rows() -> None:
    table = normal(100, 16)
    equal = table / table.norm(dim=1, keepdim=True)
    assert torch.equal((equal @ equal.T).argmax(-1), torch.arange(100))
    doubled = torch.cat([equal, 2 * equal[:1]])
    assert (doubled @ doubled.T).argmax(-1)[0] == 100


@pytest.mark.parametrize("id", [-1, 5])
def test_ids_outside(id: int) -> None:
    with pytest.raises(ValueError, match="input"):
        Embedding(5, 4)(torch.tensor([id]))
    with pytest.raises(IndexError):
        nn.Embedding(5, 4)(torch.tensor([id]))


def test_self_checks() -> None:
    embedding = initial(lambda: TokenEmbedding(5, 4))
    out, weight = embedding(IDS), embedding.emb.weight
    assert weight.shape == (5, 4)
    assert out.shape == (2, 3, 4)
    assert same(out[0, 0], weight[1] * 2)
    assert torch.equal(out[0, 0], out[1, 0])
    assert weight.requires_grad
    assert parameters(embedding) == 20
    assert out[1, 2].abs().min() > 0
