"""STATE: what torch.func and torch.compile make of the modules."""

import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from . import arguments, capabilities
from .arguments import array
from .cases.case import Case
from .cases.select import MODULES, around, each
from .clauses import DOCS, MEASURED, MUST, SHOULD, clause
from .modules import attempt, output
from .test_state import MASKS, PLAIN
from .trial import Trial

TRANSFORMED = [Case("attention"), *PLAIN, *each(*MODULES, **MASKS)]
EVALUATED = [case.but(mode="eval") for case in TRANSFORMED]


def transforms() -> Any:
    """torch.func.

    Raises:
        Unsupported: this torch has none.
    """
    capabilities.require("torch.func")
    return torch.func


def leaves(given: dict[str, Any]) -> dict[str, Tensor]:
    """The floating tensors among the arguments that are no masks."""
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    return {name: x for name, x in tensors.items() if x.is_floating_point() and not name.endswith("mask")}


@clause("STATE-14", MUST, DOCS, EVALUATED)
def test_vmap(trial: Trial) -> None:
    """torch.func.vmap over unbatched calls equals the batched call."""
    func = transforms()
    module, given = trial.torch_module(), trial.call_arguments()
    batch = 1 if not trial.case.batch_first else 0
    mapped = {n: v for n, v in given.items() if isinstance(v, Tensor) and (n in leaves(given) or "padding" in n)}
    rest = {name: value for name, value in given.items() if name not in mapped}
    axes = {name: 0 if "padding" in name else batch for name in mapped}
    one = func.vmap(lambda sample: output(module, {**rest, **sample}), in_dims=(axes,), out_dims=batch)
    trial.require_same("output", array(attempt("vmap", lambda: one(mapped))), array(output(module, given)))


@clause("STATE-15", MUST, DOCS, [
    *(case for case in TRANSFORMED if case.component != "attention"),
    *(case for case in around() if case.component not in ("positional_encoding", "rotary")),
])  # fmt: skip
def test_functional_gradient(trial: Trial) -> None:
    """torch.func.grad through functional_call equals autograd's gradients of all parameters."""
    func = transforms()
    trial.require_gradients()
    module, given = trial.torch_module(), trial.call_arguments()
    parameters = dict(module.named_parameters())
    (along, *_) = arguments.cotangents(trial.inputs)
    assert along is not None

    def loss(values: dict[str, Tensor]) -> Tensor:
        returned = func.functional_call(module, values, (), given)
        return ((returned[0] if isinstance(returned, tuple) else returned) * along).sum()

    found = attempt("grad", lambda: func.grad(loss)({name: value.detach() for name, value in parameters.items()}))
    expected = torch.autograd.grad((output(module, given) * along).sum(), list(parameters.values()))
    largest = max(float(value.abs().max()) for value in expected)
    for (name, value), exact in zip(found.items(), expected, strict=True):
        # Divided by the largest of all: a gradient that is zero in exact arithmetic is rounding of the others' size.
        stacked = [array(torch.cat([x.flatten() / largest, x.new_ones(1)])) for x in (value, exact)]
        trial.require_same(f"gradient of {name}", *stacked)


@pytest.mark.filterwarnings("ignore:.*jit.script:DeprecationWarning")
@clause("STATE-16", SHOULD, DOCS, EVALUATED)
def test_jvp(trial: Trial) -> None:
    """torch.func.jvp, forward mode, is the derivative that two reverse passes give; torch's fused attention has none."""
    func = transforms()
    trial.require_gradients()
    module, given = trial.torch_module(), trial.call_arguments()
    inputs = leaves(given)
    names, values = tuple(inputs), tuple(value.clone().requires_grad_() for value in inputs.values())
    rng = trial.case.rng("tangent")
    along = tuple(torch.from_numpy(rng.normal(size=tuple(x.shape))).to(x) for x in values)

    def call(*tensors: Tensor) -> Tensor:
        return output(module, {**given, **dict(zip(names, tensors, strict=True))})

    found = attempt("jvp", lambda: func.jvp(call, tuple(inputs.values()), along)[1])
    made = call(*values)
    # The gradient is linear in the cotangent, so its own derivative along the tangents is the product wanted.
    cotangent = torch.zeros_like(made).requires_grad_()
    gradients = torch.autograd.grad(made, values, cotangent, create_graph=True)
    (expected,) = torch.autograd.grad(gradients, cotangent, along)
    trial.require_same("tangent of the output", array(found), array(expected))


