"""A few optimizer steps of one implementation."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from . import arguments, tolerance
from .inputs import Inputs
from .observation import Instance
from .subjects import export
from .subjects.call import Call
from .trial import Trial
from .verdicts import Unsupported

STEPS = 5
Optimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


@dataclass(frozen=True)
class Course:
    """What training showed: the loss before each step, and the parameters after the last by torch's names."""

    losses: np.ndarray
    parameters: dict[str, np.ndarray]


def train(instance: Instance, inputs: Inputs, make_optimizer: Optimizer) -> Course:
    """Fit the output's real, live rows to random targets by least squares.

    The optimizer works on the module's own parameters, which is the same as on torch's where `export` only renames,
    joins and permutes them.

    Raises:
        Unsupported: torch's counterpart has elements that are no parameter here and would be trained there.
    """
    case = inputs.case
    cotangent = inputs.cotangents[0]
    assert cotangent is not None
    rows = arguments.to_layout((inputs.real & inputs.live)[..., None].astype(float), case)
    target = case.rng("target of training").normal(size=cotangent.shape)
    wanted, weight = (
        torch.from_numpy(np.array(value)).to(arguments.device(case), getattr(torch, case.dtype))
        for value in (arguments.to_layout(target, case), rows / rows.sum())
    )
    module = instance.module.train(case.mode == "train")
    optimizer = make_optimizer(list(module.parameters()))
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        returned = instance.adapter.forward(module, Call(inputs, arguments.tensors(inputs, gradient=False)))
        output: Tensor = returned[0] if isinstance(returned, tuple) else returned
        loss = ((output - wanted) ** 2 * weight).sum()
        loss.backward()
        losses.append(loss.item())
        _check_all_trained(instance)
        optimizer.step()
    return Course(np.array(losses), arguments.values(instance.state))


def _check_all_trained(instance: Instance) -> None:
    _, covered = export.gradients(instance.adapter, instance.module)
    untrained = [name for name, mask in covered.items() if not bool(mask.all())]
    if untrained:
        raise Unsupported(f"no parameter of its own stands for all of {', '.join(untrained)}, which torch trains")


def require_agreement(trial: Trial, name: str, found: np.ndarray | None, expected: np.ndarray) -> None:
    """Equal to the relative agreement that is asked for in float64; a step adds no more than rounding."""
    trial.require(found is not None and found.shape == expected.shape, f"{name}: expected shape {expected.shape}")
    assert found is not None
    apart, largest = np.abs(found - expected).max(), np.abs(expected).max()
    trial.require(
        bool(apart <= tolerance.FLOAT64_AGREEMENT * largest),
        f"{name}: {apart:.3g} apart, expected at most {tolerance.FLOAT64_AGREEMENT:g} of {largest:.3g}",
    )
