"""Checking one clause on one case, whoever asks: pytest, or a self-check that tries a faulty model."""

import time
from dataclasses import dataclass

from . import arguments, pretrained
from .trial import Trial
from .verdicts import Verdict


@dataclass(frozen=True)
class Outcome:
    """How a check ended.

    Attributes:
        verdict: what is said.
        message: why, where it does not conform.
        kind: what the difference is like, the subject's or torch's; empty where there is none.
        seconds: how long it took.
        error: what was raised, where the check crashed.
    """

    verdict: Verdict
    message: str
    seconds: float
    error: BaseException | None = None
    kind: str = ""


def evaluate(trial: Trial) -> Outcome:
    """Check a trial's clause on its case; never raises for what the subject does."""
    if trial.case.device == "accelerator" and arguments.accelerator() is None:
        return Outcome(Verdict.SKIPPED, "needs an accelerator, and there is none", 0.0)
    if trial.case.weights == "trained" and pretrained.requirement():
        return Outcome(Verdict.SKIPPED, pretrained.requirement(), 0.0)
    refusal = trial.subject.refusal(trial.case)
    if refusal:
        return Outcome(Verdict.NOT_SUPPORTED, refusal, 0.0)
    started = time.perf_counter()
    error: BaseException | None = None
    try:
        trial.clause.check(trial)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # sys.exit and pytest.skip, called by a subject, are no answer either
        error = raised
    seconds = time.perf_counter() - started
    verdict, kind = trial.verdict(error), trial.kind(error)
    return Outcome(verdict, _message(error, verdict), seconds, error, kind.value if kind else "")


def _message(error: BaseException | None, verdict: Verdict) -> str:
    if error is None:
        return ""
    return f"{type(error).__name__}: {error}" if verdict is Verdict.CRASHED else str(error)
