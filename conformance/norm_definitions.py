"""Which layer norm a subject has, where it is not torch's: the definition and the eps that explain its output."""

import copy
import dataclasses
import itertools
from collections.abc import Callable

from torch import Tensor, nn

from . import tolerance
from .comparison import rms
from .runs import reference_instance
from .trial import Trial
from .verdicts import Difference

# (x, dimensions, eps) → what the centred input is divided by.
Spread = Callable[[Tensor, tuple[int, ...], float], Tensor]

DEFINITIONS: dict[str, Spread] = {
    "the biased variance plus eps below the root": lambda x, dims, eps: (x.var(dims, keepdim=True, unbiased=False) + eps).sqrt(),
    "the unbiased variance": lambda x, dims, eps: (x.var(dims, keepdim=True, unbiased=True) + eps).sqrt(),
    "eps added to the standard deviation": lambda x, dims, eps: x.var(dims, keepdim=True, unbiased=False).sqrt() + eps,
    "eps added to the unbiased standard deviation": lambda x, dims, eps: x.var(dims, keepdim=True, unbiased=True).sqrt() + eps,
    "the mean square, the mean not taken away": lambda x, dims, eps: ((x * x).mean(dims, keepdim=True) + eps).sqrt(),
}  # fmt: skip
EPSILONS = (0.0, 1e-12, *(10.0**exponent for exponent in range(-8, -1)))


class OtherNorm(nn.Module):
    """A layer norm by one of the definitions, with the parameters of another.

    Formula: `(x − mean) / spread · weight + bias`, the mean not taken away in the last definition.
    """

    def __init__(self, like: nn.LayerNorm, definition: str, eps: float) -> None:
        super().__init__()
        self.like, self.eps = like, eps
        self.spread = DEFINITIONS[definition]
        self.centred = "not taken away" not in definition

    def forward(self, input: Tensor) -> Tensor:
        """The normalised input."""
        dims = tuple(range(-len(self.like.normalized_shape), 0))
        centred = input - input.mean(dims, keepdim=True) if self.centred else input
        y = centred / self.spread(input, dims, self.eps)
        y = y if self.like.weight is None else y * self.like.weight
        return y if self.like.bias is None else y + self.like.bias


def compare_norm(trial: Trial) -> None:
    """The output equals the reference's; where another norm would explain it, the message names that.

    Raises:
        Difference: it does not.
    """
    try:
        trial.compare_output()
    except Difference as difference:
        explanation = explain(trial)
        if explanation is None:
            raise
        raise Difference(f"{difference}\n{explanation}", difference.kind) from None


def explain(trial: Trial) -> str | None:
    """The definition and the eps by which torch's module, in float64, gives the subject's output; None if none does."""
    run = trial.run
    case = trial.case.but(dtype="float64", mode="train")
    inputs = run.inputs.but(case=case)
    rows = run.inputs.real & run.inputs.live
    seen = run.subject.outputs[0] if run.subject.outputs else None
    if seen is None or seen.shape != run.witnesses.oracle.output.shape:
        return None
    found = seen[rows]
    reference = reference_instance(case, trial.instance().state)
    # Of several explanations the one that leaves least.
    smallest, name = tolerance.EXPLAINED * rms(found - run.witnesses.oracle.output[rows]), None
    asked = f" (asked for: eps = {case.layer_norm_eps:g})"
    for definition, eps in itertools.product(DEFINITIONS, EPSILONS):
        module = with_norms(reference.module, definition, eps)
        other = dataclasses.replace(reference, module=module).observe(inputs, gradient=False)
        left = rms(found - other.output[rows])
        if left < smallest:
            smallest, name = left, f"it is the output with {definition}, eps = {eps:g}{asked}"
    return name


def with_norms(module: nn.Module, definition: str, eps: float) -> nn.Module:
    """A copy of the module in which every layer norm has another definition and eps."""
    if isinstance(module, nn.LayerNorm):
        return OtherNorm(module, definition, eps)
    copied = copy.deepcopy(module)
    for part in list(copied.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.LayerNorm):
                setattr(part, name, OtherNorm(child, definition, eps))
    return copied
