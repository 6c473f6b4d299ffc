"""The numbers of a case: tensors, masks, cotangents, and which rows of the output are real and live.

All are float64 NumPy arrays whose values the case's dtype represents exactly, so that every witness sees the same
numbers; batch comes first here whatever the case says.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .cases.case import Case
from .cases.component import Attention, Component, Shapes
from .cases.components import COMPONENTS, length, shared_tensors
from .cases.masks import CAUSAL_KINDS, attention_mask, padding_mask
from .pretrained import embedded_sentences

# What the callee is told of a causal mask; "wrong" says it of other masks as well.
HINTS = {"true": True, "false": False, "wrong": True}


@dataclass(frozen=True)
class Inputs:
    """What a case is called with.

    Attributes:
        tensors: by torch's argument name, batch first; "key" may be absent where the query serves.
        masks: by torch's argument name, in the polarity of the callee (torch.nn: True = hidden).
        integers: tokens and classes, by argument name.
        flags: further arguments.
        cotangents: one per output, or None; 0 on rows that are padded or dead.
        real: (batch, length), True where the output's row is no padding.
        live: (batch, length), True where every attention of the row sees a key.
    """

    case: Case
    tensors: dict[str, np.ndarray]
    masks: dict[str, np.ndarray]
    flags: dict[str, Any]
    cotangents: tuple[np.ndarray | None, ...] = ()
    real: np.ndarray = field(default_factory=lambda: np.ones((1, 1), dtype=bool))
    live: np.ndarray = field(default_factory=lambda: np.ones((1, 1), dtype=bool))
    integers: dict[str, np.ndarray] = field(default_factory=dict)

    def but(self, **changes: Any) -> "Inputs":
        """The same with some attributes replaced."""
        return dataclasses.replace(self, **changes)

    def with_tensor(self, name: str, value: np.ndarray) -> "Inputs":
        """The same with one tensor replaced."""
        return self.but(tensors={**self.tensors, name: value})

    def with_mask(self, name: str, value: np.ndarray | None) -> "Inputs":
        """The same with one mask replaced, or taken away."""
        kept = {key: mask for key, mask in self.masks.items() if key != name}
        return self.but(masks=kept if value is None else {**kept, name: value})


def representable(value: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest values that `dtype` has."""
    if value.dtype == bool or dtype == "float64":
        return value
    return torch.from_numpy(value).to(getattr(torch, dtype)).double().numpy()


def make_inputs(case: Case) -> Inputs:
    """The inputs of a case, all from its own random streams, or the sentences of a trained encoder."""
    if case.weights == "trained":
        return _sentences(case)
    component = COMPONENTS[case.component]
    if component.shapes is not None:
        return _part(case, component, component.shapes(case))
    tensors = {
        name: representable(case.offset + case.magnitude * case.rng(name).normal(size=_shape(case, name)), case.dtype)
        for name in component.tensors
        if name not in shared_tensors(case)
    }
    if case.layout == "expanded":
        tensors = {name: np.repeat(value[:1], len(value), axis=0) for name, value in tensors.items()}
    masks: dict[str, np.ndarray] = {}
    for attention in component.attentions:
        masks.update(_masks(case, attention))
    masks = {name: representable(mask, case.dtype) for name, mask in masks.items()}
    inputs = Inputs(case, tensors, masks, _flags(case))
    real, live = _rows(case, inputs)
    return inputs.but(real=real, live=live, cotangents=_cotangents(case, real & live))


def _part(case: Case, component: Component, shapes: Shapes) -> Inputs:
    """The inputs of a part: rows are the leading dimensions of its output, or the positions of its attention."""
    tensors = {
        name: representable(case.offset + case.magnitude * case.rng(name).normal(size=shape), case.dtype)
        for name, shape in shapes.tensors.items()
    }
    integers = {name: case.rng(name).integers(values, size=shape) for name, (shape, values) in shapes.integers.items()}
    masks: dict[str, np.ndarray] = {}
    for attention in component.attentions:
        masks.update(_masks(case, attention))
    masks = {name: representable(mask, case.dtype) for name, mask in masks.items()}
    inputs = Inputs(case, tensors, masks, dict(shapes.flags), integers=integers)
    if component.attentions:
        real, live = _rows(case, inputs)
    else:
        real = live = np.ones(shapes.outputs[0][:-1], dtype=bool)
    cotangents = [
        representable(case.rng(f"cotangent {number}").normal(size=shape), case.dtype)
        for number, shape in enumerate(shapes.outputs)
    ]
    if shapes.outputs and shapes.outputs[0]:
        cotangents[0] = cotangents[0] * (real & live)[..., None]
    return inputs.but(real=real, live=live, cotangents=tuple(cotangents))


def _sentences(case: Case) -> Inputs:
    """Embedded sentences, and the cotangent of a random linear function of their means over the real tokens."""
    embedded, padding = embedded_sentences(batch_size(case))
    real = ~padding
    along = case.rng("cotangent").normal(size=(len(real), 1, case.d_model)) / real.sum(1)[:, None, None]
    cotangent = representable(along * real[..., None], case.dtype)
    masks = {"src_key_padding_mask": padding}
    return Inputs(case, {"src": embedded}, masks, {}, (cotangent,), real, np.ones_like(real))


def batch_size(case: Case) -> int:
    """Sequences in the batch; an unbatched call counts as one."""
    return 1 if case.batch is None else case.batch


