"""Claims on the hand-written model of the walk-through, executed on the exhibit and on the handmade text model."""

import copy
import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from conformance.clauses import load_all
from conformance.evaluation import Outcome, evaluate
from conformance.subjects import Adapter
from conformance.subjects.call import Call
from conformance.subjects.subject import Subject
from conformance.trial import Trial
from conformance.verdicts import Verdict
from handmade import LayerNorm, ModelArgs, PositionalEncoding, TextModel, TransformerEncoderLayer, text_layers

from .claim import Claim
from .exhibit import PublishedLayer, PublishedNorm, published_attention, with_published_norms
from .measures import apart, normal, parameters, random, same

ARGS = ModelArgs(n_embd=16, n_heads=4, dim=16, dropout=0.0, max_seq_len=8, vocab_size=10, block_size=6, n_layer=1)
X = 2 * normal(2, 5, 16)


def layer(norm_first: bool = True) -> TransformerEncoderLayer:
    """The handmade layer with random parameters, the same for both values."""
    return random(lambda: TransformerEncoderLayer(16, 4, 64, dropout=0.0, batch_first=True, norm_first=norm_first))


class PublishedAdapter(Adapter):
    """The exhibit, compared with torch's layer of one norm position."""

    component = "encoder_layer"
    unsupported = ("src_key_padding_mask",)

    def __init__(self, norm_first: bool) -> None:
        self.reference = {"norm_first": norm_first}  # type: ignore[misc]

    def build(self, config: SimpleNamespace) -> nn.Module:
        """The exhibit around a handmade layer's parts."""
        return PublishedLayer(self.handmade(config))

    def handmade(self, config: SimpleNamespace) -> TransformerEncoderLayer:
        """The layer whose parts it takes."""
        return TransformerEncoderLayer(
            config.d_model, config.nhead, config.dim_feedforward, 0.0, batch_first=True, norm_first=config.norm_first
        )

    def forward(self, module: nn.Module, call: Call) -> Tensor:
        """Without masks."""
        return module(call.x)


class PublishedNormAdapter(PublishedAdapter):
    """torch's Pre-Norm layer but for the definition of its norms."""

    def build(self, config: SimpleNamespace) -> nn.Module:
        """The handmade layer with published norms."""
        return with_published_norms(self.handmade(config))


def verdict(adapter: Adapter, clause: str) -> Outcome:
    """What the suite says of an adapter, on the first case of a clause that it takes."""
    subject, chosen = Subject("published", {adapter.component: adapter}), load_all()[clause]
    case = next(case for case in subject.cases(chosen) if subject.refusal(case) is None)
    return evaluate(Trial(subject, case, chosen))


def test_neither_norm_first(claim: Claim) -> None:
    out, post, pre = PublishedLayer(layer())(X), layer(norm_first=False)(X), layer()(X)
    claim.states("{:.2f} from norm_first=True and {:.2f} from norm_first=False", apart(out, pre), apart(out, post))
    for norm_first, clause in ((False, "NORM-02"), (True, "NORM-03")):
        assert verdict(PublishedAdapter(norm_first), clause).verdict is Verdict.DIFFERS


def test_identity() -> None:
    published, without = PublishedLayer(layer()), layer()
    without.norm1 = nn.Identity()  # type: ignore[assignment]
    assert same(published(X), without(layer().norm1(X)))
    assert not same(published(X), without(X), 0.1)


def test_published_norm(claim: Claim) -> None:
    for d in (4, 512):
        x = normal(10, d)
        ratio = PublishedNorm(d).double()(x) / LayerNorm(d, eps=1e-12).double()(x)
        assert same(ratio, torch.full_like(ratio, math.sqrt((d - 1) / d)), 1e-5)
        claim.states(f"{{:.3f}} at d = {d}", ratio.mean().item())
    message = verdict(PublishedNormAdapter(norm_first=True), "NORM-04").message
    assert "eps added to the unbiased standard deviation, eps = 1e-06" in message


def test_lengths_of_cross_attention() -> None:
    q, memory = normal(2, 4, 8), normal(2, 5, 8)
    equal = published_attention(q, memory[:, :4], memory[:, :4], heads=2)
    heads = (x.unflatten(-1, (2, 4)).transpose(1, 2) for x in (q, memory[:, :4], memory[:, :4]))
    assert same(equal, text_layers.attention(*heads)[0].transpose(1, 2).flatten(2))
    with pytest.raises(RuntimeError, match="shape"):
        published_attention(q, memory, memory, heads=2)
    attn = random(lambda: text_layers.MultiHeadAttention(dataclasses.replace(ARGS, n_embd=8, dim=8)))
    assert attn(q, memory, memory).shape == (2, 4, 8)


def test_the_future_leaks(claim: Claim) -> None:
    model, ids = random(lambda: TextModel(ARGS)), torch.tensor([[3, 4, 5, 6, 7]])
    later = ids.clone()
    later[0, -1] = 2
    before, after = (model(x, x)[0][:, :-1] for x in (ids, later))
    claim.states("changes earlier logits by {:.2f}", apart(after, before))
    memory = normal(1, 5, 16)
    one, other = (model.decoder(model.wpe(model.wte(x)), memory)[:, :-1] for x in (ids, later))
    assert same(one, other)


def test_padding_acts(claim: Claim) -> None:
    model, ids = random(lambda: TextModel(ARGS)), torch.tensor([[3, 4, 5, 0, 0]])
    other = torch.tensor([[3, 4, 5, 7, 8]])
    one, another = (model.encoder(model.wpe(model.wte(x)))[:, :3] for x in (ids, other))
    claim.states("vectors by {:.2f}", apart(another, one))
    out = PublishedLayer(layer())(X)
    changed = X.clone()
    changed[:, 3:] = 1.0
    assert apart(PublishedLayer(layer())(changed)[:, :3], out[:, :3]) > 0.01


def test_network() -> None:
    net, x = random(lambda: text_layers.MLP(8, 32, 0.5)), normal(5, 8)
    assert same(net(x), (x @ net.w1.weight.T).relu() @ net.w2.weight.T)
    assert parameters(net) == 8 * 8**2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        dropped = net.train()(x)
    kept = dropped != 0
    assert 0 < kept.double().mean() < 1
    assert same(dropped[kept], 2 * net.eval()(x)[kept])


def test_buffers() -> None:
    class Saved(nn.Module):
        def __init__(self, block_size: int) -> None:
            super().__init__()
            self.register_buffer("pe", PositionalEncoding(8, block_size).pe)

    saved = Saved(10).state_dict()
    assert list(saved) == ["pe"]
    assert list(Saved(10).parameters()) == []
    with pytest.raises(RuntimeError, match="size mismatch"):
        Saved(20).load_state_dict(copy.deepcopy(saved))
    assert list(PositionalEncoding(8, 10).state_dict()) == []


def test_configuration() -> None:
    fields = [field.name for field in dataclasses.fields(ModelArgs)]
    assert fields == ["n_embd", "n_heads", "dim", "dropout", "max_seq_len", "vocab_size", "block_size", "n_layer"]
    with pytest.raises(ValueError, match="dim"):
        dataclasses.replace(ARGS, dim=32)
    with pytest.raises(ValueError, match="block_size"):
        dataclasses.replace(ARGS, block_size=9)
