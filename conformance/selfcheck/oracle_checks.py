"""What the tests of the oracle share: arrays, masks and options of layers, and the comparison with torch.nn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from reference.oracle import evaluate

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


def layer_options(layout: str, **more: Any) -> dict[str, Any]:
    return {
        "d_model": WIDTH,
        "nhead": HEADS,
        "dim_feedforward": INNER,
        "dropout": 0.0,
        "batch_first": layout == "batch_first",
        **more,
    }


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
