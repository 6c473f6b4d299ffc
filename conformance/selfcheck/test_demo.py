"""The demo in small: equal curves in float64, pictures, and what it says when something is wrong."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from conformance.demo import __main__ as demo
from conformance.demo import digits, race
from conformance.demo.gap import gap
from conformance.demo.race import Settings

TINY = Settings(steps=4, batch=4, d_model=8, heads=2, d_ff=16, layers=1, held_out=6, dtype="float64")


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_curves_coincide(norm_first: bool) -> None:
    """In float64 the two lose the same at every step, and not the same from step to step."""
    losses = race.run(dataclasses.replace(TINY, norm_first=norm_first)).losses
    mine, theirs = losses.T
    assert np.abs(mine - theirs).max() <= 1e-9 * theirs.max()
    assert len(set(mine)) == TINY.steps
    assert gap(losses).closed("float64")


@pytest.mark.parametrize("change", [{"norm_first": True}, {"learning_rate": 5e-3}, {"seed": 2}])
def test_curves_that_part_are_seen(change: dict) -> None:
    """Two runs that differ in the norms' place, the learning rate or the batches do not pass for one."""
    one = race.run(TINY).losses[:, 0]
    other = race.run(dataclasses.replace(TINY, **change)).losses[:, 0]
    assert not gap(np.stack((one, other), axis=1)).closed("float32")


def test_the_task() -> None:
    """Targets are the sources backwards; what is held out is not drawn."""
    sources, targets = digits.encode(["1234", "567890"])
    assert digits.symbols(sources[0].tolist()) == ["1", "2", "3", "4", "end", "·", "·"]
    assert digits.symbols(targets[1].tolist()) == ["0", "9", "8", "7", "6", "5", "end"]
    rng = np.random.default_rng(0)
    drawn = digits.draw(rng, 20)
    assert {len(string) for string in drawn} <= set(range(digits.SHORTEST, digits.LONGEST + 1))
    assert digits.draw(np.random.default_rng(0), 5, without=drawn[:1])[0] == drawn[1]


def test_accuracy() -> None:
    """Counted is what is right to the end: a model that writes the target scores 1, one that errs at the end 0."""

    class Backwards(torch.nn.Module):
        def __init__(self, last: int) -> None:
            super().__init__()
            self.last = last

        def forward(self, sources: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
            wanted = digits.encode(["".join(digits.symbols(row)[:4]) for row in sources.tolist()])[1]
            wanted[:, -1] = self.last
            return torch.nn.functional.one_hot(wanted[:, : written.size(1)], digits.VOCABULARY).double()

    strings = ["1234", "9876"]
    assert race.accuracy(Backwards(digits.END), strings) == 1
    assert race.accuracy(Backwards(digits.START), strings) == 0


def test_pictures_and_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too short a training writes its pictures, misses the accuracy and says so by exit code 1; the curves still coincide."""
    pytest.importorskip("matplotlib", reason="the pictures need matplotlib")
    folder = tmp_path / "new" / "folder"
    assert demo.main(["--steps", "2", "--out", str(folder)]) == 1
    said = capsys.readouterr().out
    assert "learnt: NO; the curves coincide: yes" in said
    for name in ("losses.svg", "cross_attention.svg"):
        assert (folder / name).read_text(encoding="utf-8").rstrip().endswith("</svg>")
        assert name in said


def test_unusable_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that cannot be made ends the demo before it trains: one line, exit code 2."""
    pytest.importorskip("matplotlib", reason="without it the demo complains of that first")
    (tmp_path / "file").write_text("")
    assert demo.main(["--out", str(tmp_path / "file")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("--out: expected a folder that can be written to, got ")
    assert said.err.count("\n") == 1


def test_cross_attention() -> None:
    """The two models, from equal weights, look at the same; every row is a distribution over the source."""
    mine, theirs = race.models(TINY)
    source, target = digits.encode(["12345"])
    maps = [race.cross_attention(model, source, target) for model in (mine, theirs)]
    assert maps[0].shape == (6, 6)
    np.testing.assert_allclose(maps[0].sum(1), 1)
    np.testing.assert_allclose(maps[0], maps[1], rtol=1e-12)
