"""One case, three witnesses: the subject, torch's slow path and the oracle see the same numbers once."""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from reference.oracle import evaluate
from reference.torch_modules import TORCH
from reference.weights import copy_weights

from . import arguments, capabilities, tolerance
from .cases.case import Case
from .cases.components import COMPONENTS, shared_tensors
from .comparison import relative_error, rms
from .inputs import Inputs, make_inputs
from .observation import Instance, Observation, build, instantiate
from .subjects.adapter import Adapter
from .subjects.torch_interface import TorchInterface

CACHED_RUNS = 64
NEIGHBOURS = 2
# Names that a case has for another way to hand over the same function.
SAME_ACTIVATION = {"gelu_callable": "gelu", "gelu_tanh_module": "gelu_tanh"}


@dataclass(frozen=True)
class Witnesses:
    """What torch and the oracle say.

    Attributes:
        reference: torch's slow path in the case's dtype, or None where torch raised.
        oracle: the exact values.
        complaint: what torch raised.
        alone: this torch has no such component or no such option, so the oracle is the only yardstick.
        neighbours: the exact values for inputs and parameters half a rounding away from those given, which an
            implementation cannot tell from them; none in float64.
    """

    reference: Observation | None
    oracle: Observation
    complaint: str = ""
    neighbours: tuple[Observation, ...] = ()
    alone: bool = False


@dataclass(frozen=True)
class Run:
    """A case with its three observations."""

    case: Case
    inputs: Inputs
    subject: Observation
    witnesses: Witnesses
    leftover_dropouts: int

    @functools.cached_property
    def typical_error(self) -> float:
        """Root mean square of torch's relative errors in the gradients."""
        reference = self.witnesses.reference
        if reference is None:
            return 0.0
        exact = self.witnesses.oracle.gradients
        pairs = [(reference.gradients[name], value) for name, value in exact.items() if name in reference.gradients]
        return rms(np.array([relative_error(found, value) for found, value in pairs]))


class Runs:
    """Runs of one subject, the latest of them kept."""

    def __init__(self, adapters: Mapping[str, Adapter]) -> None:
        self.adapters = adapters
        self.of = functools.lru_cache(CACHED_RUNS)(self._run)

    def _run(self, case: Case) -> Run:
        inputs = make_inputs(case)
        instance = instantiate(self.adapters[case.component], case)
        state = instance.state
        subject = instance.observe(inputs)
        return Run(case, inputs, subject, witnesses(inputs, state), instance.leftover_dropouts)


_WITNESSES: dict[tuple[str, str], Witnesses] = {}


def witnesses(inputs: Inputs, state: Mapping[str, Tensor]) -> Witnesses:
    """Torch and the oracle on the same inputs and parameters.

    They do not depend on the subject but through its parameters, so the latest are kept under the case and a digest
    of those: hundreds of faulty models share one pair of witnesses.
    """
    digest = hashlib.sha256()
    for name, value in sorted(state.items()):
        digest.update(name.encode() + arguments.array(value).tobytes())
    key = (inputs.case.id, digest.hexdigest())
    if key not in _WITNESSES:
        while len(_WITNESSES) >= CACHED_RUNS * 16:
            _WITNESSES.pop(next(iter(_WITNESSES)))
        _WITNESSES[key] = _ask(inputs, state)
    return _WITNESSES[key]


def _ask(inputs: Inputs, state: Mapping[str, Tensor]) -> Witnesses:
    exact = arguments.values(state)
    oracle = consult_oracle(inputs, exact)
    neighbours: tuple[Observation, ...] = ()
    if inputs.case.dtype != "float64" and inputs.case.weights == "random":
        rng = inputs.case.rng("rounding")
        neighbours = tuple(consult_oracle(*moved(inputs, exact, rng)) for _ in range(NEIGHBOURS))
    if not TORCH.has(inputs.case.component) or capabilities.refusal(capabilities.of_torch(inputs.case)):
        return Witnesses(None, oracle, neighbours=neighbours, alone=True)
    try:
        return Witnesses(reference_observation(inputs, state), oracle, neighbours=neighbours)
    except Exception as error:
        # A torch that cannot do what the clause says is a finding about torch, not about the subject.
        return Witnesses(None, oracle, f"{type(error).__name__}: {error}".splitlines()[0], neighbours)


def moved(
    inputs: Inputs, state: Mapping[str, np.ndarray], rng: np.random.Generator
) -> tuple[Inputs, dict[str, np.ndarray]]:
    """Inputs and parameters, each number up to half a rounding away from where it was."""
    half = tolerance.epsilon(inputs.case.dtype) / 2

    def near(value: np.ndarray) -> np.ndarray:
        return value if value.dtype == bool else value * (1 + half * rng.uniform(-1, 1, value.shape))

    tensors = {name: near(value) for name, value in inputs.tensors.items()}
    masks = {name: near(value) for name, value in inputs.masks.items()}
    return inputs.but(tensors=tensors, masks=masks), {name: near(value) for name, value in state.items()}


def reference_observation(inputs: Inputs, state: Mapping[str, Tensor]) -> Observation:
    """What torch's module with these parameters shows."""
    return reference_instance(inputs.case, state).observe(inputs)


def reference_instance(case: Case, state: Mapping[str, Tensor]) -> Instance:
    """Torch's module with these parameters."""
    instance = build(TorchInterface(case.component, TORCH), case)
    copy_weights(state, instance.module)
    return instance


def consult_oracle(inputs: Inputs, state: Mapping[str, np.ndarray]) -> Observation:
    """The exact outputs and gradients."""
    case = inputs.case
    given, along = arguments.exact(inputs)
    options = COMPONENTS[case.component].options(case)
    if "activation" in options:
        options["activation"] = SAME_ACTIVATION.get(options["activation"], options["activation"])
    answer = evaluate(case.component, options, state, given, along)
    found = dict(answer.gradients)
    for name, other in shared_tensors(case).items() if "query" in given else ():
        found[other] = found[other] + found.pop(name)
    for name in inputs.tensors:
        found[name] = arguments.from_layout(found[name], case)
    for name in inputs.masks:
        if name in found and name.endswith("padding_mask") and case.batch is None:
            found[name] = found[name][None]
    return Observation(arguments.outputs_from_layout(answer.outputs, case), found)
