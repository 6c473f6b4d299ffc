"""A duel with real workers and tiny budgets: what a user types, sees, and gets refused. No time is asserted."""

import io
import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from conformance.__main__ import main
from conformance.benchmarks.cores import Shape
from conformance.duel import command as match_command
from conformance.duel import match, self_test
from conformance.duel.cells import TIMED, Cell
from conformance.duel.processes import Crew, Remote, Unusable, python_of
from conformance.duel.rounds import CONTROL, A, B, Judgement, Settings
from conformance.duel.statistics import Interval, Verdict
from conformance.duel.worker import Worker, fingerprint, serve
from conformance.selfcheck.commands import ROOT
from conformance.selfcheck.stand_ins import needs_posix, script

SMALL = "torch-16x8x32x64-none-forward"


@pytest.mark.parametrize("name", [name for name in TIMED if "512" not in name])
def test_cells_can_be_called(name: str) -> None:
    assert TIMED[name].id == name
    TIMED[name].make()()


def test_ids_are_readable() -> None:
    assert Cell("torch math", Shape(1, 2, 3, 4, 5), "causal", "both").id == "torch_math-1x2x3-4x5-causal-both"


def test_a_worker_answers_on_lines() -> None:
    """One JSON object for each request."""
    requests = [
        {"do": "fingerprint"}, {"do": "prepare", "cell": SMALL}, {"do": "block", "cell": SMALL, "calls": 3},
        {"do": "block", "cell": SMALL, "calls": 2, "slowdown": 0.5},
    ]  # fmt: skip
    answers = io.StringIO()
    serve(Worker(1), io.StringIO("".join(json.dumps(one) + "\n" for one in requests)), answers)
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert found[0]["threads"] == 1
    assert found[1]["seconds"] > 0
    assert [len(one["cpu"]) for one in found[2:]] == [3, 2]
    assert [len(one["wall"]) for one in found[2:]] == [3, 2]


def test_a_slowdown_is_of_the_calls_own_time() -> None:
    """Half of it once more, to a tick of the clock."""
    worker, now = Worker(1), [0.0]

    def clock() -> float:
        now[0] += 0.001
        return now[0]

    def call() -> None:
        now[0] += 8.0

    worker.clock, worker.calls = clock, {"x": [call]}
    assert worker.block("x", 3, 0.5)["cpu"] == pytest.approx([12.0] * 3, abs=0.01)
    assert worker.block("x", 3)["cpu"] == pytest.approx([8.0] * 3, abs=0.01)


