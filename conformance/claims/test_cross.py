"""Claims on cross-attention."""

from typing import Any

import torch
from torch import Tensor, nn

from handmade import (
    Decoder,
    MultiheadAttention,
    Transformer,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    generate_square_subsequent_mask,
)

from .measures import depends, initial, normal, random, same

TGT, MEMORY = normal(2, 4, 8), normal(2, 5, 8, seed=1)


def layer(norm_first: bool = False) -> TransformerDecoderLayer:
    """A small decoder layer with random parameters."""
    return random(lambda: TransformerDecoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first))


def test_shapes() -> None:
    attn = random(lambda: MultiheadAttention(8, 2, batch_first=True))
    output, weights = attn(TGT, MEMORY, MEMORY)
    assert weights is not None
    assert (output.shape, weights.shape) == ((2, 4, 8), (2, 4, 5))


def seen(module: nn.Module, *arguments: Tensor) -> list[tuple[Tensor, ...]]:
    """The queries, keys and values with which a module's attentions are called, in order."""
    calls: list[tuple[Tensor, ...]] = []

    def record(_: nn.Module, given: tuple[Tensor, ...], named: dict[str, Any]) -> None:
        calls.append((*given[:3], *(named[name] for name in ("query", "key", "value")[len(given) :])))

    attentions = [m for m in module.modules() if isinstance(m, MultiheadAttention | nn.MultiheadAttention)]
    handles = [m.register_forward_pre_hook(record, with_kwargs=True) for m in attentions]
    module.train()(*arguments)
    for handle in handles:
        handle.remove()
    return calls


def test_sources() -> None:
    ours = random(lambda: Decoder(8, 2, 16, N=2))
    theirs = initial(
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)
    )
    for decoder in (ours, theirs):
        own, cross, own_again, cross_again = seen(decoder, TGT, MEMORY)
        assert own[0] is own[1] is own[2] is TGT
        assert own_again[0] is own_again[1] is own_again[2]
        for query, key, value in (cross, cross_again):
            assert key is value is MEMORY
            assert query.shape == TGT.shape
            assert query is not MEMORY


def test_no_causal_mask() -> None:
    mask = generate_square_subsequent_mask(4, dtype=torch.float64)
    decoder = layer()
    assert depends(lambda memory: decoder(TGT[0], memory, tgt_mask=mask), MEMORY[0]).all()
    own = depends(lambda tgt: decoder(tgt, MEMORY[0], tgt_mask=mask), TGT[0])
    assert torch.equal(own, torch.ones(4, 4, dtype=torch.bool).tril())
    shared = depends(lambda words: decoder(words, words, tgt_mask=mask), TGT[0])
    assert shared.all()


def test_source_padding() -> None:
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    out = layer()(TGT, MEMORY, memory_key_padding_mask=padding)
    assert same(out[1], layer()(TGT[1:], MEMORY[1:, :3])[0])
    assert not same(out[1], layer()(TGT, MEMORY)[1], 1e-3)
    assert same(out[0], layer()(TGT, MEMORY)[0])


def test_one_attention() -> None:
    decoder = layer(norm_first=True)
    decoder.multihead_attn.load_state_dict(decoder.self_attn.state_dict())
    own, _ = decoder.self_attn(TGT, TGT, TGT)
    cross, _ = decoder.multihead_attn(TGT, TGT, TGT)
    assert torch.equal(own, cross)
    assert not same(decoder.multihead_attn(TGT, MEMORY, MEMORY)[0], own, 0.1)


def test_later_layers() -> None:
    for norm_first in (False, True):
        encoder = random(
            lambda: TransformerEncoder(TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first), 2)  # noqa: B023
        )
        (first, *_), (second, *_) = seen(encoder, TGT)
        assert (first is TGT) != norm_first
        assert not same(second, TGT, 0.1)


def test_lengths() -> None:
    model = random(lambda: Transformer(8, 2, 1, 1, 16, batch_first=True))
    for n in (1, 4, 7):
        assert model(normal(2, n, 8), TGT).shape == (2, 4, 8)
