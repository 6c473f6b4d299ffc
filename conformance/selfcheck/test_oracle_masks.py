"""What is hidden stays out of the oracle's outputs and gradients whatever it holds, and a dead row is zero."""

from typing import Any

import numpy as np
import pytest
from torch import nn

from conformance.selfcheck.oracle_checks import (
    BATCH,
    HEADS,
    NAN,
    SOURCE,
    TARGET,
    WIDTH,
    Array,
    layer_options,
    random_arrays,
    random_mask,
    randomised,
    relative,
    sequence,
)
from reference.oracle import Evaluation, evaluate
from reference.oracle.attention import attention_context, attention_weights
from reference.oracle.linear import linear


def cross_attention(value_at_hidden: float, mask: dict[str, Array], seed: int = 0, **flags: Any) -> Evaluation:
    """Two batch entries, keys 1 and 3 of the first one filled with a value."""
    options = {"embed_dim": WIDTH, "num_heads": HEADS, "batch_first": True}
    module = randomised(nn.MultiheadAttention(**options))
    parameters = {name: p.detach().numpy() for name, p in module.named_parameters()}
    query, key, value = (sequence(seed, n, WIDTH, "batch_first") for n in (TARGET, SOURCE, SOURCE))
    key[0, [1, 3]] = value[0, [1, 3]] = value_at_hidden
    weights = (BATCH, TARGET, SOURCE)
    cotangents = random_arrays(5, (BATCH, TARGET, WIDTH), weights)
    arguments = {"query": query, "key": key, "value": value, **mask, **flags}
    return evaluate("multihead_attention", options, parameters, arguments, cotangents)


PADDED = np.array([[False, True, False, True], [False] * 4])
HIDING: list[dict[str, Array]] = [
    {"key_padding_mask": PADDED},
    {"key_padding_mask": np.where(PADDED, -np.inf, 0.25)},
    {"attn_mask": np.repeat(np.repeat(PADDED, HEADS, axis=0)[:, None], TARGET, axis=1)},
]


@pytest.mark.parametrize("value", [NAN, np.inf, -np.inf])
@pytest.mark.parametrize("mask", HIDING, ids=["padding", "float padding", "attention"])
def test_hidden_keys_contribute_nothing_whatever_they_hold(mask: dict[str, Array], value: float) -> None:
    found, expected = cross_attention(value, mask), cross_attention(0.0, mask)
    for got, wanted in zip(found.outputs, expected.outputs, strict=True):
        assert got is not None and wanted is not None
        assert relative(got, wanted) < 1e-14
    for name, gradient in found.gradients.items():
        assert np.isfinite(gradient).all(), name
        assert relative(gradient, expected.gradients[name]) < 1e-13, name
    assert not found.gradients["key"][0, [1, 3]].any()
    assert not found.gradients["value"][0, [1, 3]].any()


