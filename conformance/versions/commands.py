"""`python -m conformance store`, `merge`, `compare` and `matrix`: results by version on the command line."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..clauses import load_all
from ..report.model import count
from . import folders, matrix_html, matrix_markdown
from .behaviours import Behaviour, UnreadableBehaviours
from .behaviours import load as load_behaviours
from .collecting import collect, find, holds_results, report_at, stored_version, with_others
from .known_differences import UnreadableDifferences
from .known_differences import load as load_known
from .matrix import SIGNS, described, matrix, sentence
from .results import FOLDER, UnusableResults, VersionResults, machines, path_of, read, read_all, write
from .speed_figures import changes
from .transitions import Change, Transition, alarming, transitions, turned

# Of each change, so many cases are printed.
CASES = 3
UNUSABLE = (UnusableResults, UnreadableBehaviours, UnreadableDifferences)


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Make the four commands known to a parser."""
    stored = commands.add_parser("store", help="store what reports say of one version of torch")
    stored.add_argument(
        "reports", nargs="+", metavar="REPORT", help="a folder that --report wrote, one for each subject"
    )
    stored.add_argument(
        "--made-by", metavar="COMMAND", default="", help="how the reports were made, to be stored with them"
    )
    united = commands.add_parser("merge", help="bring the results that several folders hold into one folder")
    united.add_argument("folders", nargs="+", metavar="FOLDER", type=Path, help="a folder with files torch-X.Y.Z.json")
    united.add_argument("--out", metavar="DIR", type=Path, required=True, help="where; other versions there are left")
    compared = commands.add_parser("compare", help="print what changes from one version of torch to another")
    compared.add_argument(
        "before",
        metavar="A",
        help="a version whose results are stored, a file of results, a report, a folder of results",
    )
    compared.add_argument("after", metavar="B", help="likewise; of two folders every version is compared with itself")
    compared.add_argument("--across-machines", action="store_true", help="compare what different machines measured")
    compared.add_argument("--strict", action="store_true", help="exit code 1 for whatever moved, not only what broke")
    shown = commands.add_parser("matrix", help="write MATRIX.md and matrix.html: every clause on every version")
    shown.add_argument("--out", metavar="DIR", type=Path, default=Path("report"), help="where (default: report)")
    for one in (stored, compared, shown):
        one.add_argument("--results", metavar="DIR", type=Path, default=FOLDER, help="the folder of stored results")


