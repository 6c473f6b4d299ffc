"""INIT: what the parameters are before anything is learnt."""

import hashlib
import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from . import tolerance
from .cases.case import Case
from .cases.configurations import CONFIGURATIONS
from .cases.select import NORMED, each
from .clauses import DOCS, MEASURED, MUST, PAPER, SHOULD, clause
from .modules import reference
from .trial import Trial

PRECISIONS = [case.but(dtype=dtype) for case in CONFIGURATIONS for dtype in ("float64", "float32", "bfloat16")]
ATTENTIONS = [case for case in CONFIGURATIONS if case.component != "layer_norm" and case.bias]


def seeded(make: Callable[[], Any], seed: int = 0) -> tuple[Any, Tensor]:
    """What is made under a seed, and a number drawn after it; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make(), torch.rand(1)


def require_equal(trial: Trial, found: nn.Module, expected: nn.Module) -> None:
    """Two modules have the same parameters, bit for bit."""
    theirs = found.state_dict()
    for name, value in expected.state_dict().items():
        same = name in theirs and theirs[name].dtype == value.dtype and torch.equal(theirs[name], value)
        trial.require(same, f"{name}: its initial values are not torch's under the same seed")


@clause("INIT-01", MUST, MEASURED, PRECISIONS)
def test_same_seed(trial: Trial) -> None:
    """Under the same seed the initial parameters are torch's, bit for bit."""
    require_equal(trial, seeded(trial.construct)[0], seeded(lambda: reference(trial.case))[0])


@clause("INIT-02", SHOULD, MEASURED, PRECISIONS)
def test_draws(trial: Trial) -> None:
    """The constructor draws as many random numbers as torch's does: what is drawn after it is the same."""
    found, expected = seeded(trial.construct)[1], seeded(lambda: reference(trial.case))[1]
    trial.require(
        torch.equal(found, expected), f"after the constructor: expected {expected.item()}, got {found.item()}"
    )


@clause("INIT-03", MUST, DOCS, each("encoder", "decoder", layers=3))
def test_copies(trial: Trial) -> None:
    """The layers of an encoder or decoder start equal, and share no storage with each other."""
    layers = list(seeded(trial.construct)[0].layers)
    for first, other in itertools.combinations([layer.state_dict() for layer in layers], 2):
        for name, value in first.items():
            trial.require(torch.equal(value, other[name]), f"{name}: the layers start different")
            shared = value.data_ptr() == other[name].data_ptr()
            trial.require(not shared, f"{name}: two layers share its storage")


@clause("INIT-04", MUST, DOCS, each("transformer", layers=3))
def test_transformer_layers(trial: Trial) -> None:
    """The layers of a Transformer start different: each matrix is drawn for itself."""
    module = seeded(trial.construct)[0]
    matrices = [(name, value) for name, value in module.state_dict().items() if value.dim() > 1]
    for (name, value), (other_name, other) in itertools.combinations(matrices, 2):
        same = value.shape == other.shape and torch.equal(value, other)
        trial.require(not same, f"{name} and {other_name} start equal")


@clause("INIT-05", MUST, DOCS, ATTENTIONS)
def test_projection_biases(trial: Trial) -> None:
    """The biases of an attention's projections start at 0."""
    for name, value in seeded(trial.construct)[0].state_dict().items():
        if name.endswith(("in_proj_bias", "out_proj.bias")):
            trial.require(bool((value == 0).all()), f"{name}: expected 0, got values up to {value.abs().max():.3g}")


@clause("INIT-06", MUST, DOCS, [case for case in CONFIGURATIONS if case.component in ("layer_norm", *NORMED)])
def test_norms(trial: Trial) -> None:
    """The scale of a norm starts at 1 and its shift at 0."""
    whole = trial.case.component == "layer_norm"
    for name, value in seeded(trial.construct)[0].state_dict().items():
        owner, _, kind = name.rpartition(".")
        if whole or "norm" in owner.rpartition(".")[2]:
            start = 1 if kind == "weight" else 0
            trial.require(bool((value == start).all()), f"{name}: expected {start}, got {value.flatten()[0]:.3g} first")


