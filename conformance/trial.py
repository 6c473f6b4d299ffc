"""One clause on one case: the object that a test's body speaks to."""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from . import arguments, tolerance
from .cases.case import Case
from .cases.components import COMPONENTS
from .clauses import Clause, Level
from .comparison import Comparison, compare, rms
from .inputs import Inputs, make_inputs
from .observation import Instance, Observation, instantiate
from .runs import Run
from .subjects.adapter import Adapter
from .subjects.subject import Subject
from .subjects.torch_interface import TorchInterface
from .verdicts import Difference, Kind, Unsupported, Verdict


class Trial:
    """A clause being checked on a case.

    Attributes:
        comparisons: what was compared, in order; goes into the report.
        policy: the name of the policy found, for clauses of that level.
    """

    def __init__(self, subject: Subject, case: Case, clause: Clause) -> None:
        self.subject = subject
        self.case = case
        self.clause = clause
        self.comparisons: list[Comparison] = []
        self.policy = ""

    @property
    def adapter(self) -> Adapter:
        """The subject's adapter for the component."""
        return self.subject.adapters[self.case.component]

    @property
    def run(self) -> Run:
        """The case with its three witnesses; shared by the clauses that read it."""
        return self.subject.runs.of(self.case)

    @functools.cached_property
    def inputs(self) -> Inputs:
        """What the case is called with."""
        return make_inputs(self.case)

    def instance(self, dropout: float = 0.0, **changes: Any) -> Instance:
        """The subject's module for the case with some options changed, and the same random parameters.

        Raises:
            Unsupported: the subject does not do the changed case.
        """
        case = self.case.but(**changes)
        refusal = self.subject.refusal(case) or ("dropout" if dropout and not self.adapter.gradients else None)
        if refusal:
            raise Unsupported(refusal)
        return instantiate(self.adapter, case, seed=self.case, dropout=dropout)

    def observe(self, inputs: Inputs | None = None, gradient: bool = False, **changes: Any) -> Observation:
        """Build, call once, and look; `inputs` default to the case's own."""
        case = self.case.but(**changes)
        given = (inputs or self.inputs).but(case=case)
        return self.instance(**changes).observe(given, gradient)

    def torch_module(self, dropout: float = 0.0, **changes: Any) -> Any:
        """The subject's module where it is called as torch's classes are.

        Raises:
            Unsupported: the subject has an interface of its own.
        """
        self.require_torch_interface()
        instance = self.instance(dropout, **changes)
        return instance.module.train(self.case.mode == "train")

    def construct(self, **options: Any) -> nn.Module:
        """The subject's module as its constructor leaves it, with some of torch's constructor options changed.

        Raises:
            Unsupported: the subject has an interface of its own.
        """
        self.require_torch_interface()
        given = {**COMPONENTS[self.case.component].options(self.case), "dtype": getattr(torch, self.case.dtype)}
        return self.adapter.build(SimpleNamespace(**{**given, **options}))

    def require_gradients(self) -> None:
        """The clause is about gradients or training.

        Raises:
            Unsupported: the subject has none.
        """
        if not self.adapter.gradients:
            raise Unsupported("gradients")

    def require_torch_interface(self) -> None:
        """The clause speaks to the subject's own classes and functions.

        Raises:
            Unsupported: the subject has an interface of its own.
        """
        if not isinstance(self.adapter, TorchInterface):
            raise Unsupported("it has an interface of its own, and the clause is about torch's")

    @property
    def names(self) -> Any:
        """Where the subject's own classes and functions are looked up: torch.nn, or the handmade package.

        Raises:
            Unsupported: the subject has an interface of its own.
        """
        self.require_torch_interface()
        return self.adapter.namespace.modules  # type: ignore[attr-defined]

    def call_arguments(self, inputs: Inputs | None = None, gradient: bool = False) -> dict[str, Any]:
        """The arguments of the case as torch's forward takes them."""
        return arguments.tensors(inputs or self.inputs, gradient)

    def compare_output(self, rows: np.ndarray | None = None) -> None:
        """The output equals the reference's on the real, live rows, within the error budget."""
        run = self.run
        chosen = run.inputs.real & run.inputs.live if rows is None else rows
        self._compare("output", "output", lambda seen: seen.outputs[0] if seen.outputs else None, chosen)
        self.settle()

    def compare_weights(self) -> None:
        """The returned attention weights equal the reference's on the real, live rows."""
        run = self.run

        def by_row(seen: Observation) -> np.ndarray | None:
            weights = seen.outputs[1] if len(seen.outputs) > 1 else None
            return weights.swapaxes(1, 2) if weights is not None and weights.ndim == 4 else weights

        self._compare("weights", "output", by_row, run.inputs.real & run.inputs.live)
        self.settle()

    def compare_second(self, name: str) -> None:
        """The second output, which is no weights of rows, equals the reference's."""
        self._compare(name, "output", lambda seen: seen.outputs[1] if len(seen.outputs) > 1 else None, None)
        self.settle()

    def compare_all(self) -> None:
        """The output and all gradients equal the reference's, within the error budget."""
        self.compare_output()
        self.compare_gradients(lambda _: True)

    def compare_gradients(self, wanted: Callable[[str], bool]) -> None:
        """The gradients with the wanted names equal the reference's, within the error budget."""
        self.require_gradients()
        run = self.run
        exact = run.witnesses.oracle.gradients
        for name in filter(wanted, exact):
            if name.endswith("mask") and name not in run.subject.gradients:
                raise Unsupported("the gradient of a mask that it takes in another form")
            siblings = [value for other, value in exact.items() if _family(other) == _family(name)]
            rows = run.subject.covered.get(name)
            terms = max(map(rms, siblings)) * (max(1.0, self.case.magnitude) ** 2 if _behind_softmax(name) else 1.0)
            if name.endswith("mask") and exact[name].shape[-1] == 1:
                # What is added to all keys alike changes nothing: its gradient is the rounding of all that is summed.
                terms *= max(1.0, (run.subject.output.size / exact[name].size) ** 0.5)
            self._compare(name, "gradient", _gradient(name), rows, terms)
        self.settle()

    def require(self, holds: bool, message: str) -> None:
        """Fail with a message unless it holds."""
        if not holds:
            raise Difference(message)

    def require_same(self, name: str, found: np.ndarray | None, expected: np.ndarray | None) -> None:
        """Two observations of the subject agree up to the order of their sums."""
        apart = self.apart(found, expected)
        if apart:
            finite = found is None or expected is None or np.array_equal(np.isfinite(found), np.isfinite(expected))
            raise Difference(f"{name}{apart}", Kind.of(name.startswith("gradient"), finite))

    def apart(self, found: np.ndarray | None, expected: np.ndarray | None) -> str:
        """How two observations of the subject differ by more than the order of their sums; empty if they do not."""
        if found is None or expected is None or found.shape != expected.shape:
            shapes = [None if value is None else value.shape for value in (found, expected)]
            return f": expected shape {shapes[1]}, got {shapes[0]}"
        if found.size == 0:
            return ""
        with np.errstate(invalid="ignore"):
            distance = np.where(
                (found == expected) | (np.isnan(found) & np.isnan(expected)), 0, np.abs(found - expected)
            )
        distance = np.where(np.isnan(distance), np.inf, distance)
        finite = expected[np.isfinite(expected)]
        largest = float(np.abs(finite).max()) if finite.size else 0.0
        limit = tolerance.SAME * tolerance.epsilon(self.case.dtype) * max(largest, np.finfo(float).tiny)
        worst = np.unravel_index(int(distance.argmax()), distance.shape)
        if distance[worst] <= limit:
            return ""
        return (
            f"{[int(i) for i in worst]}: expected {expected[worst]:.9g}, got {found[worst]:.9g}, "
            f"{distance[worst]:.3g} apart where {limit:.3g} is rounding"
        )

    def require_same_gradients(self, found: Observation, expected: Observation) -> None:
        """Two observations of the subject have the same gradients."""
        self.require_gradients()
        largest = max((rms(value) for value in expected.gradients.values()), default=0.0)
        for name, value in expected.gradients.items():
            # A gradient that is zero in exact arithmetic is rounding of the others' size.
            if rms(value) > largest * tolerance.ZERO_GRADIENT * tolerance.epsilon(self.case.dtype):
                self.require_same(f"gradient of {name}", found.gradients.get(name), value)

    def settle(self) -> None:
        """Raise if anything compared so far fails."""
        failed = [one for one in self.comparisons if self._is_wrong(one)]
        if failed:
            message = "\n".join(one.describe() for one in sorted(failed, key=_severity)[:5])
            raise Difference(message, _kind((one.kind, one.error) for one in failed))

    def _is_wrong(self, one: Comparison) -> bool:
        return one.verdict.fails or (self.subject.is_torch and one.verdict is Verdict.TORCH_DIFFERS)

    def verdict(self, error: BaseException | None) -> Verdict:
        """What to say, given how the check ended."""
        if isinstance(error, Unsupported):
            return Verdict.NOT_SUPPORTED
        if error is not None and self.subject.is_torch:
            return Verdict.TORCH_DIFFERS
        if isinstance(error, Difference):
            failed = [one for one in self.comparisons if one.verdict.fails]
            both = bool(failed) and all(one.verdict is Verdict.BOTH_DIFFER for one in failed)
            return Verdict.BOTH_DIFFER if both else Verdict.DIFFERS
        if error is not None:
            return Verdict.CRASHED
        if any(one.verdict is Verdict.TORCH_DIFFERS for one in self.comparisons):
            return Verdict.TORCH_DIFFERS
        return Verdict.POLICY if self.clause.level is Level.POLICY else Verdict.CONFORMS

    def kind(self, error: BaseException | None) -> Kind | None:
        """What the difference is like, the subject's or torch's; None where nothing differs."""
        if isinstance(error, Difference):
            return error.kind
        if error is not None:
            return None if isinstance(error, Unsupported) else Kind.RAISES
        wrong = [one for one in self.comparisons if one.verdict is Verdict.TORCH_DIFFERS]
        if not wrong:
            return None
        return Kind.RAISES if self.run.witnesses.reference is None else _kind((o.kind, o.torch_error) for o in wrong)

    def _compare(
        self,
        name: str,
        kind: str,
        of: Callable[[Observation], np.ndarray | None],
        rows: np.ndarray | None,
        terms: float = 0.0,
    ) -> None:
        run = self.run
        reference = run.witnesses.reference
        exact = of(run.witnesses.oracle)
        assert exact is not None
        comparison = compare(
            name,
            kind,
            self.case.dtype,
            of(run.subject),
            None if reference is None else of(reference),
            exact,
            rows,
            terms,
            run.typical_error if kind == "gradient" else 0.0,
            [value for one in run.witnesses.neighbours if (value := of(one)) is not None],
            run.witnesses.alone,
        )
        if self.subject.is_torch and comparison.verdict.fails:
            comparison = dataclasses.replace(comparison, verdict=Verdict.TORCH_DIFFERS)
        elif self.subject.is_torch and comparison.error != comparison.torch_error:
            # Another of torch's ways, which is right where the one that others are compared with is not.
            comparison = dataclasses.replace(comparison, verdict=Verdict.CONFORMS)
        self.comparisons.append(comparison)


def _gradient(name: str) -> Callable[[Observation], np.ndarray | None]:
    return lambda seen: seen.gradients.get(name)


def _family(name: str) -> str:
    """What a gradient's siblings share: the layer of a stack, or no layer."""
    before, found, after = name.rpartition("layers.")
    return f"{before}{found}{after.partition('.')[0]}" if found else ""


def _behind_softmax(name: str) -> bool:
    """Whether the gradient reaches the tensor through scores, where products of two inputs cancel."""
    return name != "value" and not any(part in name for part in ("linear1", "linear2", "out_proj", "v_proj", "bias_v"))


def _kind(errors: Iterable[tuple[str, float]]) -> Kind:
    """Of what differs, given as kind of tensor and rms error: an output counts before the gradients."""
    found = list(errors)
    gradient = all(kind == "gradient" for kind, _ in found)
    return Kind.of(gradient, all(np.isfinite(e) for kind, e in found if gradient or kind == "output"))


def _severity(one: Comparison) -> float:
    return -one.error / one.torch_error if one.torch_error > 0 else -np.inf
