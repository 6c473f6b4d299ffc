"""GRAD: gradients of every input and every parameter, and training with them."""

import torch
from torch import Tensor

from .cases.components import COMPONENTS
from .cases.select import MODULES, around, each, floating_masks
from .clauses import MEASURED, MUST, SHOULD, clause
from .modules import attempt, output
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


@clause("GRAD-04", SHOULD, MEASURED, [
    *each("attention", attn_mask="float"), *each("attention"),
    *each(*MODULES, layers=1, activation="gelu", attn_mask="float", key_padding_mask="right", src_mask="bool3d",
          tgt_mask="float_causal", memory_key_padding_mask="right"),
    *(case for case in around() if "embedding" not in case.component),
])  # fmt: skip
def test_second_derivatives(trial: Trial) -> None:
    """Gradients of inputs and floating masks can be differentiated again; those of torch's fused attention cannot."""
    trial.require_gradients()
    module, given = trial.torch_module(), trial.call_arguments(gradient=True)
    leaves = {name: x for name, x in given.items() if isinstance(x, Tensor) and x.requires_grad}

    def call(*values: Tensor) -> Tensor:
        return output(module, {**given, **dict(zip(leaves, values, strict=True))})

    attempt("second derivatives", lambda: torch.autograd.gradgradcheck(call, tuple(leaves.values()), fast_mode=True))
