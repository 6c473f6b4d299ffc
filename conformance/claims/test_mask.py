"""Claims on masks."""

import pytest
import torch
from torch import Tensor, nn

from handmade import (
    Transformer,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    generate_square_subsequent_mask,
    shift_right,
)
from handmade.attention import attention
from handmade.masks import apply, causal_keep
from handmade.softmax import softmax

from .claim import Claim
from .measures import apart, depends, normal, random, same

SCORES = torch.tensor(
    [[2.0, 1.0, 0.5, 0.3], [0.8, 2.2, 1.1, 0.4], [0.3, 1.5, 2.0, 0.9], [0.2, 0.7, 1.3, 2.5]], dtype=torch.float64
)
CAUSAL = generate_square_subsequent_mask(4, dtype=torch.float64)
BEFORE = torch.ones(5, 5, dtype=torch.bool).tril()


def encoder() -> TransformerEncoder:
    """Two layers with random parameters."""
    return random(lambda: TransformerEncoder(TransformerEncoderLayer(8, 2, 16, batch_first=True), 2))


def test_first_rows_of_the_table() -> None:
    weights = softmax(SCORES + CAUSAL)
    assert (weights.triu(1) == 0).all()
    assert weights[0, 0] == 1
    assert [round(w, 2) for w in weights[1, :2].tolist()] == [0.20, 0.80]


def test_third_row_of_the_table(claim: Claim) -> None:
    weights = softmax(SCORES + CAUSAL)
    assert (weights[2, :3] - torch.tensor([0.07, 0.33, 0.60])).abs().max() > 0.03
    claim.states("becomes {:.3f}, {:.3f}, {:.3f}", *weights[2, :3].tolist())
    claim.states("is {:.3f}, {:.3f}, {:.3f}, {:.3f}", *weights[3].tolist())


def test_mask_after_softmax(claim: Claim) -> None:
    before, after = softmax(SCORES + CAUSAL), softmax(SCORES).tril()
    assert same(before.sum(-1), torch.ones(4, dtype=torch.float64))
    assert (after.sum(-1)[:3] < 0.95).all()
    claim.states("sum to {:.2f}", after[0].sum().item())
    assert same(after / after.sum(-1, keepdim=True), before)


def test_causal_dependence() -> None:
    _, weights = attention(
        normal(5, 8), normal(5, 8, seed=1), normal(5, 8, seed=2), causal_keep(5, 5, torch.device("cpu"))
    )
    assert torch.equal(weights > 0, BEFORE)


def test_the_word_itself() -> None:
    def decoded(inputs: Tensor) -> Tensor:
        mask = generate_square_subsequent_mask(inputs.size(0), dtype=torch.float64)
        return layer(inputs, normal(3, 8, seed=1), tgt_mask=mask)

    layer = random(lambda: TransformerDecoderLayer(8, 2, 16))
    assert torch.equal(depends(decoded, normal(5, 8)), BEFORE)
    words, start = normal(5, 8), normal(1, 8, seed=2)
    shifted = depends(lambda answers: decoded(torch.cat([start, answers[:-1]])), words)
    assert torch.equal(shifted, BEFORE.tril(-1))


def test_triangle() -> None:
    mask = torch.full((1, 1, 6, 6), -torch.inf, dtype=torch.float64).triu(1)
    assert torch.equal(mask[0, 0, :4, :4], CAUSAL)
    assert (mask[0, 0].diagonal() == 0).all()
    assert torch.equal(CAUSAL.isneginf(), torch.ones(4, 4, dtype=torch.bool).triu(1))
    q = normal(2, 3, 4, 8)
    _, weights = attention(q, q, q, mask[:, :, :4, :4])
    assert (weights.triu(1) == 0).all()


def test_padding() -> None:
    model, x = encoder(), normal(2, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    out = model(x, src_key_padding_mask=padding)
    assert same(out[1, :3], model(x[1:, :3])[0])
    assert apart(model(x)[1, :3], out[1, :3]) > 0.1
    first = model.layers[0]
    assert isinstance(first, TransformerEncoderLayer)
    _, weights = first.self_attn(x, x, x, padding)
    assert weights is not None
    assert (weights[1, :, 3:] == 0).all()
    assert out[1, 3:].abs().min() > 0


def test_copying(claim: Claim) -> None:
    classes, length = 4, 2000
    answers = torch.randint(classes, (length,), generator=torch.Generator().manual_seed(0))
    inputs = nn.functional.one_hot(shift_right(answers, 0), classes).double()
    positions = torch.eye(length, dtype=torch.float64)
    ahead = 50 * positions.roll(1, dims=1)

    def right(mask: Tensor | None) -> float:
        context, _ = attention(ahead, positions, inputs, mask, scale=1.0)
        return (context.argmax(-1) == answers)[:-1].double().mean().item()

    without, causal = right(None), right(causal_keep(length, length, torch.device("cpu")))
    claim.states("{:.0f} % right on random words", 100 * without)
    claim.states("the same attention has {:.0f} %", 100 * causal)


def test_parallel_is_step_by_step() -> None:
    layer, words, memory = random(lambda: TransformerDecoderLayer(8, 2, 16)), normal(5, 8), normal(3, 8, seed=1)

    def run(n: int) -> Tensor:
        return layer(words[:n], memory, tgt_mask=generate_square_subsequent_mask(n, dtype=torch.float64))

    for n in range(1, 6):
        assert same(run(n)[-1], run(5)[n - 1])
    assert apart(layer(words[:3], memory), layer(words, memory)[:3]) > 0.01


def test_both_sides() -> None:
    model = encoder()
    assert depends(lambda x: model(x.unsqueeze(0))[0], normal(5, 8)).all()
    mask = generate_square_subsequent_mask(5, dtype=torch.float64)
    assert torch.equal(depends(lambda x: model(x.unsqueeze(0), mask=mask)[0], normal(5, 8)), BEFORE)


def test_any_mask() -> None:
    model, x = encoder(), normal(1, 5, 8)
    favoured = torch.zeros(5, 5, dtype=torch.float64)
    favoured[0, 3] = 0.5
    assert apart(model(x, mask=favoured), model(x)) > 1e-3
    scores = normal(5, 5)
    assert torch.equal(apply(scores, favoured), scores + favoured)
    by_head = torch.stack([favoured, favoured.T])
    assert apart(model(x, mask=by_head), model(x, mask=favoured)) > 1e-3


def test_source_mask_acts(claim: Claim) -> None:
    model = random(lambda: Transformer(8, 2, 1, 1, 16, batch_first=True))
    src, tgt = normal(1, 5, 8), normal(1, 4, 8, seed=1)
    mask = generate_square_subsequent_mask(5, dtype=torch.float64)
    claim.states("moves by {:.2f}", apart(model(src, tgt, src_mask=mask), model(src, tgt)))
    theirs = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).double().eval()
    theirs.load_state_dict(model.state_dict())
    assert same(theirs(src, tgt, src_mask=mask), model(src, tgt, src_mask=mask), 1e-10)


def test_memory_mask() -> None:
    layer = random(lambda: TransformerDecoderLayer(8, 2, 16, batch_first=True))
    tgt, memory = normal(2, 4, 8), normal(2, 5, 8, seed=1)
    lengths = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    out = layer(tgt, memory, memory_key_padding_mask=lengths)
    assert same(out[1], layer(tgt[1:], memory[1:, :3])[0])
    with pytest.raises(ValueError, match="memory_mask"):
        layer(tgt, memory, memory_mask=lengths)
