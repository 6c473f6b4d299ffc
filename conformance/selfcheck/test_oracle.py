"""The oracle against finite differences, mpmath, torch.nn, and its own promises."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import reference.oracle
from reference.oracle import Evaluation, evaluate, sinusoidal_positions
from reference.oracle.activations import ACTIVATIONS, gelu, normal_cdf
from reference.oracle.attention import attention_context, attention_weights
from reference.oracle.cross_entropy import cross_entropy
from reference.oracle.embedding import embedding
from reference.oracle.layer_norm import layer_norm
from reference.oracle.linear import linear
from reference.oracle.shapes import (
    add,
    append_row,
    mean_over,
    merge_heads,
    multiply,
    pad_columns,
    repeat_heads,
    reshape,
    rows,
    split_heads,
    swap_axes,
)

Array = np.ndarray
BATCH, HEADS, WIDTH, INNER, SOURCE, TARGET = 2, 2, 6, 7, 4, 3
LAYOUTS = ("length_first", "batch_first", "unbatched")
NAN = float("nan")


def random_arrays(seed: int, *shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape) for shape in shapes]


def relative(found: Array, expected: Array) -> float:
    """The largest difference beside the largest expected entry."""
    assert found.shape == expected.shape
    if expected.size == 0:
        return 0.0
    largest = np.abs(expected).max()
    return float(np.abs(found - expected).max() / (largest if largest > 0 else 1))


# 1. Gradients of the primitives against finite differences.

HIDDEN = np.array([[False, True, False, False], [False] * 4, [True] * 4])
CLASSES = np.array([[2, 0, -100], [1, 4, 3]])

Difference = tuple[str, Callable[..., Any], list[tuple[int, ...]], dict[str, Any]]
OF_ACTIVATIONS: list[Difference] = [(name, function, [(4, 5)], {}) for name, function in ACTIVATIONS.items()]
OF_LOSSES: list[Difference] = [
    (
        f"cross entropy {reduction} {smoothing}",
        cross_entropy,
        [(2, 5, 3)],
        {"target": CLASSES, "reduction": reduction, "label_smoothing": smoothing},
    )
    for reduction in ("mean", "sum", "none")
    for smoothing in (0.0, 0.25)
]
DIFFERENCES: list[Difference] = [
    ("linear", linear, [(2, 3, 4), (5, 4), (5,)], {}),
    ("layer norm", layer_norm, [(3, 5), (5,), (5,)], {"axes": 1, "eps": 1e-5}),
    ("layer norm of two axes", layer_norm, [(2, 3, 4), (3, 4), (3, 4)], {"axes": 2, "eps": 0.1}),
    (
        "weights",
        attention_weights,
        [(2, 3, 5), (2, 4, 5), (3, 4)],
        {"hidden": None, "scale": 0.7},
    ),
    (
        "masked weights",
        attention_weights,
        [(2, 3, 5), (4, 5), (3, 4)],
        {"hidden": HIDDEN, "scale": 0.7},
    ),
    ("context", attention_context, [(2, 3, 4), (2, 4, 2)], {"hidden": None}),
    ("broadcast context", attention_context, [(3, 4), (2, 4, 2)], {"hidden": None}),
    *OF_ACTIVATIONS,
    ("embedding", embedding, [(4, 3)], {"tokens": np.array([[1, 3, 1], [0, 1, 3]])}),
    *OF_LOSSES,
    ("add", add, [(2, 1, 3), (4, 3)], {}),
    ("multiply", multiply, [(2, 3)], {"factor": 2.5}),
    ("reshape", reshape, [(2, 3)], {"shape": (3, 2)}),
    ("swap axes", swap_axes, [(2, 3, 4)], {"first": 0, "second": 1}),
    ("rows", rows, [(5, 2)], {"start": 1, "stop": 3}),
    ("append row", append_row, [(2, 3, 4), (1, 1, 4)], {}),
    ("pad columns", pad_columns, [(2, 3)], {"columns": 2}),
    ("split heads", split_heads, [(2, 3, 4)], {"heads": 2}),
    ("merge heads", merge_heads, [(2, 2, 3, 2)], {}),
    ("repeat heads", repeat_heads, [(2, 2, 3, 2)], {"times": 3}),
    ("mean", mean_over, [(2, 3, 4)], {"axis": 1}),
]


def finite_difference(function: Callable[[], np.longdouble], x: Array) -> Array:
    """The gradient with respect to `x`, by the central formula of fourth order."""
    step = np.longdouble(2) ** -12
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        middle, values = x[index], {}
        for steps in (-2, -1, 1, 2):
            x[index] = middle + steps * step
            values[steps] = function()
        x[index] = middle
        gradient[index] = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * step)
    return gradient


@pytest.mark.skipif(np.finfo(np.longdouble).nmant + 1 < 64, reason="np.longdouble has fewer than 64 mantissa bits")
@pytest.mark.parametrize(("name", "primitive", "shapes", "options"), DIFFERENCES)
def test_vjp_is_the_finite_difference(
    name: str, primitive: Callable[..., Any], shapes: list[tuple[int, ...]], options: dict[str, Any]
) -> None:
    arrays = random_arrays(1, *shapes)
    if name == "relu":
        arrays = [x + 0.1 * np.sign(x) for x in arrays]
    value, vjp = primitive(*arrays, **options)
    (cotangent,) = random_arrays(2, value.shape)
    wide = [x.astype(np.longdouble) for x in arrays]

    def weighed() -> np.longdouble:
        found = primitive(*wide, **options)[0]
        assert found.dtype == np.longdouble
        return (cotangent * found).sum()

    for x, gradient in zip(wide, vjp(cotangent), strict=True):
        assert relative(gradient, finite_difference(weighed, x)) < 1e-12


# 2. Values against mpmath.


def exactly(array: Array) -> list[Any]:
    return [mpmath.mpf(float(entry)) for entry in array]


def as_floats(numbers: Sequence[Any]) -> Array:
    return np.array([float(number) for number in numbers])


@pytest.fixture(autouse=True)
def many_digits() -> Any:
    with mpmath.workdps(50):
        yield


@pytest.mark.parametrize("size", [1.0, 30.0, 1e8])
def test_attention_has_the_exact_value(size: float) -> None:
    query, key, value = random_arrays(3, (1, 3), (4, 3), (4, 2))
    query *= size
    found = evaluate("attention", {}, {}, {"query": query, "key": key, "value": value}, [None]).outputs[0]
    scores = [sum(a * b for a, b in zip(exactly(query[0]), exactly(row), strict=True)) / mpmath.sqrt(3) for row in key]
    powers = [mpmath.exp(score) for score in scores]
    expected = [sum(p * v for p, v in zip(powers, exactly(column), strict=True)) / sum(powers) for column in value.T]
    assert found is not None
    # A score of size s carries the rounding of s, unless one key wins outright.
    tolerance = 1e-15 if size == 1e8 else 1e-15 * (1 + size)
    assert relative(found[0], as_floats(expected)) < tolerance


def test_layer_norm_has_the_exact_value_far_from_zero() -> None:
    spread, weight, bias = random_arrays(4, (1, 6), (6,), (6,))
    x = np.round(spread * 2.0**20) / 2.0**20 + 2.0**20
    found = evaluate(
        "layer_norm",
        {"normalized_shape": 6},
        {"weight": weight, "bias": bias},
        {"input": x},
        [None],
    ).outputs[0]
    exact = exactly(x[0])
    mean = sum(exact) / 6
    variance = sum((entry - mean) ** 2 for entry in exact) / 6
    root = mpmath.sqrt(variance + mpmath.mpf(1e-5))
    affine = zip(exact, exactly(weight), exactly(bias), strict=True)
    expected = [(entry - mean) / root * w + b for entry, w, b in affine]
    assert found is not None
    # The mean is rounded to half a unit of 2^20; one pass over x^2 would leave four digits.
    assert relative(found[0], as_floats(expected)) < 1e-9


def test_gelu_has_the_exact_value_in_both_tails() -> None:
    x = np.linspace(-12, 12, 97)
    expected = as_floats([entry * mpmath.ncdf(entry) for entry in exactly(x)])
    error = np.abs(gelu(x)[0] - expected)
    # The tail's relative condition is x^2.
    assert (error <= 4e-16 * (1 + x * x) * np.abs(expected)).all()


def test_the_series_of_the_normal_distribution_agrees_with_erfc() -> None:
    x = np.linspace(-5, 5, 41)
    series = normal_cdf(x.astype(np.longdouble))
    assert np.abs(series - normal_cdf(x)).max() < 3e-16


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_has_the_exact_value(smoothing: float) -> None:
    (logits,) = random_arrays(5, (5,))
    logits *= 20
    found = evaluate(
        "cross_entropy",
        {"label_smoothing": smoothing},
        {},
        {"input": logits, "target": np.array(3)},
        [None],
    ).outputs[0]
    exact = exactly(logits)
    norm = mpmath.log(sum(mpmath.exp(entry) for entry in exact))
    logs = [entry - norm for entry in exact]
    part = mpmath.mpf(smoothing)
    expected = -(1 - part) * logs[3] - part / 5 * sum(logs)
    assert found is not None
    assert abs(float(found) - float(expected)) < 1e-14 * abs(float(expected))


def test_sinusoidal_positions_have_the_exact_value() -> None:
    table = sinusoidal_positions(5, 7)
    for position, feature in np.ndindex(5, 7):
        power = mpmath.mpf(10000) ** (mpmath.mpf(feature - feature % 2) / 7)
        wave = mpmath.cos if feature % 2 else mpmath.sin
        assert abs(table[position, feature] - float(wave(position / power))) < 1e-15


# 3. Outputs and gradients against torch.nn.


def agree(
    component: str,
    options: dict[str, Any],
    subject: Callable[..., Any],
    arguments: dict[str, Any],
    seed: int = 0,
) -> None:
    """Compare the oracle with torch.nn on the same arrays and random cotangents."""
    named = dict(subject.named_parameters()) if isinstance(subject, nn.Module) else {}
    leaves: dict[str, torch.Tensor] = dict(named)
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        given[name] = value
        if isinstance(value, np.ndarray):
            given[name] = torch.tensor(value)
            if given[name].is_floating_point():
                leaves[name] = given[name].requires_grad_()
    returned = subject(**given)
    outputs = returned if isinstance(returned, tuple) else (returned,)
    cotangents = [
        None if output is None else random_arrays(seed + index, tuple(output.shape))[0]
        for index, output in enumerate(outputs)
    ]
    torch.autograd.backward(
        [output for output in outputs if output is not None],
        [torch.tensor(cotangent) for cotangent in cotangents if cotangent is not None],
    )
    parameters = {name: p.detach().numpy().copy() for name, p in named.items()}
    evaluation = evaluate(component, options, parameters, arguments, cotangents)
    assert len(evaluation.outputs) == len(outputs)
    for found, output in zip(evaluation.outputs, outputs, strict=True):
        assert (found is None) == (output is None)
        if found is not None:
            assert relative(found, output.detach().numpy()) < 1e-12
    assert evaluation.gradients.keys() == leaves.keys()
    for name, leaf in leaves.items():
        found, expected = evaluation.gradients[name], leaf.grad
        assert expected is not None, name
        if float(expected.abs().max()) < 1e-12:
            # A gradient that is 0 in exact arithmetic has no relative error, only rounding.
            assert np.abs(found).max() < 1e-12, name
        else:
            assert relative(found, expected.numpy()) < 1e-12, name


def randomised(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in float64 with random biases and norms too, in training mode: the slow path."""
    rng = np.random.default_rng(seed)
    module = module.double().train()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            entries = torch.tensor(rng.standard_normal(tuple(parameter.shape)) * 0.6)
            norm = "norm" in name and name.endswith("weight")
            parameter.copy_(entries + 1 if norm else entries)
    return module