COMPILED = [
    Case("multihead_attention", attn_mask="bool3d", key_padding_mask="right"),
    Case("multihead_attention", mode="eval", heads=4, head_dim=3, attends="self", key_padding_mask="right"),
    Case("encoder_layer", src_mask="bool", src_key_padding_mask="right"),
    Case("encoder_layer", norm_first=True, activation="gelu"),
    Case("decoder_layer", tgt_mask="causal", memory_key_padding_mask="holes"),
    Case("transformer", layers=1, tgt_mask="float_causal", hint="true", norm_first=True),
    # Which expert has how many tokens is no shape that a graph could have.
    *(case for case in around() if case.component != "mixture_of_experts"),
]


# The inductor backend is left out: it wants a C++ compiler and half a minute for a layer, and what it makes of a graph
# without breaks is torch's own affair; that there is such a graph, forward and backward, is what these clauses say.
@clause("STATE-17", MUST, DOCS, COMPILED)
def test_compile(trial: Trial) -> None:
    """torch.compile with the eager backend takes the module as one graph and gives equal outputs."""
    require_compiled(trial, "eager", gradient=False)


@clause("STATE-18", MUST, DOCS, COMPILED)
def test_compile_backward(trial: Trial) -> None:
    """torch.compile with the aot_eager backend takes the module as one graph, and its backward too."""
    require_compiled(trial, "aot_eager", gradient=True)


@clause(
    "STATE-19",
    SHOULD,
    MEASURED,
    each("encoder", "decoder", src_mask="float_causal", tgt_mask="causal", norm_first=False),
)
def test_compile_detection(trial: Trial) -> None:
    """A stack that finds out whether its mask is causal does so without breaking the graph; torch's own breaks it."""
    require_compiled(trial, "aot_eager", gradient=False)


STACK_IN_EVAL: dict[str, Any] = {"mode": "eval", "heads": 4, "head_dim": 3, "layers": 1}


@clause("STATE-22", MUST, MEASURED, [
    case for padding in ("none", "ragged")
    for case in each("encoder", src_key_padding_mask=padding, norm_first=False, dtype="float32", **STACK_IN_EVAL)
])  # fmt: skip
def test_compile_without_gradients(trial: Trial) -> None:
    """Where no gradient is recorded torch.compile takes a stack as one graph too, for fixed sizes and for any."""
    with torch.no_grad():
        for dynamic in (False, True):
            require_compiled(trial, "aot_eager", gradient=False, dynamic=dynamic, rows=trial.inputs.real)


@clause(
    "STATE-23",
    SHOULD,
    MEASURED,
    each("encoder", src_mask="float_causal", norm_first=False, dtype="float32", **STACK_IN_EVAL),
)
def test_export(trial: Trial) -> None:
    """torch.export takes a stack with a mask, the hint that it is causal being absent, true or false; outputs are equal."""
    _require_compiler(trial, "torch.export")
    module, given = trial.torch_module().train(), trial.call_arguments()
    expected, source = array(output(module, given)), given.pop("src")
    for hint in (None, True, False):
        named = {**given, "is_causal": hint}
        made = attempt(f"export, is_causal={hint}", functools.partial(torch.export.export, module, (source,), named))
        whole = made.module() if hasattr(made, "module") else made
        found = attempt(f"the exported graph, is_causal={hint}", functools.partial(whole, source, **named))
        trial.require_same(f"output, is_causal={hint}", array(found), expected)


def _require_compiler(trial: Trial, name: str) -> None:
    capabilities.require(name, *([] if trial.subject.is_torch else [capabilities.ORDINARY_PYTHON]))


def require_compiled(
    trial: Trial, backend: str, gradient: bool, dynamic: bool | None = None, rows: np.ndarray | None = None
) -> None:
    """The compiled module equals the module: outputs, of the rows that are asked for, and gradients of the tensors."""
    _require_compiler(trial, "torch.compile")
    if gradient:
        trial.require_gradients()
    module = trial.torch_module()
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=dynamic)
    seen = []
    for callee in (compiled, module):
        given = trial.call_arguments(gradient=gradient)
        made = attempt(f"compile, {backend}", functools.partial(output, callee, given))
        if gradient:
            made.backward(arguments.cotangents(trial.inputs)[0])
        seen.append({"output": made, **{f"gradient of {n}": x.grad for n, x in leaves(given).items() if gradient}})
    for name, value in seen[1].items():
        chosen = slice(None) if rows is None or name != "output" else rows
        trial.require_same(name, array(seen[0][name])[chosen], array(value)[chosen])
