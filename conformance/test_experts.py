"""EXPERT: mixtures of experts."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import init

from .arguments import array
from .bad_calls import BadCall, change
from .cases.case import Case
from .cases.select import each
from .clauses import MEASURED, MUST, clause
from .test_error import require_refused_calls, require_refused_options
from .trial import Trial

SHAZEER = "Shazeer et al. 2017, section 2"
FEDUS = "Fedus et al. 2021, section 2.2"
LEPIKHIN = "Lepikhin et al. 2020, algorithm 1"
CHOICES = [Case("mixture_of_experts", top_k=top_k, renormalize=whole) for top_k in (1, 2, 4) for whole in (True, False)]
TIGHT = [
    Case("mixture_of_experts", top_k=top_k, capacity_factor=factor, target=9)
    for top_k in (1, 2)
    for factor in (0.25, 1.0, 4.0)
]


@clause("EXPERT-01", MUST, SHAZEER, [
    *CHOICES, Case("mixture_of_experts", experts=1, top_k=1), Case("mixture_of_experts", experts=8, top_k=3, batch=3, target=17),
    Case("mixture_of_experts", bias=False, activation="gelu"), Case("mixture_of_experts", mode="eval", activation="silu"),
    Case("mixture_of_experts", batch=1, target=1),
    *(Case("mixture_of_experts", dtype=dtype, activation="gelu") for dtype in ("float32", "bfloat16", "float16")),
])  # fmt: skip
def test_values(trial: Trial) -> None:
    """Each token goes through its k most probable experts, weighted by their probabilities, which sum to 1 if asked."""
    trial.compare_all()


@clause("EXPERT-02", MUST, SHAZEER, CHOICES)
def test_dense(trial: Trial) -> None:
    """The mixture equals the loop that sends every token through every expert, outputs and gradients."""
    trial.require_gradients()
    module, given = trial.torch_module(), trial.call_arguments(gradient=True)
    leaves = {"x": given["x"], **dict(module.named_parameters())}
    along = torch.from_numpy(trial.inputs.cotangents[0])
    sparse, dense = module(**given)[0], every_expert(module, given["x"], trial.case)
    trial.require_same("output", array(sparse), array(dense))
    found, expected = (
        torch.autograd.grad(made, list(leaves.values()), along, allow_unused=True) for made in (sparse, dense)
    )
    for name, mine, theirs in zip(leaves, found, expected, strict=True):
        if theirs is not None and float(theirs.abs().max()) > 1e-12:
            trial.require_same(f"gradient of {name}", None if mine is None else array(mine), array(theirs))


def every_expert(module: Any, x: Tensor, case: Case) -> Tensor:
    """The mixture by its definition: all experts on all tokens, with weight 0 for those that are not chosen."""
    likely = module.router(x).softmax(-1)
    least = likely.topk(case.top_k).values[..., -1:]
    weights = torch.where(likely >= least, likely, 0)
    weights = weights / weights.sum(-1, keepdim=True) if case.renormalize else weights
    outputs = torch.stack([expert(x) for expert in module.experts], dim=-1)
    return (outputs * weights.unsqueeze(-2)).sum(-1)


@clause("EXPERT-03", MUST, SHAZEER, [case for case in CHOICES if case.renormalize])
def test_one_opinion(trial: Trial) -> None:
    """Weights of the chosen experts sum to 1: where all experts are alike, the mixture is one of them."""
    module, given = trial.torch_module(), trial.call_arguments()
    for expert in module.experts[1:]:
        expert.load_state_dict(module.experts[0].state_dict())
    trial.require_same("output", array(module(**given)[0]), array(module.experts[0](given["x"])))


@clause("EXPERT-04", MUST, LEPIKHIN, TIGHT)
def test_capacity(trial: Trial) -> None:
    """With a capacity factor an expert takes no more than its share, and what is dropped contributes nothing."""
    trial.compare_all()
    trial.compare_second("load-balancing loss")


@clause("EXPERT-05", MUST, LEPIKHIN, [case for case in TIGHT if case.top_k == 1])
def test_dropped(trial: Trial) -> None:
    """Where all tokens want one expert, the first ⌈c·k·T/E⌉ of them get it and the others come out as 0."""
    module, given = trial.torch_module(), trial.call_arguments()
    init.zeros_(module.router.weight)
    made = array(module(**given)[0]).reshape(-1, trial.case.d_model)
    room = math.ceil((trial.case.capacity_factor or math.inf) * len(made) / trial.case.experts)
    trial.require(bool(made[:room].any(-1).all()), f"expected {room} tokens to get through")
    trial.require(not made[room:].any(), f"expected 0 for all tokens after the first {room}")


@clause("EXPERT-06", MUST, FEDUS, [
    *CHOICES, *(Case("mixture_of_experts", dtype=dtype, activation="gelu", top_k=1) for dtype in ("float32", "bfloat16"))
])  # fmt: skip
def test_loss(trial: Trial) -> None:
    """The load-balancing loss is E Σ f P, f the part of the choices and P the mean probability of each expert."""
    trial.compare_second("load-balancing loss")


@clause("EXPERT-07", MUST, FEDUS, CHOICES)
def test_loss_bounds(trial: Trial) -> None:
    """The loss is 1 where the probabilities are equal, and E/k where all tokens surely go the same way."""
    module, given = trial.torch_module(), trial.call_arguments()
    init.zeros_(module.router.weight)
    trial.require_same("loss when uniform", array(module(**given)[1]), array(torch.ones((), dtype=torch.float64)))
    with torch.no_grad():
        module.router.weight[: trial.case.top_k] = 1e3
    loss = module(x=torch.ones_like(given["x"]))[1]
    expected = torch.tensor(trial.case.experts / trial.case.top_k, dtype=torch.float64)
    trial.require_same("loss of one way", array(loss), array(expected))


@clause("EXPERT-08", MUST, FEDUS, [case for case in CHOICES if case.top_k == 1])
def test_router_learns(trial: Trial) -> None:
    """With one choice the output teaches the router only if its weight is the probability; the loss always does."""
    trial.require_gradients()
    module, given = trial.torch_module(), trial.call_arguments()
    output, loss = module(**given)
    by_output, by_loss = (
        torch.autograd.grad(made, module.router.weight, retain_graph=True)[0].abs().max()
        for made in ((output * output.detach()).sum(), loss)
    )
    trial.require(bool(by_loss > 1e-6), "expected a gradient of the loss in the router")
    trial.require(bool(by_output > 1e-6) is not trial.case.renormalize, f"got a gradient of {by_output:.3g}")


@clause("EXPERT-09", MUST, MEASURED, CHOICES[:4])
def test_independent(trial: Trial) -> None:
    """Without a capacity no token depends on another: any part of the batch comes out as it does in the whole."""
    module, given = trial.torch_module(), trial.call_arguments()
    whole = array(module(**given)[0])
    parts = [array(module(x=given["x"][:, place])[0]) for place in range(trial.case.target)]
    for place, part in enumerate(parts):
        trial.require_same(f"output of position {place}", part, whole[:, place])


@clause("EXPERT-10", MUST, MEASURED, each("mixture_of_experts"))
def test_refused(trial: Trial) -> None:
    """More choices than experts are refused, sizes and capacities that are not positive, and calls without a token."""
    require_refused_calls(
        trial,
        lambda _, given: [
            BadCall("fewer features", ("x",), {"x": given["x"][..., :-1]}),
            BadCall("another dtype", ("x",), {"x": given["x"].float()}),
            BadCall("no token", ("x",), {"x": given["x"][:0]}),
        ],
    )
    bad = [
        change("top_k", trial.case.experts + 1),
        change("top_k", 0),
        change("num_experts", 0, "num_experts", "top_k"),
        change("d_ff", -1),
        change("capacity_factor", 0.0),
        change("capacity_factor", "much"),
        change("activation", "swish"),
    ]
    require_refused_options(trial, lambda _: bad)