@pytest.mark.parametrize("missing", ["scaled_dot_product_attention"])
def test_what_a_torch_lacks_is_not_supported(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch before 2.0 has no such function: the cell is named as not supported, and nothing raises."""
    monkeypatch.delattr(f"torch.nn.functional.{missing}")
    answer = Worker(1).prepare(SMALL)
    assert answer["unsupported"].startswith("AttributeError")
    assert missing in answer["unsupported"]
    assert "seconds" in Worker(1).prepare("plain-16x8x32x64-none-forward")


def test_the_typical_call() -> None:
    """The first of many is cold; one that was interrupted does not count."""
    assert match.typical([100.0, 1.0, 2.0, 90.0]) == 2.0
    assert match.typical([3.0, 1.0]) == 2.0
    assert match.typical([3.0]) == 3.0


def test_choice_of_cells() -> None:
    assert match.choose(["*causal-both"]) == [
        f"torch-{shape}x64-causal-both" for shape in ("16x8x32", "4x8x128", "1x4x512")
    ]
    assert len(match.choose([])) == 13
    assert match.anchors_of([SMALL]) == ["plain-16x8x32x64-none-forward", "product-1x1x256x256-none-forward"]


@pytest.mark.parametrize("name", match.SAME)
def test_other_machines_are_refused(name: str) -> None:
    """Workers whose machine, processor or threads differ are not compared, and the line names what differs."""
    here = fingerprint()
    match.same_machine({A: here, B: here})
    with pytest.raises(Unusable, match=f"^{name}: expected the same in both environments, got .* in A and other in B"):
        match.same_machine({A: here, B: {**here, name: "other"}})


@needs_posix
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "ENV: expected two environments, got 0"),
        (["{here}"], "ENV: expected two environments, got 1"),
        (["{here}", "nowhere"], "nowhere: expected a virtual environment or its python, found none there"),
        (["{here}", "{here}", "--cells", "nothing*"], "--cells: expected a pattern of torch-16x8x32x64-none-forward"),
        (["{dies}", "{here}"], "dies: its worker ended: no torch here"),
        (["{here}", "{silent}"], "silent: its worker ended: exit code 3"),
        (["{here}", "{babbles}"], "babbles: its worker answered 'hello'"),
    ],
)
def test_unusable_input(arguments: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2."""
    known = {
        "here": sys.executable,
        "dies": script(tmp_path / "dies", "echo no torch here >&2; exit 1"),
        "silent": script(tmp_path / "silent", "exit 3"),
        "babbles": script(tmp_path / "babbles", "echo hello; cat"),
    }
    options = ["--seconds", "0.1", "--json", str(tmp_path / "duel.json")]
    assert main(["duel", *(one.format(**known) for one in arguments), *options]) == 2
    shown = capsys.readouterr().err.strip().splitlines()
    assert len(shown) == 1
    assert line in shown[0]
    assert not (tmp_path / "duel.json").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--seconds", "0"), ("--alpha", "1"), ("--floor", "0"), ("--threads", "0")]
)
def test_unusable_options(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["duel", "a", "b", option, value])
    assert f"argument {option}" in capsys.readouterr().err


