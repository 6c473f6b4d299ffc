"""The cases: how many, how they cover, and that every one is read."""

import dataclasses
import itertools

import pytest

from conformance.cases.case import Case
from conformance.cases.components import TRANSFORMER
from conformance.cases.covering import cover
from conformance.cases.grid import BUILD, HEADS, LENGTHS, SIZES, STACKED, feasible, grid
from conformance.cases.masks import ATTENTION_KINDS, PADDING_KINDS
from conformance.clauses import load_all
from conformance.inputs import make_inputs

CPU = [case for case in grid() if case.device == "cpu"]
ROLE = {
    "encoder_layer": ("src_mask", "src_key_padding_mask"),
    "encoder": ("src_mask", "src_key_padding_mask"),
    "decoder_layer": ("tgt_mask", "tgt_key_padding_mask"),
    "decoder": ("tgt_mask", "tgt_key_padding_mask"),
    "transformer": ("tgt_mask", "tgt_key_padding_mask"),
    "multihead_attention": ("attn_mask", "key_padding_mask"),
}


def test_two_thousand_distinct_configurations() -> None:
    """Distinct in component, options, masks, mode or sizes: neither dtype nor seed counts."""
    assert len({case.but(dtype="float64").id for case in CPU}) >= 2000


def test_ids_are_unique() -> None:
    """An id names one case, on every machine and in every order."""
    assert len({case.id for case in grid()}) == len(grid())
    assert (
        Case("encoder_layer", norm_first=True, dtype="float32", batch=None).id
        == "encoder_layer-norm_first-float32-unbatched"
    )


def test_seed_is_the_id() -> None:
    """Equal ids draw equal numbers; another id draws others."""
    case = Case("layer_norm")
    assert case.rng("x").random() == Case("layer_norm").rng("x").random()
    assert case.rng("x").random() != case.rng("y").random()
    assert case.rng("x").random() != Case("layer_norm", batch=3).rng("x").random()


def test_the_numbers_do_not_change() -> None:
    """The first number of a case is part of what makes two reports comparable."""
    assert Case("layer_norm").rng("input").normal() == pytest.approx(0.070639, abs=1e-6)


@pytest.mark.parametrize("component", ROLE)
def test_triples(component: str) -> None:
    """All of (norm_first, attention mask, padding mask, mode) occur together, counted without the generator."""
    mask, padding = ROLE[component]
    found = {(c.norm_first, getattr(c, mask), getattr(c, padding), c.mode) for c in CPU if c.component == component}
    norms = (False, True) if component != "multihead_attention" else (False,)
    wanted = set(itertools.product(norms, ATTENTION_KINDS, PADDING_KINDS, ("train", "eval")))
    possible = {one for one in wanted if feasible({mask: one[1], padding: one[2]})}
    assert possible <= found


@pytest.mark.parametrize("component", TRANSFORMER)
def test_pairs(component: str) -> None:
    """Every feasible pair of option values of a component occurs, counted without the generator."""
    factors = {**BUILD, "sizes": SIZES, "lengths": LENGTHS, "norms": [{"norm_first": v} for v in (False, True)]}
    if component in ("encoder", "decoder"):
        factors.update(STACKED)
    if component in ("encoder_layer", "encoder"):
        del factors["lengths"]
    if component == "multihead_attention":
        factors = dict(HEADS)
    if component in ("attention", "layer_norm"):
        factors = {"magnitude": BUILD["magnitude"], "layout": BUILD["layout"]}
    for attention in TRANSFORMER[component].attentions if component not in ("attention",) else ():
        factors[attention.mask] = [{attention.mask: kind} for kind in ATTENTION_KINDS]
        if attention.padding:
            factors[attention.padding] = [{attention.padding: kind} for kind in PADDING_KINDS]
    cases = [case for case in CPU if case.component == component]
    missing = []
    for (_, first), (_, second) in itertools.combinations(factors.items(), 2):
        for a, b in itertools.product(first, second):
            wanted = {**a, **b}
            if any(a.get(field, value) != value for field, value in b.items()) or not feasible(wanted):
                continue
            if not any(all(getattr(case, field) == value for field, value in wanted.items()) for case in cases):
                missing.append(wanted)
    assert not missing


def test_cover_keeps_what_is_feasible() -> None:
    """With a forbidden combination all other pairs are still there, and the forbidden one is not."""
    factors = {name: [{name: value} for value in range(3)] for name in "abcd"}
    rows = cover({"a": factors["a"]}, factors, lambda row: not (row.get("b") == 1 and row.get("c") == 2))
    pairs = {frozenset([(x, row[x]), (y, row[y])]) for row in rows for x, y in itertools.combinations("abcd", 2)}
    assert len(pairs) == 6 * 9 - 1
    assert frozenset([("b", 1), ("c", 2)]) not in pairs


def test_every_case_is_read() -> None:
    """Each case of the grid has its output compared and all its gradients."""
    clauses = load_all()
    comparing = [c for c in clauses.values() if "compare_output" in c.check.__code__.co_names]
    outputs = {case for clause in comparing for case in clause.cases}
    assert not [case.id for case in grid() if case not in outputs]
    assert set(grid()) <= set(clauses["GRAD-01"].cases)
    parameters = {case for case in grid() if case.component != "attention" and case.elementwise_affine}
    assert parameters <= set(clauses["GRAD-02"].cases)


def test_dimensions_differ() -> None:
    """By default no two sizes are equal, so that no axis can stand in for another."""
    case = Case("transformer")
    sizes = [case.batch, case.target, case.source, case.heads, case.head_dim, case.dim_feedforward, case.d_model]
    assert len(set(sizes)) == len(sizes)


def test_padding_and_masks_leave_every_real_row_a_key() -> None:
    """In the grid no real row is dead: those have a chapter of their own."""
    for case in CPU[::7]:
        inputs = make_inputs(case)
        assert (inputs.live | ~inputs.real).all(), case.id


def test_every_field_is_an_option_of_some_case() -> None:
    """No field of a case is left at its default everywhere."""
    cases = [case for clause in load_all().values() for case in clause.cases]
    for field in dataclasses.fields(Case):
        assert len({getattr(case, field.name) for case in cases}) > 1, field.name
