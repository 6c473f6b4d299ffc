"""STATE: parameters, copies, conversions, hooks."""

import copy
import pickle
from typing import Any

import torch
from torch import Tensor, nn

from . import arguments, capabilities, tolerance
from .arguments import array
from .cases.case import Case
from .cases.components import STACKS, TRANSFORMER
from .cases.configurations import CONFIGURATIONS
from .cases.select import MODULES, NORMED, around, each
from .clauses import DOCS, MEASURED, MUST, SHOULD, clause
from .comparison import relative_error
from .modules import attempt, output, reference
from .runs import reference_observation
from .trial import Trial

MASKS: dict[str, Any] = {
    "attn_mask": "bool",
    "key_padding_mask": "right",
    "src_mask": "float",
    "src_key_padding_mask": "right",
    "tgt_mask": "float_causal",
    "memory_key_padding_mask": "holes",
}
PLAIN = each(*(name for name in TRANSFORMER if name != "attention"))
MASKED = each(*MODULES, **MASKS)
# In eval mode without gradients, with even heads, torch is tempted to a path that calls no sub-modules.
HOOKED = [
    *each(*NORMED, **MASKS),
    *each(*NORMED, **MASKS, mode="eval", heads=4, head_dim=3),
    *each(*NORMED, mode="eval"),
]
COPIED = [*each("layer_norm"), *around(), *MASKED, *each(*NORMED, activation="gelu", norm_first=True)]


@clause("STATE-01", MUST, MEASURED, CONFIGURATIONS)
def test_names(trial: Trial) -> None:
    """The state dict has torch's names in torch's order, with torch's shapes, and nothing else."""
    found, expected = (
        [(name, tuple(value.shape)) for name, value in module.state_dict().items()]
        for module in (trial.construct(), reference(trial.case))
    )
    odd = next((pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]), None)
    trial.require(odd is None, f"expected {odd and odd[1]}, got {odd and odd[0]}")
    trial.require(len(found) == len(expected), f"expected {len(expected)} entries, got {len(found)}")


@clause("STATE-02", MUST, MEASURED, CONFIGURATIONS)
def test_load(trial: Trial) -> None:
    """load_state_dict(strict=True) takes torch's state and gives torch its own; the outputs agree afterwards."""
    trial.torch_module()
    instance = trial.instance()
    state = {name: value.clone() for name, value in instance.state.items()}
    theirs = reference(trial.case)
    theirs.load_state_dict(instance.module.state_dict(), strict=True)
    with torch.no_grad():
        for parameter in instance.module.parameters():
            parameter.zero_()
    instance.module.load_state_dict(theirs.state_dict(), strict=True)
    found = instance.observe(trial.inputs, gradient=False).output
    apart = relative_error(found, reference_observation(trial.inputs, state).output)
    trial.require(apart <= tolerance.FLOAT64_AGREEMENT, f"the outputs differ by {apart:.3g}")


