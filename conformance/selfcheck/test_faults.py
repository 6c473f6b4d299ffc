"""The suite is sharp: every known fault of a hand-built Transformer is caught by the clauses that are about it."""

import contextlib
import pkgutil

import pytest

from conformance.cases.components import COMPONENTS
from conformance.clauses import CHAPTERS
from conformance.selfcheck.faults import EQUIVALENT, FAULTS, NOTHING, Fault
from conformance.selfcheck.faults.catching import PASSED, Faulty, cases, specification

# What a hand-built Transformer gets wrong, collected from public ones: all of it is a fault here, or equivalent.
KNOWN = """
no scaling · scaling by sqrt(d_model) · softmax over queries · mask added before scaling · boolean mask inverted ·
boolean mask filled with -1e4 · boolean mask filled with -1e9 · float mask treated as boolean · causal mask off by one ·
causal triangle aligned lower-right · is_causal ignored · scores in float16 ·
dead row gives NaN gradient for live rows · src mask ignored · tgt mask ignored · memory mask ignored ·
src padding mask ignored · tgt padding mask ignored · memory padding mask ignored ·
memory padding mask replaced by the source's · padding mask of batch item 0 used for all ·
padding mask hides queries instead of keys · attn and padding mask merged by AND · 3-D mask indexed heads-first ·
the caller's mask modified in place · is_causal hint ignored · is_causal hides a given mask · heads interleaved ·
heads reshaped without transposing · q and k swapped · k and v swapped in cross-attention ·
cross-attention queries from memory · in-projection order q, v, k · qkv bias ignored · out-projection bias ignored ·
out-projection bias added twice · kdim/vdim projections swapped · bias_k/bias_v appended at the front ·
zero attention before bias · keys viewed with the query's length · weights summed over the heads ·
weights before dropout · weights averaged over the wrong axis · pre-norm as post-norm · post-norm as pre-norm ·
residual from the normalised input · residual of the feed-forward missing · norm2 and norm3 of the decoder swapped ·
norm1 and norm2 swapped · eps 1e-6 instead of 1e-5 in one norm only · unbiased variance · eps added to the standard deviation ·
affine ignored · bias of the norm ignored · final norm of the encoder missing · final norm of the decoder missing ·
final norm missing in pre-norm only · superfluous final norm · no activation · GELU as ReLU · tanh GELU for exact GELU ·
bias of the feed-forward ignored · all encoder layers share the first one's weights ·
all decoder layers share the first one's weights · memory taken before the encoder's final norm ·
deepcopy shares a sub-module · dropout on the residual · scale 1/(1-p) missing · dropout active in eval ·
dropout left at 0.1 when 0 was asked · attention dropout missing · gradient through k stopped ·
gradient through memory stopped · bias gradient doubled · additive mask's gradient dropped ·
softmax in float32 inside a float64 model · a float32 scale constant · batch_first ignored for memory ·
unbatched padding mask ignored · wrong for non-contiguous inputs · result depends on the batch's other items ·
softmax shifted by the largest score of the batch · noise of 1e-7 · an extra persistent buffer ·
parameters in another order · a parameter renamed · initialisation differs for the same seed ·
mask that begins as a causal one taken for it · memory_is_causal replaces the memory mask ·
floating padding of -inf replaced by -1e30 · boolean mask beside a floating one filled with the least number ·
boolean mask beside a floating one filled with -1e4 · large negative numbers in a mask taken for -inf ·
grouped heads interleaved · heads beyond the fourth ignored · layers beyond the third skipped ·
derivative of ReLU at 0 is 1 · ReLU turns NaN into 0 · variance in one pass · keys beyond the 512th ignored ·
NaN and infinity turned into numbers · NaN scores taken for hidden · exponentials of the bare scores ·
last key of a block left out · mask of a block left out · sums forgotten in backward · delta from another row ·
every score called small ·
cache not reordered in beam search · reordered cache shares memory · position off by one with the cache ·
cross keys of the first item for all · memory padding ignored by the cache ·
causal mask of a piece at the upper left · hidden positions forgotten ·
last position lost when the cache grows · cache in float32 · length penalty inverted · end token ignored ·
min_length off by one · no padding behind the end · prompts padded on the left for the model ·
top-p drops the token that crosses p · top-k keeps one too many · temperature inverted ·
first row's generator for all · probabilities of draws squared ·
padding row trained · embedding without its scale · positions counted from 1 ·
sine and cosine of different wavelengths · all sines before all cosines · rotation the other way ·
pairing of the rotation ignored · offset of the rotation ignored · angles in float32 · RMSNorm subtracts the mean ·
eps of RMSNorm outside the root · scale of RMSNorm ignored · gate and branch swapped ·
gate of a logistic function alone · gates not renormalised · second choices ignored · capacity ignored ·
late tokens first · load-balancing loss without the number of experts · gradient of the load-balancing loss stopped ·
groups of queries interleaved · groups cut out of every so manieth feature ·
queries and keys of the single head swapped · smoothing spread over the other classes ·
mean over ignored positions as well · exponentials of the bare logits
"""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught(fault: Fault) -> None:
    """Each clause that a fault declares catches it, on a case that the model without it and torch pass."""
    faulty = Faulty(fault)
    missed = [id for id in fault.clauses if faulty.caught_by(specification()[id]) is None]
    assert not missed, f"{fault.name}: {fault.wrong} Not caught by {', '.join(missed)}"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_wrong_passes(chapter: str) -> None:
    """The machinery of the faults, with nothing wrong, passes every clause."""
    unchanged = Faulty(NOTHING)
    clauses = [clause for clause in specification().values() if clause.chapter == chapter]
    pairs = [(clause, case) for clause in clauses for case in cases(clause, COMPONENTS, limit=2)]
    failed = {
        (clause.id, case.id): outcome.message
        for clause, case in pairs
        if (outcome := unchanged.outcome(clause, case)).verdict not in PASSED
    }
    assert pairs
    assert not failed


def test_all_known_faults_are_here() -> None:
    """Each known fault is a fault or equivalent to the model with a reason, and nothing is both or twice."""
    names = [*(fault.name for fault in FAULTS), *EQUIVALENT]
    assert len(names) == len(set(names))
    assert set(names) == set(" ".join(KNOWN.split()).split(" · "))
    assert all(EQUIVALENT.values())


def test_declarations() -> None:
    """Every fault declares clauses that exist, components that exist, and changes something in the handmade model."""
    for fault in FAULTS:
        assert fault.clauses, fault.name
        assert not set(fault.clauses) - set(specification()), fault.name
        assert not set(fault.components) - set(COMPONENTS), fault.name
        assert fault.changes, fault.name


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_nothing_is_left_behind(fault: Fault) -> None:
    """A fault changes what it says, and is gone after its use, even where the model under it raised."""

    def seams() -> list[object]:
        return [pkgutil.resolve_name(seam) for seam in NOTHING.changes]

    before = seams()
    with contextlib.suppress(KeyError), fault.applied():
        changed = sum(one is not other for one, other in zip(seams(), before, strict=True))
        assert changed == len(fault.changes)
        raise KeyError
    assert all(one is other for one, other in zip(seams(), before, strict=True))


def test_only_the_handmade_model_is_changed() -> None:
    """A seam outside the handmade model is refused, so neither torch nor the oracle can become faulty."""
    with pytest.raises(ValueError, match="expected a seam in handmade, got torch"):
        Fault("elsewhere", "", (), {"torch.nn.functional.linear": lambda right: right}).applied().__enter__()
