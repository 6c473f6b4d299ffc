"""What a user types: bad input, order, parallel runs, interruption, subjects of one's own."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conformance.__main__ import main
from conformance.clauses import load_all
from conformance.evaluation import evaluate
from conformance.report.model import read_report
from conformance.selfcheck.commands import ROOT, run
from conformance.selfcheck.commands import pytest as run_pytest
from conformance.subjects.load import UnusableSubject, load
from conformance.trial import Trial

SOME = ("conformance/test_dead.py", "-q")


def verdicts(folder: Path) -> dict[tuple[str, str], str]:
    """Clause and case → verdict."""
    return {(result.clause, result.case): result.verdict for result in read_report(folder).results}


BROKEN = {
    "broken.py": "1 / 0",
    "garbled.py": "def (",
    "exits.py": "raise SystemExit('bye')",
    "empty.py": "text = 'no adapter'",
    "wrong.py": (
        "from conformance.subjects import Adapter\n"
        "class Wrong(Adapter):\n    component = 'flux_capacitor'\n"
        "class Raises(Adapter):\n    def __init__(self): raise RuntimeError('no')\n"
    ),
    "typing.py": (
        "from conformance.subjects import Adapter\n"
        "class Reference(Adapter):\n    reference = {'norm_frist': True}\n"
        "class Fixed(Adapter):\n    fixed = {'mask': 'causal'}\n"
        "class Without(Adapter):\n    unsupported = ('masc=bool',)\n"
        "class Dead(Adapter):\n    dead_rows = 'NaN'\n"
        "class Number(Adapter):\n    reference = 3\n"
        "class Text(Adapter):\n    unsupported = 'src_mask'\n"
        "class List(Adapter):\n    component = ['x']\n"
        "class Leaves(Adapter):\n    def __init__(self): raise SystemExit('bye')\n"
        "class Padded(Adapter):\n    padded_rows = 'gone'\n"
    ),
    "twice.py": "from conformance.subjects import Adapter\nclass A(Adapter): pass\nclass B(Adapter): pass\n",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with files that cannot be used."""
    for name, text in BROKEN.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("subject", "line"),
    [
        ("nothing", "--subject: expected one of"),
        ("", "--subject: expected one of"),
        ("nowhere.py:Mine", "no such file: nowhere.py"),
        ("nowhere.at.all:Mine", "nowhere.at.all does not import: ModuleNotFoundError"),
        ("{files}/broken.py:Mine", "broken.py does not import: ZeroDivisionError"),
        ("{files}/garbled.py:Mine", "garbled.py does not import: SyntaxError"),
        ("{files}/exits.py:Mine", "exits.py does not import: SystemExit"),
        ("{files}/empty.py:Mine", "empty.py has no Mine"),
        ("{files}/empty.py", "empty.py has no adapter"),
        ("{files}/empty.py:text", "text is no adapter"),
        ("{files}/wrong.py:Wrong", "component: expected one of"),
        ("{files}/wrong.py:Raises", "Raises() raised RuntimeError: no"),
        ("{files}/twice.py", "several adapters of encoder_layer"),
        ("{files}/typing.py:Reference", "reference: expected one of"),
        ("{files}/typing.py:Fixed", "fixed: expected one of"),
        ("{files}/typing.py:Without", "unsupported: expected one of"),
        ("{files}/typing.py:Dead", "dead_rows: expected one of"),
        ("{files}/typing.py:Number", "reference: expected a mapping, got 3"),
        ("{files}/typing.py:Text", "unsupported: expected a tuple of strings"),
        ("{files}/typing.py:List", "component: expected one of"),
        ("{files}/typing.py:Leaves", "Leaves() raised SystemExit: bye"),
        ("{files}/typing.py:Padded", "padded_rows: expected one of"),
    ],
)
def test_unusable_subjects(files: Path, subject: str, line: str) -> None:
    """Whatever is wrong with a subject is said in one line."""
    with pytest.raises(UnusableSubject) as raised:
        load(subject.format(files=files))
    assert line in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--subject", "{files}/broken.py:Mine"], "broken.py does not import: ZeroDivisionError"),
        (["--report={files}/empty.py/below"], "--report: "),
        (["--device", "toaster"], "--device: toaster cannot be used"),
    ],
)
def test_bad_input(files: Path, arguments: list[str], line: str) -> None:
    """One clear line and exit code 2, never a traceback."""
    done = run_pytest(*SOME, *(argument.format(files=files) for argument in arguments))
    assert done.returncode == 2
    assert line in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert len((done.stdout + done.stderr).strip().splitlines()) == 1


