"""One implementation, built for a case and called: outputs, gradients, and what it did to its arguments."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import arguments
from .cases.case import Case
from .cases.components import COMPONENTS
from .inputs import Inputs
from .pretrained import copy_parameters
from .subjects import export
from .subjects.adapter import Adapter
from .subjects.call import Call
from .verdicts import Difference, Unsupported


@dataclass(frozen=True)
class Observation:
    """What one call showed, batch first and in float64.

    Attributes:
        outputs: the output and, for multi-head attention, the weights or None.
        gradients: by argument name and by torch's parameter name; empty without gradient.
        shapes: the outputs' shapes as they came.
        dtypes: the outputs' dtypes as they came.
        modified: arguments and parameters whose values the call changed.
        covered: for exported gradients, True where an element belongs to a parameter of the subject.
    """

    outputs: tuple[np.ndarray | None, ...]
    gradients: dict[str, np.ndarray]
    shapes: tuple[tuple[int, ...] | None, ...] = ()
    dtypes: tuple[torch.dtype | None, ...] = ()
    modified: tuple[str, ...] = ()
    covered: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def output(self) -> np.ndarray:
        """The first output."""
        assert self.outputs[0] is not None
        return self.outputs[0]


@dataclass
class Instance:
    """A module of a subject with the random parameters of a case.

    Attributes:
        leftover_dropouts: torch's own dropout modules that the adapter left active, silenced here.
    """

    adapter: Adapter
    module: nn.Module
    case: Case
    leftover_dropouts: int = 0

    @property
    def state(self) -> dict[str, Tensor]:
        """The parameters by torch's names."""
        named = export.parameters(self.adapter, self.module)
        return {name: parameter.detach().clone() for name, parameter in named.items()}

    def observe(self, inputs: Inputs, gradient: bool = True) -> Observation:
        """Call the module; with `gradient` also send the cotangents back."""
        case = inputs.case
        gradient = gradient and self.adapter.gradients
        given = arguments.tensors(inputs, gradient)
        before = {name: value.detach().clone() for name, value in given.items() if isinstance(value, Tensor)}
        parameters = {name: value.detach().clone() for name, value in self.module.named_parameters()}
        self.module.train(case.mode == "train")
        self.module.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(gradient):
            call = Call(inputs, given)
            returned = self.adapter.forward(self.module, call)
        outputs = returned if isinstance(returned, tuple) else (returned,)
        after = dict(self.module.named_parameters())
        modified = (
            *(name for name, value in before.items() if not _equal(value, given[name])),
            *(f"parameter {name}" for name, value in parameters.items() if not _equal(value, after[name])),
        )
        found: dict[str, np.ndarray] = {}
        covered: dict[str, np.ndarray] = {}
        if gradient:
            self._backward(outputs, inputs)
            found = {name: _input_gradient(given[name], name, case) for name in _leaves(inputs, call.converted)}
            by_parameter, comparable = export.gradients(self.adapter, self.module)
            found.update(arguments.values(by_parameter))
            covered = {name: mask.cpu().numpy() for name, mask in comparable.items()}
        raw = [None if value is None else arguments.array(value) for value in outputs]
        return Observation(
            arguments.outputs_from_layout(raw, case),
            found,
            tuple(None if value is None else tuple(value.shape) for value in outputs),
            tuple(None if value is None else value.dtype for value in outputs),
            modified,
            covered,
        )

    def _backward(self, outputs: tuple[Tensor | None, ...], inputs: Inputs) -> None:
        along = arguments.cotangents(inputs)
        for name, output, cotangent in zip(("output", "weights"), outputs, along, strict=False):
            if output is not None and cotangent is not None and output.shape != cotangent.shape:
                raise Difference(f"{name}: expected shape {tuple(cotangent.shape)}, got {tuple(output.shape)}")
        pairs = [
            (output, cotangent)
            for output, cotangent in zip(outputs, along, strict=False)
            if output is not None and cotangent is not None and output.requires_grad
        ]
        if pairs:
            values, cotangents = zip(*pairs, strict=True)
            torch.autograd.backward(values, [c.to(o.dtype) for o, c in zip(values, cotangents, strict=True)])


def instantiate(adapter: Adapter, case: Case, seed: Case | None = None, dropout: float = 0.0) -> Instance:
    """Build the adapter's module for a case, with its random or trained parameters.

    Args:
        adapter: whose module.
        case: its configuration.
        seed: the case whose random parameters it gets; None for the case itself.
        dropout: probability; torch's own dropout modules are silenced where it is 0.
    """
    instance = build(adapter, case, dropout)
    if (seed or case).weights == "trained":
        if adapter.export(instance.module) is not None:
            raise Unsupported("trained parameters can be put only where the names are torch's")
        copy_parameters(instance.module)
    else:
        export.randomise(instance.module, seed or case)
    return instance


def build(adapter: Adapter, case: Case, dropout: float = 0.0) -> Instance:
    """Build the adapter's module for a case, with whatever parameters it starts with; see `instantiate`."""
    options: dict[str, Any] = COMPONENTS[case.component].options(case)
    dtype, device = getattr(torch, case.dtype), arguments.device(case)
    module = adapter.build(SimpleNamespace(**options, dropout=dropout, dtype=dtype, device=device))
    # What cannot be trained must not be taken for it, whoever calls the module.
    module = module.to(dtype=dtype, device=device).requires_grad_(adapter.gradients)
    leftover = 0
    for part in module.modules():
        name = {nn.Dropout: "p", nn.MultiheadAttention: "dropout"}.get(type(part), "")
        if dropout == 0.0 and name and getattr(part, name) > 0:
            setattr(part, name, 0.0)
            leftover += 1
    return Instance(adapter, module, case, leftover)


def _leaves(inputs: Inputs, converted: set[str]) -> list[str]:
    """The arguments that collect gradients: each tensor once, and the floating masks that were given as they are."""
    floating = [name for name, mask in inputs.masks.items() if mask.dtype != bool and name not in converted]
    return [*inputs.tensors, *floating]


def _input_gradient(leaf: Tensor, name: str, case: Case) -> np.ndarray:
    gradient = arguments.array(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad)
    if not name.endswith("mask"):
        return arguments.from_layout(gradient, case)
    return gradient[None] if name.endswith("padding_mask") and case.batch is None else gradient


def _equal(before: Tensor, after: Tensor) -> bool:
    """Equal in value, NaN included."""
    return bool(((before == after) | ((before != before) & (after != after))).all())
