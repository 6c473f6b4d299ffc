"""GROUP: query heads that share keys and values, and attention with a single head."""

from typing import Any

import torch
from torch import nn

from .arguments import array
from .bad_calls import BadCall, change
from .cases.case import Case
from .clauses import MEASURED, MUST, PAPER, clause
from .inputs import Inputs
from .test_error import require_refused_calls, require_refused_options
from .trial import Trial

AINSLIE = "Ainslie et al. 2023, section 2.2"
DTYPES = ("float64", "float32", "bfloat16", "float16")
SQUARE: dict[str, Any] = {"target": 7, "source": 7}
GROUPED = [Case("grouped_query_attention", heads=4, key_heads=groups, **SQUARE) for groups in (4, 2, 1)]
ONE: dict[str, Any] = {"heads": 1, "head_dim": 12, **SQUARE}
MASKS: tuple[dict[str, Any], ...] = (
    {"attn_mask": "bool"}, {"attn_mask": "float"}, {"attn_mask": "float3d", "key_padding_mask": "right"},
    {"attn_mask": "bool3d"}, {"key_padding_mask": "holes"}, {"attn_mask": "causal", "key_padding_mask": "float"},
    {"attn_mask": "dead"},
)  # fmt: skip
TURNED = [case.but(rotary=True, interleaved=pairs) for case in GROUPED[1:] for pairs in (True, False)]


@clause("GROUP-01", MUST, AINSLIE, [
    *GROUPED, *(GROUPED[1].but(**mask) for mask in MASKS), *TURNED, TURNED[0].but(first=9, base=100.0),
    *(case.but(is_causal=True, **padding) for case in (GROUPED[2], TURNED[1]) for padding in ({}, {"key_padding_mask": "right"})),
    *(TURNED[0].but(dtype=dtype, attn_mask="bool") for dtype in DTYPES[1:]), GROUPED[1].but(bias=False, mode="eval"),
    Case("grouped_query_attention", heads=6, key_heads=3, head_dim=2, target=33, source=33, batch=1),
])  # fmt: skip
def test_grouped(trial: Trial) -> None:
    """Consecutive query heads read the keys and values of their group, turned by position where that is asked for."""
    trial.compare_all()


def like_multihead(trial: Trial, module: nn.Module) -> nn.Module:
    """The subject's multi-head attention that does the same: each group's projections, once for each of its heads."""
    case = trial.case
    attention = trial.names.MultiheadAttention(case.d_model, case.heads, batch_first=True, dtype=torch.float64)
    times = case.heads // module.num_kv_heads  # type: ignore[operator]
    parts = [module.q_proj, module.k_proj, module.v_proj]
    whole = {}
    for kind in ("weight", "bias"):
        spread = [
            value if part is module.q_proj else value.unflatten(0, (-1, case.head_dim)).repeat_interleave(times, 0).flatten(0, 1)
            for part in parts
            for value in [getattr(part, kind)]
        ]  # fmt: skip
        whole[f"in_proj_{kind}"] = torch.cat(spread)
        whole[f"out_proj.{kind}"] = getattr(module.out_proj, kind)
    attention.load_state_dict(whole, strict=True)
    return attention


@clause("GROUP-02", MUST, AINSLIE, [case.but(**mask) for case in GROUPED for mask in ({}, *MASKS)])
def test_repeated(trial: Trial) -> None:
    """It equals multi-head attention whose key and value heads are repeated: itself with as many groups as heads."""
    module, given = trial.torch_module(), trial.call_arguments()
    attention, x = like_multihead(trial, module), given["x"]
    masks = {name: given[name] for name in ("attn_mask", "key_padding_mask") if name in given}
    trial.require_same("output", array(module(**given)), array(attention(x, x, x, need_weights=False, **masks)[0]))


@clause("GROUP-03", MUST, AINSLIE, GROUPED)
def test_fewer_keys(trial: Trial) -> None:
    """Keys and values have num_kv_heads heads and no more: a single one is multi-query attention."""
    module, case = trial.torch_module(), trial.case
    for name in ("k_proj", "v_proj"):
        found = tuple(getattr(module, name).weight.shape)
        expected = ((case.key_heads or case.heads) * case.head_dim, case.d_model)
        trial.require(found == expected, f"{name}: expected a matrix of {expected}, got {found}")


@clause("GROUP-04", MUST, "Su et al. 2021, equation 11", TURNED)
def test_distance(trial: Trial) -> None:
    """With rotary codes only distances count: the output does not depend on where the sequence begins."""
    module, given = trial.torch_module(), trial.call_arguments()
    apart = module(**{**given, "offset": given["offset"] + 40})
    trial.require_same("output forty places on", array(apart), array(module(**given)))
    plain = trial.instance(rotary=False).module
    trial.require(trial.apart(array(plain(**given)), array(module(**given))) != "", "expected the rotation to matter")


