"""The behaviour matrix: what every clause says of every version of torch, one row for each clause and subject."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from packaging.version import Version

from ..clauses import CHAPTERS, REGISTRY, load_all
from ..verdicts import Verdict
from .behaviours import Behaviour
from .behaviours import load as load_behaviours
from .known_differences import load as load_known
from .releases import RELEASES as SUPPORTED
from .results import SUBJECTS, Counts, VersionResults, machines
from .speed_figures import Speed
from .transitions import Change, Transition, transitions, verdict

# The releases that are followed; those without results are shown as missing.
RELEASES = tuple(release.version for release in SUPPORTED)
MISSING = "missing"
# Signs that are told apart without colours.
SIGNS = {"conforms": "✓", "differs": "✗", "not supported": "–", MISSING: "?"}
NOTED = (Change.BROKEN, Change.FIXED, Change.CHANGED, Change.REMOVED, Change.ADDED, Change.DRIFTED)


def sentence(clause: str) -> str:
    """A clause's, or nothing where this suite has no such clause any more."""
    return REGISTRY[clause].sentence if clause in REGISTRY else ""


@dataclass(frozen=True)
class Row:
    """One clause of one subject: what was said on each version, None where nothing is stored."""

    subject: str
    clause: str
    cells: tuple[Counts | None, ...]

    @property
    def states(self) -> tuple[str, ...]:
        """One word for each version."""
        return tuple(MISSING if cell is None else cell.state for cell in self.cells)

    @property
    def sentence(self) -> str:
        """The clause's, or nothing where this suite has no such clause any more."""
        return sentence(self.clause)


@dataclass(frozen=True)
class Step:
    """From one version to the next that is stored: transitions, or why they are not to be compared."""

    before: str
    after: str
    transitions: tuple[Transition, ...]
    refusal: str = ""

    def noted(self) -> list[Transition]:
        """What is no more as it was, the broken first."""
        return sorted((one for one in self.transitions if one.change in NOTED), key=lambda one: NOTED.index(one.change))


@dataclass(frozen=True)
class Matrix:
    """Everything that the pages show.

    Attributes:
        versions: the columns, stored or not.
        missing: those that are not stored.
        machines: on which the others were measured, each with its versions.
        rows: by chapter, clause and subject.
        behaviours: each with a word for each version.
        steps: between neighbours that are stored.
        incomplete: version and subject of runs that did not come to their end.
        speeds: of each version, None where it was not measured.
        capabilities: each with a word for each version.
        builds: of torch, as far as they are known.
    """

    versions: tuple[str, ...]
    missing: tuple[str, ...]
    machines: tuple[tuple[dict[str, str], list[str]], ...]
    rows: tuple[Row, ...]
    behaviours: tuple[tuple[Behaviour, tuple[str, ...]], ...]
    steps: tuple[Step, ...]
    incomplete: tuple[str, ...]
    speeds: tuple[Speed | None, ...]
    capabilities: tuple[tuple[str, tuple[str, ...]], ...] = ()
    builds: tuple[str, ...] = ()

    def chapter(self, name: str) -> list[Row]:
        """The rows of a chapter."""
        return [row for row in self.rows if row.clause.rpartition("-")[0] == name]


def matrix(results: Sequence[VersionResults], releases: Iterable[str] = RELEASES) -> Matrix:
    """The matrix of stored results.

    Args:
        results: of each version that is stored.
        releases: versions that get a column in any case.
    """
    load_all()
    by_version = {one.torch: one for one in results}
    versions = tuple(sorted({*by_version, *releases}, key=Version))
    stored = [by_version[version] for version in versions if version in by_version]
    order = list(CHAPTERS)
    asked = {(name, clause) for one in stored for name, subject in one.subjects.items() for clause in subject.clauses}
    rows = [
        Row(name, clause, tuple(_cell(by_version.get(version), name, clause) for version in versions))
        for name, clause in sorted(asked, key=lambda pair: (_place(pair[1], order), SUBJECTS.index(pair[0])))
    ]
    followed, known = load_behaviours(), load_known()
    where = machines(stored)
    steps = []
    for before, after in pairwise(stored):
        together = any(before.torch in found and after.torch in found for _, found in where)
        common = set(before.subjects) & set(after.subjects)
        refusal = (
            "no subject in both" if not common
            else "measured on different machines" if not together
            else "other cases were asked" if before.sample != after.sample
            else ""
        )  # fmt: skip
        found = () if refusal else tuple(transitions(before, after, known, followed))
        steps.append(Step(before.torch, after.torch, found, refusal))
    return Matrix(
        versions,
        tuple(version for version in versions if version not in by_version),
        tuple(where),
        tuple(rows),
        tuple(
            (one, tuple(verdict(one, by_version[v]) if v in by_version else MISSING for v in versions))
            for one in followed
            if not one.shown_by
        ),
        tuple(steps),
        tuple(
            f"{one.torch} {name}" for one in stored for name, subject in one.subjects.items() if not subject.complete
        ),
        tuple(by_version[version].speed if version in by_version else None for version in versions),
        tuple(
            (name, tuple(_can(by_version.get(version), name) for version in versions))
            for name in dict.fromkeys(name for one in reversed(stored) for name in one.capabilities)
        ),
        tuple(str(one.environment.get("torch", one.torch)) for one in stored),
    )


def _can(version: VersionResults | None, capability: str) -> str:
    """Whether a version can do something, in the words of the clauses."""
    if version is None or capability not in version.capabilities:
        return MISSING
    return "conforms" if version.capabilities[capability] else Verdict.NOT_SUPPORTED.value


def _cell(version: VersionResults | None, subject: str, clause: str) -> Counts | None:
    found = version.subjects.get(subject) if version is not None else None
    return found.clauses.get(clause) if found is not None else None


def _place(clause: str, order: list[str]) -> tuple[int, str]:
    chapter = clause.rpartition("-")[0]
    return order.index(chapter) if chapter in order else len(order), clause


def rerun(row: Row, case: str) -> str:
    """The line that reruns a check, with that version of torch installed; empty for a clause that is no more."""
    if row.clause not in REGISTRY:
        return ""
    check = REGISTRY[row.clause].check
    file = Path(*check.__module__.split(".")).with_suffix(".py").as_posix()
    option = "" if row.subject == "handmade" else f" --subject {row.subject}"
    return f"pytest '{file}::{check.__name__}[{case}]'{option}"


def described(machine: dict[str, str]) -> str:
    """A machine on one line."""
    return ", ".join(f"{name} {value}" for name, value in machine.items()) or "unknown"