def test_python_of(tmp_path: Path) -> None:
    """A folder with bin/python or Scripts/python.exe, or that file itself."""
    made = tmp_path / "env" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.write_text("")
    with pytest.raises(Unusable):
        python_of(str(tmp_path / "env"))
    made.chmod(0o755)
    assert python_of(str(tmp_path / "env")) == python_of(str(made)) == made


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["duel", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == match.choose([])


def test_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A moment is enough for a table and a file, and for no verdict: nothing is slower, exit code 0."""
    path = tmp_path / "new" / "duel.json"
    assert (
        main(["duel", sys.executable, sys.executable, "--cells", SMALL, "--seconds", "0.3", "--json", str(path)]) == 0
    )
    shown = capsys.readouterr().out
    for words in (SMALL, "inconclusive", "anchor", "A: torch", "0 slower"):
        assert words in shown
    found = json.loads(path.read_text(encoding="utf-8"))
    cell = found["cells"][SMALL]
    assert found["schema"] == 1
    assert found["complete"] is True
    assert found["together"] is match.room_for_two(1)
    assert set(found["environments"]) == {A, CONTROL, B}
    assert {"cpu", "capability", "threads", "torch", "load", "load_after"} <= set(found["environments"][B])
    assert cell["verdict"] == "inconclusive"
    assert set(cell["to_anchors"]) == set(match.anchors_of([SMALL]))
    assert {len(times) for times in found["rounds"][SMALL].values()} == {cell["rounds"]}


class Double:
    """A worker that is not timed, and notes what it was asked; that of a slow environment takes twice as long."""

    asked: ClassVar[list[str]] = []
    seeds: ClassVar[list[str]] = []
    # By the name of its python: how it answers a block otherwise, from the second on.
    odd: ClassVar[dict[str, Any]] = {}

    def __init__(self, python: Path, threads: int, seed: str) -> None:
        self.python = python
        self.blocks = 0
        self.seeds.append(seed)
        self.factor = 2.0 if python.name == "slow" else 1.0

    def __enter__(self) -> "Double":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, do: str, **request: Any) -> None:
        self.asked.append(do)
        self.request = {"do": do, **request}

    def receive(self) -> dict[str, Any]:
        self.asked.append("answer")
        if self.request["do"] == "block":
            self.blocks += 1
            if self.python.name in self.odd and self.blocks > 1:
                odd = self.odd[self.python.name]
                if isinstance(odd, BaseException):
                    raise odd
                return dict(odd)
            seconds = self.factor * (1 + self.request["slowdown"])
            return {"cpu": [seconds] * self.request["calls"], "wall": [seconds**3] * self.request["calls"]}
        return fingerprint() if self.request["do"] == "fingerprint" else {"seconds": 0.001}


@pytest.mark.parametrize("room", [True, False])
def test_two_blocks_at_once(room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is room for two, both of a pair are asked before one of them answers."""
    monkeypatch.setattr(match, "Remote", Double)
    monkeypatch.setattr(match, "room_for_two", lambda _: room)
    monkeypatch.setattr(Double, "asked", [])
    with match.workers({A: Path("fast"), B: Path("slow")}, 1) as crews:
        duel = match.fight(crews, [SMALL], Settings(seconds=1e9, looks=(3,)))
    asked = Double.asked[Double.asked.index("block") :]
    # Three rounds of the cell and the first of its two anchors, three pairs each.
    pairs = ["block", "block", "answer", "answer"] if room else ["block", "answer"] * 2
    assert asked[: 4 * 3 * 5] == pairs * 3 * 5
    assert duel.together is room
    assert duel.series[SMALL].ratios == pytest.approx([math.log(2)] * 3)


def test_whose_time_is_whose(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slowdown is of B alone; processor and wall time are told apart; each crew and each worker draws on its own."""
    monkeypatch.setattr(match, "Remote", Double)
    monkeypatch.setattr(Double, "seeds", [])
    with match.workers({A: Path("fast"), B: Path("fast")}, 1, seed=7) as crews:
        duel = match.fight(crews, [SMALL], Settings(seconds=1e9, looks=(3,)), slowdown=0.5)
        drawn = [[crew.chance.random() for _ in range(3)] for crew in crews.values()]
    series = duel.series[SMALL]
    assert series.ratios == pytest.approx([math.log(1.5)] * 3)
    assert series.walls == pytest.approx([3 * math.log(1.5)] * 3)
    assert series.controls == pytest.approx([0.0] * 3)
    assert len(set(Double.seeds)) == 3 * match.CREW
    assert all(one.startswith("7-") for one in Double.seeds)
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


@needs_posix
@pytest.mark.parametrize(
    ("odd", "code", "words"),
    [
        (KeyboardInterrupt(), 130, ""),
        (Unusable("odd: its worker ended: Killed"), 2, "odd: its worker ended: Killed"),
        ({"cpu": [math.nan], "wall": [1.0]}, 2, "its worker answered"),
        ({"cpu": [-1.0], "wall": [1.0]}, 2, "its worker answered"),
        ({"cpu": [], "wall": [1.0]}, 2, "its worker answered"),
        ({"cpu": [1.0]}, 2, "its worker answered"),
        ({"cpu": ["1"], "wall": [1.0]}, 2, "its worker answered"),
    ],
)
def test_what_was_timed_is_kept(
    odd: Any, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user, or the end of a worker, interrupts: a table, a file that is not complete, one line, and the exit code."""
    monkeypatch.setattr(match, "Remote", Double)
    monkeypatch.setattr(Double, "odd", {"odd": odd})
    for name in ("fast", "odd"):
        script(tmp_path / name, "")
    path = tmp_path / "duel.json"
    assert main(["duel", str(tmp_path / "fast"), str(tmp_path / "odd"), "--json", str(path)]) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == (1 if words else 0)
    assert "INTERRUPTED" in shown.out
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["complete"] is False
    assert sum(len(rounds["A"]) for rounds in found["rounds"].values()) >= 1


def test_interrupted_before_anything_was_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(match, "Remote", interrupt)
    assert main(["duel", sys.executable, sys.executable]) == 130
    assert capsys.readouterr().err == "interrupted before anything was timed\n"


def test_workers_elsewhere_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the machine is made before anything is timed."""

    class Elsewhere(Double):
        def receive(self) -> dict[str, Any]:
            return super().receive() | {"cpu": f"of {self.python.name}"}

    monkeypatch.setattr(match, "Remote", Elsewhere)
    with (
        pytest.raises(Unusable, match="cpu: expected the same in both environments, got of fast in A and of slow in B"),
        match.workers({A: Path("fast"), B: Path("slow")}, 1),
    ):
        pass


@needs_posix
def test_where_the_figures_go_is_tried_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder, or a file below a file, is refused before a worker starts; what is there stays."""
    monkeypatch.setattr(match, "Remote", None)
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path, tmp_path / "file" / "duel.json"):
        assert main(["duel", sys.executable, sys.executable, "--json", str(place)]) == 2
        shown = capsys.readouterr().err
        assert shown.startswith(f"--json: {place} cannot be written: ")
        assert shown.count("\n") == 1
    match_command.check_writable(tmp_path / "file")
    match_command.check_writable(tmp_path / "new" / "duel.json")
    assert (tmp_path / "file").read_text() == "kept"
    assert not (tmp_path / "new" / "duel.json").exists()


@needs_posix
def test_no_time_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each cell has a round in any case, and is inconclusive; where no cell can be timed there is nothing to be told."""
    monkeypatch.setattr(match, "Remote", Double)
    path = tmp_path / "duel.json"
    for name in ("fast", "slow"):
        script(tmp_path / name, "")
    both = [str(tmp_path / "fast"), str(tmp_path / "slow"), "--json", str(path)]
    assert main(["duel", *both, "--seconds", "1e-9"]) == 0
    assert "13 inconclusive" in capsys.readouterr().out
    monkeypatch.setattr(match.Crew, "prepare", lambda *_: {"unsupported": "no [/] such thing"})
    assert main(["duel", *both]) == 2
    shown = capsys.readouterr()
    assert "no [/] such thing" in shown.out
    assert "13 not supported" in shown.out
    assert shown.err == "ENV: expected two environments that support a cell in common, got none\n"


def test_a_slow_environment_gives_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the coordinator sees it."""
    monkeypatch.setattr(match, "Remote", Double)
    for name in ("fast", "slow"):
        script(tmp_path / name, "")
    path = tmp_path / "duel.json"
    for a, b, code, verdict in (
        ("fast", "slow", 1, "slower"),
        ("slow", "fast", 0, "faster"),
        ("fast", "fast", 0, "equivalent"),
    ):
        assert main(["duel", str(tmp_path / a), str(tmp_path / b), "--json", str(path)]) == code
        found = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert len(found) == 13
        assert {one["verdict"] for one in found.values()} == {verdict}


def test_a_worker_in_a_process_of_its_own() -> None:
    """It answers until it is left, and then is gone."""
    with Remote(Path(sys.executable), 1) as remote:
        assert remote.ask(do="fingerprint")["threads"] == 1
        assert "unsupported" not in remote.ask(do="prepare", cell=SMALL)
        with pytest.raises(Unusable, match="its worker ended: KeyError"):
            remote.ask(do="block", cell="nothing", calls=1)
    assert remote.process.poll() is not None


def test_a_crew_takes_turns() -> None:
    """Each block is one worker's, drawn anew; a call takes what is typical of them; one that lacks a cell speaks for all."""

    class Answers:
        def __init__(self, name: str, seconds: float) -> None:
            self.name, self.seconds = name, seconds

        def send(self, do: str, **_: object) -> None:
            pass

        def receive(self) -> dict[str, Any]:
            return {"seconds": self.seconds} if self.seconds else {"unsupported": "not here"}

    crew = Crew([Answers(name, seconds) for name, seconds in zip("abc", (1.0, 5.0, 2.0), strict=True)])  # type: ignore[misc]
    assert {crew.start(cell="x").name for _ in range(50)} == set("abc")  # type: ignore[attr-defined]
    assert crew.prepare("x") == {"seconds": 2.0}
    assert Crew([*crew.remotes, Answers("d", 0.0)]).prepare("x") == {"unsupported": "not here"}  # type: ignore[list-item]


def judgement(verdict: Verdict) -> Judgement:
    one = Interval(math.log(1.05), math.log(1.04), math.log(1.06))
    return Judgement(verdict, one, Interval(0.0, -0.01, 0.01), one, math.log(1.03), 0.01, 101)


def run_of(number: int, slowdown: float, seconds: float, judged: dict[str, Judgement]) -> dict[str, Any]:
    """A line of the self-test's file."""
    duel = match.Duel(Settings(), {A: fingerprint()}, True, judged=judged, seconds=seconds)
    return self_test.line(number, slowdown, duel)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"torch": "1.13.1"}, "expected runs with torch .*, got 1.13.1 in run 0"),
        ({"threads": 64}, "expected runs with threads 1, got 64"),
        ({"settings": {"seconds": 9.0}}, "expected runs with settings .*, got {'seconds': 9.0}"),
        ({"cells": {"zzz": {"verdict": "slower"}}}, "run 0: expected the cells torch-16x8x32.*, got zzz"),
        ({"cells": {}}, "line 1 is no run"),
        ({"slowdown": None}, "line 1 is no run"),
    ],
)
def test_the_self_test_mixes_nothing(
    change: dict[str, Any],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs made elsewhere, otherwise, or of other cells are refused with one line, and stay as they are."""
    monkeypatch.setattr(match, "Remote", Double)
    same = {name: judgement(Verdict.EQUIVALENT) for name in match.groups(match.choose([]))[0]}
    path = tmp_path / "x.jsonl"
    path.write_text(
        json.dumps(run_of(0, 0.0, 5.0, same) | change) + "\n" + json.dumps(run_of(0, 0.02, 5.0, same)) + "\n"
    )
    before = path.read_text()
    assert main(["duel", "--self-test", "--runs", "1", "--json", str(tmp_path / "x.json")]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert re.search(words, shown)
    assert path.read_text() == before


def test_the_self_test_goes_on_behind_a_cut_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is cut goes, what is whole stays, and what is missing is run."""
    monkeypatch.setattr(match, "Remote", Double)
    same = {name: judgement(Verdict.EQUIVALENT) for name in match.groups(match.choose([]))[0]}
    path, kept = tmp_path / "x.jsonl", json.dumps(run_of(0, 0.0, 5.0, same))
    path.write_text(kept + '\n{"run": 0, "slowd')
    for _ in range(2):
        assert main(["duel", "--self-test", "--runs", "1", "--json", str(tmp_path / "x.json")]) == 0
        lines = path.read_text().splitlines()
        assert lines[0] == kept
        assert sorted(json.loads(one)["slowdown"] for one in lines) == list(self_test.SLOWDOWNS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a", "b"], "ENV: expected at most one environment with --self-test, got 2"),
        (
            ["--json", "runs.jsonl"],
            "--json: expected a file beside which the runs are written as .jsonl, got runs.jsonl",
        ),
    ],
)
def test_unusable_self_tests(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["duel", "--self-test", *arguments]) == 2
    assert capsys.readouterr().err == f"{words}\n"