def run(given: argparse.Namespace) -> int:
    """Run one of them; returns the exit code: 1 where something broke, 2 for what cannot be used, with one line."""
    try:
        return {"store": _store, "merge": _merge, "compare": _compare, "matrix": _matrix}[given.command](given)
    except UNUSABLE as error:
        sys.stderr.write(f"{given.command}: {error}\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stderr.write(f"{given.command}: {error.filename} cannot be written: {error.strerror}\n")
    except RuntimeError as error:
        # A home that is none, of "~name".
        sys.stderr.write(f"{given.command}: {error}\n")
    return 2


def _store(given: argparse.Namespace) -> int:
    results = collect([report_at(Path(name)) for name in given.reports], command=given.made_by)
    path = path_of(results.torch, given.results)
    before = read(path) if path.exists() else None
    united = with_others(results, path)
    # What was asked everything is not given up for a part of it, or for what another machine says.
    for name, subject in before.subjects.items() if before is not None else ():
        if subject.complete and (name not in united.subjects or not united.subjects[name].complete):
            raise UnusableResults(f"{path}: holds a complete run of {name}, which these reports would replace by less")
    write(united, path)
    sys.stdout.write(f"{path}\n")
    return 0


def _merge(given: argparse.Namespace) -> int:
    there = [given.out] if holds_results(given.out) else []
    names = {path.name for folder in given.folders for path in folder.glob("torch-*.json")}
    found = [one for one in folders.merged([*given.folders, *there]) if path_of(one.torch).name in names]
    for one in found:
        write(one, path_of(one.torch, given.out))
    for machine, versions in machines(found):
        sys.stdout.write(f"measured on {described(machine)}: {', '.join(versions)}\n")
    sys.stdout.write(f"{given.out}: {len(found)} versions of torch\n")
    return 0


def _matrix(given: argparse.Namespace) -> int:
    results = read_all(given.results)
    if not results:
        raise UnusableResults(f"{given.results}: no stored results (torch-*.json)")
    made = matrix(results)
    given.out.mkdir(parents=True, exist_ok=True)
    for name, text in (("MATRIX.md", matrix_markdown.page(made)), ("matrix.html", matrix_html.page(made))):
        (given.out / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{given.out / name}\n")
    return 0


def _compare(given: argparse.Namespace) -> int:
    load_all()
    old, new = (Path(name).expanduser() for name in (given.before, given.after))
    single = any(stored_version(name, given.results) or Path(name).is_file() for name in (given.before, given.after))
    if not single and (holds_results(old) or holds_results(new)):
        return _compare_folders(old, new, given)
    before, after = find(given.before, given.results), find(given.after, given.results)
    where = machines([before, after])
    if len(where) > 1 and not given.across_machines:
        first, second = (described(machine) for machine, _ in where)
        raise UnusableResults(
            f"measured on different machines ({first}; {second}); --across-machines compares them all the same"
        )
    followed = load_behaviours()
    found = transitions(before, after, load_known(), followed)
    timed = changes(before.speed, after.speed, given.across_machines)
    lines = [*_heading(before, after), *_turned(before, after, followed), *_lines(found), "", *timed]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    wrong = list(folders.wrong(after))
    sys.stdout.writelines(f"handmade must conform: {text}\n" for text in wrong)
    return 1 if wrong or alarming(found, given.strict, len(where) > 1) else 0


def _compare_folders(before: Path, after: Path, given: argparse.Namespace) -> int:
    """Every version with itself, and how many moved; a version that one folder lacks is named."""
    old, new = folders.read_folder(before), folders.read_folder(after)
    moved = folders.compared(old, new, load_known(), load_behaviours())
    apart = [one.torch for one in moved if one.apart]
    if apart and not given.across_machines:
        raise UnusableResults(
            f"torch {', '.join(apart)}: measured on different machines; --across-machines compares them all the same"
        )
    sys.stdout.writelines(f"{line}\n" for line in folders.lines(moved))
    counts = count(step.change.value for one in moved for step in one.transitions)
    said = ", ".join(f"{number} {change}" for change, number in counts.items()) or "nothing moved"
    both = len({one.torch for one in old} & {one.torch for one in new})
    sys.stdout.write(f"{before} → {after}, {both} of {len(moved)} versions compared: {said}\n")
    return 1 if any(one.alarming(given.strict) for one in moved) else 0


def _heading(before: VersionResults, after: VersionResults) -> Iterator[str]:
    """Which versions, what of them is lacking, and what they can do that the other cannot."""
    yield f"torch {before.torch} → {after.torch}"
    builds = [str(one.environment.get("torch", one.torch)) for one in (before, after)]
    if len({build.partition("+")[2] for build in builds}) > 1:
        yield f"builds: {' → '.join(builds)}"
    for version, other in ((before, after), (after, before)):
        partial = [name for name, subject in version.subjects.items() if not subject.complete]
        if partial:
            yield f"not complete: {', '.join(partial)} of torch {version.torch}"
        missing = [name for name in other.subjects if name not in version.subjects]
        if missing:
            yield f"missing, not compared: {', '.join(missing)} of torch {version.torch}"
    for word, version, other in (("added", after, before), ("removed", before, after)):
        can = version.capabilities
        found = [name for name in can if can[name] and other.capabilities.get(name) is False]
        if found:
            yield f"capabilities {word}: {', '.join(found)}"


def _turned(before: VersionResults, after: VersionResults, followed: Sequence[Behaviour]) -> Iterator[str]:
    """A line for each behaviour that is not what it was."""
    found = list(turned(before, after, followed))
    if found:
        yield from ("", "behaviours")
    for one, old, new in found:
        issue = f" {one.issue}" if one.issue.startswith("https://") else ""
        yield f"  {SIGNS[old]} {old} → {SIGNS[new]} {new}: {one.name} (right: {one.right}){issue}"


def _lines(found: Sequence[Transition]) -> list[str]:
    lines = []
    for subject in dict.fromkeys(one.subject for one in found):
        own = [one for one in found if one.subject == subject]
        counts = count(one.change.value for one in own)
        lines += ["", f"{subject}: " + ", ".join(f"{number} {change}" for change, number in counts.items())]
        for change in Change:
            lines += _changes(change, [one for one in own if one.change is change])
    return lines


def _changes(change: Change, found: Sequence[Transition]) -> list[str]:
    """The lines of one change; of clauses that only one version has been asked, their ids alone."""
    if change is Change.UNCHANGED:
        return []
    lines = []
    for detail in dict.fromkeys(one.detail for one in found if not one.cases):
        alike = [one for one in found if one.detail == detail and not one.cases]
        issues = dict.fromkeys(issue for one in alike for issue in one.issues)
        lines.append(
            f"  {change.value:<8} {', '.join(one.name for one in alike)}: {detail}{''.join(f' {i}' for i in issues)}"
        )
    for one in found:
        if one.cases:
            lines.append(f"  {change.value:<8} {one.name}: {one.detail}{''.join(f' {issue}' for issue in one.issues)}")
            lines += [f"           {text}" for text in [sentence(one.name)] if text]
            lines += [f"             {case}" for case in one.cases[:CASES]]
            lines += [f"             and {len(one.cases) - CASES} more"] if len(one.cases) > CASES else []
    return lines