def test_order_and_parallel_runs_change_nothing(tmp_path: Path) -> None:
    """Permuted and in parallel there are the ids and verdicts that the clauses have one after the other."""
    subject, clauses = load("handmade"), [one for one in load_all().values() if one.chapter == "DEAD"]
    expected = {
        (clause.id, case.id): evaluate(Trial(subject, case, clause)).verdict.value
        for clause in clauses
        for case in subject.cases(clause)
    }
    done = run_pytest(*SOME, "--shuffle", "7", "-n", "2", f"--report={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert verdicts(tmp_path) == expected


def test_report_has_the_figures(tmp_path: Path) -> None:
    """Errors, ratio and worst element of every tensor, not only pass or fail; and what a run says of itself."""
    done = run_pytest("conformance/test_grad.py", "-k", "encoder_layer-float32", f"--report={tmp_path}")
    results = read_report(tmp_path).results
    tensors = [tensor for result in results for tensor in result.tensors]
    assert {"src", "linear1.weight", "norm2.bias"} <= {tensor["tensor"] for tensor in tensors}
    assert all({"error", "torch_error", "worst", "value", "oracle_value", "verdict"} <= set(one) for one in tensors)
    assert any(tensor.get("ratio", 0) > 0 for tensor in tensors)
    data = json.loads((tmp_path / "report.json").read_text())
    assert {"subject", "torch", "numpy", "device", "threads"} <= set(data["environment"])
    for words in ("conformance: subject handmade, torch", "error against the oracle", "every pair of options"):
        assert words in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="sends an interrupt signal")
def test_an_interrupted_run_is_readable(tmp_path: Path) -> None:
    """What came before the interrupt is in results.jsonl and in report.json, marked as not complete."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "conformance/test_grad.py",
        "--report",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # A shell lets what it runs in the background ignore interrupts, and so would the child.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    lines = tmp_path / "results.jsonl"
    deadline = time.monotonic() + 120
    while not (lines.exists() and lines.read_text().count("\n") > 20) and time.monotonic() < deadline:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.wait(timeout=200)
    report = read_report(tmp_path / "report.json")
    assert len(report.results) >= 20
    assert not report.complete


KILLER = """
import os
import torch
from conformance.subjects import Adapter

class Killer(Adapter):
    component, reference = "layer_norm", {"elementwise_affine": {True, False}, "layer_norm_eps": {1e-5, 1e-30}}
    def build(self, config):
        return torch.nn.LayerNorm(config.normalized_shape, config.eps, config.elementwise_affine)
    def forward(self, module, call):
        if module.eps > 1e-20:
            os.abort()
        return module(call.arguments["input"])
"""


def test_a_subject_that_kills_its_process(tmp_path: Path) -> None:
    """In parallel runs a check that its process died of is recorded as crashed, once, and the others go on."""
    (tmp_path / "killer.py").write_text(KILLER)
    chosen = ("conformance/test_norm.py", "-k", "test_statistics or test_invariance", "-n", "2")
    done = run_pytest(*chosen, "--subject", f"{tmp_path}/killer.py:Killer", f"--report={tmp_path}")
    assert done.returncode == 1
    assert "INTERNALERROR" not in done.stdout
    found = {clause: verdict for (clause, _), verdict in verdicts(tmp_path).items()}
    assert found == {"NORM-07": "crashed", "NORM-08": "conforms"}
    assert read_report(tmp_path).complete


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["sing"])
    assert raised.value.code == 2
    assert "invalid choice: 'sing'" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="a pipe without a reader")
@pytest.mark.parametrize("arguments", ["specification", "compare 2.12.1 2.13.0", "duel --list"])
def test_nobody_reads(arguments: str) -> None:
    """As in `… | head -1`: no traceback, and no exit code that means something else."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "conformance", *arguments.split()],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_terminal_without_the_signs() -> None:
    done = run("-m", "conformance", "compare", "2.12.1", "2.13.0", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "torch 2.12.1 \\u2192 2.13.0" in done.stdout
