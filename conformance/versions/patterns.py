"""Patterns of checks: clauses and values of a case's fields that match all of some checks and none of others."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..cases.case import Case
from .known_differences import Check

# Clauses, and for some of a case's fields the values.
Pattern = tuple[tuple[str, ...], Mapping[str, tuple[Any, ...]]]

# What hardly ever decides is forgotten first, so that what is left names the cause.
FIELDS = (
    "first", "vocabulary", "padding_idx", "max_len", "base", "interleaved", "rotary", "experts", "top_k", "capacity_factor",
    "renormalize",     "tied", "ignore_index", "label_smoothing", "reduction",
    "layout", "magnitude", "offset", "layer_norm_eps", "value_dim", "dims", "broadcast", "dim_feedforward", "head_dim",
    "kdim", "vdim", "final_norm", "layers", "elementwise_affine", "normalized_dims", "weights", "device", "dtype",
    "norm_first", "average_attn_weights", "mask_shape", "key_heads", "tgt_mask", "tgt_key_padding_mask", "memory_mask",
    "memory_key_padding_mask", "hint", "attends", "target", "source", "scale", "mode", "add_bias_kv", "add_zero_attn",
    "is_causal", "need_weights", "batch", "bias", "activation", "batch_first", "heads", "key_padding_mask", "attn_mask",
    "src_key_padding_mask", "src_mask", "component", "clause",
)  # fmt: skip


def learn(wanted: Sequence[Check], others: Sequence[Check]) -> list[Pattern]:
    """The clauses and the values of a case's fields, pattern by pattern.

    Each pattern starts as one wanted check that no earlier pattern matches. First it forgets every field that it can
    forget, then it takes in every value that it can take in, and of those it keeps what it has a use for.
    """
    values = {name: list(dict.fromkeys(_feature(check, name) for check in (*wanted, *others))) for name in FIELDS}
    yes, no = (_encode(checks, values) for checks in (wanted, others))
    made: list[Pattern] = []
    left = np.ones(len(wanted), dtype=bool)
    while left.any():
        first = yes[int(left.argmax())]
        allowed = [np.arange(len(values[name])) == first[i] for i, name in enumerate(FIELDS)]
        for i in range(len(FIELDS) - 1):
            forgotten = [*allowed[:i], np.ones_like(allowed[i]), *allowed[i + 1 :]]
            if not _matching(no, forgotten).any():
                allowed = forgotten
        for i in reversed(range(len(FIELDS))):
            for code in sorted(set(yes[:, i]) - set(np.flatnonzero(allowed[i]))):
                wider = [*allowed[:i], allowed[i] | (np.arange(len(allowed[i])) == code), *allowed[i + 1 :]]
                if not _matching(no, wider).any():
                    allowed = wider
        matched = _matching(yes, allowed)
        used = {
            name: tuple(values[name][code] for code in sorted(set(yes[matched, i])))
            for i, name in enumerate(FIELDS)
            if not allowed[i].all()
        }
        made.append((tuple(sorted(used.pop("clause", values["clause"]))), used))
        left &= ~matched
    return made


def _feature(check: Check, name: str) -> Any:
    clause, case = check
    return clause if name == "clause" else getattr(case, name)


def _encode(checks: Sequence[Check], values: Mapping[str, list[Any]]) -> np.ndarray:
    """(checks, fields): the place of each value among the field's values."""
    codes = [{value: code for code, value in enumerate(values[name])} for name in FIELDS]
    rows = [[codes[i][_feature(check, name)] for i, name in enumerate(FIELDS)] for check in checks]
    return np.array(rows, dtype=int).reshape(-1, len(FIELDS))


def _matching(rows: np.ndarray, allowed: Sequence[np.ndarray]) -> np.ndarray:
    matched = np.ones(len(rows), dtype=bool)
    for i, codes in enumerate(allowed):
        if not codes.all():
            matched &= codes[rows[:, i]]
    return matched


assert set(FIELDS) == {"clause", *(field.name for field in dataclasses.fields(Case))}
