"""Subjects of one's own: what they do decides the verdict, and what they declare never fails them."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from conformance.cases.case import Case
from conformance.clauses import SHOULD, load_all
from conformance.evaluation import Outcome, evaluate
from conformance.inputs import make_inputs
from conformance.observation import instantiate
from conformance.selfcheck.commands import listing
from conformance.subjects import Adapter, Unsupported
from conformance.subjects.call import Call
from conformance.subjects.export import torch_names
from conformance.subjects.load import load
from conformance.subjects.subject import Subject
from conformance.trial import Trial
from conformance.verdicts import Difference, Verdict

CLAUSES = load_all()
LAYER = Case("encoder_layer")


class Layer(Adapter):
    """torch's own layer, by an interface of its own."""

    def build(self, config):  # type: ignore[no-untyped-def]
        return torch.nn.TransformerEncoderLayer(
            config.d_model, config.nhead, config.dim_feedforward, 0.1, batch_first=True
        )

    def forward(self, module, call):  # type: ignore[no-untyped-def]
        return module(call.x, call.mask.attn_mask, call.mask.key_padding_mask)


class Scaled(Layer):
    def forward(self, module, call):  # type: ignore[no-untyped-def]
        return 1.001 * super().forward(module, call)


class Raises(Layer):
    def forward(self, module, call):  # type: ignore[no-untyped-def]
        raise RuntimeError("not today")


class Exits(Layer):
    def forward(self, module, call):  # type: ignore[no-untyped-def]
        sys.exit(0)


class Skips(Layer):
    def forward(self, module, call):  # type: ignore[no-untyped-def]
        pytest.skip("no need")


class Clamps(Layer):
    def forward(self, module, call):  # type: ignore[no-untyped-def]
        with torch.no_grad():
            module.linear1.weight.clamp_(-0.1, 0.1)
        return super().forward(module, call)


class NoMask(Layer):
    unsupported = ("src_mask", "src_key_padding_mask=left")


class Prefix(Layer):
    def forward(self, module, call):  # type: ignore[no-untyped-def]
        call.mask.lengths()
        return super().forward(module, call)


def check(adapter: Adapter, clause: str, case: Case) -> Outcome:
    """One clause on one case."""
    subject = Subject("mine", {adapter.component: adapter})
    adapted = subject.adapt(case)
    assert adapted is not None
    return evaluate(Trial(subject, adapted, CLAUSES[clause]))


