"""The README's commands and its example."""

import configparser
import re
import shlex
from pathlib import Path

import pytest

from conformance.selfcheck.commands import ROOT, listing, run
from conformance.selfcheck.commands import pytest as run_pytest

COMMANDS = [
    line
    for heading in ("Run it", "Bring your own", "What torch gets wrong", "The demo")
    for block in listing(heading, "sh")
    for line in block.splitlines()
]
# Commands that would install packages, or run this very test again.
LONG = [command for command in COMMANDS if "pip install" in command or "venv" in command]
CHEAP = [command for command in COMMANDS if command not in LONG]


def test_there_are_both() -> None:
    assert len(LONG) == 4
    assert len(CHEAP) >= 5


@pytest.mark.parametrize("command", LONG)
def test_long_commands_exist(command: str) -> None:
    """The environments of tox that the README names are there."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini")
    known = {"tests", *(re.sub(r"\{.*", "", name.removeprefix("testenv:")) for name in config.sections())}
    for name in re.findall(r"tox run -e (\w+)", command):
        assert name in known
    assert "tox run" in command or command.startswith("python -m venv")


@pytest.mark.parametrize("command", CHEAP)
def test_cheap_commands_run(command: str, tmp_path: Path) -> None:
    """They end with exit code 0; files that they name are made from the README's own listings."""
    block, adapter = listing("Bring your own", "python")
    (tmp_path / "my_block.py").write_text(block + "\n\n" + adapter)
    words = shlex.split(command.replace("conformance/", f"{ROOT}/conformance/"))
    words = [word.replace("=report", f"={tmp_path}/report") for word in words]
    if words[0] == "pytest":
        done = run_pytest("-c", f"{ROOT}/pyproject.toml", "--rootdir", str(ROOT), *words[1:], cwd=tmp_path)
    else:
        assert words[0] == "python"
        done = run(*words[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    if "torch-fast" in command:
        shown = re.search(
            r"^torch differs .*\n.*$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        assert shown is not None
        assert shown[0] in done.stdout


def test_the_adapter_is_short() -> None:
    """Seven lines at most."""
    _, adapter = listing("Bring your own", "python")
    lines = [line for line in adapter.splitlines() if line.strip() and not line.startswith(("from", "import"))]
    assert len(lines) <= 7


def test_a_broken_block_is_caught(tmp_path: Path) -> None:
    """The example with its scale taken away differs, and the message says where and how to rerun it."""
    block, adapter = listing("Bring your own", "python")
    broken = block.replace(" / q.size(-1) ** 0.5", "")
    assert broken != block
    (tmp_path / "my_block.py").write_text(broken + "\n\n" + adapter)
    done = run_pytest("--subject", str(tmp_path / "my_block.py:MyBlock"), "conformance/test_norm.py", "-x")
    assert done.returncode == 1
    for words in ("NORM-", "differs on encoder_layer", "oracle", "rerun: pytest"):
        assert words in done.stdout


def test_decoding(tmp_path: Path) -> None:
    """The example of decoding runs, and prints what it says: for each of two prompts four beams, their lengths and scores."""
    (example,) = listing("Decoding", "python")
    (tmp_path / "example.py").write_text(example)
    done = run(str(tmp_path / "example.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("tensor(") == 3
