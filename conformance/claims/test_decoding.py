"""Claims on targets, the loss, and decoding."""

import math

import torch
from torch import Tensor

from handmade import LanguageModel, ModelArgs, SequenceModel, TextModel, beam_search, cross_entropy, greedy, shift_right
from handmade.sampling import distribution
from handmade.softmax import softmax

from .claim import Claim
from .measures import normal, random, same

SRC, TGT = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 3, 4, 5]]), torch.tensor([[1, 3, 4, 5], [1, 6, 7, 8]])


def sequence_model() -> SequenceModel:
    """A small one with random parameters."""
    return random(lambda: SequenceModel(10, 8, 2, 16, 1))


def test_shifted_right() -> None:
    words = ["<s>", "I", "love", "you", "</s>"]
    targets = torch.tensor([words.index(word) for word in ("I", "love", "you", "</s>")])
    assert [words[i] for i in shift_right(targets, words.index("<s>"))] == ["<s>", "I", "love", "you"]


def test_logits() -> None:
    logits = sequence_model()(SRC, TGT)
    assert logits.shape == (2, 4, 10)
    assert logits.min() < 0 < logits.max()


def test_distribution() -> None:
    probabilities = softmax(sequence_model()(SRC, TGT))
    assert probabilities.min() > 0
    assert same(probabilities.sum(-1), torch.ones(2, 4, dtype=torch.float64))


def test_cross_entropy() -> None:
    logits, targets = normal(6, 10), torch.arange(6)
    p = softmax(logits)[torch.arange(6), targets]
    assert same(cross_entropy(logits, targets), -p.log().mean())
    losses = cross_entropy(logits, targets, reduction="none")
    assert torch.equal(losses.argsort(), p.argsort(descending=True))
    padded = torch.tensor([0, 1, 2, 3, -100, -100])
    assert same(cross_entropy(logits, padded), -p[:4].log().mean())


# From <s>: A 0.4, B 0.36, C 0.24. After A two words are about as probable; after B one is certain.
TABLE = torch.tensor(
    [[0, 0.4, 0.36, 0.24, 0], [0, 0, 0, 0.55, 0.45], [0, 0, 0, 0, 1], [0, 0, 0, 0.55, 0.45], [0, 0, 0, 0, 1]],
    dtype=torch.float64,
).log()


def step(ids: Tensor, state: None) -> tuple[Tensor, None]:
    """The table's row of each word."""
    return TABLE[ids], state


def test_greedy() -> None:
    ids = greedy(step, None, [[0]], 2).ids[0]
    assert ids.tolist() == [1, 3]
    assert ids[0] == TABLE[0].argmax()


def test_beam_search(claim: Claim) -> None:
    def best(width: int) -> tuple[list[int], float]:
        found = beam_search(step, None, [[0]], 2, width=width, reorder=lambda state, _: state)
        return found.ids[0, 0].tolist(), math.exp(found.scores[0, 0])

    first = greedy(step, None, [[0]], 2)
    assert best(1)[0] == first.ids[0].tolist()
    ids, probability = best(2)
    assert ids == [2, 4]
    claim.states("{:.2f} against {:.2f}", probability, math.exp(first.scores[0]))


def test_randomness(claim: Claim) -> None:
    logits = torch.tensor([0.62, 0.21, 0.05, 0.05, 0.07], dtype=torch.float64).log()

    def entropy(temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> float:
        p = distribution(logits, temperature, top_k, top_p)
        return -torch.special.xlogy(p, p).sum().item()

    for by in ("temperature", "top_p"):
        values = [entropy(**{by: value}) for value in (0.1, 0.5, 0.7, 1.0)]  # type: ignore[arg-type]
        assert values == sorted(values)
    assert [entropy(top_k=k) for k in range(1, 6)] == sorted(entropy(top_k=k) for k in range(1, 6))
    claim.states("from {:.2f} to {:.2f} nats at temperature 0.5, to {:.2f}", entropy(), entropy(0.5), entropy(top_k=2))
    assert distribution(logits, top_k=1).tolist() == [1, 0, 0, 0, 0]
    assert distribution(logits, temperature=1e-3)[0] == 1


def test_one_word_at_a_time() -> None:
    model = random(lambda: LanguageModel(10, 8, 2, 16, 1, 6))
    ids = TGT[:1, :1]
    for _ in range(4):
        logits, _ = model(ids)
        ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
    at_once, _ = model(ids[:, :-1], ids[:, 1:])
    assert torch.equal(at_once.argmax(-1), ids[:, 1:])


def test_last_position() -> None:
    text = random(lambda: TextModel(ModelArgs(8, 2, 8, 0.0, 6, 10, 6, 1)))
    language = random(lambda: LanguageModel(10, 8, 2, 16, 1, 6))
    for model in (text, language):
        last, loss = model(TGT)
        everywhere, _ = model(TGT, TGT)
        assert loss is None
        assert last.shape == (2, 1, 10)
        assert same(last, everywhere[:, -1:])
