"""Whole models against the same built of torch's parts: ids, logits, losses, and the gradients of every parameter."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import arguments
from .training import require_agreement
from .trial import Trial
from .verdicts import Unsupported

# The id of padding in the cases that have one.
PAD = 0


def sequences(trial: Trial) -> tuple[Tensor, Tensor, Tensor]:
    """Source and target ids of a case, and where the target is no padding.

    Where the case has padding, it fills the last two places of the second sequence and the second of the first, which
    later ones would see, and none elsewhere.
    """
    src, tgt = (torch.tensor(trial.inputs.integers[name]) for name in ("src", "tgt"))
    padding = trial.case.padding_idx
    if padding is not None:
        for ids in (src, tgt):
            ids.masked_fill_(ids == padding, padding + 1)[1, -2:] = padding
            ids[0, 1] = padding
    return src, tgt, torch.ones_like(tgt, dtype=torch.bool) if padding is None else tgt != padding


def named(trial: Trial, name: str) -> Any:
    """A class or function of the subject by its name.

    Raises:
        Unsupported: it has none.
    """
    if not hasattr(trial.names, name):
        raise Unsupported(name)
    return getattr(trial.names, name)


def cotangent(trial: Trial, output: Tensor, rows: Tensor | None = None) -> Tensor:
    """A random direction in the space of the outputs, 0 outside the rows."""
    drawn = torch.from_numpy(trial.case.rng("cotangent of the logits").normal(size=tuple(output.shape)))
    return drawn.to(output) if rows is None else drawn.to(output) * rows.unsqueeze(-1)


def gradients(module: nn.Module, output: Tensor, along: Tensor) -> dict[str, Tensor]:
    """The gradient of every parameter, shared ones once."""
    parameters = dict(module.named_parameters())
    found = torch.autograd.grad(output, list(parameters.values()), along, allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient
        for (name, parameter), gradient in zip(parameters.items(), found, strict=True)
    }


def require_equal_models(
    trial: Trial,
    found: nn.Module,
    expected: nn.Module,
    call: Callable[[nn.Module], Tensor],
    rows: Tensor | None = None,
    translate: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict,
) -> None:
    """Logits on the rows, and the gradients of all parameters, agree with torch's.

    Args:
        trial: in whose name.
        found: the subject's model, whose weights `expected` has already.
        expected: torch's.
        call: from a model to its output.
        rows: True where the output counts; None for everywhere.
        translate: from the subject's parameter names and shapes to torch's.
    """
    mine, theirs = call(found), call(expected)
    along = cotangent(trial, theirs, rows)
    counted = torch.ones_like(theirs[..., 0], dtype=torch.bool) if rows is None else rows
    require_agreement(trial, "output", _array(mine[counted]), _array(theirs[counted]))
    of_mine = translate(gradients(found, mine, along))
    for name, gradient in gradients(expected, theirs, along).items():
        if name in of_mine:
            require_agreement(trial, f"gradient of {name}", _array(of_mine[name]), _array(gradient))
    trial.require(bool(of_mine), "gradients: expected some, got none")


def require_equal(trial: Trial, name: str, found: Tensor, expected: Tensor) -> None:
    """Two tensors agree as far as rounding allows."""
    require_agreement(trial, name, _array(found), _array(expected))


def _array(value: Tensor) -> np.ndarray:
    return arguments.array(value)


TEXT_PARTS = {
    "encoder": {"attention": "self_attn", "attention_norm": "norm1", "ffn_norm": "norm2"},
    "decoder": {
        "mask_attention": "self_attn",
        "attention": "multihead_attn",
        "attention_norm_1": "norm1",
        "attention_norm_2": "norm2",
        "ffn_norm": "norm3",
    },
}
TEXT_WEIGHTS = {"w1": "linear1", "w2": "linear2"}


def text_model_weights(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parameters of a text model, or their gradients, under torch's names: wq, wk and wv become one matrix."""
    made: dict[str, Tensor] = {}
    for name, value in values.items():
        match name.split("."):
            case [stack, "layers", number, part, "wq", _]:
                path = f"transformer.{stack}.layers.{number}.{TEXT_PARTS[stack][part]}"
                thirds = [values[name.replace(".wq.", f".{third}.")] for third in ("wq", "wk", "wv")]
                made[f"{path}.in_proj_weight"] = torch.cat(thirds)
            case [_, "layers", _, _, "wk" | "wv", _]:
                pass
            case [stack, "layers", number, "feed_forward", inner, _]:
                made[f"transformer.{stack}.layers.{number}.{TEXT_WEIGHTS[inner]}.weight"] = value
            case [stack, "layers", number, part, "wo", _]:
                made[f"transformer.{stack}.layers.{number}.{TEXT_PARTS[stack][part]}.out_proj.weight"] = value
            case [stack, "layers", number, part, kind]:
                made[f"transformer.{stack}.layers.{number}.{TEXT_PARTS[stack][part]}.{kind}"] = value
            case [stack, "norm", kind]:
                made[f"transformer.{stack}.norm.{kind}"] = value
            case _:
                made[name] = value
    return made


def require_each_dropout_acts(trial: Trial, module: nn.Module) -> None:
    """With one dropout of a model on and the others off, train mode gives something else than eval mode."""
    given = [torch.tensor(trial.inputs.integers[name]) for name in trial.inputs.integers]
    owners = [one for one in module.modules() if _probability(one)]
    trial.require(bool(owners), "expected a model with dropout, got none in it")

    def output(mode: str) -> Tensor:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            made = module.train(mode == "train")(*given)
        return made[0] if isinstance(made, tuple) else made

    for owner in owners:
        _set_probability(owner, 0.0)
    expected = output("eval")
    for name, owner in module.named_modules():
        if owner not in owners:
            continue
        _set_probability(owner, 0.5)
        found = output("train")
        _set_probability(owner, 0.0)
        trial.require(not torch.equal(found, expected), f"{name}: its dropout changes nothing in train mode")


def _probability(module: nn.Module) -> float:
    """Of a dropout, or of an attention that drops weights; 0 for what does neither."""
    found = getattr(module, "p", getattr(module, "dropout", 0.0))
    return found if isinstance(found, float) else 0.0


def _set_probability(module: nn.Module, p: float) -> None:
    setattr(module, "p" if hasattr(module, "p") else "dropout", p)