def test_a_key_hidden_from_one_head_stays_out_of_that_head_alone() -> None:
    hidden = np.zeros((BATCH * HEADS, TARGET, SOURCE), dtype=bool)
    hidden[0, :, [1, 3]] = True
    found = cross_attention(NAN, {"attn_mask": hidden})
    of_weight = found.gradients["in_proj_weight"].reshape(3, HEADS, WIDTH // HEADS, WIDTH)
    assert np.isfinite(of_weight[:, 0]).all()
    assert np.isnan(of_weight[:, 1]).all()


def test_a_key_hidden_from_one_query_stays_out_of_that_row_alone() -> None:
    query, key, value = random_arrays(1, (2, 3), (4, 3), (4, 3))
    value[2] = NAN
    keep = np.ones((2, 4), dtype=bool)
    keep[0, 2] = False
    cotangent = np.ones((2, 3))
    arguments = {"query": query, "key": key, "value": value, "attn_mask": keep}
    found = evaluate("attention", {}, {}, arguments, [cotangent])
    assert found.outputs[0] is not None
    assert np.isfinite(found.outputs[0][0]).all() and np.isnan(found.outputs[0][1]).all()
    assert np.isfinite(found.gradients["query"][0]).all()
    assert np.isnan(found.gradients["query"][1]).all()
    cotangent[0] = NAN
    value[2] = 1.0
    found = evaluate("attention", {}, {}, arguments, [cotangent])
    assert np.isfinite(found.gradients["value"][2]).all()
    assert np.isnan(found.gradients["value"][0]).all()


@pytest.mark.parametrize("spoilt", ["query", "key"])
def test_a_row_of_nan_stays_out_of_the_keys_hidden_from_it(spoilt: str) -> None:
    query, key, value = random_arrays(1, (2, 3), (4, 3), (4, 3))
    keep = np.ones((2, 4), dtype=bool)
    keep[0, 2] = keep[1, 1] = False
    if spoilt == "query":
        query[0] = NAN
    else:
        key[1] = NAN
    arguments = {"query": query, "key": key, "value": value, "attn_mask": keep}
    found = evaluate("attention", {}, {}, arguments, [np.ones((2, 3))])
    for name in ("key", "value"):
        assert np.isfinite(found.gradients[name][2]).all()
        assert np.isnan(found.gradients[name][[0, 1, 3]]).all()


def same(found: Array | None, expected: Array | None) -> bool:
    if found is None or expected is None:
        return found is expected
    return np.array_equal(found, expected)


def test_no_cotangent_of_a_hidden_weight_is_read() -> None:
    query, key, value = random_arrays(1, (2, 3), (4, 3), (4, 3))
    hidden = np.array([[False, True, False, False], [True] * 4])
    weights, vjp = attention_weights(query, key, None, hidden=hidden, scale=1.0)
    (cotangent,) = random_arrays(2, (2, 4))
    with np.errstate(invalid="ignore"):
        pairs = zip(vjp(np.where(hidden, NAN, cotangent)), vjp(cotangent), strict=True)
        for found, expected in pairs:
            assert same(found, expected)
        value[1] = NAN
        of_weights = attention_context(weights, value, hidden=hidden)[1](np.ones((2, 3)))[0]
        assert of_weights is not None and not of_weights[hidden].any()


def test_an_unread_entry_of_a_linear_map_takes_no_cotangent() -> None:
    x, weight, cotangent = random_arrays(1, (3, 4), (2, 4), (3, 2))
    unread = np.array([[False, True], [False, False], [True, True]])
    found = linear(x, weight, weight[:, 0], unread=unread)[1](cotangent)
    expected = linear(x, weight, weight[:, 0])[1](np.where(unread, 0, cotangent))
    for got, wanted in zip(found, expected, strict=True):
        assert same(got, wanted)


def test_two_finite_masks_that_overflow_together_hide() -> None:
    low = np.zeros((TARGET, SOURCE))
    low[:, [1, 3]] = -1.2e308
    padding = np.where(PADDED, -1.2e308, 0.0)
    found = cross_attention(NAN, {"attn_mask": low, "key_padding_mask": padding})
    assert all(np.isfinite(gradient).all() for gradient in found.gradients.values())


@pytest.mark.parametrize("value", [NAN, np.inf])
def test_visible_non_finite_keys_propagate(value: float) -> None:
    found = cross_attention(value, {})
    assert found.outputs[0] is not None
    assert np.isnan(found.outputs[0][0]).all()
    assert np.isfinite(found.outputs[0][1]).all()
    assert np.isnan(found.gradients["in_proj_weight"]).any()


@pytest.mark.parametrize("dtype", ["bool", "float"])
def test_a_dead_row_is_zero_and_its_gradients_too(dtype: str) -> None:
    query, key, value = random_arrays(2, (2, 3), (4, 3), (4, 3))
    keep = np.array([[False] * 4, [True, False, True, True]])
    mask = keep if dtype == "bool" else np.where(keep, 0.5, -np.inf)
    arguments = {"query": query, "key": key, "value": value, "attn_mask": mask}
    found = evaluate("attention", {}, {}, arguments, [np.ones((2, 3))])
    alone = {"query": query[1:], "key": key, "value": value, "attn_mask": mask[1:]}
    expected = evaluate("attention", {}, {}, alone, [np.ones((1, 3))])
    assert found.outputs[0] is not None and expected.outputs[0] is not None
    assert not found.outputs[0][0].any()
    assert relative(found.outputs[0][1:], expected.outputs[0]) < 1e-15
    assert not found.gradients["query"][0].any()
    for name in ("key", "value"):
        assert relative(found.gradients[name], expected.gradients[name]) < 1e-15
    if dtype == "float":
        assert not found.gradients["attn_mask"][~keep].any()


@pytest.mark.parametrize("value", [0.0, NAN])
def test_a_wholly_padded_sequence_gives_the_output_bias(value: float) -> None:
    everything = {"key_padding_mask": np.array([[True] * 4, [False] * 4])}
    found = cross_attention(value, everything)
    output, weights = found.outputs
    assert output is not None and weights is not None
    module = nn.MultiheadAttention(WIDTH, HEADS)
    randomised(module)
    assert np.array_equal(output[0], np.tile(module.out_proj.bias.detach().numpy(), (TARGET, 1)))
    assert not weights[0].any()
    for name, gradient in found.gradients.items():
        assert np.isfinite(gradient).all(), name
    for name in ("query", "key", "value"):
        assert not found.gradients[name][0].any()


@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder_with_a_wholly_padded_sequence_is_finite(norm_first: bool) -> None:
    options = layer_options("batch_first", norm_first=norm_first, num_layers=2)
    layer = nn.TransformerEncoderLayer(**layer_options("batch_first"))
    module = randomised(nn.TransformerEncoder(layer, 2))
    parameters = {name: p.detach().numpy() for name, p in module.named_parameters()}
    source = sequence(1, SOURCE, WIDTH, "batch_first")
    padded = np.array([[True] * 4, [False] * 4])
    arguments = {"src": source, "src_key_padding_mask": padded}
    found = evaluate("encoder", options, parameters, arguments, [np.ones(source.shape)])
    assert found.outputs[0] is not None
    assert np.isfinite(found.outputs[0]).all()
    assert all(np.isfinite(gradient).all() for gradient in found.gradients.values())


def test_the_causal_flag_of_the_modules_is_only_a_hint() -> None:
    mask = random_mask(3, "bool", TARGET, SOURCE)
    plain = cross_attention(1.0, {"attn_mask": mask})
    hinted = cross_attention(1.0, {"attn_mask": mask}, is_causal=True)
    for name, gradient in plain.gradients.items():
        assert np.array_equal(gradient, hinted.gradients[name])


def test_no_keys_at_all_is_a_dead_row() -> None:
    arguments = {"query": np.ones((2, 3)), "key": np.ones((0, 3)), "value": np.ones((0, 4))}
    found = evaluate("attention", {}, {}, arguments, [np.ones((2, 4))])
    assert found.outputs[0] is not None
    assert np.array_equal(found.outputs[0], np.zeros((2, 4)))
    assert np.array_equal(found.gradients["query"], np.zeros((2, 3)))