def sequence(seed: int, length: int, width: int, layout: str, batch: int = BATCH) -> Array:
    shape = {
        "length_first": (length, batch, width),
        "batch_first": (batch, length, width),
        "unbatched": (length, width),
    }[layout]
    return random_arrays(seed, shape)[0]


def random_mask(seed: int, kind: str, *shape: int) -> Array:
    """A mask that leaves the first key visible: torch has NaN in a dead row."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(shape) < 0.4
    hidden[..., 0] = False
    if kind == "bool":
        return hidden
    return np.where(hidden, -np.inf, rng.standard_normal(shape))


def masks(
    kind: str, attention: str, padding: str, queries: int, keys: int, layout: str, seed: int = 11
) -> dict[str, Array]:
    """The mask arguments of one attention: `kind` is "2d bool", "pad float", "2d+pad bool", ..."""
    if kind == "none":
        return {}
    where, dtype = kind.split()
    batch = 1 if layout == "unbatched" else BATCH
    second = {"bool": "bool", "float": "float", "mixed": "bool"}[dtype]
    first = "float" if dtype == "mixed" else dtype
    found = {}
    if "2d" in where:
        found[attention] = random_mask(seed, first, queries, keys)
    if "3d" in where:
        found[attention] = random_mask(seed, first, batch * HEADS, queries, keys)
    if "pad" in where:
        shape = (keys,) if layout == "unbatched" else (batch, keys)
        found[padding] = random_mask(seed + 1, second, *shape)
    return found


MASK_KINDS = [
    "none",
    *(f"{where} {kind}" for where in ("2d", "3d", "pad", "2d+pad", "3d+pad") for kind in ("bool", "float")),
    "2d+pad mixed",
]
ATTENTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"kdim": 5, "vdim": 4},
    {"kdim": 5, "bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "vdim": 4},
]

pytestmark = pytest.mark.filterwarnings("ignore:Support for mismatched", "ignore:enable_nested_tensor")


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("options", ATTENTIONS, ids=str)
def test_multihead_attention_agrees(options: dict[str, Any], layout: str, kind: str) -> None:
    options = options | {
        "embed_dim": WIDTH,
        "num_heads": HEADS,
        "batch_first": layout == "batch_first",
    }
    arguments = {
        "query": sequence(1, TARGET, WIDTH, layout),
        "key": sequence(2, SOURCE, options.get("kdim", WIDTH), layout),
        "value": sequence(3, SOURCE, options.get("vdim", WIDTH), layout),
        **masks(kind, "attn_mask", "key_padding_mask", TARGET, SOURCE, layout),
    }
    for flags in ({"need_weights": False}, {}, {"average_attn_weights": False}):
        module = randomised(nn.MultiheadAttention(**options))
        agree("multihead_attention", options, module, arguments | flags)


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((3, 5), (4, 5), (4, 5)), {}),
        (((3, 5), (4, 5), (4, 2)), {"scale": 0.3}),
        (((2, 3, 5), (2, 4, 5), (2, 4, 7)), {"is_causal": True}),
        (((2, 5, 3), (2, 3, 3), (2, 3, 3)), {"is_causal": True}),
        (((2, 1, 3, 5), (1, 3, 4, 5), (2, 3, 4, 6)), {}),
        (((2, 4, 3, 5), (2, 2, 4, 5), (2, 2, 4, 5)), {"enable_gqa": True}),
        (((2, 6, 3, 5), (2, 2, 3, 5), (2, 2, 3, 4)), {"enable_gqa": True, "is_causal": True}),
        (((2, 2, 3, 5), (2, 2, 4, 5), (2, 2, 4, 5)), {"mask": (3, 4)}),
        (((2, 2, 3, 5), (2, 2, 4, 5), (2, 2, 4, 3)), {"mask": (2, 1, 3, 4), "scale": 2.0}),
        (((2, 2, 3, 5), (2, 2, 4, 5), (2, 2, 4, 5)), {"mask": (2, 1, 1, 4)}),
        (((2, 4, 3, 5), (2, 2, 4, 5), (2, 2, 4, 5)), {"mask": (4, 3, 4), "enable_gqa": True}),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_attention_agrees(shapes: tuple[tuple[int, ...], ...], options: dict[str, Any], kind: str) -> None:
    query, key, value = random_arrays(6, *shapes)
    arguments: dict[str, Any] = {"query": query, "key": key, "value": value, **options}
    shape = arguments.pop("mask", None)
    if shape is not None:
        mask = random_mask(7, kind, *shape)
        arguments["attn_mask"] = ~mask if kind == "bool" else mask
    agree("attention", {}, F.scaled_dot_product_attention, arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"normalized_shape": 5},
        {"normalized_shape": (3, 5), "eps": 0.1},
        {"normalized_shape": (5,), "bias": False},
        {"normalized_shape": 5, "elementwise_affine": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 3, 5)], ids=str)
def test_layer_norm_agrees(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    module = randomised(nn.LayerNorm(**options))
    agree("layer_norm", options, module, {"input": random_arrays(8, shape)[0]})


TORCH_ACTIVATIONS: dict[str, Any] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    def __init__(self, activation: Any, bias: bool) -> None:
        super().__init__()
        self.linear1 = nn.Linear(WIDTH, INNER, bias=bias)
        self.linear2 = nn.Linear(INNER, WIDTH, bias=bias)
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.linear2(self.activation(self.linear1(input)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", TORCH_ACTIVATIONS)
def test_feed_forward_agrees(activation: str, bias: bool) -> None:
    options = {
        "d_model": WIDTH,
        "dim_feedforward": INNER,
        "activation": activation,
        "bias": bias,
    }
    module = randomised(FeedForward(TORCH_ACTIVATIONS[activation], bias))
    agree("feed_forward", options, module, {"input": random_arrays(9, (2, 3, WIDTH))[0]})


LAYER_MASKS = ["none", "2d bool", "pad bool", "2d+pad float", "3d float", "3d+pad bool"]


def layer_options(layout: str, **more: Any) -> dict[str, Any]:
    return {
        "d_model": WIDTH,
        "nhead": HEADS,
        "dim_feedforward": INNER,
        "dropout": 0.0,
        "batch_first": layout == "batch_first",
        **more,
    }


def torch_options(options: dict[str, Any]) -> dict[str, Any]:
    return options | {"activation": TORCH_ACTIVATIONS[options.get("activation", "relu")]}


def target_side(kind: str, layout: str) -> dict[str, Array]:
    return {
        "tgt": sequence(12, TARGET, WIDTH, layout),
        **masks(kind, "tgt_mask", "tgt_key_padding_mask", TARGET, TARGET, layout, 20),
        **masks(kind, "memory_mask", "memory_key_padding_mask", TARGET, SOURCE, layout, 30),
    }


@pytest.mark.parametrize("kind", LAYER_MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", TORCH_ACTIVATIONS)
def test_layers_agree(activation: str, norm_first: bool, bias: bool, layout: str, kind: str) -> None:
    options = layer_options(layout, activation=activation, norm_first=norm_first, bias=bias, layer_norm_eps=1e-3)
    source = sequence(10, SOURCE, WIDTH, layout)
    of_source = masks(kind, "src_mask", "src_key_padding_mask", SOURCE, SOURCE, layout)
    module = randomised(nn.TransformerEncoderLayer(**torch_options(options)))
    agree("encoder_layer", options, module, {"src": source, **of_source})
    module = randomised(nn.TransformerDecoderLayer(**torch_options(options)))
    agree("decoder_layer", options, module, {"memory": source, **target_side(kind, layout)})


@pytest.mark.parametrize("kind", LAYER_MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_stacks_agree(norm_first: bool, norm: bool, layout: str, kind: str) -> None:
    options = layer_options(layout, norm_first=norm_first, bias=not norm or norm_first)
    final = {"bias": options["bias"], "eps": 1e-5}
    source = sequence(10, SOURCE, WIDTH, layout)
    of_source = masks(kind, "mask", "src_key_padding_mask", SOURCE, SOURCE, layout)
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**options), 2, nn.LayerNorm(WIDTH, **final) if norm else None
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**options), 2, nn.LayerNorm(WIDTH, **final) if norm else None
    )
    options |= {"num_layers": 2, "norm": norm}
    agree("encoder", options, randomised(encoder), {"src": source, **of_source})
    arguments = {"memory": source, **target_side(kind, layout)}
    agree("decoder", options, randomised(decoder), arguments)


@pytest.mark.parametrize("kind", LAYER_MASKS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_agrees(norm_first: bool, bias: bool, layout: str, kind: str) -> None:
    options = layer_options(
        layout,
        num_encoder_layers=2,
        num_decoder_layers=1,
        norm_first=norm_first,
        bias=bias,
        activation="gelu",
    )
    arguments = {
        "src": sequence(10, SOURCE, WIDTH, layout),
        **masks(kind, "src_mask", "src_key_padding_mask", SOURCE, SOURCE, layout),
        **target_side(kind, layout),
    }
    agree("transformer", options, randomised(nn.Transformer(**options)), arguments)


def test_causal_decoding_agrees() -> None:
    options = layer_options("batch_first", num_encoder_layers=1, num_decoder_layers=2)
    arguments = {
        "src": sequence(10, SOURCE, WIDTH, "batch_first"),
        "tgt": sequence(11, TARGET, WIDTH, "batch_first"),
        "tgt_mask": np.triu(np.ones((TARGET, TARGET), dtype=bool), 1),
        "tgt_is_causal": True,
    }
    agree("transformer", options, randomised(nn.Transformer(**options)), arguments)


@pytest.mark.parametrize("padding_idx", [None, 2, -1])
@pytest.mark.parametrize("shape", [(4,), (2, 3)], ids=str)
def test_embedding_agrees(shape: tuple[int, ...], padding_idx: int | None) -> None:
    options: dict[str, Any] = {"num_embeddings": 5, "embedding_dim": 4, "padding_idx": padding_idx}
    tokens = np.random.default_rng(3).integers(0, 5, shape)
    agree("embedding", options, randomised(nn.Embedding(**options)), {"input": tokens})


@pytest.mark.parametrize("batch_first", [True, False])
def test_embedding_scales_and_adds_positions(batch_first: bool) -> None:
    (weight,) = random_arrays(4, (5, 4))
    tokens = np.array([[0, 3, 1], [4, 4, 2]])
    options = {"num_embeddings": 5, "embedding_dim": 4, "scaled": True, "positions": True}
    found = evaluate(
        "embedding",
        options | {"batch_first": batch_first},
        {"weight": weight},
        {"input": tokens if batch_first else tokens.T},
        [np.ones((2, 3, 4) if batch_first else (3, 2, 4))],
    )
    expected = 2 * weight[tokens] + sinusoidal_positions(3, 4)
    assert found.outputs[0] is not None
    output = found.outputs[0] if batch_first else found.outputs[0].swapaxes(0, 1)
    assert relative(output, expected) < 1e-15
    counts = np.bincount(tokens.ravel(), minlength=5)
    assert np.array_equal(found.gradients["weight"], 2.0 * counts[:, None] * np.ones(4))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("ignored", [-100, 1])
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 5, 3), (2, 5, 3, 2)], ids=str)
def test_cross_entropy_agrees(shape: tuple[int, ...], ignored: int, smoothing: float, reduction: str) -> None:
    options: dict[str, Any] = {
        "ignore_index": ignored,
        "label_smoothing": smoothing,
        "reduction": reduction,
    }
    axes = shape[:1] + shape[2:] if len(shape) > 1 else ()
    target = np.asarray(np.random.default_rng(6).integers(0, 5, axes))
    if target.ndim:
        target.flat[0] = ignored
    loss = nn.CrossEntropyLoss(**options)
    arguments = {"input": random_arrays(7, shape)[0] * 3, "target": target}
    agree("cross_entropy", options, loss, arguments)


# 4. Dead rows, non-finite values, hints, large scores.


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


def test_softmax_is_exact_at_scores_of_a_hundred_million() -> None:
    query, key = np.array([[1.0]]), np.array([[1e8], [1e8 - 1], [-1e8]])
    arguments = {"query": query, "key": key, "value": np.eye(3), "scale": 1.0}
    found = evaluate("attention", {}, {}, arguments, [None]).outputs[0]
    low = float(1 / (1 + mpmath.e))
    assert found is not None
    assert relative(found, np.array([[1 - low, low, 0.0]])) < 2e-16


def test_an_ignored_position_contributes_nothing_whatever_it_holds() -> None:
    logits = np.array([[0.5, 1.0], [NAN, np.inf]])
    arguments = {"input": logits, "target": np.array([1, -100])}
    found = evaluate("cross_entropy", {}, {}, arguments, [np.array(1.0)])
    assert np.isfinite(found.outputs[0]).all()  # type: ignore[arg-type]
    assert np.isfinite(found.gradients["input"]).all()
    assert not found.gradients["input"][1].any()


def test_the_mean_over_no_position_is_nan() -> None:
    arguments = {"input": np.ones((2, 3)), "target": np.array([-100, -100])}
    found = evaluate("cross_entropy", {}, {}, arguments, [np.array(1.0)])
    assert np.isnan(found.outputs[0])  # type: ignore[arg-type]
    assert not found.gradients["input"].any()


def test_no_cotangent_gives_zero_gradients_and_inputs_stay_as_they_were() -> None:
    arguments = dict(zip(("query", "key", "value"), random_arrays(1, *[(3, 2)] * 3), strict=True))
    before = {name: array.copy() for name, array in arguments.items()}
    found = evaluate("attention", {}, {}, arguments, [None])
    assert found.gradients.keys() == arguments.keys()
    for name, gradient in found.gradients.items():
        assert np.array_equal(gradient, np.zeros((3, 2)))
        assert np.array_equal(arguments[name], before[name])


# 5. Errors.

LINEAR = {"linear1.weight": np.ones((INNER, WIDTH)), "linear2.weight": np.ones((WIDTH, INNER))}
BLOCK = {"d_model": WIDTH, "dim_feedforward": INNER}
ROW = {"input": np.ones((2, WIDTH))}
PAIR = {"embed_dim": 4, "num_heads": 2}
QKV = {name: np.ones((3, 4)) for name in ("query", "key", "value")}
PACKED = {"in_proj_weight": np.ones((12, 4)), "out_proj.weight": np.ones((4, 4))}
LABELS = {"input": np.ones((2, 3)), "target": np.array([0, 2])}
PARTED: dict[str, Any] = {"query": np.ones((4, 2, 2)), "key": np.ones((3, 2, 2))}


@pytest.mark.parametrize(
    ("component", "options", "parameters", "arguments", "message"),
    [
        ("lstm", {}, {}, {}, "component 'lstm'"),
        ("attention", {"heads": 2}, {}, QKV, "option 'heads'"),
        ("attention", {}, {}, QKV | {"mask": None}, "argument 'mask'"),
        ("attention", {}, {"w": np.ones(2)}, QKV, "leftover parameter 'w'"),
        ("attention", {}, {}, {"query": np.ones((3, 4))}, "argument 'key'.*NoneType"),
        ("attention", {}, {}, QKV | {"key": np.ones((3, 5))}, r"'key'.*\(3, 4\), got \(3, 5\)"),
        ("attention", {}, {}, QKV | {"value": np.ones((2, 4))}, "'value'.*expected shape"),
        ("attention", {}, {}, QKV | {"query": np.ones(4)}, "'query'.*2 axes"),
        ("attention", {}, {}, QKV | {"attn_mask": np.ones((2, 3))}, r"'attn_mask'.*\(2, 3\)"),
        ("attention", {}, {}, QKV | {"attn_mask": np.ones((3, 3), dtype=int)}, "bool or float"),
        (
            "attention",
            {},
            {},
            QKV | {"attn_mask": np.ones((3, 3)), "is_causal": True},
            "is_causal",
        ),
        ("attention", {}, {}, QKV | {"dropout_p": 0.5}, "dropout_p"),
        (
            "attention",
            {},
            {},
            QKV | PARTED | {"value": np.ones((3, 2, 2)), "enable_gqa": True},
            "divide",
        ),
        ("feed_forward", BLOCK, {"linear1.weight": LINEAR["linear1.weight"]}, ROW, "linear2"),
        ("feed_forward", BLOCK, LINEAR | {"linear3.weight": np.ones(1)}, ROW, "leftover.*linear3"),
        (
            "feed_forward",
            BLOCK | {"bias": False},
            LINEAR | {"linear1.bias": np.ones(INNER)},
            ROW,
            "leftover parameter 'linear1.bias'",
        ),
        ("feed_forward", BLOCK, LINEAR | {"linear1.bias": np.ones(3)}, ROW, r"linear1.bias.*\(3,"),
        ("feed_forward", BLOCK | {"activation": "tanh"}, LINEAR, ROW, "activation.*tanh"),
        ("feed_forward", {"dim_feedforward": INNER}, LINEAR, ROW, "option 'd_model'"),
        ("feed_forward", BLOCK, LINEAR, {"input": np.ones((2, 5))}, "'input'.*6 features"),
        ("multihead_attention", PAIR | {"num_heads": 3}, PACKED, QKV, "embed_dim"),
        ("multihead_attention", PAIR, PACKED, QKV | {"query": np.ones((3, 5))}, "'query'"),
        ("multihead_attention", PAIR, PACKED, QKV | {"key": np.ones((2, 4))}, "length"),
        (
            "multihead_attention",
            PAIR,
            PACKED,
            QKV | {"attn_mask": np.ones((1, 3))},
            r"'attn_mask'.*\(3, 3\) or \(2, 3, 3\), got \(1, 3\)",
        ),
        (
            "multihead_attention",
            PAIR,
            PACKED,
            QKV | {"key_padding_mask": np.ones((1, 3))},
            r"'key_padding_mask'.*\(3,\), got \(1, 3\)",
        ),
        ("multihead_attention", PAIR | {"add_bias_kv": True}, PACKED, QKV, "bias_k"),
        ("layer_norm", {"normalized_shape": 6}, {}, ROW, "missing parameter 'weight'"),
        ("layer_norm", {}, {}, ROW, "normalized_shape"),
        ("cross_entropy", {}, {}, LABELS | {"target": np.array([0, 3])}, "classes from 0 to 2"),
        ("cross_entropy", {}, {}, LABELS | {"target": np.array([0])}, "'target'.*shape"),
        ("cross_entropy", {}, {}, LABELS | {"target": np.ones(2)}, "'target'.*integer"),
        ("cross_entropy", {"reduction": "max"}, {}, LABELS, "reduction.*max"),
        ("cross_entropy", {"label_smoothing": 1.5}, {}, LABELS, "label_smoothing"),
        (
            "embedding",
            {"num_embeddings": 2, "embedding_dim": 2},
            {"weight": np.ones((2, 2))},
            {"input": np.array([2])},
            "tokens from 0 to 1, got 2",
        ),
    ],
)
def test_wrong_input_is_named(
    component: str,
    options: dict[str, Any],
    parameters: dict[str, Array],
    arguments: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(component, options, parameters, arguments, [None, None][: 1 + ("mu" in component)])


@pytest.mark.parametrize(
    ("cotangents", "message"),
    [([], "expected 1"), ([None, None], "got 2"), ([np.ones((4, 3))], r"cotangents\[0\]")],
)
def test_wrong_cotangents_are_named(cotangents: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate("attention", {}, {}, QKV, cotangents)


def test_weights_that_were_not_asked_for_take_no_cotangent() -> None:
    arguments = QKV | {"need_weights": False}
    found = evaluate("multihead_attention", PAIR, PACKED, arguments, [None, None])
    assert found.outputs[1] is None
    with pytest.raises(ValueError, match="absent output"):
        evaluate("multihead_attention", PAIR, PACKED, arguments, [None, np.ones((3, 3))])


# 6. Independence.


def test_the_oracle_imports_only_numpy_and_the_standard_library() -> None:
    allowed = sys.stdlib_module_names | {"numpy"}
    files = sorted(Path(reference.oracle.__file__).parent.rglob("*.py"))
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level <= 1, f"{file.name} reaches outside its package"
                modules = [] if node.level else [node.module or ""]
            else:
                continue
            for module in modules:
                assert module.split(".")[0] in allowed, f"{file.name} imports {module}"