@clause("STATE-03", MUST, MEASURED, COPIED)
def test_deepcopy(trial: Trial) -> None:
    """A deep copy gives equal outputs and shares no parameter: changing it leaves the original as it was."""
    module, given = trial.torch_module(), trial.call_arguments()
    before = array(output(module, given))
    twin = copy.deepcopy(module)
    trial.require_same("output of the copy", array(output(twin, given)), before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.fill_(0.25)
    trial.require_same("output after changing the copy", array(output(module, given)), before)


@clause("STATE-04", MUST, MEASURED, COPIED)
def test_pickle(trial: Trial) -> None:
    """A module with an importable activation survives pickling with equal parameters and outputs."""
    module, given = trial.torch_module(), trial.call_arguments()
    twin = pickle.loads(pickle.dumps(module))
    for name, value in module.state_dict().items():
        trial.require(torch.equal(twin.state_dict()[name], value), f"{name}: another value after pickling")
    trial.require_same("output after pickling", array(output(twin, given)), array(output(module, given)))


@clause("STATE-05", MUST, DOCS, [c.but(dtype=d) for c in PLAIN for d in ("float32", "bfloat16", "float16")])
def test_to_dtype(trial: Trial) -> None:
    """Converting the module converts every parameter, and the output has the dtype of parameters and input."""
    dtype = getattr(torch, trial.case.dtype)
    module = trial.torch_module(dtype="float64").to(dtype)
    for name, value in module.state_dict().items():
        trial.require(value.dtype == dtype, f"{name}: expected {dtype}, got {value.dtype}")
    found = output(module, trial.call_arguments())
    trial.require(found.dtype == dtype, f"output: expected {dtype}, got {found.dtype}")
    trial.require(bool(found.isfinite().all()), "output: not finite")


@clause("STATE-06", MUST, DOCS, PLAIN + [case for case in MASKED if case.component not in STACKS])
def test_meta(trial: Trial) -> None:
    """On the meta device a module is built and called without values, and the output has the shape that it would have."""
    require_meta(trial)


@clause("STATE-13", SHOULD, MEASURED, [case for case in MASKED if case.component in STACKS])
def test_meta_masks(trial: Trial) -> None:
    """So it is with a stack under a mask; torch's own asks the mask for its values, to find out whether it is causal."""
    require_meta(trial)


def require_meta(trial: Trial) -> None:
    """The module called on the meta device gives an output without values, of the right shape."""
    module = trial.construct(device="meta")
    given = {n: v.to("meta") if isinstance(v, Tensor) else v for n, v in trial.call_arguments().items()}
    found = attempt("meta", lambda: output(module, given))
    expected = output(trial.torch_module(), trial.call_arguments())
    trial.require(found.device.type == "meta", f"output: expected the meta device, got {found.device}")
    trial.require(found.shape == expected.shape, f"output: expected {tuple(expected.shape)}, got {tuple(found.shape)}")


@clause("STATE-07", MUST, DOCS, PLAIN)
def test_materialise(trial: Trial) -> None:
    """A module built on the meta device is materialised by to_empty and load_state_dict: all it has is its state."""
    module, given = trial.torch_module(), trial.call_arguments()
    twin = trial.construct(device="meta", dropout=0.0).to_empty(device=arguments.device(trial.case))
    twin.load_state_dict(module.state_dict(), strict=True)
    trial.require_same("output", array(output(twin, given)), array(output(module, given)))


@clause("STATE-08", MUST, DOCS, CONFIGURATIONS)
def test_parameters(trial: Trial) -> None:
    """Everything in the state is a Parameter that requires its gradient, and every parameter is in the state."""
    module = trial.construct()
    for name, value in module.state_dict(keep_vars=True).items():
        trial.require(isinstance(value, nn.Parameter), f"{name}: expected a Parameter, got {type(value).__name__}")
        trial.require(value.requires_grad, f"{name}: requires no gradient")
    missing = {name for name, _ in module.named_parameters()} - set(module.state_dict())
    trial.require(not missing, f"not in the state: {sorted(missing)}")


@clause("STATE-09", MUST, DOCS, PLAIN)
def test_train_and_eval(trial: Trial) -> None:
    """train() and eval() reach every sub-module."""
    module = trial.construct()
    for training in (False, True):
        module.train(training)
        stale = [name for name, part in module.named_modules() if part.training is not training]
        trial.require(not stale, f"train({training}) did not reach {stale[:3]}")


@clause("STATE-10", MUST, MEASURED, CONFIGURATIONS)
def test_repr(trial: Trial) -> None:
    """The module has a text that names its class and its sub-modules."""
    module = trial.construct()
    text = repr(module)
    absent = [name for name, _ in module.named_children() if f"({name})" not in text]
    trial.require(type(module).__name__ in text and not absent, f"repr lacks {absent or type(module).__name__}")


@clause("STATE-11", MUST, DOCS, [*HOOKED, *each("encoder_layer", mode="eval", heads=4, head_dim=3)])
def test_hooks(trial: Trial) -> None:
    """The sub-modules are called as modules: a forward hook on an attention, a projection or a norm fires each time."""
    module, given = trial.torch_module(), trial.call_arguments()
    calls: dict[str, int] = {}
    for name, part in module.named_modules():
        if name.rpartition(".")[2] in ("self_attn", "multihead_attn", "linear1", "linear2", "norm1", "norm2", "norm"):
            calls[name] = 0
            part.register_forward_hook(lambda _part, _given, _made, name=name: calls.update({name: calls[name] + 1}))
    with torch.set_grad_enabled(trial.case.mode == "train"):
        output(module, given)
    odd = {name: count for name, count in calls.items() if count != 1}
    trial.require(bool(calls) and not odd, f"expected each hook to fire once, got {odd}")


@clause("STATE-12", MUST, MEASURED, HOOKED)
def test_hook_results(trial: Trial) -> None:
    """What a forward hook returns takes the place of the sub-module's output."""
    module, given = trial.torch_module(), trial.call_arguments()
    before = array(output(module, given))
    for name, part in module.named_modules():
        if name.endswith("linear2"):
            part.register_forward_hook(lambda _part, _given, made: 2 * made)
    with torch.set_grad_enabled(trial.case.mode == "train"):
        after = array(output(module, given))
    trial.require(bool(trial.apart(after, before)), "the hook's result had no effect")


@clause("STATE-20", MUST, DOCS, PLAIN)
def test_device_context(trial: Trial) -> None:
    """Built inside torch.device("meta"), all parameters and buffers are on that device."""
    trial.torch_module()
    capabilities.require("torch.device as a context")
    with torch.device("meta"):
        module = trial.construct()
    elsewhere = [name for name, value in module.state_dict().items() if value.device.type != "meta"]
    trial.require(not elsewhere, f"expected the meta device for {elsewhere}")


# What torch's state dicts are, on every version: sizes are E features, F hidden ones.
ATTENTION_STATE = {
    "in_proj_weight": "3E E", "in_proj_bias": "3E", "out_proj.weight": "E E", "out_proj.bias": "E",
}  # fmt: skip
FEED_FORWARD_STATE = {"linear1.weight": "F E", "linear1.bias": "F", "linear2.weight": "E F", "linear2.bias": "E"}


def written_down(component: str) -> dict[str, str]:
    """Names and shapes of the state of a component with torch's default options and layers of one kind."""
    if component == "multihead_attention":
        return ATTENTION_STATE
    attentions, norms = (("self_attn",), 2) if component == "encoder_layer" else (("self_attn", "multihead_attn"), 3)
    state = {f"{attention}.{name}": shape for attention in attentions for name, shape in ATTENTION_STATE.items()}
    scales = {f"norm{number + 1}.{name}": "E" for number in range(norms) for name in ("weight", "bias")}
    return {**state, **FEED_FORWARD_STATE, **scales}


@clause("STATE-21", MUST, MEASURED, [
    *each("multihead_attention", "encoder_layer", "decoder_layer", norm_first=False), Case("transformer", layers=1),
    Case("multihead_attention", kdim=5, vdim=6, add_bias_kv=True),
])  # fmt: skip
def test_names_of_every_version(trial: Trial) -> None:
    """The names and shapes of the state are those that torch has had on every version: in_proj_weight (3E, E) and so on."""
    case = trial.case
    if case.component == "transformer":
        sides = {side: written_down(f"{side}_layer") for side in ("encoder", "decoder")}
        expected = {f"{side}.layers.0.{name}": shape for side, state in sides.items() for name, shape in state.items()}
        expected |= {f"{side}.norm.{name}": "E" for side in sides for name in ("weight", "bias")}
    elif case.kdim:
        own = {
            "q_proj_weight": "E E",
            "k_proj_weight": "E K",
            "v_proj_weight": "E V",
            "bias_k": "1 1 E",
            "bias_v": "1 1 E",
        }
        expected = {**{name: shape for name, shape in ATTENTION_STATE.items() if name != "in_proj_weight"}, **own}
    else:
        expected = written_down(case.component)
    sizes = {
        "E": case.d_model,
        "3E": 3 * case.d_model,
        "F": case.dim_feedforward,
        "K": case.kdim,
        "V": case.vdim,
        "1": 1,
    }
    wanted = {name: tuple(sizes[size] for size in shape.split()) for name, shape in expected.items()}
    found = {name: tuple(value.shape) for name, value in trial.construct().state_dict().items()}
    odd = {name for name in {*found, *wanted} if found.get(name) != wanted.get(name)}
    trial.require(not odd, f"other than on every version: {sorted(odd)[:3]}")
