"""GRAD: gradients of every input and every parameter, and training with them."""

from .cases.components import COMPONENTS
from .cases.select import floating_masks
from .clauses import MEASURED, MUST, clause
from .trial import Trial


@clause("GRAD-01", MUST, MEASURED, lambda _: True)
def test_inputs(trial: Trial) -> None:
    """The gradients of all input tensors, memory included, equal the reference's under a random cotangent."""
    trial.compare_gradients(lambda name: name in COMPONENTS[trial.case.component].tensors)


@clause("GRAD-02", MUST, MEASURED, lambda c: c.component != "attention" and c.elementwise_affine)
def test_parameters(trial: Trial) -> None:
    """The gradients of all parameters, biases and norms included, equal the reference's."""
    component = COMPONENTS[trial.case.component]
    trial.compare_gradients(lambda name: name not in component.tensors and not name.endswith("mask"))


@clause("GRAD-03", MUST, MEASURED, floating_masks)
def test_masks(trial: Trial) -> None:
    """A floating mask is an ordinary input: it gets the gradient of the scores that it was added to."""
    trial.compare_gradients(lambda name: name.endswith("mask"))
