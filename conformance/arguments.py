"""From inputs to a callee's arguments and back: layout, dtype, memory, batch dimension."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .cases.case import Case
from .cases.components import PARTS, shared_tensors
from .inputs import Inputs

FREE_LAYOUT = ("attention", "layer_norm", *PARTS)


def to_layout(value: np.ndarray, case: Case) -> np.ndarray:
    """A batch-first array in the layout of the case: without batch, or length first."""
    if case.batch is None:
        return value[0]
    if not case.batch_first and case.component not in FREE_LAYOUT:
        return value.swapaxes(0, 1)
    return value


def from_layout(value: np.ndarray, case: Case) -> np.ndarray:
    """The inverse of `to_layout`."""
    if case.batch is None:
        return value[None]
    if not case.batch_first and case.component not in FREE_LAYOUT:
        return value.swapaxes(0, 1)
    return value


def arrays(inputs: Inputs) -> dict[str, Any]:
    """The arguments as arrays, in the layout of the case."""
    case = inputs.case
    made: dict[str, Any] = {name: to_layout(value, case) for name, value in inputs.tensors.items()}
    if "query" in made:
        for name, other in shared_tensors(case).items():
            made[name] = made[other]
    for name, mask in inputs.masks.items():
        padding = name.endswith("key_padding_mask")
        made[name] = mask[0] if padding and case.batch is None else mask
    return {**made, **inputs.integers}


def tensors(inputs: Inputs, gradient: bool) -> dict[str, Any]:
    """The arguments as tensors of the case's dtype, device and memory layout; the same array is the same tensor.

    Args:
        inputs: of the case.
        gradient: whether floating tensors and masks collect gradients.
    """
    case = inputs.case
    made: dict[int, Tensor] = {}
    arguments: dict[str, Any] = {}
    for name, value in arrays(inputs).items():
        key = id(value)
        if key not in made:
            is_input = not name.endswith("mask")
            tensor = _tensor(value, case, case.layout if is_input else "contiguous")
            made[key] = tensor.requires_grad_(gradient and tensor.is_floating_point())
        arguments[name] = made[key]
    return {**arguments, **inputs.flags}


def cotangents(inputs: Inputs) -> list[Tensor | None]:
    """The cotangents as tensors, in the layout of the outputs."""
    case = inputs.case
    made: list[Tensor | None] = []
    for number, value in enumerate(inputs.cotangents):
        if value is None:
            made.append(None)
            continue
        made.append(_tensor(_output_layout(value, number, case), case, "contiguous"))
    return made


def exact(inputs: Inputs) -> tuple[dict[str, Any], list[np.ndarray | None]]:
    """Arguments and cotangents for the oracle: float64 arrays in the layout of the case."""
    case = inputs.case
    outputs = [
        None if value is None else _output_layout(value, number, case) for number, value in enumerate(inputs.cotangents)
    ]
    return {**arrays(inputs), **inputs.flags}, outputs


def outputs_from_layout(outputs: Sequence[np.ndarray | None], case: Case) -> tuple[np.ndarray | None, ...]:
    """Outputs batch first: the first one has the case's layout; weights have the batch first in every layout."""
    undone = (from_layout, _weights_from_layout)
    return tuple(None if value is None else undo(value, case) for undo, value in zip(undone, outputs, strict=False))


def _output_layout(value: np.ndarray, number: int, case: Case) -> np.ndarray:
    return to_layout(value, case) if number == 0 else value[0] if case.batch is None else value


def _weights_from_layout(value: np.ndarray, case: Case) -> np.ndarray:
    return value[None] if case.batch is None else value


def array(tensor: Tensor) -> np.ndarray:
    """A tensor's values in float64."""
    return tensor.detach().cpu().double().numpy()


def values(named: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Named tensors' values in float64."""
    return {name: array(tensor) for name, tensor in named.items()}


def _tensor(value: np.ndarray, case: Case, layout: str) -> Tensor:
    dtype = getattr(torch, case.dtype) if value.dtype.kind == "f" else None
    # `ascontiguousarray` alone would give a scalar a dimension.
    tensor = torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape)).to(device(case), dtype)
    if layout == "strided":
        return torch.stack([tensor, torch.full_like(tensor, 7)], dim=-1)[..., 0]
    if layout == "transposed":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "expanded" and case.batch is not None:
        batch_axis = 1 if not case.batch_first and case.component not in FREE_LAYOUT else 0
        return tensor.narrow(batch_axis, 0, 1).expand(tensor.shape)
    return tensor


def device(case: Case) -> torch.device:
    """The device that a case runs on; "accelerator" is whichever there is."""
    return torch.device(accelerator() or "cpu") if case.device == "accelerator" else torch.device(case.device)


def accelerator() -> str | None:
    """The accelerator of this machine, or None."""
    if torch.cuda.is_available():
        return "cuda"
    mps = getattr(torch.backends, "mps", None)
    return "mps" if mps is not None and mps.is_available() else None
