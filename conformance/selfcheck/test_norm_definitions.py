"""Where a norm is wrong, the message of the clauses about norms says which norm it is instead."""

import pytest

from conformance.selfcheck.faults import FAULTS, Fault
from conformance.selfcheck.faults.catching import Faulty, specification
from conformance.selfcheck.faults.changes import given
from conformance.selfcheck.faults.norms import NORMED
from conformance.selfcheck.faults.seams import LAYER_NORM

BY_NAME = {fault.name: fault for fault in FAULTS}
OTHER_EPS = Fault(
    "eps", "Every norm has another eps.", ("NUM-06",), {LAYER_NORM: given(eps=lambda came: 1e-12)}, NORMED
)


@pytest.mark.parametrize("clause", ["NORM-04", "NUM-06"])
@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (OTHER_EPS, "with the biased variance plus eps below the root, eps = 1e-12"),
        (BY_NAME["unbiased variance"], "with the unbiased variance, eps = 1e-05"),
        (BY_NAME["eps added to the standard deviation"], "with eps added to the standard deviation, eps = 1e-05"),
    ],
    ids=["eps", "unbiased", "outside"],
)
def test_named(fault: Fault, named: str, clause: str) -> None:
    for component in ("layer_norm", "encoder_layer"):
        narrowed = Fault(fault.name, fault.wrong, fault.clauses, fault.changes, (component,))
        caught = Faulty(narrowed).caught_by(specification()[clause])
        assert caught is not None
        assert named in caught.outcome.message


def test_not_named_without_a_reason() -> None:
    """A fault that is none of the norm's is explained by no norm."""
    caught = Faulty(BY_NAME["pre-norm as post-norm"]).caught_by(specification()["NUM-06"])
    assert caught is not None
    assert "it is the output with" not in caught.outcome.message
