"""The hidden states of the trained encoder: subject, torch and oracle, layer by layer in one pass each."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reference.oracle import evaluate
from reference.torch_modules import TORCH

from .. import arguments
from ..cases.case import Case
from ..cases.components import COMPONENTS
from ..inputs import Inputs, make_inputs
from ..observation import Instance, instantiate
from ..subjects.adapter import Adapter
from ..subjects.torch_interface import TorchInterface


@dataclass(frozen=True)
class HiddenStates:
    """After each layer, (sentences, length, features); `real` is True where there is no padding."""

    real: np.ndarray
    subject: Sequence[np.ndarray]
    reference: Sequence[np.ndarray]
    oracle: Sequence[np.ndarray]


@functools.lru_cache(maxsize=2)
def hidden_states(adapter: Adapter, case: Case) -> HiddenStates:
    """Those of an adapter that is called as torch's encoder is."""
    inputs = make_inputs(case)
    subject, reference = (instantiate(one, case) for one in (adapter, TorchInterface(case.component, TORCH)))
    exact = _exact(case.configuration)
    return HiddenStates(inputs.real, _watched(subject, inputs), _watched(reference, inputs), exact)


def similarities(states: np.ndarray, real: np.ndarray) -> np.ndarray:
    """The cosines between the mean hidden states of all pairs of sentences, (pairs,)."""
    pooled = (states * real[..., None]).sum(1) / real.sum(1, keepdims=True)
    pooled /= np.linalg.norm(pooled, axis=-1, keepdims=True)
    return (pooled @ pooled.T)[np.triu_indices(len(pooled), 1)]


def _watched(instance: Instance, inputs: Inputs) -> list[np.ndarray]:
    """What each layer returns. Gradients stay enabled, so that torch takes its slow path."""
    seen: list[np.ndarray] = []
    module: Any = instance.module.eval()
    for layer in module.layers:
        layer.register_forward_hook(lambda *call: seen.append(arguments.array(call[-1])))
    module(**arguments.tensors(inputs, gradient=False))
    return seen


@functools.lru_cache(maxsize=1)
def _exact(case: Case) -> list[np.ndarray]:
    """The oracle's, one layer at a time: the parameters and inputs are float32 values in every dtype."""
    state = arguments.values(instantiate(TorchInterface(case.component, TORCH), case).state)
    given, _ = arguments.exact(make_inputs(case))
    options = COMPONENTS["encoder_layer"].options(case)
    seen = [given.pop("src")]
    for layer in range(case.layers):
        prefix = f"layers.{layer}."
        own = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        output = evaluate("encoder_layer", options, own, {"src": seen[-1], **given}, [None]).outputs[0]
        assert output is not None
        seen.append(output)
    return seen[1:]
