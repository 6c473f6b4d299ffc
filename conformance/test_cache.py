"""CACHE: with the keys and values kept, each position costs one step and comes out as without."""

from typing import Any

import numpy as np
import torch

from .arguments import array
from .bad_calls import change
from .cached import Stack, ids, joined, model, stack
from .cases.case import Case
from .clauses import MUST, PAPER, clause
from .test_error import require_refusals
from .trial import Trial

SHAZEER = "Shazeer 2019, 'Fast Transformer Decoding', section 2.4"
# Longer than the memory that a cache takes first.
LENGTH = 19
NORMS = [Case("decoding", norm_first=norm_first, target=LENGTH) for norm_first in (False, True)]
STACKS = [
    *NORMS,
    Case("decoding", batch_first=False, layers=3, target=LENGTH, batch=3),
    Case("decoding", norm_first=True, final_norm=False, layers=1, activation="gelu", bias=False, target=LENGTH),
    Case("decoding", dtype="float32", target=LENGTH),
]
PADDED = [
    Case("decoding", norm_first=norm_first, target=LENGTH, batch=3, tgt_key_padding_mask=target, memory_key_padding_mask=memory)
    for norm_first, target, memory in ((False, "none", "right"), (True, "left", "holes"), (False, "holes", "left"))
]  # fmt: skip
SEQUENCE_MODELS = [
    Case("sequence_model", norm_first=norm_first, tied=tied, padding_idx=padding, target=13)
    for norm_first, tied, padding in ((False, False, None), (True, True, None), (False, True, 0), (True, False, 2))
]
LANGUAGE_MODELS = [Case("language_model", norm_first=norm_first, target=11) for norm_first in (False, True)]


def require_prefixes(trial: Trial, one: Stack) -> None:
    """Each step gives what the last position of the whole prefix is."""
    cache = one.start()
    steps = [one.step(cache, place) for place in range(one.case.target)]
    trial.require_same("output", joined(steps), joined(one.whole(n + 1)[:, -1:] for n in range(one.case.target)))


@clause("CACHE-01", MUST, SHAZEER, STACKS)
def test_decoder(trial: Trial) -> None:
    """A decoder given its target position by position returns at each what it returns for that prefix at once."""
    require_prefixes(trial, stack(trial, "decoder"))


@clause("CACHE-02", MUST, SHAZEER, STACKS)
def test_encoder(trial: Trial) -> None:
    """So does an encoder under a causal mask, which is a decoder without a memory."""
    require_prefixes(trial, stack(trial, "encoder"))


@clause("CACHE-03", MUST, SHAZEER, PADDED)
def test_padding(trial: Trial) -> None:
    """Padding of the memory and hidden positions of the target stay hidden, from all steps that follow."""
    require_prefixes(trial, stack(trial, "decoder"))
    require_prefixes(trial, stack(trial, "encoder"))


@clause("CACHE-04", MUST, SHAZEER, [*NORMS, *PADDED[1:]])
def test_pieces(trial: Trial) -> None:
    """Several positions in one step come out as one by one."""
    for component in ("decoder", "encoder"):
        one = stack(trial, component)
        for first in (1, 2, 5, LENGTH):
            cache, pieces = one.start(), []
            for start in range(0, LENGTH, first):
                pieces.append(one.step(cache, start, min(first, LENGTH - start)))
            trial.require_same(f"{component} in pieces of {first}", joined(pieces), array(one.whole(LENGTH)))


@clause("CACHE-05", MUST, SHAZEER, PADDED)
def test_content_of_padding(trial: Trial) -> None:
    """What stands at hidden positions, of the target or of the memory, reaches no other position, not even NaN."""
    one, same = stack(trial, "decoder"), stack(trial, "decoder")
    for place, hidden in ((one.x, one.hidden), (one.memory, one.memory_hidden)):
        if hidden is not None:
            place[hidden] = torch.nan
    seen = torch.ones(one.x.shape[:2], dtype=torch.bool) if one.hidden is None else ~one.hidden
    found, expected = (_steps(each) for each in (one, same))
    trial.require_same("output", array(found[seen]), array(expected[seen]))


@clause("CACHE-06", MUST, SHAZEER, [*NORMS, PADDED[1]])
def test_memory_once(trial: Trial) -> None:
    """The memory is read once: what happens to it after the start changes nothing."""
    one, same = stack(trial, "decoder"), stack(trial, "decoder")
    cache = one.start()
    one.memory.fill_(torch.nan)
    found = torch.cat([one.step(cache, place) for place in range(5)], dim=1)
    trial.require_same("output", array(found), array(_steps(same)[:, :5]))


@clause("CACHE-07", MUST, SHAZEER, [case.but(batch=3) for case in (*STACKS, *PADDED)])
def test_reorder(trial: Trial) -> None:
    """A cache reordered goes on as one of the sequences in that order, once, several times or not at all."""
    for component in ("decoder", "encoder"):
        one = stack(trial, component)
        whole = one.whole(LENGTH)
        for order in ([2, 0, 1], [1, 1, 0, 2, 2], [2], [0, 1, 2]):
            rows, cache = torch.tensor(order), one.start()
            for place in range(6):
                one.step(cache, place)
            chosen = cache.reorder(rows)
            found = [one.step(chosen, place, rows=rows) for place in range(6, LENGTH)]
            trial.require_same(f"{component} after {order}", joined(found), array(whole[rows, 6:]))