def _shape(case: Case, name: str) -> tuple[int, ...]:
    batch, positions = batch_size(case), length(case, name)
    if case.component == "attention":
        width = case.value_dim if name == "value" and case.value_dim else case.head_dim
        heads = case.key_heads if name != "query" and case.key_heads else case.heads
        if case.broadcast and name != "query":
            batch = 1
        leading = {2: (), 3: (batch,), 4: (batch, heads), 5: (2, batch, heads)}[case.dims]
        return (*leading, positions, width)
    width = {"key": case.kdim, "value": case.vdim}.get(name) or case.d_model
    return (batch, positions, width)


def _masks(case: Case, attention: Attention) -> dict[str, np.ndarray]:
    made = {}
    queries, keys = length(case, attention.query), length(case, attention.key)
    kind = getattr(case, attention.mask)
    if kind != "none":
        rng = case.rng(attention.mask)
        if case.component == "attention":
            made["attn_mask"] = _broadcast_mask(case, kind, queries, keys, rng)
        else:
            made[attention.mask_argument] = attention_mask(kind, queries, keys, batch_size(case) * case.heads, rng)
    if attention.padding and getattr(case, attention.padding) != "none":
        kind = getattr(case, attention.padding)
        made[attention.padding] = padding_mask(kind, batch_size(case), keys, case.rng(attention.padding))
    return made


def _broadcast_mask(case: Case, kind: str, queries: int, keys: int, rng: np.random.Generator) -> np.ndarray:
    """A mask of `scaled_dot_product_attention`: of the shape that `mask_shape` spells, True = keep."""
    sizes = {"B": batch_size(case), "H": case.heads, "L": queries, "S": keys, "1": 1, "G": 2}
    shape = [sizes[letter] for letter in case.mask_shape]
    rows, columns = (shape[-2] if len(shape) > 1 else 1), shape[-1]
    mask = attention_mask(f"{kind}3d", rows, columns, int(np.prod(shape[:-2], dtype=int)), rng).reshape(shape)
    return ~mask if mask.dtype == bool else mask


def _flags(case: Case) -> dict[str, Any]:
    if case.component == "attention":
        flags: dict[str, Any] = {"is_causal": case.is_causal}
        if case.scale is not None:
            flags["scale"] = case.scale
        if case.key_heads is not None:
            flags["enable_gqa"] = True
        return flags
    flags = {}
    if case.component == "multihead_attention":
        flags = {"need_weights": case.need_weights, "average_attn_weights": case.average_attn_weights}
    return {**flags, **hints(case)}


def hints(case: Case) -> dict[str, bool]:
    """Which of its masks a call says to be causal or not, by the name of the hint."""
    made = {}
    for attention in COMPONENTS[case.component].attentions:
        kind = getattr(case, attention.mask)
        told = kind in CAUSAL_KINDS or (kind != "none" and case.hint == "wrong")
        if attention.hint_argument and told and case.hint != "default":
            made[attention.hint_argument] = HINTS[case.hint]
    return made


def visible(inputs: Inputs, attention: Attention) -> np.ndarray:
    """Which keys each query sees: (batch, heads, queries, keys), or as many dimensions as the attention function has."""
    case, batch = inputs.case, len(next(iter(inputs.tensors.values())))
    queries, keys = length(case, attention.query), length(case, attention.key)
    mask = inputs.masks.get(attention.mask_argument)
    if case.component == "attention":
        seen = np.ones((*inputs.tensors["query"].shape[:-1], keys), dtype=bool)
        if mask is not None:
            seen &= mask if mask.dtype == bool else mask != -np.inf
        return seen & np.tri(queries, keys, dtype=bool) if case.is_causal else seen
    seen = np.ones((batch, case.heads, queries, keys), dtype=bool)
    if mask is not None:
        hidden = mask if mask.dtype == bool else mask == -np.inf
        seen &= ~(hidden.reshape(batch, case.heads, queries, keys) if mask.ndim == 3 else hidden)
    padding = inputs.masks.get(attention.padding or "")
    if padding is not None:
        seen &= ~(padding if padding.dtype == bool else padding == -np.inf)[:, None, None, :]
    return seen


def _rows(case: Case, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of the output are real, and which are live."""
    if case.component == "attention":
        live = np.asarray(visible(inputs, COMPONENTS["attention"].attentions[0]).any(-1))
        return np.ones_like(live), live
    component = COMPONENTS[case.component]
    real = np.ones((batch_size(case), length(case, component.rows)), dtype=bool)
    live = real.copy()
    for attention in component.attentions:
        if attention.query != component.rows:
            continue
        to_itself = attention.key == component.rows or case.attends == "self"
        if to_itself and attention.padding in inputs.masks:
            padding = inputs.masks[attention.padding]
            real = ~(padding if padding.dtype == bool else padding == -np.inf)
        if not (case.add_bias_kv or case.add_zero_attn):
            seen = np.asarray(visible(inputs, attention).any(-1))
            live &= seen.all(1)
    return real, live


def _cotangents(case: Case, rows: np.ndarray) -> tuple[np.ndarray | None, ...]:
    component = COMPONENTS[case.component]
    shape = _shape(case, component.rows)
    if case.component == "attention":
        shape = (*shape[:-1], case.value_dim or case.head_dim)
    output = case.rng("cotangent").normal(size=shape) * rows[..., None]
    cotangents: list[np.ndarray | None] = [output]
    if case.component == "multihead_attention" and not case.need_weights:
        cotangents.append(None)
    elif case.component == "multihead_attention":
        keys = length(case, "key") + case.add_bias_kv + case.add_zero_attn
        shape = (shape[0], case.heads, shape[1], keys)
        if case.average_attn_weights:
            shape = (shape[0], *shape[2:])
        live = rows[..., None] if case.average_attn_weights else rows[:, None, :, None]
        cotangents.append(case.rng("cotangent of the weights").normal(size=shape) * live)
    return tuple(None if value is None else representable(value, case.dtype) for value in cotangents)
