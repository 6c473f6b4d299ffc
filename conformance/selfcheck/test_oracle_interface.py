"""The oracle names wrong input, leaves its arguments as they were, and imports only NumPy."""

import ast
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reference.oracle
from conformance.selfcheck.oracle_checks import INNER, WIDTH, Array, random_arrays
from reference.oracle import evaluate

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


def test_no_cotangent_gives_zero_gradients_and_inputs_stay_as_they_were() -> None:
    arguments = dict(zip(("query", "key", "value"), random_arrays(1, *[(3, 2)] * 3), strict=True))
    before = {name: array.copy() for name, array in arguments.items()}
    found = evaluate("attention", {}, {}, arguments, [None])
    assert found.gradients.keys() == arguments.keys()
    for name, gradient in found.gradients.items():
        assert np.array_equal(gradient, np.zeros((3, 2)))
        assert np.array_equal(arguments[name], before[name])


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