def test_the_self_test_counts(tmp_path: Path) -> None:
    """By slowdown: runs with a cell called slower, cells by verdict; a line that was cut off is left out."""
    slower, same = judgement(Verdict.SLOWER), judgement(Verdict.EQUIVALENT)
    runs = [
        run_of(0, 0.0, 5.0, {"a": same, "b": same}),
        run_of(0, 0.05, 7.0, {"a": slower, "b": same}),
        run_of(1, 0.05, 9.0, {"a": slower, "b": slower}),
    ]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in runs) + '{"run": 2, "slo')
    assert self_test.read(path) == runs
    none, five = self_test.rates(self_test.read(path))
    assert (none["runs"], none["found"], none["cells"], none["slower"], none["equivalent"]) == (1, 0, 2, 0, 2)
    assert (five["runs"], five["found"], five["cells"], five["slower"], five["longest"]) == (2, 2, 4, 3, 9.0)
    assert self_test.table(runs).row_count == 2
    path.write_text('{"run": 1}\n' + json.dumps(runs[0]) + "\n")
    with pytest.raises(Unusable, match="line 1 is no run"):
        self_test.read(path)


def test_the_self_test_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each slowdown once, on the environment that is running; what is in the file is not run again."""
    monkeypatch.setattr(self_test, "SLOWDOWNS", (0.0, 0.1))
    options = [
        "duel",
        "--self-test",
        "--runs",
        "1",
        "--seconds",
        "0.1",
        "--cells",
        SMALL,
        "--json",
        str(tmp_path / "x.json"),
    ]
    assert main(options) == 0
    written = (tmp_path / "x.jsonl").read_text(encoding="utf-8")
    assert {json.loads(line)["slowdown"] for line in written.splitlines()} == {0.0, 0.1}
    found = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert found["runs"] == [json.loads(line) for line in written.splitlines()]
    assert [one["runs"] for one in found["rates"]] == [1, 1]
    monkeypatch.setattr(self_test, "workers", None)
    assert main(options) == 0
    assert (tmp_path / "x.jsonl").read_text(encoding="utf-8") == written
    assert "10%" in capsys.readouterr().out


def test_shapes_of_the_self_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run is of the next shape, with its cells alone."""
    asked: list[list[str]] = []

    def fight(crews: object, cells: list[str], settings: Settings, slowdown: float) -> match.Duel:
        asked.append(cells)
        return match.Duel(
            settings, {A: fingerprint()}, True, judged={name: judgement(Verdict.EQUIVALENT) for name in cells}
        )

    monkeypatch.setattr(self_test, "fight", fight)
    monkeypatch.setattr(match, "Remote", Double)
    monkeypatch.setattr(self_test, "SLOWDOWNS", (0.0,))
    assert main(["duel", "--self-test", "--runs", "5", "--json", str(tmp_path / "x.json")]) == 0
    assert [len(cells) for cells in asked] == [4, 4, 4, 1, 4]
    assert asked[0] == asked[4] == [name for name in match.choose([]) if "16x8x32" in name]
    assert sorted(name for cells in asked[:4] for name in cells) == sorted(match.choose([]))


