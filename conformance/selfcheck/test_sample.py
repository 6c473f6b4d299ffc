"""A part of the cases: the same one always, with all that shows a behaviour; and one attention backend alone."""

import json
from pathlib import Path

import pytest
import torch

from conformance.capabilities import has
from conformance.clauses import load_all
from conformance.selfcheck.commands import pytest as run_pytest
from conformance.subjects import Unsupported
from conformance.subjects.attention_backends import BACKENDS, OneBackend
from conformance.subjects.load import load
from conformance.versions.behaviours import load as load_behaviours
from conformance.versions.sample import sampled


def test_a_sample_keeps_what_is_a_clauses_own_and_what_is_followed() -> None:
    """About one in six of the shared cases is left, nothing of the others, and no behaviour loses a case."""
    shared, left = 0, 0
    for clause in load_all().values():
        found = sampled(clause, 6)
        assert sampled(clause, 1) == list(clause.cases)
        if clause.applies is None:
            assert found == list(clause.cases)
            continue
        shared, left = shared + len(clause.cases), left + len(found)
        followed = [one for one in load_behaviours() if clause.id in one.clauses]
        lost = {case.id for case in clause.cases} - {case.id for case in found}
        assert not [case for case in lost for one in followed if one.covers(clause.id, case)]
    assert 0.1 < left / shared < 0.25


def test_the_sample_of_a_run(tmp_path: Path) -> None:
    """It is in the report; with torch as the subject fewer checks are no disagreement with what is known."""
    options = ("conformance/test_mask.py", "-k", "floating", "--sample", "5", "--subject", "torch-fast")
    done = run_pytest(*options, f"--report={tmp_path}")
    assert done.returncode == 0, done.stdout
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert found["environment"]["sample"] == 5
    assert (
        0
        < len(found["results"])
        < sum(
            len(load("torch-fast").cases(clause))
            for clause in load_all().values()
            if "floating" in clause.check.__name__
        )
    )


@pytest.mark.parametrize("wrong", ["0", "-3"])
def test_a_sample_that_means_nothing(wrong: str) -> None:
    done = run_pytest("conformance/test_mask.py", "--sample", wrong)
    assert done.returncode == 2
    assert f"--sample: expected at least 1, got {wrong}" in done.stdout + done.stderr


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_alone(name: str) -> None:
    """It is the one that torch takes, and it gives what attention is."""
    if name == "flash" and not has("fused attention on the CPU"):
        pytest.skip("no fused attention on the CPU")
    x = torch.randn(1, 1, 5, 4, generator=torch.Generator().manual_seed(0))
    with torch.profiler.profile() as seen:
        found = OneBackend(name).scaled_dot_product_attention(x, x, x)
    assert any("flash_attention_for_cpu" in event.key for event in seen.key_averages()) == (name == "flash")
    torch.testing.assert_close(found, torch.softmax(x @ x.mT / 2, -1) @ x)


def test_a_call_that_a_backend_does_not_take() -> None:
    x = torch.zeros(3, 4)
    with pytest.raises(Unsupported, match="flash backend"):
        OneBackend("flash").scaled_dot_product_attention(x, x, x)
