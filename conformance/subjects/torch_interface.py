"""Subjects whose classes have torch.nn's names, arguments and parameters: torch itself, and the handmade model."""

import contextlib
import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest import mock

from torch import nn

import handmade
from handmade import activations, blocks
from reference.torch_modules import LATER, TORCH, Namespace, build

from ..cases.components import COMPONENTS
from ..verdicts import Unsupported
from .adapter import Adapter
from .attention_backends import OneBackend
from .call import Call

HANDMADE = Namespace(
    handmade,
    handmade,
    {
        "gelu_tanh": functools.partial(activations.gelu, approximate="tanh"),
        "silu": activations.silu,
        "gelu_sigmoid": activations.gelu_sigmoid,
        "gelu_callable": activations.gelu,
        "gelu_tanh_module": nn.GELU(approximate="tanh"),
    },
)


class TorchInterface(Adapter):
    """A component called exactly as torch's; every option of the constructor and the call is passed on."""

    def __init__(self, component: str, namespace: Namespace, gradients: bool = True, backend: str = "") -> None:
        self.component = component  # type: ignore[misc]
        self.namespace = namespace
        self.gradients = gradients  # type: ignore[misc]
        self.backend = backend

    def build(self, config: SimpleNamespace) -> nn.Module:
        """The class's own constructor, with all options."""
        options = dict(vars(config))
        factory = {name: options.pop(name) for name in ("dropout", "dtype", "device") if name in options}
        return build(self.component, options, self.namespace, **factory)

    def forward(self, module: nn.Module, call: Call) -> Any:
        """The module's own forward, with all arguments."""
        return module(**call.arguments)

    @contextlib.contextmanager
    def split(self, rows: int, scores: int) -> Iterator[None]:
        """The handmade model's blocks; torch's cannot be chosen."""
        if self.namespace is not HANDMADE:
            raise Unsupported("work in blocks of a chosen size")
        sizes: dict[str, Any] = {
            "ROWS": rows,
            "ROWS_UNDER_A_MASK": rows,
            "FEWEST_ROWS": 1,
            "SCORES": scores,
            "SMALL": 0,
        }
        with mock.patch.multiple(blocks, **sizes):
            yield


def torch_interface(namespace: Namespace, gradients: bool = True) -> Mapping[str, Adapter]:
    """An adapter for every component that the namespace has, or has in other versions."""
    return types.MappingProxyType(
        {
            name: TorchInterface(name, namespace, gradients)
            for name in COMPONENTS
            if namespace.has(name) or (namespace is TORCH and name in LATER)
        }
    )


def handmade_subject() -> Mapping[str, Adapter]:
    """The handmade model."""
    return torch_interface(HANDMADE)


def torch_subject() -> Mapping[str, Adapter]:
    """torch.nn itself, on the path that it takes where gradients are recorded."""
    return torch_interface(TORCH)


def torch_fast_subject() -> Mapping[str, Adapter]:
    """torch.nn in eval mode with no gradient recorded, where it has kernels of their own for whole layers."""
    return torch_interface(TORCH, gradients=False)


def torch_backend_subject(backend: str) -> Mapping[str, Adapter]:
    """scaled_dot_product_attention with one of its implementations, a key of `attention_backends.BACKENDS`."""
    namespace = dataclasses.replace(TORCH, functions=OneBackend(backend))
    return types.MappingProxyType({"attention": TorchInterface("attention", namespace, backend=backend)})
