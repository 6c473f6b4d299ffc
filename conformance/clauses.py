"""Clauses: the sentences of the specification, each the docstring of the test that checks it."""

import dataclasses
import enum
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cases.case import CONSTRUCTOR, Case
from .cases.grid import grid

if TYPE_CHECKING:
    from .trial import Trial

Check = Callable[["Trial"], None]

CHAPTERS = {
    "SHAPE": "shapes of outputs, unbatched and empty calls",
    "VALUE": "values without masks",
    "NORM": "layer norm, and where the layers put it",
    "MASK": "attention masks and padding masks",
    "DEAD": "rows that see no key",
    "CAUSAL": "causal masks and hints",
    "WEIGHT": "the attention weights that are returned",
    "GRAD": "gradients, and training with them",
    "MODE": "train and eval, repetition, independence",
    "DROPOUT": "where dropout acts",
    "LAYOUT": "batch_first and memory layout",
    "INIT": "initial values",
    "STATE": "parameters, copies, transformations",
    "ERROR": "wrong arguments",
    "DTYPE": "dtypes and devices",
    "NUM": "large and small numbers, long sequences, numbers that are none",
    "EMBED": "token embeddings",
    "POSITION": "position codes, sinusoidal and rotary",
    "RMS": "normalisation by the root mean square",
    "GATE": "gated feed-forward networks, and variants of GELU",
    "EXPERT": "mixtures of experts",
    "GROUP": "grouped queries, and attention with a single head",
    "LOSS": "cross-entropy and shifted targets",
    "MODEL": "whole models",
    "CACHE": "caches of keys and values",
    "DECODE": "decoding",
}


class Level(enum.Enum):
    """MUST fails the run; SHOULD is shown; POLICY is one of several ways, which a subject declares."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    POLICY = "POLICY"


MUST, SHOULD, POLICY = Level.MUST, Level.SHOULD, Level.POLICY


@dataclass(frozen=True)
class Clause:
    """One sentence of the specification.

    Attributes:
        id: chapter and number.
        level: how binding it is.
        sentence: what holds.
        source: where it is said, or that it was measured.
        cases: the cases it is checked on, in a fixed order.
        check: raises `Difference` where it does not hold.
        applies: which cases of the grid it reads; None where its cases are its own.
    """

    id: str
    level: Level
    sentence: str
    source: str
    cases: tuple[Case, ...]
    check: Check
    applies: Callable[[Case], bool] | None = None

    def covers(self, case: Case, instead_of: Case) -> bool:
        """Whether the clause still says something of a case that takes the place of one of its own.

        Its predicate decides; where its cases are its own, no option may have changed that they set on purpose.
        A check that depends on the mode sets it itself.
        """
        if self.applies is not None:
            return self.applies(case)
        return all(
            getattr(case, field.name) == getattr(instead_of, field.name)
            or (field.name in (*CONSTRUCTOR, "mode") and getattr(instead_of, field.name) == field.default)
            for field in dataclasses.fields(Case)
        )

    @property
    def chapter(self) -> str:
        """The part of the id before the number."""
        return self.id.rpartition("-")[0]


REGISTRY: dict[str, Clause] = {}
DOCS = "documentation of torch.nn"
MEASURED = "measured on torch"
PAPER = "Vaswani et al. 2017"


def clause(
    id: str,
    level: Level,
    source: str,
    cases: Callable[[Case], bool] | Iterable[Case],
) -> Callable[[Check], Any]:
    """Register a test function as the check of a clause; its docstring is the clause's sentence.

    Args:
        id: chapter and number, "MASK-04".
        level: MUST, SHOULD or POLICY.
        source: where the clause comes from.
        cases: which cases of the grid it reads, or cases of its own.

    Raises:
        ValueError: the id is taken or its chapter unknown, or the function has no docstring.
    """

    def register(check: Check) -> Check:
        if id in REGISTRY and REGISTRY[id].check.__qualname__ != check.__qualname__:
            raise ValueError(f"clause {id}: already the id of {REGISTRY[id].check.__qualname__}")
        if id.rpartition("-")[0] not in CHAPTERS:
            raise ValueError(f"clause {id}: expected a chapter of {list(CHAPTERS)}")
        if not check.__doc__:
            raise ValueError(f"clause {id}: expected a docstring, which is its sentence")
        chosen = tuple(filter(cases, grid())) if callable(cases) else tuple(cases)
        sentence = " ".join(check.__doc__.split())
        made = Clause(id, level, sentence, source, chosen, check, cases if callable(cases) else None)
        REGISTRY[id] = made
        check.clause = made  # type: ignore[attr-defined]
        return check

    return register


def load_all() -> dict[str, Clause]:
    """Import every chapter, and return the clauses by id."""
    package = Path(__file__).parent
    for path in sorted(package.glob("test_*.py")):
        importlib.import_module(f"{__package__}.{path.stem}")
    return REGISTRY