@pytest.mark.parametrize(
    ("adapter", "case", "verdict"),
    [
        (Layer(), LAYER.but(src_mask="bool"), Verdict.CONFORMS),
        (Layer(), LAYER.but(src_mask="bool", dtype="bfloat16"), Verdict.CONFORMS),
        (Layer(), LAYER.but(batch=None), Verdict.NOT_SUPPORTED),
        (Scaled(), LAYER, Verdict.DIFFERS),
        (Raises(), LAYER, Verdict.CRASHED),
        (Exits(), LAYER, Verdict.CRASHED),
        (Skips(), LAYER, Verdict.CRASHED),
        (Clamps(), LAYER, Verdict.DIFFERS),
        (NoMask(), LAYER.but(src_mask="bool"), Verdict.NOT_SUPPORTED),
        (NoMask(), LAYER.but(src_key_padding_mask="left"), Verdict.NOT_SUPPORTED),
        (NoMask(), LAYER.but(src_key_padding_mask="right"), Verdict.CONFORMS),
        (Prefix(), LAYER.but(src_key_padding_mask="right"), Verdict.CONFORMS),
        (Prefix(), LAYER.but(src_key_padding_mask="holes"), Verdict.NOT_SUPPORTED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Adapter) else getattr(value, "id", str(value)),
)
def test_verdicts(adapter: Adapter, case: Case, verdict: Verdict) -> None:
    assert check(adapter, "VALUE-03", case).verdict is verdict


def test_changed_parameters_are_noticed() -> None:
    assert "modified: parameter linear1.weight" in check(Clamps(), "MODE-04", LAYER).message


def test_what_failed_is_said() -> None:
    assert "src" not in check(Scaled(), "VALUE-03", LAYER).message
    assert "output[" in check(Scaled(), "VALUE-03", LAYER).message
    assert "RuntimeError: not today" in check(Raises(), "VALUE-03", LAYER).message


def test_leftover_dropout_is_silenced() -> None:
    """An adapter that cannot turn torch's dropout off is still compared, and the number of them is kept."""
    assert instantiate(Layer(), LAYER).leftover_dropouts == 4


def test_an_adapter_fixes_its_options() -> None:
    """A case becomes the one with the adapter's options; several allowed values leave the others out."""
    adapter = Layer()
    assert Subject("mine", {"encoder_layer": adapter}).adapt(LAYER.but(norm_first=True, batch_first=False)) == LAYER
    assert Subject("mine", {"encoder_layer": adapter}).adapt(Case("decoder_layer")) is None
    adapter.reference = {"norm_first": {True}, "layer_norm_eps": 1e-6}  # type: ignore[misc]
    subject = Subject("mine", {"encoder_layer": adapter})
    assert subject.adapt(LAYER) is None
    assert subject.adapt(LAYER.but(norm_first=True)) == LAYER.but(norm_first=True, layer_norm_eps=1e-6)


def test_two_observations_of_one_subject() -> None:
    """They agree up to rounding: not a millionth more, not in another shape, not NaN against a number."""
    trial = Trial(Subject("mine", {"encoder_layer": Layer()}), LAYER, CLAUSES["MODE-01"])
    seen = trial.observe(gradient=True)
    x = seen.output
    assert not trial.apart(x, x)
    assert not trial.apart(x * (1 + 2**-51), x)
    assert trial.apart(x * (1 + 1e-9), x)
    assert trial.apart(x[:1], x)
    assert trial.apart(np.where(x == x.max(), np.nan, x), x)
    trial.require_same_gradients(seen, seen)
    for name, gradient in seen.gradients.items():
        moved = replace(seen, gradients={**seen.gradients, name: gradient + 1e-9})
        with pytest.raises(Difference, match=f"gradient of {name}"):
            trial.require_same_gradients(moved, seen)


@pytest.fixture
def readme_block(tmp_path: Path) -> Adapter:
    """The README's block and adapter."""
    (tmp_path / "my_block.py").write_text("\n\n".join(listing("Bring your own", "python")))
    return load(f"{tmp_path}/my_block.py:MyBlock").adapters["encoder_layer"]


def test_gradients_are_exported(readme_block: Adapter) -> None:
    """Separate projections come out packed, and their gradients are torch's."""
    for case in (
        LAYER.but(norm_first=True),
        LAYER.but(norm_first=True, src_mask="bool3d", src_key_padding_mask="holes"),
    ):
        for clause in ("GRAD-01", "GRAD-02", "VALUE-03"):
            assert check(readme_block, clause, case).verdict is Verdict.CONFORMS


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_correct_block_conforms(readme_block: Adapter, clause: str) -> None:
    """No clause of any chapter raises a false alarm on the first cases that it asks of the README's block."""
    subject = Subject("mine", {"encoder_layer": readme_block})
    for case in subject.cases(CLAUSES[clause])[:3]:
        outcome = evaluate(Trial(subject, case, CLAUSES[clause]))
        assert not outcome.verdict.fails or CLAUSES[clause].level is SHOULD, outcome.message


def test_a_clause_is_asked_of_what_it_is_about(readme_block: Adapter) -> None:
    """A block of one norm position is not credited with the other's clause, nor one with biases for having none."""
    subject = Subject("mine", {"encoder_layer": readme_block})
    assert not subject.cases(CLAUSES["NORM-02"])
    assert subject.cases(CLAUSES["NORM-03"])
    assert not subject.cases(CLAUSES["VALUE-12"])
    assert {case.layer_norm_eps for case in subject.cases(CLAUSES["NORM-04"])} == {1e-5}


def test_what_is_built_in_is_fixed() -> None:
    """A mask that an adapter fixes is in all its cases, and clauses on its absence ask nothing."""

    class Causal(Layer):
        fixed = {"src_mask": "causal", "src_key_padding_mask": {"none", "right"}}

    subject = Subject("mine", {"encoder_layer": Causal()})
    cases = subject.cases(CLAUSES["CAUSAL-01"])
    assert {case.src_mask for case in cases} == {"causal"}
    assert {case.src_key_padding_mask for case in cases} == {"none", "right"}
    assert not subject.cases(CLAUSES["VALUE-03"])
    assert not subject.cases(CLAUSES["MODE-07"])


def test_the_shape_of_an_output_is_said() -> None:
    """Weights per head where their mean was asked for are a difference, not a crash of autograd."""

    class PerHead(Adapter):
        component = "multihead_attention"

        def build(self, config):  # type: ignore[no-untyped-def]
            return torch.nn.MultiheadAttention(config.embed_dim, config.num_heads, batch_first=True)

        def forward(self, module, call):  # type: ignore[no-untyped-def]
            return module(call.x, call.memory, call.arguments["value"], average_attn_weights=False)

    outcome = check(PerHead(), "WEIGHT-01", Case("multihead_attention"))
    assert outcome.verdict is Verdict.DIFFERS
    assert "weights: expected shape (2, 5, 7), got (2, 3, 5, 7)" in outcome.message


def test_the_gradient_of_a_converted_mask(readme_block: Adapter) -> None:
    """A floating mask of 0 and −∞ that was given as a boolean one has no gradient to compare."""
    assert check(readme_block, "GRAD-03", LAYER.but(src_mask="float_causal")).verdict is Verdict.NOT_SUPPORTED


def test_roles() -> None:
    """Roles become torch's names, stacks keep their prefix, missing biases are zeros, and half an attention is refused."""
    w, b = torch.ones(4, 4), torch.ones(4)
    pair = {"layers.0.q": (w, b), "layers.0.k": (2 * w, None), "layers.0.v": (3 * w, b), "norm": (b, b)}
    named = torch_names("encoder", pair)
    assert set(named) == {
        f"{n}"
        for n in ("layers.0.self_attn.in_proj_weight", "layers.0.self_attn.in_proj_bias", "norm.weight", "norm.bias")
    }
    assert named["layers.0.self_attn.in_proj_weight"][:, 0].tolist() == [1] * 4 + [2] * 4 + [3] * 4
    assert named["layers.0.self_attn.in_proj_bias"].tolist() == [1] * 4 + [0] * 4 + [1] * 4
    assert set(torch_names("decoder_layer", {"cross_o": (w, b)})) == {
        "multihead_attn.out_proj.weight",
        "multihead_attn.out_proj.bias",
    }
    assert set(torch_names("multihead_attention", {"o": (w, None)})) == {"out_proj.weight"}
    with pytest.raises(ValueError, match="got no v"):
        torch_names("encoder_layer", {"q": (w, b), "k": (w, b)})


class TestMasks:
    """`call.mask` in the forms that callees want."""

    def call(self, **fields: object) -> Call:
        inputs = make_inputs(LAYER.but(source=4, **fields))
        arguments = {name: torch.from_numpy(value) for name, value in {**inputs.tensors, **inputs.masks}.items()}
        return Call(inputs, arguments)

    def test_keep_and_drop_are_opposites(self) -> None:
        mask = self.call(src_mask="causal", src_key_padding_mask="right").mask
        keep = mask.keep("bqs")
        assert keep.shape == (2, 4, 4)
        assert torch.equal(keep, ~mask.drop("bqs"))
        assert not keep[0, 0, 1]
        assert not keep[0, :, -1].any()
        assert torch.equal(mask.keep("b1qs")[:, 0], keep)
        assert torch.equal(mask.keep("qsb").permute(2, 0, 1), keep)

    def test_additive(self) -> None:
        mask = self.call(src_mask="float", src_key_padding_mask="right").mask
        total = mask.additive("bqs", fill=-1e9)
        assert (total[0, :, -1] <= -1e8).all()
        assert torch.allclose(total[0, 0, 0], mask.attn_mask[0, 0])

    def test_lengths(self) -> None:
        assert self.call(src_key_padding_mask="right").mask.lengths().tolist() == [3, 2]

    def test_none_unless_required(self) -> None:
        mask = self.call().mask
        assert mask.keep() is None
        assert mask.additive() is None
        assert mask.keep(required=True).all()

    @pytest.mark.parametrize(
        ("fields", "form"),
        [
            ({"src_mask": "float"}, lambda mask: mask.keep()),
            ({"src_mask": "bool3d"}, lambda mask: mask.keep("bqs")),
            ({"src_mask": "bool"}, lambda mask: mask.keep("bs")),
            ({"src_mask": "causal"}, lambda mask: mask.lengths()),
            ({"src_key_padding_mask": "left"}, lambda mask: mask.lengths()),
        ],
    )
    def test_what_a_form_cannot_say_is_not_supported(self, fields: dict[str, str], form: Callable) -> None:
        with pytest.raises(Unsupported):
            form(self.call(**fields).mask)
