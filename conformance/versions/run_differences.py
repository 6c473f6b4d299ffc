"""How a run's differences of torch compare with the known ones: what fails, what is written, what is said."""

import argparse
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from ..files import write_whole
from ..report.model import Result
from ..subjects.subject import Subject
from ..verdicts import Verdict
from .correction import corrected, text
from .known_differences import Check, Known, UnreadableDifferences, complaints, load

SHOWN = 20


class Differences:
    """The known differences, and where a run disagrees with them.

    Attributes:
        complaints: a line for each disagreement; only with torch as the subject, on a CPU.

    Raises:
        UnreadableDifferences: the file is malformed, or is to be written for another subject than torch.
    """

    def __init__(self, subject: Subject, options: argparse.Namespace) -> None:
        self.subject = subject
        if not options.known_differences:
            raise UnreadableDifferences("--known-differences: expected a file, got nothing")
        self.path = Path(options.known_differences)
        self.entries = load(self.path)
        self.checked = subject.is_torch and options.device.partition(":")[0] == "cpu"
        self.write = options.write_known_differences
        # A file that says nothing of this version, but of others, was not written with it in mind.
        self.unknown = self.checked and bool(self.entries) and not self.applying and not self.write
        self.complaints: list[str] = []
        self.outcome = ""
        if self.write and not self.checked:
            raise UnreadableDifferences("--write-known-differences: expected torch as --subject, on a CPU")
        if self.write and not (os.access(self.path, os.W_OK) and os.access(self.path.resolve().parent, os.W_OK)):
            raise UnreadableDifferences(f"--write-known-differences: {self.path} cannot be written")

    @functools.cached_property
    def checks(self) -> dict[tuple[str, str], Check]:
        """All that the subject can be asked, by clause and case id."""
        return {(clause, case.id): (clause, case) for clause, case in self.subject.checks()}

    @functools.cached_property
    def applying(self) -> list[Known]:
        """Those of the installed torch: of the path that is the subject, or of the reference's."""
        path = self.subject.name if self.subject.is_torch else "torch"
        return [one for one in self.entries if one.applies(path, torch.__version__)]

    def settle(self, results: Sequence[Result]) -> None:
        """Compare, or write the file anew."""
        if not self.checked or self.unknown or not results:
            return
        if not self.write:
            self.complaints = complaints(self.applying, self.checks.values(), results)
        elif len(results) < len(self.checks):
            self.complaints = [
                f"not written: {len(results)} of {len(self.checks)} checks were made, and all are needed"
            ]
        else:
            checks = list(self.checks.values())
            made = corrected(self.entries, self.subject.name, torch.__version__, checks, results)
            try:
                write_whole(self.path, text(made))
            except OSError as error:
                self.complaints = [f"not written: {error.strerror}"]
                return
            new = sum(one not in self.entries for one in made)
            gone = sum(one not in made for one in self.entries)
            self.outcome = (
                f"{self.path}: {len(made)} known differences, {new} of them new or changed, {gone} left out or changed"
            )

    def summary(self, results: Sequence[Result]) -> Iterator[str]:
        """What torch gets wrong, by reason, and where that is not what is known."""
        groups: dict[tuple[str, str, str], list[Result]] = {}
        for result in results:
            if result.verdict == Verdict.TORCH_DIFFERS.value:
                check = self.checks.get((result.clause, result.case))
                one = next((one for one in self.applying if check and one.covers(check)), None)
                reason = f"{one.reason} ({one.issue})" if one else "not known"
                groups.setdefault((reason, result.kind, "" if one else result.clause), []).append(result)
        if groups:
            yield ""
            yield "torch differs (checks, kind, clauses):"
        for (reason, kind, _), found in groups.items():
            clauses = ", ".join(sorted({result.clause for result in found}))
            yield f"  {len(found):>4} {kind:<13} {clauses}: {reason}"
        if self.complaints:
            yield ""
            yield f"FAILED: this run and {self.path} disagree"
            yield from (f"  {one}" for one in self.complaints[:SHOWN])
            if len(self.complaints) > SHOWN:
                yield f"  and {len(self.complaints) - SHOWN} more"
            yield "  --write-known-differences, in a run of everything, writes what it shows into that file"
        if self.unknown:
            yield f"{self.path} says nothing of torch {torch.__version__}: no difference fails this run"
        if self.outcome:
            yield self.outcome
