"""LOSS: the cross-entropy, and the shifted targets that it is taken of."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .arguments import array
from .bad_calls import BadCall, change
from .cases.case import Case
from .clauses import DOCS, MEASURED, MUST, PAPER, clause
from .test_error import require_refusals, require_refused_calls
from .trial import Trial
from .verdicts import Unsupported

SZEGEDY = "Szegedy et al. 2016, section 7"
DTYPES = ("float64", "float32", "bfloat16", "float16")
REDUCTIONS = ("mean", "sum", "none")
PLAIN = [Case("cross_entropy", dims=dims, reduction=reduction) for dims in (2, 1, 3) for reduction in REDUCTIONS]
IGNORED = [Case("cross_entropy", dims=2, reduction=reduction, ignore_index=3, target=20) for reduction in REDUCTIONS]
SMOOTH = [case.but(label_smoothing=part) for case in (*PLAIN, *IGNORED) for part in (0.1, 1.0)]


@clause("LOSS-01", MUST, DOCS, [
    *PLAIN, *IGNORED, *(case.but(dtype=dtype) for case in (PLAIN[0], PLAIN[5], IGNORED[0]) for dtype in DTYPES[1:]),
    Case("cross_entropy", dims=2, vocabulary=1), Case("cross_entropy", dims=2, vocabulary=1000, target=30),
])  # fmt: skip
def test_values(trial: Trial) -> None:
    """Cross-entropy is minus the log-probability of the target class: its mean, its sum, or one number each."""
    trial.compare_all()


@clause("LOSS-02", MUST, SZEGEDY, [*SMOOTH, *(SMOOTH[0].but(dtype=dtype) for dtype in DTYPES[1:])])
def test_smoothing(trial: Trial) -> None:
    """Label smoothing e takes the part e of the target's weight and spreads it over all classes, the target among them."""
    trial.compare_all()


@clause("LOSS-03", MUST, DOCS, [
    Case("cross_entropy", dims=2, magnitude=magnitude, dtype=dtype, reduction="none")
    for magnitude in (100.0, 1e4) for dtype in DTYPES[:3]
])  # fmt: skip
def test_large(trial: Trial) -> None:
    """Logits of a hundred and of ten thousand, whose exponentials overflow, cost no digits."""
    trial.compare_all()