@pytest.mark.parametrize(("cores", "threads", "room"), [(1, 1, False), (2, 1, True), (2, 2, False), (8, 4, True)])
def test_two_at_once(cores: int, threads: int, room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a core for each thread of two workers."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert match.room_for_two(threads) is room


def test_the_committed_self_test() -> None:
    """No false alarm, 5 % found in 95 % of the duels and of the cells, within the time; README's table is made of it."""
    found = json.loads((ROOT / "conformance" / "duel" / "self_test.json").read_text(encoding="utf-8"))
    rates = {one["slowdown"]: one for one in self_test.rates(found["runs"])}
    assert list(rates.values()) == found["rates"]
    assert tuple(rates) == self_test.SLOWDOWNS
    assert {name for one in found["runs"] for name in one["cells"]} == set(match.choose([]))
    assert all(one["runs"] >= 20 for one in rates.values())
    assert rates[0.0]["slower"] == rates[0.0]["faster"] == 0
    assert rates[0.05]["found"] >= 0.95 * rates[0.05]["runs"]
    assert rates[0.05]["slower"] >= 0.95 * rates[0.05]["cells"]
    assert max(one["longest"] for one in rates.values()) < Settings.seconds + 1
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for slowdown, one in rates.items():
        figures = (
            *(one[name] for name in ("runs", "found", "cells", "slower", "equivalent", "inconclusive")),
            round(one["seconds"]), round(one["longest"]),
        )  # fmt: skip
        assert f"| {slowdown:.0%} | ".replace("%", " %") + " | ".join(map(str, figures)) + " |" in readme


def test_settings_of_a_run() -> None:
    """Each run draws orders of its own."""
    assert self_test.settings_for(Settings(5.0, 0.01, 0.02), 7) == Settings(5.0, 0.01, 0.02, 7)
