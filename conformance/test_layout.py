"""LAYOUT: batch_first, and inputs that are not contiguous in memory."""

from .cases.select import MODULES, each, unmasked
from .clauses import DOCS, MEASURED, MUST, clause
from .test_mode import MASKED
from .trial import Trial


@clause(
    "LAYOUT-01", MUST, DOCS, [*each(*MODULES), *each(*MODULES, **MASKED), *each(*MODULES, mode="eval", dtype="float32")]
)
def test_batch_first(trial: Trial) -> None:
    """batch_first=True and False give the same values, the tensors transposed and the masks as they are."""
    batch_first = trial.observe(gradient=True, batch_first=True)
    length_first = trial.observe(gradient=True, batch_first=False)
    trial.require_same("output", length_first.output, batch_first.output)
    trial.require_same_gradients(length_first, batch_first)


@clause("LAYOUT-02", MUST, MEASURED, lambda c: c.layout == "strided" and unmasked(c))
def test_strided(trial: Trial) -> None:
    """Inputs whose elements lie apart in memory give the values of contiguous ones."""
    trial.compare_output()


@clause("LAYOUT-03", MUST, MEASURED, lambda c: c.layout == "transposed" and unmasked(c))
def test_transposed(trial: Trial) -> None:
    """Inputs that are transposed views give the values of contiguous ones."""
    trial.compare_output()


@clause("LAYOUT-04", MUST, MEASURED, lambda c: c.layout == "expanded" and unmasked(c))
def test_expanded(trial: Trial) -> None:
    """Inputs expanded along the batch, with stride 0, give the values of contiguous ones."""
    trial.compare_output()
