"""Collecting the results of a run where pytest reports them: in its only process, or in xdist's controller."""

import functools
from pathlib import Path
from typing import Any

import pytest

from .. import capabilities
from ..clauses import Clause, load_all
from ..environment import fingerprint
from ..subjects.subject import Subject
from ..verdicts import Verdict
from ..versions.run_differences import Differences
from .model import Report, Result, Writer, decode, encode
from .selection import selection
from .terminal import summary

KEY = "conformance"


class Recorder:
    """Keeps every result, writes it as it comes, and knows which are missing at the end."""

    def __init__(self, config: pytest.Config, subject: Subject, known: Differences) -> None:
        self.subject = subject
        self.known = known
        self.results: dict[str, Result] = {}
        self.expected: set[str] = set()
        self.environment = {
            "subject": subject.name,
            **fingerprint(config.getoption("--device")),
            "capabilities": capabilities.probed(),
            "sample": config.getoption("--sample"),
        }
        if chosen := selection(config):
            self.environment["chosen"] = chosen
        folder = config.getoption("--report")
        self.writer = None if folder is None else Writer(Path(folder).expanduser(), self.environment)
        self.written = ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Clauses of one case lie in several files: without file names the progress stays readable."""
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and session.config.get_verbosity() == 0:
            reporter.showfspath = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """What this process is going to run."""
        self.expected.update(item.nodeid for item in session.items if clause_of(item.nodeid))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """What the workers are going to run."""
        self.expected.update(nodeid for nodeid in ids if clause_of(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep and write a result as it comes, also of a check that did not come to its end."""
        encoded = next((str(value) for name, value in report.user_properties if name == KEY), None)
        clause = clause_of(report.nodeid)
        if encoded is None and report.failed and clause is not None:
            encoded = encode(_lost(report, clause))
        if encoded is not None and report.nodeid not in self.results:
            self.results[report.nodeid] = decode(encoded)
            if self.writer is not None:
                self.writer.add(encoded)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Derive the report; fail where torch differs otherwise than is known."""
        if self.writer is not None:
            self.written = self.writer.finish(self.complete)
        self.known.settle(list(self.results.values()))
        if self.known.complaints and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def complete(self) -> bool:
        """Whether everything that was selected has a result."""
        return bool(self.expected) and self.expected <= set(self.results)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Verdicts by chapter, error ratios by dtype, coverage."""
        if not self.results:
            return
        terminalreporter.section("conformance")
        for line in summary(Report(self.environment, list(self.results.values()), self.complete)):
            terminalreporter.write_line(line)
        for line in self.known.summary(list(self.results.values())):
            terminalreporter.write_line(line)
        if self.subject.name != "handmade":
            idle = sum(not self.subject.cases(clause) for clause in load_all().values())
            terminalreporter.write_line(f"clauses that have nothing to ask of this subject: {idle}")
        if not self.complete:
            missing = len(self.expected - set(self.results))
            terminalreporter.write_line(
                f"not complete: {missing} of {len(self.expected)} selected checks have no result"
            )
        if self.written:
            terminalreporter.write_line(self.written)


def clause_of(nodeid: str) -> Clause | None:
    """The clause that a test checks, by the test's file and name."""
    place, _, name = nodeid.partition("[")[0].rpartition("::")
    path = Path(place.partition("::")[0])
    return _by_test().get((f"{path.parent.name}.{path.stem}", name))


@functools.cache
def _by_test() -> dict[tuple[str, str], Clause]:
    checks: dict[tuple[str, str], Clause] = {}
    for clause in load_all().values():
        check: Any = clause.check
        checks[check.__module__, check.__name__] = clause
    return checks


def _lost(report: pytest.TestReport, clause: Clause) -> Result:
    """A check that ended before it had a verdict: its process died, or its time ran out."""
    return Result(
        test=report.nodeid,
        clause=clause.id,
        level=clause.level.value,
        case=report.nodeid.partition("[")[2].removesuffix("]"),
        verdict=Verdict.CRASHED.value,
        seconds=round(getattr(report, "duration", 0.0), 6),
        message=str(report.longrepr).strip().splitlines()[-1] if report.longrepr else "it did not come to its end",
    )
