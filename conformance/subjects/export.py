"""A subject's parameters in torch's names and layout, and its gradients by the same map."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..cases.case import Case
from ..verdicts import Unsupported
from .adapter import Adapter

_ATTENTION_PREFIX = {"multihead_attention": ""}
LARGE = 100.0
_CROSS = {"cross_q": "q", "cross_k": "k", "cross_v": "v", "cross_o": "o"}


def parameters(adapter: Adapter, module: nn.Module) -> dict[str, Tensor]:
    """The parameters by torch's names.

    Raises:
        Unsupported: the names are not torch's and the adapter exports nothing.
    """
    exported = adapter.export(module)
    if exported is None:
        return dict(module.named_parameters())
    return torch_names(adapter.component, exported)


def gradients(adapter: Adapter, module: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters' gradients by torch's names, and which of their elements are there to be compared.

    An exported value is affine in the parameters, p ↦ A p + b; with the gradient in place of the parameter and b
    taken off it is A g, the gradient in torch's layout when A is a permutation. Elements that do not depend on any
    parameter (zeros in place of a bias that the subject does not have) are not covered.

    Returns:
        The gradients, and for exported ones True where an element is covered.
    """
    if adapter.export(module) is None:
        return {name: _gradient(parameter) for name, parameter in module.named_parameters()}, {}
    with_gradient = _exported(adapter, module, _gradient)
    offset = _exported(adapter, module, torch.zeros_like)
    moved = _exported(adapter, module, torch.ones_like)
    found = {name: value - offset[name] for name, value in with_gradient.items()}
    return found, {name: moved[name] != offset[name] for name in found}


def torch_names(component: str, exported: Mapping[str, Any]) -> dict[str, Tensor]:
    """From roles to torch's parameter names; full names pass through.

    Raises:
        ValueError: a role that the component does not have.
    """
    named: dict[str, Tensor] = {}
    packed: dict[str, dict[str, tuple[Tensor, Tensor | None]]] = {}
    for role, value in exported.items():
        if isinstance(value, Tensor):
            named[role] = value
            continue
        weight, bias = _pair(value)
        prefix, _, last = role.rpartition(".")
        prefix = f"{prefix}." if prefix else ""
        attention = "multihead_attn." if last in _CROSS else _ATTENTION_PREFIX.get(component, "self_attn.")
        last = _CROSS.get(last, last)
        if last in ("q", "k", "v"):
            packed.setdefault(prefix + attention, {})[last] = (weight, bias)
            continue
        name = prefix + (f"{attention}out_proj" if last == "o" else last)
        named[f"{name}.weight"] = weight
        if bias is not None:
            named[f"{name}.bias"] = bias
    for prefix, parts in packed.items():
        missing = [part for part in "qkv" if part not in parts]
        if missing:
            raise ValueError(f"export: expected the roles q, k and v together, got no {', '.join(missing)}")
        weights, biases = zip(*(parts[part] for part in "qkv"), strict=True)
        named[f"{prefix}in_proj_weight"] = torch.cat(weights)
        if any(bias is not None for bias in biases):
            filled = [w.new_zeros(len(w)) if b is None else b for w, b in zip(weights, biases, strict=True)]
            named[f"{prefix}in_proj_bias"] = torch.cat(filled)
    return named


def _pair(value: Any) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a module, or of a pair of them."""
    pair: Any = (value.weight, getattr(value, "bias", None)) if isinstance(value, nn.Module) else value
    weight, bias = pair
    return weight, bias


def randomise(module: nn.Module, case: Case) -> None:
    """Give every parameter random values, from the case's own streams.

    Matrices are normal with variance 1 / fan-in. Vectors are normal around 0, or around 1 where they start as ones:
    default initial values (biases 0, norms 1) would hide faults. "large" matrices are a hundred times as large, so that
    scores reach 1e4 even behind a norm. A lazy parameter is left alone.
    """
    gain = LARGE if case.weights == "large" else 1.0
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            values = torch.from_numpy(case.rng(f"parameter {name}").normal(size=tuple(parameter.shape)))
            if parameter.dim() > 1:
                values *= gain * parameter.shape[-1] ** -0.5
            else:
                centre = 1.0 if parameter.numel() and bool((parameter == 1).all()) else 0.0
                values = centre + 0.4 * values
            parameter.copy_(values)


def _exported(adapter: Adapter, module: nn.Module, replace: Any) -> dict[str, Tensor]:
    kept = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(replace(parameter))
        exported = adapter.export(module)
        if exported is None:
            raise Unsupported("export gave parameters once and None later")
        named = {name: tensor.detach().clone() for name, tensor in torch_names(adapter.component, exported).items()}
        for name, parameter in module.named_parameters():
            parameter.copy_(kept[name])
    return named


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach()
