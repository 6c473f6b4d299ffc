"""The known differences as a run shows them: the file's entries, corrected, and as text again."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ..report.model import Result
from ..verdicts import Verdict
from .known_differences import Check, Known
from .patterns import learn

UNEXPLAINED = "not yet explained"
NO_ISSUE = "none found"
HEAD = """\
# The known differences of torch from the specification, on a CPU. A run with torch as the subject fails where they and
# it disagree: a difference that is not here, one that is no more, one of another kind, a pattern that matches another
# number of checks. `--write-known-differences` writes what a complete run shows; the reasons are written by hand.
"""


def corrected(
    known: Iterable[Known], subject: str, version: str, checks: Sequence[Check], results: Iterable[Result]
) -> list[Known]:
    """The entries that the run bears out, and patterns of all else that differs.

    An entry that no more holds ends with the release before this version, or goes if it began with this one; what it
    said of the differences that are left goes on in new entries.

    Args:
        known: all entries of the file.
        subject: which of torch's paths was run.
        version: of torch.
        checks: all that the subject can be asked.
        results: of all of them.
    """
    release = Version(version).public
    by_id = {(clause, case.id): (clause, case) for clause, case in checks}
    found = {by_id[r.clause, r.case]: r for r in results}
    differing = {check: r.kind for check, r in found.items() if r.verdict == Verdict.TORCH_DIFFERS.value}
    passed = [c for c, r in found.items() if r.verdict in (Verdict.CONFORMS.value, Verdict.POLICY.value)]
    passing = set(passed)
    made: list[Known] = []
    explained: set[Check] = set()
    # (reason, issue, kind, clause) → what differs still, or anew.
    left: dict[tuple[str, str, str, str], list[Check]] = {}
    for one in known:
        if not one.applies(subject, version):
            made.append(one)
            continue
        matched = [check for check in checks if one.covers(check)]
        asked = [check for check in matched if check in differing or check in passing]
        if matched and all(differing.get(check) == one.kind for check in asked):
            made.append(dataclasses.replace(one, matches=len(matched)))
            explained.update(matched)
            continue
        if not _begins_with(one.torch, release):
            made.append(dataclasses.replace(one, torch=f"{one.torch},<{release}"))
        for check in matched:
            if check in differing:
                left.setdefault((one.reason, one.issue, differing[check], check[0]), []).append(check)
    taken = explained.union(*left.values())
    for check, kind in differing.items():
        if check not in taken:
            left.setdefault((UNEXPLAINED, NO_ISSUE, kind, check[0]), []).append(check)
    alike: dict[tuple[str, str, str, str], Known] = {}
    for (reason, issue, kind, clause), wanted in left.items():
        others = [check for check in (*passed, *differing) if check[0] == clause and differing.get(check) != kind]
        for _, case in learn([check for check in dict.fromkeys(wanted) if check not in explained], others):
            # What several clauses show in the same cases is one entry.
            key = (reason, issue, kind, repr(case))
            clauses = (*(alike[key].clauses if key in alike else ()), clause)
            alike[key] = Known(subject, clauses, case, f">={release}", kind, 0, reason, issue)
    return [
        *made, *(dataclasses.replace(one, matches=sum(one.covers(check) for check in checks)) for one in alike.values())
    ]  # fmt: skip


def text(known: Iterable[Known]) -> str:
    """The file."""
    return "\n".join([HEAD, *(_entry(one) for one in known)])


def _entry(one: Known) -> str:
    lines = ["[[difference]]"]
    for name, value in vars(one).items():
        if name == "line":
            continue
        if name == "case":
            fields = ", ".join(f"{key} = {_values(values)}" for key, values in value.items())
            lines.append(f"case = {{ {fields} }}" if fields else "case = {}")
        else:
            lines.append(f"{name} = {_toml(list(value) if isinstance(value, tuple) else value)}")
    return "\n".join(lines) + "\n"


def _values(values: tuple[Any, ...]) -> str:
    texts = [_toml("None" if value is None else value) for value in values]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _toml(value: Any) -> str:
    """Strings, numbers, booleans and lists are written alike in JSON and in TOML."""
    return json.dumps(value, ensure_ascii=False)


def _begins_with(specifier: str, release: str) -> bool:
    """Whether no version before the release is meant."""
    bounds = [
        Version(one.version.removesuffix(".*")) for one in SpecifierSet(specifier) if one.operator in (">=", "==", ">")
    ]
    return any(bound >= Version(release) for bound in bounds)