def loss_and_gradient(trial: Trial, logits: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The loss of the case's options, and the gradient of its sum."""
    given: Any = torch.from_numpy(logits).requires_grad_(trial.adapter.gradients)
    made: Tensor = trial.torch_module()(input=given, target=torch.from_numpy(target))
    if trial.adapter.gradients:
        made.sum().backward()
    return array(made), array(torch.zeros_like(given) if given.grad is None else given.grad)


@clause(
    "LOSS-04",
    MUST,
    DOCS,
    [case for case in IGNORED if case.reduction != "mean"] + [IGNORED[0].but(label_smoothing=0.1)],
)
def test_ignored(trial: Trial) -> None:
    """A position whose target is ignore_index counts for nothing: neither its loss nor its gradient, nor in the mean."""
    logits, target = trial.inputs.tensors["input"], trial.inputs.integers["target"].copy()
    target[:3] = trial.case.ignore_index
    kept = target != trial.case.ignore_index
    found, gradient = loss_and_gradient(trial, logits, target)
    without, rest = loss_and_gradient(trial, logits[kept], target[kept])
    trial.require_same("loss", found[kept] if found.ndim else found, without)
    trial.require(not (found[~kept].any() if found.ndim else False), "expected loss 0 where ignored")
    trial.require_same("gradient", gradient[kept], rest)
    trial.require(not gradient[~kept].any(), "expected gradient 0 where ignored")


@clause("LOSS-05", MUST, MEASURED, IGNORED)
def test_ignored_content(trial: Trial) -> None:
    """The logits of an ignored position may be NaN or infinite: neither the loss nor any gradient shows it."""
    logits, target = trial.inputs.tensors["input"].copy(), trial.inputs.integers["target"].copy()
    target[:2] = trial.case.ignore_index
    clean = loss_and_gradient(trial, logits, target)
    logits[0], logits[1] = math.nan, math.inf
    found = loss_and_gradient(trial, logits, target)
    trial.require_same("loss", found[0], clean[0])
    trial.require_same("gradient", found[1], clean[1])


@clause("LOSS-06", MUST, DOCS, IGNORED)
def test_all_ignored(trial: Trial) -> None:
    """Where every position is ignored the mean is NaN, the sum 0, and each loss 0."""
    target = np.full_like(trial.inputs.integers["target"], trial.case.ignore_index)
    found, _ = loss_and_gradient(trial, trial.inputs.tensors["input"], target)
    if trial.case.reduction == "mean":
        trial.require(bool(np.isnan(found).all()), f"expected NaN, got {found}")
    else:
        trial.require(not found.any(), f"expected 0, got {found}")


@clause("LOSS-07", MUST, DOCS, [PLAIN[1]])
def test_impossible_classes(trial: Trial) -> None:
    """A logit of −∞ is a class of probability 0: no harm beside the target, an infinite loss as the target."""
    logits, target = trial.inputs.tensors["input"].copy(), trial.inputs.integers["target"].copy()
    logits[:, 0], target[:] = -math.inf, 1
    found, gradient = loss_and_gradient(trial, logits, target)
    rest, of_rest = loss_and_gradient(trial, logits[:, 1:].copy(), target - 1)
    trial.require_same("loss", found, rest)
    trial.require_same("gradient", gradient[:, 1:], of_rest)
    trial.require(not gradient[:, 0].any(), "expected gradient 0 at a class of probability 0")
    target[:] = 0
    impossible, _ = loss_and_gradient(trial, logits, target)
    trial.require(bool((impossible == math.inf).all()), f"expected infinity, got {impossible}")


@clause("LOSS-08", MUST, SZEGEDY, [*SMOOTH[:2], *PLAIN[:2]])
def test_uniform(trial: Trial) -> None:
    """Equal logits cost log C, whatever the target and the smoothing; with smoothing 1 no target matters."""
    logits, target = trial.inputs.tensors["input"], trial.inputs.integers["target"]
    equal, _ = loss_and_gradient(trial, np.full_like(logits, 2.0), target)
    count = 1 if trial.case.reduction == "mean" else target.size
    trial.require_same("loss of equal logits", equal, np.asarray(count * math.log(trial.case.vocabulary)))
    if trial.case.label_smoothing == 1.0:
        other = (target + 1) % trial.case.vocabulary
        trial.require_same("loss", *(loss_and_gradient(trial, logits, ids)[0] for ids in (other, target)))


@clause("LOSS-09", MUST, f"{PAPER}, section 3.1", [PLAIN[0]])
def test_shifted(trial: Trial) -> None:
    """The decoder reads the targets one place later, behind the start token, and without the last of them."""
    shift = getattr(trial.names, "shift_right", None)
    if shift is None:
        raise Unsupported("shifting targets")
    targets = torch.tensor([[5, 6, 7], [8, 9, 2]])
    trial.require_same("shifted", array(shift(targets, 1)), np.array([[1.0, 5, 6], [1, 8, 9]]))
    trial.require_same("targets", array(targets), np.array([[5.0, 6, 7], [8, 9, 2]]))
    trial.require_same("a single one", array(shift(targets[0, :1], 0)), np.zeros(1))


@clause("LOSS-10", MUST, DOCS, [PLAIN[0], PLAIN[6]])
def test_bad_targets(trial: Trial) -> None:
    """Classes outside the logits' are refused, targets that are no integers, and shapes that do not fit."""
    require_refused_calls(
        trial,
        lambda case, given: [
            BadCall("a class too large", ("target",), {"target": torch.full_like(given["target"], case.vocabulary)}),
            BadCall("a negative class", ("target",), {"target": torch.full_like(given["target"], -1)}),
            BadCall("a list", ("target",), {"target": given["target"].tolist()}),
            BadCall("one target too few", ("target",), {"target": given["target"][1:]}),
            BadCall("logits of integers", ("input",), {"input": given["input"].long()}),
        ],
    )


@clause("LOSS-11", MUST, DOCS, [PLAIN[0]])
def test_bad_options(trial: Trial) -> None:
    """A reduction of another name is refused, and a smoothing beyond 1."""
    module, given = trial.torch_module(), trial.call_arguments()
    module(**given)
    bad = [change("reduction", "median"), change("label_smoothing", 1.5)]

    def attempt(**changes: Any) -> None:
        trial.construct(**changes)(**given)

    require_refusals(trial, attempt, bad)