@clause("INIT-07", MUST, DOCS, each("transformer", layers=2) + each("transformer", bias=False))
def test_xavier(trial: Trial) -> None:
    """Every matrix of a Transformer starts uniform within ±√(6 / (rows + columns)), Xavier's bound."""
    for name, value in seeded(trial.construct)[0].state_dict().items():
        if value.dim() > 1:
            require_uniform(trial, name, value, math.sqrt(6 / sum(value.shape)))


@clause("INIT-08", MUST, DOCS, [case for case in ATTENTIONS if case.component in ("encoder_layer", "decoder_layer")])
def test_feed_forward(trial: Trial) -> None:
    """The feed-forward projections of a layer start uniform within ±1/√in_features, weights and biases."""
    module = seeded(trial.construct)[0]
    for name in ("linear1", "linear2"):
        part = getattr(module, name)
        for kind, value in part.state_dict().items():
            require_uniform(trial, f"{name}.{kind}", value, 1 / math.sqrt(part.weight.size(1)))


def require_uniform(trial: Trial, name: str, value: Tensor, bound: float) -> None:
    """The values lie within the bound and come as near to it as uniform ones do, but for one chance in a billion."""
    largest = float(value.abs().max())
    least = bound * tolerance.SIGNIFICANCE ** (1 / value.numel())
    trial.require(
        least <= largest <= bound, f"{name}: expected a largest of {least:.4g} … {bound:.4g}, got {largest:.4g}"
    )


@clause("INIT-09", MUST, MEASURED, each("transformer", layers=2))
def test_custom_stacks(trial: Trial) -> None:
    """The Transformer draws the matrices of a custom encoder and a custom decoder anew, and leaves their vectors."""

    def renewed(make: Callable[[], nn.Module]) -> nn.Module:
        whole, _ = seeded(make)
        sizes = {"d_model": whole.d_model, "nhead": whole.nhead}
        stacks = {"custom_encoder": whole.encoder, "custom_decoder": whole.decoder}
        with torch.no_grad():
            for parameter in whole.parameters():
                parameter.fill_(0.5)
        return seeded(lambda: type(whole)(**sizes, **stacks), seed=1)[0]

    require_equal(trial, renewed(trial.construct), renewed(lambda: reference(trial.case)))


@clause("INIT-10", MUST, PAPER, each("encoder", "decoder", "transformer", layers=3))
def test_own_parameters(trial: Trial) -> None:
    """Every layer of a stack has parameters of its own: none occurs twice."""
    module = seeded(trial.construct)[0]
    owners: dict[int, str] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        trial.require(id(value) not in owners, f"{name} is {owners.get(id(value))}")
        owners[id(value)] = name


# By component and options, of float32 parameters from seed 0, joined in the order of their names.
DIGESTS = {
    Case("multihead_attention", dtype="float32"): "43f6e708d0b6f906",
    Case("multihead_attention", dtype="float32", kdim=5, vdim=6, add_bias_kv=True): "1a2457e552388b16",
    Case("encoder_layer", dtype="float32"): "8093ad50bed82f2a",
    Case("decoder_layer", dtype="float32"): "b9339b8a0f6d6d29",
    Case("transformer", dtype="float32", layers=1): "e18ccc09f2174e88",
}


@clause("INIT-11", SHOULD, MEASURED, list(DIGESTS))
def test_same_in_every_version(trial: Trial) -> None:
    """From seed 0 the initial parameters are what they are on every version of torch, bit for bit."""
    state = dict(seeded(trial.construct)[0].named_parameters())
    content = b"".join(state[name].detach().numpy().tobytes() for name in sorted(state))
    found = hashlib.sha256(content).hexdigest()[:16]
    expected = DIGESTS[trial.case.but(mode="train")]
    trial.require(found == expected, f"expected parameters of digest {expected}, got {found}")
