"""The gate on instruction counts: what it says and when it is silent; nothing is counted."""

import json
from pathlib import Path

import pytest

from conformance.duel import instructions
from conformance.duel.cells import CELLS


def test_cells_exist() -> None:
    assert set(instructions.CELLS) <= set(CELLS)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"a": 1000, "b": 1000}, []),
        ({"a": 1020, "b": 980}, []),
        ({"a": 1021, "b": 1000}, ["a: 1021 instructions, expected 1000: +2.1%, more"]),
        ({"a": 979, "b": 1000}, ["a: 979 instructions, expected 1000: -2.1%, fewer"]),
        ({"a": 1000}, ["b: in the file alone"]),
        ({"a": 1000, "b": 1000, "c": 1}, ["c: not in the file"]),
    ],
)
def test_both_sides(found: dict[str, int], words: list[str]) -> None:
    lines = instructions.complaints({"a": 1000, "b": 1000}, found)
    assert len(lines) == len(words)
    assert all(line.startswith(one) for line, one in zip(lines, words, strict=True))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of counts made here, and a count that is instant."""
    path = tmp_path / "counts.json"
    monkeypatch.setattr(instructions.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(instructions, "count", lambda cell: 1000 + len(cell))
    assert instructions.main(["--write", "--file", str(path)]) == 0
    return path


def test_exit_codes(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert instructions.main(["--file", str(file)]) == 0
    monkeypatch.setattr(instructions, "count", lambda cell: 2000)
    assert instructions.main(["--file", str(file)]) == 1
    assert "2000 instructions" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["torch", "python", "cpu"])
def test_elsewhere_it_is_skipped(file: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(file.read_text(encoding="utf-8"))
    found["conditions"][name] = "other"
    file.write_text(json.dumps(found), encoding="utf-8")
    assert instructions.main(["--file", str(file)]) == 0
    assert f"skipped: {name} " in capsys.readouterr().out


def test_without_valgrind_it_is_skipped(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(instructions.shutil, "which", lambda name: None)
    assert instructions.main(["--file", str(file)]) == 0
    assert "skipped: valgrind is not installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"conditions": {}, "counts": {"a": "many"}}', '{"conditions": {}, "counts": {"a": 0}}']
)
def test_another_file(tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counts.json"
    path.write_text(content, encoding="utf-8")
    assert instructions.main(["--file", str(path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
