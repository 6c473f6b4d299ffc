"""Folders of results: several made one, and two held against each other, version by version."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from .behaviours import Behaviour
from .collecting import holds_results
from .known_differences import Known
from .results import HANDMADE, UnusableResults, VersionResults, machines, path_of, read_all
from .transitions import Change, Transition, alarming, transitions


@dataclass(frozen=True)
class Moved:
    """What became of one version between two folders.

    Attributes:
        torch: the version.
        apart: whether it was measured on different machines.
        transitions: of the subjects in both, without what is unchanged.
        remarks: what could not be compared, or was not asked to its end.
        wrong: where the handmade model differs now: it is to conform everywhere, whatever it did before.
    """

    torch: str
    apart: bool
    transitions: tuple[Transition, ...] = ()
    remarks: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    def alarming(self, strict: bool = False) -> bool:
        """Whether something broke, the handmade model differs, or, if strict, something moved."""
        return bool(self.wrong) or alarming(self.transitions, strict, self.apart)


def read_folder(folder: Path) -> list[VersionResults]:
    """Every version's results in a folder that must have some.

    Raises:
        UnusableResults: it has none, or one that cannot be read.
    """
    if not folder.is_dir():
        raise UnusableResults(f"{folder}: no such folder")
    if not holds_results(folder):
        raise UnusableResults(f"{folder}: no stored results (torch-*.json)")
    return read_all(folder)


def merged(folders: Iterable[Path]) -> list[VersionResults]:
    """The results of several folders, the oldest version first.

    Raises:
        UnusableResults: a folder without results, a file that cannot be read, a version with other results elsewhere.
    """
    found: dict[str, tuple[VersionResults, Path]] = {}
    for folder in folders:
        for one in read_folder(folder):
            before, place = found.setdefault(one.torch, (one, folder))
            if before != one:
                raise UnusableResults(
                    f"torch {one.torch}: other results in {path_of(one.torch, place)} than in {path_of(one.torch, folder)}"
                )
    return sorted((one for one, _ in found.values()), key=lambda one: Version(one.torch))


def compared(
    before: Sequence[VersionResults],
    after: Sequence[VersionResults],
    known: Iterable[Known] = (),
    followed: Iterable[Behaviour] = (),
) -> list[Moved]:
    """Every version of two folders, each with itself, the oldest first.

    Args:
        before: the results of one folder.
        after: those of the other.
        known: the known differences, for their issues.
        followed: behaviours, for theirs.
    """
    old, new = ({one.torch: one for one in folder} for folder in (before, after))
    known, followed = list(known), list(followed)
    return [_moved(name, old.get(name), new.get(name), known, followed) for name in sorted({*old, *new}, key=Version)]


def _moved(
    name: str, old: VersionResults | None, new: VersionResults | None, known: list[Known], followed: list[Behaviour]
) -> Moved:
    found_wrong = tuple(wrong(new, old)) if new is not None else ()
    if old is None or new is None:
        return Moved(
            name, False, (), (f"missing in {'the first' if old is None else 'the second'} folder",), found_wrong
        )
    found = transitions(old, new, known, followed) if set(old.subjects) & set(new.subjects) else []
    return Moved(
        name,
        len(machines([old, new])) > 1,
        tuple(one for one in found if one.change is not Change.UNCHANGED),
        tuple(_remarks(old, new)),
        found_wrong,
    )


def _remarks(old: VersionResults, new: VersionResults) -> Iterator[str]:
    for place, one, other in (("first", old, new), ("second", new, old)):
        for name in other.subjects:
            if name not in one.subjects:
                yield f"{name} is missing in the {place} folder"
        for name, subject in one.subjects.items():
            if not subject.complete:
                yield f"{name} is not complete in the {place} folder"


def wrong(version: VersionResults, before: VersionResults | None = None) -> Iterator[str]:
    """Where the handmade model differs, or is not asked everything as it was before."""
    subject = version.subjects.get(HANDMADE)
    earlier = before.subjects.get(HANDMADE) if before is not None else None
    if earlier is not None and earlier.complete and (subject is None or not subject.complete):
        yield "it was not asked everything"
    for clause, counts in subject.clauses.items() if subject is not None else ():
        if counts.wrong:
            yield f"{clause}: {counts.wrong} checks differ, {', '.join(counts.differs[:1])}: {counts.message}"


def lines(moved: Iterable[Moved]) -> Iterator[str]:
    """A line for everything that is to be said, each with its version."""
    for one in moved:
        said = [
            *one.remarks,
            *(f"handmade must conform: {text}" for text in one.wrong),
            *(f"{step.subject} {_line(step)}" for step in one.transitions),
        ]
        for text in said or ["nothing moved"]:
            yield f"torch {one.torch}: {text}"


def _line(step: Transition) -> str:
    first = f", {step.cases[0]}" if step.cases else ""
    more = f" and {len(step.cases) - 1} more" if len(step.cases) > 1 else ""
    return f"{step.change.value} {step.name}: {step.detail}{first}{more}{''.join(f' {issue}' for issue in step.issues)}"
