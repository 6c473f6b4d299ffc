"""The tools of the benchmarks, without a time being asserted: whose turn it is, what counts, what is drawn."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance.benchmarks.__main__ import main
from conformance.benchmarks.cores import CORES, MASKS, Shape
from conformance.benchmarks.interleaved import pairs_in, take_turns
from conformance.benchmarks.peak import attention_flops
from conformance.benchmarks.pictures import slope


def test_turns_alternate() -> None:
    """One call of each that does not count, then A B, B A, A B."""
    calls: list[str] = []
    turns = take_turns(lambda: calls.append("a"), lambda: calls.append("b"), 3)
    assert "".join(calls) == "ab" + "abbaab"
    assert turns.ratio > 0
    assert all(value >= 0 for value in (*turns.seconds, *turns.cpu_seconds))


def test_number_of_pairs() -> None:
    calls: list[int] = []
    assert pairs_in(lambda: calls.append(1), 1e9) == 60
    assert pairs_in(lambda: calls.append(1), 0.0) == 5


@pytest.mark.parametrize("kind", MASKS)
def test_cores_agree(kind: str) -> None:
    """What is timed is the same computation."""
    shape = Shape(2, 3, 5, 5, 4)
    found = [make(shape, kind, torch.float64)(*shape.tensors(torch.float64, False)) for make in CORES.values()]
    for one in found[1:]:
        torch.testing.assert_close(one, found[0], rtol=1e-12, atol=1e-12)


def test_work_of_an_attention() -> None:
    """Two products forward, seven with backward, half of them under a causal mask."""
    assert attention_flops(1, 2, 3, 5, 7, causal=False, backward=False) == 2 * 2 * 2 * 3 * 5 * 7
    assert attention_flops(1, 2, 3, 5, 7, causal=True, backward=True) == 7 * 2 * 3 * 5 * 7


def test_slope() -> None:
    assert slope((1, 2, 4), (3.0, 12.0, 48.0)) == pytest.approx(2)


def entry(length: int, core: str) -> dict[str, Any]:
    extra = {"ratio": 1.5, "of_peak": 0.4, "cpu_ms": 2.0, "shape": f"1x8x{length}x64", "length": length, "mask": "none"}
    return {
        "group": f"core {length}",
        "name": "bench",
        "stats": {"median": 1e-6 * length**2},
        "extra_info": {**extra, "dtype": "float32", "direction": "forward", "core": core},
    }


def test_table_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps({"benchmarks": [entry(n, core) for n in (64, 128) for core in ("torch", "blockwise")]}))
    assert main([str(path)]) == 0
    shown = capsys.readouterr().out
    assert "core 128" in shown
    assert "1.5" in shown
    pytest.importorskip("matplotlib")
    assert "length^2.00" in (tmp_path / "ms-forward-none.svg").read_text(encoding="utf-8")
    assert (tmp_path / "of_peak-forward-none.svg").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"benchmarks": [{}]}', '{"machine_info": 1}'])
def test_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text(content)
    assert main([str(path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
