"""Wrong calls as data: what is wrong, and which argument a message should name.

Only what torch refuses stands here. Where torch takes something odd (a negative `dropout_p`, grouped heads of which
key and value have different numbers) no clause asks for a refusal.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .cases.case import Case
from .cases.component import Attention
from .cases.components import COMPONENTS, length
from .inputs import batch_size

Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class BadCall:
    """A good call with one thing wrong.

    Attributes:
        what: what is wrong.
        arguments: those of which a message should name one, first in its text.
        changes: the arguments that replace the good ones.
    """

    what: str
    arguments: tuple[str, ...]
    changes: Arguments


def ranks(case: Case, given: Arguments) -> Iterator[BadCall]:
    """Tensors of one or four dimensions, and tensors of which only some have a batch."""
    for name in COMPONENTS[case.component].tensors:
        x = given[name]
        yield _tensor(name, x.flatten())
        yield _tensor(name, x[None] if x.dim() == 3 else x[None, None])
    for name in COMPONENTS[case.component].tensors[1:]:
        yield _tensor(name, given[name][None] if case.batch is None else given[name][0])


def features(case: Case, given: Arguments) -> Iterator[BadCall]:
    """Tensors with fewer or more features than the parameters are made for."""
    for name in COMPONENTS[case.component].tensors:
        x = given[name]
        yield _tensor(name, x[..., :-1])
        yield _tensor(name, torch.cat([x, x[..., :1]], dim=-1))


def sizes(case: Case, given: Arguments) -> Iterator[BadCall]:
    """Tensors of different batch sizes, and a value that is not as long as the key."""
    batch = 0 if case.batch_first else 1
    if case.batch is not None:
        for name in COMPONENTS[case.component].tensors[1:]:
            yield _tensor(name, torch.cat([given[name]] * 2, dim=batch))
    if case.component == "multihead_attention":
        value = given["value"]
        yield _tensor("value", value.narrow(0 if case.batch is None else 1 - batch, 0, case.source - 1))


def dtypes(case: Case, given: Arguments) -> Iterator[BadCall]:
    """Tensors in another dtype than the parameters'."""
    for name in COMPONENTS[case.component].tensors:
        yield _tensor(name, given[name].float())
        yield _tensor(name, given[name].long())


def no_tensors(case: Case, given: Arguments) -> Iterator[BadCall]:
    """Lists, arrays and None in place of tensors, lists in place of masks."""
    for name in COMPONENTS[case.component].tensors:
        for value in (None, given[name].tolist(), given[name].numpy()):
            yield BadCall(f"{name} is {type(value).__name__}", (name,), {name: value})
    for attention in COMPONENTS[case.component].attentions:
        for name, mask in _good_masks(case, attention).items():
            yield BadCall(f"{name} is a list", (name,), {name: mask.tolist()})


def mask_shapes(case: Case, _given: Arguments) -> Iterator[BadCall]:
    """Attention masks for other lengths, batches or heads."""
    for attention in COMPONENTS[case.component].attentions:
        queries, keys = length(case, attention.query), length(case, attention.key)
        groups = batch_size(case) * case.heads
        wrong = [
            (queries + 1, keys),
            (queries, keys + 1),
            (queries, 1),
            (1, keys),
            (keys,),
            (groups + 1, queries, keys),
            (1, queries, keys),
            (groups, queries, keys + 1),
            (groups, queries - 1, keys),
            (batch_size(case), case.heads, queries, keys),
        ]
        if case.batch is not None:
            wrong.append((case.batch, queries, keys))
        for shape in wrong:
            yield _tensor(attention.mask_argument, torch.zeros(shape, dtype=torch.bool))


def padding_shapes(case: Case, _given: Arguments) -> Iterator[BadCall]:
    """Padding masks for another length or batch, transposed, or of another rank."""
    for attention in COMPONENTS[case.component].attentions:
        keys = length(case, attention.key)
        wrong: list[tuple[int, ...]] = [(1, keys), (keys + 1,), (keys - 1,)]
        if case.batch is not None:
            n = case.batch
            wrong = [(n, keys + 1), (n, keys - 1), (n + 1, keys), (1, keys), (keys,), (keys, n), (n, 1, keys)]
        for shape in wrong:
            yield _tensor(str(attention.padding), torch.zeros(shape, dtype=torch.bool))


def integer_masks(case: Case, _given: Arguments) -> Iterator[BadCall]:
    """Masks of integers, which could mean either polarity."""
    for attention in COMPONENTS[case.component].attentions:
        for name, mask in _good_masks(case, attention).items():
            for dtype in (torch.int64, torch.uint8):
                yield BadCall(f"{name} of {dtype}", (name,), {name: mask.to(dtype)})


