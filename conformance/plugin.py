"""The pytest plugin: options, the cases of each clause, one run per case, verdicts, and the report."""

import gc
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from .clauses import CHAPTERS, Level
from .environment import describe, lacking
from .evaluation import Outcome, evaluate
from .report.model import Result, encode, tensor_fields
from .report.recorder import KEY, Recorder
from .subjects.load import BUILT_IN, UnusableSubject, load
from .subjects.subject import Subject
from .trial import Trial
from .verdicts import Verdict
from .versions.known_differences import FILE, UnreadableDifferences
from .versions.run_differences import Differences

SUBJECT = pytest.StashKey[Subject]()
# What says nothing of another subject than the handmade model.
OWN = tuple(Path(__file__).parent / folder for folder in ("selfcheck", "claims"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """The suite's own options."""
    group = parser.getgroup("conformance")
    group.addoption(
        "--subject",
        default="handmade",
        help=f"what is checked: {', '.join(BUILT_IN)}, FILE.py, FILE.py:ADAPTER or MODULE:ADAPTER (default: handmade)",
    )
    group.addoption(
        "--report", metavar="DIR", help="(as --report=DIR) write results.jsonl (as they come) and report.json there"
    )
    group.addoption("--device", default="cpu", help="the device that the cases run on (default: cpu)")
    group.addoption(
        "--known-differences",
        metavar="FILE",
        default=str(FILE),
        help="(as --known-differences=FILE) how torch is known to differ; where torch is the subject, anything else fails",
    )
    group.addoption(
        "--write-known-differences",
        action="store_true",
        help="after a complete run with torch as the subject, write what differs into that file",
    )
    group.addoption(
        "--sample",
        metavar="N",
        type=int,
        default=1,
        help="of the shared cases about one in N, the same ones always (default: 1, all of them)",
    )
    group.addoption("--shuffle", metavar="SEED", help="permute the cases, and the clauses within each, by this seed")


def pytest_configure(config: pytest.Config) -> None:
    """Load the subject and open the report; what cannot be used ends the run with one line and exit code 2."""
    config.addinivalue_line("filterwarnings", "ignore:Support for mismatched:UserWarning")
    worker = hasattr(config, "workerinput")
    if worker:
        torch.set_num_threads(1)
    try:
        config.stash[SUBJECT] = load(config.getoption("--subject"))
        _check_device(config.getoption("--device"))
        if config.getoption("--sample") < 1:
            raise UnusableSubject(f"--sample: expected at least 1, got {config.getoption('--sample')}")
        if not worker:
            differences = Differences(config.stash[SUBJECT], config.option)
            config.pluginmanager.register(Recorder(config, config.stash[SUBJECT], differences), "conformance.recorder")
    except (UnusableSubject, UnreadableDifferences) as error:
        pytest.exit(str(error), returncode=2)
    except OSError as error:
        pytest.exit(f"--report: {config.getoption('--report')} cannot be written: {error.strerror}", returncode=2)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Subject, versions, device, threads, and what torch lacks."""
    first = f"subject {config.stash[SUBJECT].name}, {describe(config.getoption('--device'))}"
    return [f"conformance: {line}" for line in (first, *lacking())]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One item for each clause and case; a clause is a test function registered by `clause`."""
    clause = getattr(metafunc.function, "clause", None)
    if clause is None:
        return
    device, sample = (metafunc.config.getoption(name) for name in ("--device", "--sample"))
    cases = metafunc.config.stash[SUBJECT].cases(clause, device, sample)
    # A clause that has nothing to ask of this subject is deselected below, not skipped.
    metafunc.parametrize("trial", cases or [None], ids=[case.id for case in cases] or [""], indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The suite's own tests, and those of the claims: only on the handmade model, and under a torch that lacks nothing."""
    if collection_path not in OWN:
        return None
    return True if config.stash[SUBJECT].name != "handmade" or lacking() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring the clauses that read one case together, so that it is run once, the plainest case first; or permute."""
    idle = [item for item in items if _case(item) is None and "trial" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=idle)
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item not in idle:
            groups.setdefault(scope(item.nodeid), []).append(item)
    ordered = list(groups.values())
    seed = config.getoption("--shuffle")
    if seed is None:
        ordered.sort(key=lambda group: (_case(group[0]) is None, len(scope(group[0].nodeid))))
        for group in ordered:
            group.sort(key=_chapter)
    else:
        generator = random.Random(seed)
        generator.shuffle(ordered)
        for group in ordered:
            generator.shuffle(group)
    items[:] = [item for group in ordered for item in group]


def scope(nodeid: str) -> str:
    """What must run in one process: the tests of one case, or a test without one."""
    _, bracket, case = nodeid.partition("[")
    return case if bracket else nodeid


def _case(item: pytest.Item) -> Any:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("trial")


def _chapter(item: pytest.Item) -> int:
    clause = getattr(getattr(item, "function", None), "clause", None)
    return list(CHAPTERS).index(clause.chapter) if clause is not None else len(CHAPTERS)


def pytest_collection_finish() -> None:
    """Thousands of items live as long as the run: looking through them again and again finds nothing."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a case in one worker."""
    from .scheduling import CaseScheduling

    return CaseScheduling(config, log)


@pytest.fixture
def trial(request: pytest.FixtureRequest) -> Trial:
    """The clause of the requesting test on one case."""
    return Trial(request.config.stash[SUBJECT], request.param, request.function.clause)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Check a clause through the one evaluation, and tell pytest what came of it."""
    trial = pyfuncitem.funcargs.get("trial")
    if not isinstance(trial, Trial):
        return None
    outcome = evaluate(trial)
    result = Result(
        test=pyfuncitem.nodeid,
        clause=trial.clause.id,
        level=trial.clause.level.value,
        case=trial.case.id,
        verdict=outcome.verdict.value,
        seconds=round(outcome.seconds, 6),
        kind=outcome.kind,
        message=outcome.message,
        policy=trial.policy,
        tensors=[tensor_fields(comparison) for comparison in trial.comparisons],
    )
    # As one string: what passes between xdist's processes is encoded value by value.
    pyfuncitem.user_properties.append((KEY, encode(result)))
    _tell_pytest(trial, outcome, pyfuncitem.nodeid)
    return True


def _tell_pytest(trial: Trial, outcome: Outcome, nodeid: str) -> None:
    if outcome.verdict in (Verdict.NOT_SUPPORTED, Verdict.SKIPPED):
        pytest.skip(f"{outcome.verdict.value}: {outcome.message}")
    if not outcome.verdict.fails:
        return
    clause = trial.clause
    option = "" if trial.subject.name == "handmade" else f" --subject {trial.subject.name}"
    message = (
        f"{clause.id} ({clause.level.value}) {outcome.verdict.value} on {trial.case.id}\n"
        f"  {clause.sentence}\n  " + outcome.message.replace("\n", "\n  ") + f"\n  rerun: pytest '{nodeid}'{option}"
    )
    if clause.level is Level.SHOULD and not trial.subject.strict:
        pytest.xfail(message)
    if outcome.verdict is Verdict.CRASHED and isinstance(outcome.error, Exception):
        if hasattr(outcome.error, "add_note"):
            outcome.error.add_note(message)
        raise outcome.error
    pytest.fail(message, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """The report of the call has carried the result; that of the teardown need not."""
    item.user_properties[:] = [entry for entry in item.user_properties if entry[0] != KEY]
    return (yield)


def _check_device(name: str) -> None:
    try:
        if torch.zeros(1, device=name).item() != 0:
            raise RuntimeError("it does not keep values")
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnusableSubject(f"--device: {name} cannot be used: {first}") from None
