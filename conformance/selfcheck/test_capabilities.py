"""What torch can do: probed without a trace, refused where it is missing, and no yardstick then."""

from typing import Any
from unittest import mock

import pytest
import torch

from conformance import capabilities
from conformance.cases.case import Case
from conformance.clauses import load_all
from conformance.evaluation import evaluate
from conformance.inputs import make_inputs
from conformance.runs import Witnesses, witnesses
from conformance.subjects.load import load
from conformance.trial import Trial
from conformance.verdicts import Unsupported, Verdict

NEEDS = {
    "scale": Case("attention", scale=0.3),
    "enable_gqa": Case("attention", heads=4, key_heads=2),
    "scaled_dot_product_attention": Case("attention"),
    "bias=": Case("encoder_layer", bias=False),
    "is_causal of TransformerEncoderLayer": Case("encoder_layer", src_mask="causal", hint="true"),
    "tgt_is_causal of TransformerDecoder": Case("decoder", memory_mask="causal", hint="false"),
    "src_is_causal of Transformer": Case("transformer", tgt_mask="causal", hint="true"),
    "RMSNorm": Case("rms_norm"),
    "float16 in torch.nn on the CPU": Case("layer_norm", dtype="float16"),
}
COMPLETE = pytest.mark.skipif(not all(capabilities.probed().values()), reason="this torch lacks more than one thing")


@pytest.fixture
def lacking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A torch without the capability of that name."""
    has = capabilities.has
    monkeypatch.setattr(capabilities, "has", lambda name: name != request.param and has(name))
    return str(request.param)


def test_this_torch_is_probed() -> None:
    """Nothing is asked of a torch that is new enough to have it all, and every probe gives an answer."""
    found = capabilities.probed(slow=False)
    assert set(found) == set(capabilities.PROBES) - set(capabilities.SLOW)
    if tuple(map(int, capabilities.VERSION.split(".")[:2])) >= (2, 13):
        assert all(found.values())


def test_probes_leave_no_trace() -> None:
    """The random numbers after a probe are those that would have come without it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        expected = torch.rand(1)
        torch.manual_seed(0)
        for name in set(capabilities.PROBES) - set(capabilities.SLOW):
            capabilities.has.__wrapped__(name)
        assert torch.equal(torch.rand(1), expected)


def test_an_unknown_capability_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="wings"):
        capabilities.has("wings")


@COMPLETE
@pytest.mark.parametrize(("lacking", "case"), NEEDS.items(), ids=NEEDS, indirect=["lacking"])
def test_what_torch_lacks_is_not_supported(lacking: str, case: Case) -> None:
    """With torch as the subject the case is refused with the name; plainer cases are not."""
    expected = f"{lacking}: not supported by torch {torch.__version__.partition('+')[0]}"
    for name in ("torch", "torch-fast"):
        assert load(name).refusal(case.but(mode="eval")) == expected
    assert load("handmade").refusal(case) is None
    with pytest.raises(Unsupported, match="not supported by torch"):
        capabilities.require(*capabilities.of_torch(case))


@COMPLETE
@pytest.mark.parametrize(("lacking", "case"), NEEDS.items(), ids=NEEDS, indirect=["lacking"])
def test_a_torch_that_lacks_it_is_no_yardstick(lacking: str, case: Case) -> None:
    """The handmade model is held against the oracle alone."""
    with mock.patch.dict("conformance.runs._WITNESSES", clear=True):
        found: Any = witnesses(make_inputs(case), {}) if case.component == "attention" else _run(case)
        assert found.alone
        assert found.reference is None


def _run(case: Case) -> Witnesses:
    return load("handmade").runs.of(case).witnesses


@pytest.mark.parametrize("lacking", ["float16 arithmetic on the CPU"], indirect=True)
def test_arithmetic_that_torch_lacks(lacking: str) -> None:
    """Without arithmetic in a dtype nobody can be asked."""
    clause = load_all()["SHAPE-01"]
    case = next(case for case in clause.cases if case.dtype == "float16")
    for name in ("handmade", "torch"):
        outcome = evaluate(Trial(load(name), case, clause))
        assert outcome.verdict is Verdict.NOT_SUPPORTED
        assert outcome.message.startswith(f"{lacking}: not supported by torch ")
