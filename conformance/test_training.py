"""GRAD: training. Equal gradients step after step, and parameters that an optimizer can update."""

import functools

import torch

from reference.torch_modules import TORCH
from reference.weights import copy_weights

from .cases.select import NORMED, each
from .clauses import MEASURED, MUST, SHOULD, clause
from .dropout_sites import P, check_equal_draws, seeded
from .observation import instantiate
from .subjects.torch_interface import TorchInterface
from .training import Optimizer, require_agreement, train
from .trial import Trial

SGD = functools.partial(torch.optim.SGD, lr=0.01, momentum=0.9)
# Adam divides by the root of the second moment plus eps. The gradient of a key's bias is 0 but for rounding, so both
# moments are rounding too and their quotient anything; an eps far above rounding, and no larger than the other
# gradients, keeps it near 0.
ADAM = functools.partial(torch.optim.Adam, lr=0.01, eps=1e-2)
ADAMW = functools.partial(torch.optim.AdamW, lr=0.01, eps=1e-2, weight_decay=0.1)

CASES = [
    *each("multihead_attention", *NORMED, key_padding_mask="right", src_key_padding_mask="right",
          tgt_mask="causal", memory_key_padding_mask="right"),
    *each("encoder", "transformer", activation="gelu", batch_first=False, src_mask="bool", tgt_mask="causal"),
]  # fmt: skip
DROPPED = [case for case in CASES if case.component in ("encoder", "transformer")]


@clause("GRAD-10", MUST, MEASURED, CASES)
def test_sgd(trial: Trial) -> None:
    """Trained by SGD with momentum from equal parameters, it has torch's losses and ends in torch's parameters."""
    _require_same_course(trial, SGD)


@clause("GRAD-11", MUST, MEASURED, CASES)
def test_adam(trial: Trial) -> None:
    """Trained by Adam from equal parameters, it has torch's losses and ends in torch's parameters."""
    _require_same_course(trial, ADAM)


@clause("GRAD-12", MUST, MEASURED, CASES)
def test_adamw(trial: Trial) -> None:
    """Trained by AdamW, which also decays every parameter, it has torch's losses and ends in torch's parameters."""
    _require_same_course(trial, ADAMW)


@clause("GRAD-13", SHOULD, MEASURED, DROPPED)
def test_with_dropout(trial: Trial) -> None:
    """Trained with dropout from equal parameters and an equal seed on a CPU, it ends in torch's parameters."""
    check_equal_draws(trial)
    _require_same_course(trial, SGD, dropout=P)


def _require_same_course(trial: Trial, optimizer: Optimizer, dropout: float = 0.0) -> None:
    """Subject and torch, trained alike, have equal losses and equal parameters up to the agreement asked for."""
    trial.require_gradients()
    subject = trial.instance(dropout)
    reference = instantiate(TorchInterface(trial.case.component, TORCH), trial.case, dropout=dropout)
    copy_weights(subject.state, reference.module)
    with seeded(trial.case):
        found = train(subject, trial.inputs, optimizer)
    with seeded(trial.case):
        expected = train(reference, trial.inputs, optimizer)
    require_agreement(trial, "losses", found.losses, expected.losses)
    for name, value in expected.parameters.items():
        require_agreement(trial, f"trained {name}", found.parameters.get(name), value)
