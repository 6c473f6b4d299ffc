"""Embedding and cross entropy of the oracle, against torch.nn and, where torch has none, against the definition."""

from typing import Any

import numpy as np
import pytest
from torch import nn

from conformance.selfcheck.oracle_checks import NAN, agree, random_arrays, randomised, relative
from reference.oracle import evaluate, sinusoidal_positions


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
