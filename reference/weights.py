"""Copying weights between a module and torch's, by name, leaving nothing behind."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def copy_weights(source: nn.Module | Mapping[str, Tensor], target: nn.Module) -> None:
    """Give `target` the values of `source`; both must have the same names and shapes.

    Works from torch's module to a handmade one and back.

    Args:
        source: a module, or a state dict.
        target: the module whose parameters and buffers are overwritten.

    Raises:
        ValueError: names that are left over, missing, or of another shape; all of them are named.
    """
    values = source.state_dict() if isinstance(source, nn.Module) else source
    wanted = target.state_dict()
    problems = [f"left over: {name} {tuple(values[name].shape)}" for name in values if name not in wanted]
    problems += [f"missing: {name} {tuple(wanted[name].shape)}" for name in wanted if name not in values]
    problems += [
        f"{name}: expected shape {tuple(wanted[name].shape)}, got {tuple(values[name].shape)}"
        for name in wanted
        if name in values and values[name].shape != wanted[name].shape
    ]
    if problems:
        raise ValueError(f"weights do not fit {type(target).__name__}: " + "; ".join(problems))
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(values[name])