def hints(case: Case, _given: Arguments) -> Iterator[BadCall]:
    """Causal hints without the masks that they describe."""
    for attention in COMPONENTS[case.component].attentions:
        name = str(attention.hint_argument)
        yield BadCall(f"{name} without {attention.mask_argument}", (name,), {name: True})


def of_calls(case: Case, given: Arguments) -> Iterator[BadCall]:
    """All wrong calls of a module with attention."""
    for source in (ranks, features, sizes, dtypes, no_tensors, mask_shapes, padding_shapes, integer_masks, hints):
        yield from source(case, given)


def normalized(case: Case, given: Arguments) -> Iterator[BadCall]:
    """Inputs of other trailing dimensions, of another dtype, or that are no tensors."""
    x = given["input"]
    yield _tensor("input", x[..., :-1])
    yield _tensor("input", x.flatten())
    if case.normalized_dims == 2:
        yield _tensor("input", x[:, :-1])
    for dtype in (torch.float32, torch.float16, torch.int64):
        yield _tensor("input", x.to(dtype))
    for value in (None, x.tolist()):
        yield BadCall(f"input is {type(value).__name__}", ("input",), {"input": value})


def attention_tensors(_case: Case, given: Arguments) -> Iterator[BadCall]:
    """Query, key and value of `scaled_dot_product_attention` that do not go together."""
    for name in ("query", "key", "value"):
        yield _tensor(name, given[name].flatten())
        yield _tensor(name, given[name].float(), "query", "key", "value")
        for value in (None, given[name].tolist()):
            yield BadCall(f"{name} is {type(value).__name__}", (name,), {name: value})
    yield BadCall("integers", ("query",), {name: given[name].long() for name in ("query", "key", "value")})
    yield _tensor("query", given["query"][..., :-1], "key")
    yield _tensor("key", given["key"][..., :-1])
    yield _tensor("value", given["value"][..., :-1, :])
    for name in ("key", "value"):
        yield _tensor(name, torch.cat([given[name]] * 2), "query")


def attention_masks(case: Case, _given: Arguments) -> Iterator[BadCall]:
    """Masks of `scaled_dot_product_attention` that do not broadcast, or that are none."""
    n, heads, queries, keys = batch_size(case), case.heads, case.target, case.source
    for shape in (
        (queries, keys + 1),
        (queries + 1, keys),
        (keys + 1,),
        (keys,),
        (),
        (heads + 1, queries, keys),
        (n + 1, 1, queries, keys),
        (n, heads, queries, keys + 1),
        (2, n, heads, queries, keys),
    ):
        yield _tensor("attn_mask", torch.ones(shape, dtype=torch.bool))
    good = torch.ones(queries, keys)
    for dtype in (torch.int64, torch.uint8, torch.float16):
        yield _tensor("attn_mask", good.to(dtype))
    yield BadCall("attn_mask is a list", ("attn_mask",), {"attn_mask": good.tolist()})
    yield BadCall("attn_mask with is_causal", ("attn_mask",), {"attn_mask": good.bool(), "is_causal": True})


def attention_values(_case: Case, _given: Arguments) -> Iterator[BadCall]:
    """A dropout_p that is no probability, a scale that is no number."""
    yield change("dropout_p", 1.1)
    yield change("dropout_p", "much")
    yield change("scale", "small")


def grouped_heads(case: Case, given: Arguments) -> Iterator[BadCall]:
    """Grouped key and value heads that do not divide the query's, or tensors without heads."""
    few = {name: given[name][:, : case.heads - 1] for name in ("key", "value")}
    many = {name: torch.cat([given[name]] * 2, dim=1) for name in ("key", "value")}
    flat = {name: given[name][0, 0] for name in ("query", "key", "value")}
    for what, changes in (("fewer", few), ("more", many), ("no", flat)):
        yield BadCall(f"{what} heads with enable_gqa", ("query",), {**changes, "enable_gqa": True})


def change(name: str, value: Any, *argument: str) -> BadCall:
    """One argument with a wrong value; a message names it, or one of the others given."""
    return BadCall(f"{name}={value!r}", argument or (name,), {name: value})


def _tensor(name: str, value: Tensor, *argument: str) -> BadCall:
    return BadCall(f"{name} of shape {tuple(value.shape)} and {value.dtype}", argument or (name,), {name: value})


def _good_masks(case: Case, attention: Attention) -> dict[str, Tensor]:
    keys = length(case, attention.key)
    made = {attention.mask_argument: torch.zeros(length(case, attention.query), keys, dtype=torch.bool)}
    if attention.padding:
        sizes = (keys,) if case.batch is None else (case.batch, keys)
        made[attention.padding] = torch.zeros(sizes, dtype=torch.bool)
    return made