@clause("GROUP-05", MUST, f"{PAPER}, section 3.2.1", [
    Case("self_attention", **ONE), *(Case("self_attention", **ONE, **mask) for mask in MASKS),
    *(Case("self_attention", dtype=dtype, **ONE) for dtype in DTYPES[1:]), Case("self_attention", bias=False, **ONE),
    Case("self_attention", heads=1, head_dim=1), Case("self_attention", heads=1, head_dim=5, target=1, source=1, mode="eval"),
])  # fmt: skip
def test_single(trial: Trial) -> None:
    """Single-head self-attention projects three times, scales by the root of the width, and projects no more after it."""
    trial.compare_all()


@clause("GROUP-06", MUST, PAPER, [Case("self_attention", **ONE, **mask) for mask in ({}, *MASKS)])
def test_single_weights(trial: Trial) -> None:
    """Asked for, it returns its weights as well: they are multi-head attention's with one head, as the context is."""
    module, given = trial.torch_module(), trial.call_arguments()
    attention = trial.names.MultiheadAttention(trial.case.d_model, 1, batch_first=True, dtype=torch.float64)
    parts = [getattr(module, f"W_{name}") for name in "qkv"]
    state = {f"in_proj_{kind}": torch.cat([getattr(part, kind) for part in parts]) for kind in ("weight", "bias")}
    identity = torch.eye(trial.case.d_model, dtype=torch.float64)
    attention.load_state_dict({**state, "out_proj.weight": identity, "out_proj.bias": torch.zeros_like(identity[0])})
    x, masks = given["x"], {name: mask for name, mask in given.items() if name != "x"}
    context, weights = module(**given, need_weights=True)
    expected = attention(x, x, x, **masks)
    trial.require_same("context", array(context), array(expected[0]))
    trial.require_same("weights", array(weights), array(expected[1]))
    trial.require_same("context without weights", array(module(**given)), array(context))


@clause("GROUP-07", MUST, MEASURED, [
    case.but(key_padding_mask=kind, mode=mode)
    for case in (GROUPED[1], TURNED[0], Case("self_attention", **ONE)) for kind in ("right", "holes") for mode in ("train", "eval")
])  # fmt: skip
def test_padding_content(trial: Trial) -> None:
    """What stands at padded positions does not reach the others, be it NaN."""
    real = trial.inputs.real
    poisoned = trial.inputs.with_tensor("x", trial.inputs.tensors["x"].copy())
    poisoned.tensors["x"][~real] = float("nan")
    found, expected = (observed(trial, inputs)[real] for inputs in (poisoned, trial.inputs))
    trial.require_same("output at real positions", found, expected)


def observed(trial: Trial, inputs: Inputs) -> Any:
    """The output on some inputs."""
    return trial.observe(inputs).output


@clause("GROUP-08", MUST, MEASURED, [GROUPED[1], Case("self_attention", **ONE)])
def test_bad_calls(trial: Trial) -> None:
    """Tensors without a batch are refused, other features and dtypes, and masks of another size or kind."""
    require_refused_calls(
        trial,
        lambda case, given: [
            BadCall("no batch", ("x",), {"x": given["x"][0]}),
            BadCall("fewer features", ("x",), {"x": given["x"][..., :-1]}),
            BadCall("another dtype", ("x",), {"x": given["x"].float()}),
            change("attn_mask", torch.zeros(3, 3, dtype=torch.bool)),
            change("attn_mask", torch.zeros(case.target, case.target, dtype=torch.long)),
            change("key_padding_mask", torch.zeros(case.target, dtype=torch.bool)),
            *([BadCall("a mask beside is_causal", ("attn_mask",),
                       {"attn_mask": torch.zeros(case.target, case.target, dtype=torch.bool), "is_causal": True}),
               change("offset", -1)] if case.component == "grouped_query_attention" else []),
        ],
    )  # fmt: skip


@clause("GROUP-09", MUST, MEASURED, [GROUPED[1]])
def test_bad_options(trial: Trial) -> None:
    """Heads that do not divide the features are refused, groups that do not divide the heads, and odd heads to turn."""
    bad = [
        change("num_heads", 5, "d_model"),
        change("num_heads", 0),
        change("num_kv_heads", 3, "num_heads"),
        change("num_kv_heads", 8, "num_heads"),
        change("num_kv_heads", 0),
        BadCall("rotary with an odd head", ("head_dim",), {"num_heads": 16, "rotary": True}),
    ]
    require_refused_options(trial, lambda _: bad)
