"""Speed by version: blocks by turns, ratios within a run, figures stored and read strictly, changes for information.

All figures but those of one short run are made up; no time is asserted.
"""

import dataclasses
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main
from conformance.duel.cells import CELLS, TIMED
from conformance.duel.processes import Unusable
from conformance.duel.worker import Worker
from conformance.report.model import write_report
from conformance.selfcheck.test_results import report, version
from conformance.versions import checking, driver, speed
from conformance.versions.checking import Plan, check
from conformance.versions.collecting import with_others
from conformance.versions.results import UnusableResults, path_of, read, text, write
from conformance.versions.speed_figures import Anchor, Ratio, Speed, changes, elsewhere, lines, parse

CELL = "torch-16x8x32x64-causal-both"
PLAIN = "plain-16x8x32x64-causal-both"
MODULE = "multihead-2x8x32x64-none-both"
MACHINE = {"system": "Linux", "machine": "x86_64", "cpu": "one", "cpus": 2, "threads": 1}


def made(torch: str = "2.13.0", ratio: float = 0.8, **changes: Any) -> Speed:
    """The speed of a version, whose cells all have the same ratio to the plain core, known to 1 %."""
    cells = {
        name: {
            core: Ratio(ratio, ratio * 0.99, ratio * 1.01),
            speed.PRODUCT: Ratio(5.0, 4.9, 5.1),
        }
        for name in speed.JUDGED
        for _, core, _ in [speed.with_anchors(name)]
    }
    anchors = {PLAIN: Anchor(1.25, {speed.PRODUCT: Ratio(4.0, 3.9, 4.1)}), speed.PRODUCT: Anchor(0.3, {})}
    found = Speed({"torch": f"{torch}+cpu", **MACHINE}, (0.5, 1.25), 41, cells, {}, anchors)
    return dataclasses.replace(found, **changes)


class FakeRemote:
    """A worker whose calls take what `seconds` says, however busy the machine is; it remembers what it was asked."""

    seconds = {CELL: 0.002, PLAIN: 0.004, speed.PRODUCT: 0.001, "plain-16x8x32x64-none-forward": 0.001}
    asked: list[str]
    lacking: tuple[str, ...] = ()

    def __init__(self, python: Path, threads: int) -> None:
        assert threads == 1
        type(self).asked = []
        self.busy, self.pace = random.Random(0), 1.0

    def __enter__(self) -> "FakeRemote":
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, do: str, cell: str = "", calls: int = 0) -> dict[str, Any]:
        if do == "fingerprint":
            return {"torch": "2.13.0+cpu", **MACHINE, "load": [1.5, 0, 0]}
        if do == "prepare":
            return {"unsupported": "AttributeError: no"} if cell in self.lacking else {"seconds": self.seconds[cell]}
        # Each round finds the machine as fast as it was at its beginning.
        self.pace = self.busy.uniform(1, 3) if len(self.asked) % (6 - 2 * len(self.lacking)) == 0 else self.pace
        self.asked.append(cell)
        return {"cpu": [self.seconds[cell] * self.pace] * calls}


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> type[FakeRemote]:
    monkeypatch.setattr(speed, "Remote", FakeRemote)
    monkeypatch.setattr(FakeRemote, "lacking", ())
    return FakeRemote