@clause("CACHE-08", MUST, SHAZEER, [*NORMS, *PADDED[1:]])
def test_branches(trial: Trial) -> None:
    """A cache and the one that was made by reordering it share nothing: both go on by themselves."""
    for component in ("decoder", "encoder"):
        one, everyone = stack(trial, component), torch.arange(trial.case.batch or 1)
        cache, alone = one.start(), one.start()
        for each in (cache, alone):
            one.step(each, 0, 4)
        copy = cache.reorder(everyone)
        # The copy goes elsewhere, the first one on, and the copy further.
        for each in (copy, alone):
            one.step(each, 9, 5)
        found = [one.step(cache, place) for place in range(4, LENGTH)]
        trial.require_same(f"{component} beside a copy", joined(found), array(one.whole(LENGTH)[:, 4:]))
        further, expected = (one.step(each, 14, 5) for each in (copy, alone))
        trial.require_same(f"{component}'s copy", array(further), array(expected))
        trial.require(copy.length == 14, f"length of {component}'s copy: expected 14, got {copy.length}")


@clause("CACHE-09", MUST, PAPER, SEQUENCE_MODELS)
def test_sequence_model(trial: Trial) -> None:
    """A sequence model, step by step, gives the logits that it gives for each prefix of the target at once."""
    made: Any = model(trial)
    src, tgt = ids(trial.case, "src", trial.case.source), ids(trial.case, "tgt", trial.case.target)
    cache, steps = made.start(src), []
    for place in range(tgt.size(1)):
        logits, cache = made.step(tgt[:, place], cache)
        steps.append(logits.unsqueeze(1))
    with torch.no_grad():
        whole = [made(src, tgt[:, : n + 1])[:, -1:] for n in range(tgt.size(1))]
    trial.require_same("logits", joined(steps), joined(whole))
    at_once, _ = made.step(tgt, made.start(src))
    trial.require_same("logits of one step", array(at_once), joined(whole))


@clause("CACHE-10", MUST, PAPER, LANGUAGE_MODELS)
def test_language_model(trial: Trial) -> None:
    """A language model, step by step, gives the logits of the last position of each prefix at once."""
    made: Any = model(trial)
    text = ids(trial.case, "ids", trial.case.target)
    cache, steps = made.start(text.size(0)), []
    for place in range(text.size(1)):
        logits, cache = made.step(text[:, place], cache)
        steps.append(logits.unsqueeze(1))
    with torch.no_grad():
        whole = [made(text[:, : n + 1])[0] for n in range(text.size(1))]
    trial.require_same("logits", joined(steps), joined(whole))
    at_once, _ = made.step(text, made.start(text.size(0)))
    trial.require_same("logits of one step", array(at_once), joined(whole))


@clause("CACHE-11", MUST, SHAZEER, NORMS)
def test_no_gradient(trial: Trial) -> None:
    """A step records no gradient, and leaves its input and the parameters as they are."""
    one = stack(trial, "decoder")
    before = [array(value) for value in (one.x, *one.module.parameters())]
    made = one.step(one.start(), 0)
    trial.require(not made.requires_grad, "output: expected no gradient, got one")
    after = [array(value) for value in (one.x, *one.module.parameters())]
    trial.require(all(map(np.array_equal, before, after)), "input and parameters: expected them unchanged")


@clause("CACHE-12", MUST, SHAZEER, [Case("decoding"), Case("decoding", batch_first=False, norm_first=True)])
def test_errors(trial: Trial) -> None:
    """A cache of another batch size, positions of another size or number, and masks that do not fit are refused."""
    for component, name in (("decoder", "tgt"), ("encoder", "src")):
        one = stack(trial, component)
        x, mask = one.layout(one.x[:, :2]), f"{name}_key_padding_mask"
        hidden = torch.zeros(2, 2, dtype=torch.bool)
        good = {name: x, mask: None}
        calls = [
            change(name, one.layout(one.x[:1, :2])),
            change(name, one.layout(torch.cat([one.x, one.x])[:, :2])),
            change(name, one.layout(one.x[:, :0])),
            change(name, x[..., :-1]),
            change(name, x[0]),
            change(name, x.float()),
            change(mask, hidden[:1]),
            change(mask, hidden[:, :1]),
            change(mask, hidden.double()),
        ]

        def step(one: Stack = one, good: dict[str, Any] = good, **changes: Any) -> None:
            one.module.step(cache=one.start(), **{**good, **changes})

        def reorder(one: Stack = one, indices: list[Any] | None = None) -> None:
            one.start().reorder(torch.tensor([1, 0] if indices is None else indices))

        require_refusals(trial, step, calls)
        require_refusals(trial, reorder, [change("indices", bad) for bad in ([2], [-1], [[0, 1]])])


@clause("CACHE-13", MUST, PAPER, [*SEQUENCE_MODELS[:1], *LANGUAGE_MODELS[:1]])
def test_model_errors(trial: Trial) -> None:
    """A model's step refuses ids out of range, none, a cache of another batch size, and more ids than it has places."""
    made: Any = model(trial)
    text = trial.case.component == "language_model"

    def step(ids: Any = (1, 2)) -> None:
        cache = made.start(2) if text else made.start(torch.ones(2, 3, dtype=torch.int64))
        made.step(torch.tensor(ids) if isinstance(ids, tuple) else ids, cache)

    wrong: list[Any] = [(1, 9), (-1, 1), (1,), (1, 2, 3), (0.0, 1.0), torch.zeros(2, 0, dtype=torch.int64), [1, 2]]
    if text:
        wrong.append(torch.zeros(2, trial.case.max_len + 1, dtype=torch.int64))
    require_refusals(trial, step, [change("ids", bad) for bad in wrong])


def _steps(one: Stack) -> torch.Tensor:
    cache = one.start()
    return torch.cat([one.step(cache, place) for place in range(one.case.target)], dim=1)
