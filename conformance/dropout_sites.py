"""Seeing one dropout at a time: parameters under which a layer's output spells out what was kept.

With its norms replaced by identities a layer adds its branches to its input whatever `norm_first` says. With all
parameters 0 the branches are 0; a bias then makes one branch constant, so that the output less the input shows, in
units of 1 / (1 − p), which elements of it were kept.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from . import arguments, binomial, tolerance
from .cases.case import Case
from .trial import Trial
from .verdicts import Unsupported

P = 0.25
SCALE = 1 / (1 - P)
# The bias that a branch ends in: the dropout after the branch acts on it.
LAST_BIAS = {
    "self_attn": "self_attn.out_proj.bias",
    "multihead_attn": "multihead_attn.out_proj.bias",
    "linear2": "linear2.bias",
}


@dataclass(frozen=True)
class Kept:
    """What one dropout kept: of `of` elements behind each count, how many; 1 where each is seen by itself."""

    counts: np.ndarray
    of: int = 1


@contextlib.contextmanager
def seeded(case: Case) -> Iterator[None]:
    """Inside, torch draws from the case's own seed; outside, nothing is changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(case.rng("dropout").integers(2**62)))
        yield


def check_equal_draws(trial: Trial) -> None:
    """Equal seeds can be asked to give equal draws.

    Raises:
        Unsupported: on another device than a CPU, or of an interface of its own.
    """
    trial.require_gradients()
    trial.torch_module()
    if trial.case.device != "cpu":
        raise Unsupported("equal draws from equal seeds on a device other than a CPU")


def without_norms(module: nn.Module) -> nn.Module:
    """The module with identities in place of its norms."""
    for part in list(module.modules()):
        for name, _ in list(part.named_children()):
            if name.startswith("norm"):
                setattr(part, name, nn.Identity())
    return module


def silent(trial: Trial) -> nn.Module:
    """The subject's layer or stack, without norms and with parameters 0: it returns its input."""
    module = without_norms(trial.torch_module(dropout=P))
    for name, _ in module.named_parameters():
        fill(module, name, 0.0)
    return module


def fill(module: nn.Module, name: str, value: float) -> None:
    """Set every element of a parameter."""
    with torch.no_grad():
        module.get_parameter(name).fill_(value)


def added(trial: Trial, module: nn.Module) -> np.ndarray:
    """What a silent module with a voice adds to its input, batch first, under the case's seed."""
    with seeded(trial.case):
        output = module(**trial.call_arguments())
    return arguments.from_layout(arguments.array(output), trial.case) - next(iter(trial.inputs.tensors.values()))


def after_branches(trial: Trial, *branches: str) -> dict[str, Kept]:
    """What the dropouts after these branches (none for all) kept: (batch, length, features) by layer and branch.

    Branch number i of them has the value 4^i, so that the digits of the sum to base 4 say which were kept.
    """
    module = silent(trial)
    biases = {
        name.replace(bias, branch): name
        for name, _ in module.named_parameters()
        for branch, bias in LAST_BIAS.items()
        if name.endswith(bias) and branch in (branches or LAST_BIAS)
    }
    for number, bias in enumerate(biases.values()):
        fill(module, bias, 4.0**number)
    total = added(trial, module)
    digits = [np.rint(total / SCALE) // 4**number % 4 for number in range(len(biases))]
    expected = sum(4**number * SCALE * (digit == 1) for number, digit in enumerate(digits))
    trial.require_same("output less input", total, np.asarray(expected))
    return {branch: Kept(digit) for branch, digit in zip(biases, digits, strict=True)}


def inside(trial: Trial, branch: str) -> Kept:
    """What the dropout inside a branch kept, as counts; they are seen through the dropout after it."""
    if branch == "linear2":
        return _hidden_features(trial)
    return _keys(trial, branch)


def _keys(trial: Trial, name: str) -> Kept:
    """How many keys each query and head kept, (batch, length, heads): uniform weights on values of 1."""
    module = silent(trial)
    attention: Any = module.get_submodule(name)
    with torch.no_grad():
        attention.in_proj_bias[-trial.case.d_model :] = 1
        nn.init.eye_(attention.out_proj.weight)
    case = trial.case
    keys = case.source if name == "multihead_attn" or case.component == "encoder_layer" else case.target
    return _before_a_dropout(trial, added(trial, module), case.heads, keys)


def _hidden_features(trial: Trial) -> Kept:
    """How many hidden features each position kept, (batch, length, 1).

    They are the activation of 1: GELU is not linear, so it shows on which side of it the dropout stands.
    """
    module = silent(trial)
    width = trial.case.dim_feedforward
    fill(module, "linear1.bias", 1.0)
    fill(module, "linear2.weight", 1 / F.gelu(torch.ones((), dtype=torch.float64)).item() / width)
    return _before_a_dropout(trial, added(trial, module), 1, width)


def _before_a_dropout(trial: Trial, total: np.ndarray, groups: int, of: int) -> Kept:
    """Counts where each group of features holds one count · 1 / (1 − p)² / of, as far as the dropout after it kept it.

    In a group of many features some are kept. `of` must be odd: without a dropout inside, (1 − p) · of would be
    taken for the count, which is then not whole.
    """
    assert of % 2 == 1
    grouped = total.reshape(*total.shape[:-1], groups, -1)
    unit = SCALE**2 / of
    counts = np.rint(grouped.max(-1) / unit)
    trial.require_same("output less input", grouped, np.where(grouped > unit / 2, unit * counts[..., None], 0.0))
    return Kept(counts, of)


def require_rate(trial: Trial, kept: Kept) -> None:
    """As many elements were kept as independent draws with chance 1 − p may keep."""
    draws = kept.counts.size * kept.of
    low, high = binomial.bounds(draws, 1 - P, tolerance.SIGNIFICANCE)
    total = int(kept.counts.sum())
    trial.require(low <= total <= high, f"kept: expected {low} to {high} of {draws} elements, got {total}")


def require_independent(trial: Trial, name: str, one: np.ndarray, other: np.ndarray, of: int = 1) -> None:
    """Two sets of counts agree as often as independent ones may."""
    low, high = binomial.bounds(one.size, binomial.collision(of, 1 - P), tolerance.SIGNIFICANCE)
    equal = int((one == other).sum())
    trial.require(low <= equal <= high, f"{name}: expected {low} to {high} of {one.size} draws to agree, got {equal}")


def require_independent_along_axes(trial: Trial, name: str, kept: Kept) -> None:
    """Neighbours along every axis were drawn apart."""
    for axis, size in enumerate(kept.counts.shape):
        even, odd = (kept.counts.take(range(start, size // 2 * 2, 2), axis) for start in (0, 1))
        if size > 1:
            require_independent(trial, f"{name}, neighbours along axis {axis}", even, odd, kept.of)