def ticks(step: float = 1.0) -> Any:
    """A clock that goes on by so much whenever somebody looks."""
    now = [0.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


def test_ratios_within_a_round(remote: type[FakeRemote]) -> None:
    """A cell takes turns with its anchors, so that how busy the machine is cancels; milliseconds are for information."""
    found = speed.measure(Path("python"), 40.0, [CELL], clock=ticks())
    assert found.cells == {CELL: {PLAIN: Ratio(0.5, 0.5, 0.5), speed.PRODUCT: Ratio(2.0, 2.0, 2.0)}}
    assert found.anchors[PLAIN].to == {speed.PRODUCT: Ratio(4.0, 4.0, 4.0)}
    assert found.anchors[speed.PRODUCT].to == {}
    assert 4 < found.anchors[PLAIN].milliseconds < 12
    assert found.rounds > 10
    assert (found.load, found.unsupported) == ((1.5, 1.5), {})
    assert found.environment == {"torch": "2.13.0+cpu", **MACHINE}


def test_orders(remote: type[FakeRemote]) -> None:
    """Each round is an order and the same backwards, drawn anew."""
    speed.measure(Path("python"), 40.0, [CELL], clock=ticks())
    rounds = [tuple(remote.asked[start : start + 6]) for start in range(0, len(remote.asked), 6)]
    assert all(one == one[::-1] and set(one) == {CELL, PLAIN, speed.PRODUCT} for one in rounds)
    assert len(set(rounds)) > 2


def test_one_round_in_any_case(remote: type[FakeRemote]) -> None:
    """However little time there is, each cell is timed once."""
    found = speed.measure(Path("python"), 0.5, [CELL, "plain-16x8x32x64-none-forward"], clock=ticks())
    assert found.rounds == 1
    assert set(found.cells) == {CELL, "plain-16x8x32x64-none-forward"}


def test_what_a_version_lacks(remote: type[FakeRemote], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with its reason, and its anchors are timed all the same."""
    monkeypatch.setattr(remote, "lacking", (CELL,))
    found = speed.measure(Path("python"), 40.0, [CELL], clock=ticks())
    assert (found.cells, found.unsupported) == ({}, {CELL: "AttributeError: no"})
    assert found.anchors[PLAIN].to == {speed.PRODUCT: Ratio(4.0, 4.0, 4.0)}
    assert CELL not in remote.asked


def test_the_median_counts() -> None:
    """Over rounds, of logarithms, with an interval around it."""
    rounds = {CELL: [{CELL: math.log(one), PLAIN: 0.0, speed.PRODUCT: 0.0} for one in (1.0, 1.1, 1.2, 1.3, 9.0)]}
    found = speed._figures({"load": None}, {"load": None}, rounds, {}).cells[CELL][PLAIN]
    assert found.middle == 1.2
    assert found.low == 1.0
    assert found.high == 9.0


@pytest.mark.parametrize("name", speed.JUDGED)
def test_the_plain_core_does_the_same(name: str) -> None:
    cell, core = CELLS[name], TIMED[speed.with_anchors(name)[1]]
    assert (core.core, core.shape, core.mask, core.direction) == ("plain", cell.shape, cell.mask, cell.direction)
    assert core.anchor


def test_a_worker_times_the_plain_core() -> None:
    assert "seconds" in Worker(1).prepare(PLAIN)


def test_a_real_worker() -> None:
    """Two cells for a moment; what comes can be stored."""
    found = speed.measure(Path(sys.executable), 0.1, [CELL, MODULE])
    assert set(found.cells) == {CELL, MODULE}
    assert parse(json.loads(lines(found))) == found


def test_stored_and_read(tmp_path: Path) -> None:
    """A line for each cell; a file without the field reads as before."""
    one = dataclasses.replace(version("2.13.0"), speed=made())
    write(one, path_of("2.13.0", tmp_path))
    assert read(path_of("2.13.0", tmp_path)) == one
    (line,) = [line for line in text(one).splitlines() if line.startswith(f'"{CELL}"')]
    assert json.loads("{" + line.rstrip(",}") + "}}}")[CELL]["to"][PLAIN] == [0.8, 0.792, 0.808]
    assert json.loads(text(one))["schema"] == 2
    assert "speed" not in json.loads(text(version("2.13.0")))


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("", [], "expected dict, got list"),
        ("", None, "expected dict, got NoneType"),
        ("", {"cells": {}}, "expected environment, load, rounds, cells, unsupported, anchors, got cells"),
        ("more", 1, None),
        ("rounds", 0, "expected a positive number of them, got 0"),
        ("rounds", True, "expected a positive number of them, got True"),
        ("load", [1], r"expected two numbers or null, got \[1\]"),
        ("load", [1, "2"], "expected two numbers or null"),
        ("environment", 1, "expected dict, got int"),
        ("cells", [], "expected dict, got list"),
        ("cells x", {}, None),
        (f"cells {CELL}", {"to": {}, "extra": 1}, "expected to, got to, extra"),
        (f"cells {CELL} to", [1], "expected dict, got list"),
        *(
            (f"cells {CELL} to {PLAIN}", wrong, r"expected \[ratio, low, high\] above 0, got ")
            for wrong in ([1, 1], [1, 2, 3], [1, 0, 1], [1, "1", 1], 1, [3, 1, 2], [True, True, True], None)
        ),
        (f"unsupported {CELL}", 1, "expected a text, got 1"),
        (f"anchors {PLAIN} ms", 0, "expected a number above 0, got 0"),
        (f"anchors {PLAIN} ms", "1", "expected a number above 0, got '1'"),
        (f"anchors {PLAIN}", 1, "expected dict, got int"),
    ],
    ids=str,
)
def test_malformed(tmp_path: Path, place: str, value: Any, words: str | None) -> None:
    """One line that names file and field; a name that is not known is named with those that are."""
    data = json.loads(text(dataclasses.replace(version("2.13.0"), speed=made())))
    *within, last = ["speed", *place.split()]
    inner = data
    for name in within:
        inner = inner[name]
    inner[last] = value
    path = tmp_path / "torch-2.13.0.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    field = ".".join([*within, last] if words else within)
    with pytest.raises(UnusableResults, match=rf"^{path}: {field}: {words or f'expected .*{last}'}") as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_elsewhere() -> None:
    """The machine of the most versions is the usual one; of two with as many it is the later one's."""
    other = made(environment={**MACHINE, "cpu": "two"})
    assert elsewhere([other, made(), None, made()]) == [True, False, False, False]
    assert elsewhere([made(), None, other]) == [True, False, False]
    assert elsewhere([None]) == [False]


def plan(folder: Path, subjects: tuple[str, ...] = (), seconds: float = 40.0) -> Plan:
    return Plan(subjects, (), "0", folder, folder, speed=seconds)


def test_added_to_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed goes beside the subjects, and is renewed; without results there is nothing to add it to."""
    asked: list[float] = []

    def measure(python: Path, seconds: float) -> Speed:
        asked.append(seconds)
        return made(ratio=0.5)

    monkeypatch.setattr(checking, "measure", measure)
    said: list[str] = []
    assert not check("2.13.0", Path("python"), plan(tmp_path), said.append)
    assert (asked, said[-1].partition(": ")[0]) == ([], "2.13.0 speed")
    before = dataclasses.replace(version("2.13.0"), speed=made())
    write(before, path_of("2.13.0", tmp_path))
    assert check("2.13.0", Path("python"), plan(tmp_path), said.append)
    assert asked == [40.0]
    assert read(path_of("2.13.0", tmp_path)) == dataclasses.replace(before, speed=made(ratio=0.5))


def test_another_torch_than_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "measure", lambda *_: made("2.12.1"))
    write(version("2.13.0"), path_of("2.13.0", tmp_path))
    said: list[str] = []
    assert not check("2.13.0", Path("python"), plan(tmp_path), said.append)
    assert said[-1] == "2.13.0 speed: not stored: torch: expected 2.13.0, got 2.12.1"
    assert read(path_of("2.13.0", tmp_path)) == version("2.13.0")


def test_a_worker_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(*_: object) -> Speed:
        raise Unusable("python: its worker ended: no torch here")

    monkeypatch.setattr(checking, "measure", ends)
    write(version("2.13.0"), path_of("2.13.0", tmp_path))
    said: list[str] = []
    assert not check("2.13.0", Path("python"), plan(tmp_path), said.append)
    assert said[-1].endswith("not stored: python: its worker ended: no torch here")


def test_other_results_keep_it(tmp_path: Path) -> None:
    """What is stored of another subject, and `store`, leave the speed where it is."""
    path = path_of("2.13.0", tmp_path)
    write(dataclasses.replace(version("2.13.0"), speed=made()), path)
    merged = with_others(version("2.13.0", subject="handmade"), path)
    assert merged.speed == made()
    assert set(merged.subjects) == {"handmade", "torch"}
    (tmp_path / "made").mkdir()
    write_report(report(), tmp_path / "made" / "report.json")
    assert main(["store", str(tmp_path / "made"), "--results", str(tmp_path)]) == 0
    assert read(path).speed == made()


@pytest.mark.parametrize(
    ("options", "subjects", "seconds"),
    [
        ([], True, speed.SECONDS),
        (["--no-speed"], True, 0.0),
        (["--speed-only"], False, speed.SECONDS),
        (["--chapter", "RMS"], True, 0.0),
        (["--matching", "x"], True, 0.0),
    ],
)
def test_options(options: list[str], subjects: bool, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed is for results that are stored, unless it is not wanted."""
    plans: list[Plan] = []

    def remember(version: str, python: Path, plan: Plan, say: Any) -> bool:
        plans.append(plan)
        return True

    monkeypatch.setattr(driver, "check", remember)
    assert main(["versions", "--installed", *options]) == 0
    assert bool(plans[0].subjects) == subjects
    assert plans[0].speed == seconds


def test_options_that_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["versions", "--speed-only", "--chapter", "RMS"]) == 2
    assert capsys.readouterr().err == (
        "versions: --speed-only: expected no --subject, --chapter or --matching beside it\n"
    )


def test_only_what_lacks_is_done(tmp_path: Path) -> None:
    """Of a version with results the speed alone; of one with both nothing; with --again everything."""
    whole = plan(tmp_path, ("torch",))
    assert driver._left("2.13.0", whole) == whole
    write(version("2.13.0"), path_of("2.13.0", tmp_path))
    assert driver._left("2.13.0", whole) == plan(tmp_path)
    assert driver._left("2.13.0", plan(tmp_path, ("torch", "handmade"))).subjects == ("torch", "handmade")
    write(dataclasses.replace(version("2.13.0"), speed=made()), path_of("2.13.0", tmp_path))
    assert driver._left("2.13.0", whole) == plan(tmp_path, seconds=0.0)
    again = dataclasses.replace(whole, again=True)
    assert driver._left("2.13.0", again) == again


def test_nothing_to_add_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No environment is made for the speed of a version that is not stored."""
    assert main(["versions", "2.13.0", "--speed-only", f"--work={tmp_path}", f"--results={tmp_path / 'none'}"]) == 1
    assert "2.13.0: no results are stored that the speed could be added to" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_changes() -> None:
    """A line for what changed by more than 10 % with intervals apart; else nothing."""
    found = changes(made(ratio=0.82), made(ratio=0.92), across=False)
    assert len(found) == len(speed.JUDGED) + 1
    assert found[-1] == "speed: the machine's load was 1.2 and 1.2: ratios depend on it"
    assert len(changes(made(), made(ratio=2.0, load=None), across=False)) == len(speed.JUDGED)
    wanted = f"speed: {CELL}: 0.82 → 0.92 times the plain core (+12 %); `python -m conformance duel` decides"
    assert wanted in found
    assert changes(made(ratio=1.0), made(ratio=0.5), across=False)[0].endswith(
        "1.00 → 0.50 times the plain core (-50 %); `python -m conformance duel` decides"
    )
    assert changes(made(ratio=1.0), made(ratio=1.09), across=False) == []
    assert changes(made(ratio=1.0), made(ratio=1.0), across=False) == []
    wide = made(cells={CELL: {PLAIN: Ratio(1.5, 0.9, 1.6)}})
    assert changes(made(ratio=1.0), wide, across=False) == []
    assert changes(made(), made(cells={}), across=False) == []


def test_changes_that_cannot_be_told() -> None:
    """Other machines and versions without speed are named."""
    other = made(ratio=2.0, environment={**MACHINE, "cpu": "two"})
    assert changes(made(), other, across=False) == ["speed: measured on different machines, not compared"]
    assert len(changes(made(), other, across=True)) > len(speed.JUDGED)
    assert changes(None, made(), across=False) == ["speed: measured on one of them only"]
    assert changes(None, None, across=False) == []


def test_compare_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Speed alone never makes the exit code."""
    for name, ratio in (("2.12.1", 0.8), ("2.13.0", 1.6)):
        write(dataclasses.replace(version(name), speed=made(name, ratio)), path_of(name, tmp_path))
    assert main(["compare", "2.12.1", "2.13.0", "--results", str(tmp_path)]) == 0
    assert f"speed: {CELL}: 0.80 → 1.60 times the plain core (+100 %)" in capsys.readouterr().out
