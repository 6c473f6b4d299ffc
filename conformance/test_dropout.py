"""DROPOUT: where dropout acts, and how much it drops."""

import itertools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from . import dropout_sites as sites
from .arguments import array
from .cases.case import Case
from .cases.select import MODULES, each
from .clauses import DOCS, MEASURED, MUST, PAPER, clause
from .dropout_sites import LAST_BIAS, SCALE, Kept, P, require_independent, require_rate
from .trial import Trial

# Large enough for the counts to say something; odd where a count needs it.
SIZES = {"heads": 4, "head_dim": 16, "dim_feedforward": 33, "batch": 4, "target": 15, "source": 17}
LARGE: dict[str, Any] = {**SIZES, "activation": "gelu"}
LAYERS = [
    case.but(batch_first=first) for case in each("encoder_layer", "decoder_layer", **LARGE) for first in (True, False)
]
DECODER_LAYERS = [case for case in LAYERS if case.component == "decoder_layer"]
STACKS = each("encoder", "decoder", **LARGE)
HEADS = [
    Case("multihead_attention", average_attn_weights=False, key_padding_mask=padding, **LARGE)
    for padding in ("none", "right")
]
SDPA = [
    Case("attention", mode=mode, attn_mask=mask, **LARGE) for mode in ("train", "eval") for mask in ("none", "bool")
]


@clause("DROPOUT-01", MUST, DOCS, each(*MODULES, mode="eval"))
def test_eval(trial: Trial) -> None:
    """In eval mode no dropout acts, whatever its probability, 1 included."""
    expected = _output(trial, 0.0)
    for p in (0.1, 0.5, 1.0):
        trial.require_same(f"output with dropout={p}", _output(trial, p), expected)


@clause("DROPOUT-02", MUST, DOCS, each(*MODULES))
def test_probability_zero(trial: Trial) -> None:
    """With probability 0 the output in train mode is that in eval mode."""
    expected = array(_first(trial.torch_module().eval()(**trial.call_arguments())))
    trial.require_same("output in train mode", _output(trial, 0.0), expected)


@clause("DROPOUT-03", MUST, DOCS, each("encoder_layer", "decoder_layer", "encoder", "decoder"))
def test_probability_one(trial: Trial) -> None:
    """With probability 1 the branches are 0, their biases included, and the residual alone is left."""
    module = sites.without_norms(trial.torch_module(dropout=1.0))
    arguments = trial.call_arguments()
    residual = arguments["tgt" if "tgt" in arguments else "src"]
    trial.require_same("output without norms", array(module(**arguments)), array(residual))


@clause("DROPOUT-04", MUST, DOCS, HEADS)
def test_returned_weights(trial: Trial) -> None:
    """The returned weights are those after dropout: each is 0, or the softmax's divided by 1 − p."""
    require_rate(trial, _kept_weights(trial))


@clause("DROPOUT-05", MUST, MEASURED, HEADS)
def test_weights_in_use(trial: Trial) -> None:
    """The output is made of the very weights that are returned, dropout included."""
    module: Any = trial.torch_module(dropout=P)
    arguments, case = trial.call_arguments(), trial.case
    with sites.seeded(case):
        output, weights = module(**arguments)
    own = slice(2 * case.d_model, None)
    values = F.linear(arguments["value"], module.in_proj_weight[own], module.in_proj_bias[own])
    context = weights @ values.unflatten(-1, (case.heads, -1)).transpose(1, 2)
    trial.require_same("output", array(output), array(module.out_proj(context.transpose(1, 2).flatten(2))))


@clause("DROPOUT-06", MUST, DOCS, LAYERS)
def test_self_attention_weights(trial: Trial) -> None:
    """A layer drops its self-attention's weights with probability p and divides the kept ones by 1 − p."""
    require_rate(trial, sites.inside(trial, "self_attn"))


@clause("DROPOUT-07", MUST, DOCS, DECODER_LAYERS)
def test_cross_attention_weights(trial: Trial) -> None:
    """A decoder layer drops the weights of its attention to the memory in the same way."""
    require_rate(trial, sites.inside(trial, "multihead_attn"))


@clause("DROPOUT-08", MUST, DOCS, LAYERS)
def test_inside_feed_forward(trial: Trial) -> None:
    """Inside the feed-forward network dropout acts after the activation, on its hidden features."""
    require_rate(trial, sites.inside(trial, "linear2"))


@clause("DROPOUT-09", MUST, PAPER + ", section 5.4", LAYERS)
def test_after_self_attention(trial: Trial) -> None:
    """Dropout acts on the self-attention's output, bias included, before it is added, and not on the residual."""
    require_rate(trial, sites.after_branches(trial, "self_attn")["self_attn"])


@clause("DROPOUT-10", MUST, PAPER + ", section 5.4", DECODER_LAYERS)
def test_after_cross_attention(trial: Trial) -> None:
    """Dropout acts on the output of the attention to the memory in the same way."""
    require_rate(trial, sites.after_branches(trial, "multihead_attn")["multihead_attn"])


@clause("DROPOUT-11", MUST, PAPER + ", section 5.4", LAYERS)
def test_after_feed_forward(trial: Trial) -> None:
    """Dropout acts on the feed-forward network's output in the same way."""
    require_rate(trial, sites.after_branches(trial, "linear2")["linear2"])


@clause("DROPOUT-12", MUST, DOCS, LAYERS)
def test_independent_elements(trial: Trial) -> None:
    """After a branch each batch item, position and feature is drawn for itself."""
    for name, kept in sites.after_branches(trial).items():
        sites.require_independent_along_axes(trial, name, kept)


@clause("DROPOUT-13", MUST, DOCS, [*HEADS[:1], *LAYERS])
def test_independent_weights(trial: Trial) -> None:
    """Inside, each batch item, position, head, key and hidden feature is drawn for itself."""
    if trial.case.component == "multihead_attention":
        sites.require_independent_along_axes(trial, "weights", _kept_weights(trial))
        return
    for branch in LAST_BIAS if trial.case.component == "decoder_layer" else ("self_attn", "linear2"):
        sites.require_independent_along_axes(trial, f"inside {branch}", sites.inside(trial, branch))


@clause("DROPOUT-14", MUST, DOCS, LAYERS + STACKS)
def test_independent_branches(trial: Trial) -> None:
    """Each branch of each layer draws for itself."""
    kept = sites.after_branches(trial)
    for one, other in itertools.combinations(kept, 2):
        require_independent(trial, f"{one} and {other}", kept[one].counts, kept[other].counts)


@clause("DROPOUT-15", MUST, DOCS, LAYERS)
def test_independent_calls(trial: Trial) -> None:
    """Each call draws anew."""
    module = sites.silent(trial)
    sites.fill(module, LAST_BIAS["linear2"], 1.0)
    with sites.seeded(trial.case):
        first, second = (array(module(**trial.call_arguments())) for _ in range(2))
    same = first == second
    require_independent(trial, "two calls", same, np.ones_like(same))


@clause("DROPOUT-16", MUST, DOCS, LAYERS)
def test_gradient(trial: Trial) -> None:
    """The gradient passes through the kept elements, scaled as they were, and through the residual whole."""
    module: Any = sites.silent(trial)
    sites.fill(module, LAST_BIAS["linear2"], 1.0)
    arguments = trial.call_arguments(gradient=True)
    residual = arguments["tgt" if "tgt" in arguments else "src"]
    with sites.seeded(trial.case):
        output = module(**arguments)
    output.sum().backward()
    trial.require_same("gradient of the bias", array(module.linear2.bias.grad), array((output - residual).sum((0, 1))))
    trial.require_same("gradient of the residual", array(residual.grad), array(torch.ones_like(residual)))


@clause("DROPOUT-17", MUST, DOCS, SDPA)
def test_attention_function(trial: Trial) -> None:
    """scaled_dot_product_attention applies dropout_p to its weights always: it knows no mode."""
    case = trial.case
    identity = np.eye(case.source) + np.zeros((*trial.inputs.tensors["value"].shape[:-1], 1))
    arguments = trial.call_arguments(trial.inputs.with_tensor("value", identity))
    module = trial.torch_module()
    with sites.seeded(case):
        dropped = module(**arguments, dropout_p=P)
    require_rate(trial, _kept(trial, array(dropped), array(module(**arguments))))


def _first(returned: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return returned[0] if isinstance(returned, tuple) else returned


def _output(trial: Trial, p: float) -> np.ndarray:
    return array(_first(trial.torch_module(dropout=p)(**trial.call_arguments())))


def _kept(trial: Trial, dropped: np.ndarray, weights: np.ndarray) -> Kept:
    """Which of the visible weights were kept; all have been left or scaled exactly."""
    kept = dropped > weights / 2
    trial.require_same("weights", dropped, np.where(kept, weights * SCALE, 0.0))
    return Kept(kept if (weights > 0).all() else kept[weights > 0])


def _kept_weights(trial: Trial) -> Kept:
    with sites.seeded(trial.case):
        _, dropped = trial.torch_module(dropout=P)(**trial.call_arguments())
    _, weights = trial.torch_module()(**trial.call_arguments())
    return _kept(trial, array(dropped), array(weights))
