"""Building a component from torch's constructor options, out of torch.nn or of anything with its class names.

The reference is torch's *slow path*: gradients enabled and parameters that require them, so that neither the native
encoder kernel nor the native attention kernel is taken, in train and in eval mode alike.
"""

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

CLASSES = {
    "multihead_attention": "MultiheadAttention",
    "layer_norm": "LayerNorm",
    "encoder_layer": "TransformerEncoderLayer",
    "decoder_layer": "TransformerDecoderLayer",
    "encoder": "TransformerEncoder",
    "decoder": "TransformerDecoder",
    "transformer": "Transformer",
}


class AttentionModule(nn.Module):
    """A function with the interface of `scaled_dot_product_attention`, as a module without parameters."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any, **keywords: Any) -> Tensor:
        """Call the function."""
        return self.function(*arguments, **keywords)


@dataclass(frozen=True)
class Namespace:
    """Where a component's classes come from.

    Attributes:
        modules: has torch.nn's class names as attributes.
        attention: has the interface of `scaled_dot_product_attention`.
        activations: callables by the name that a case gives them; other names are handed to the constructor.
    """

    modules: Any
    attention: Callable[..., Tensor]
    activations: Mapping[str, Callable[[Tensor], Tensor]]


def sdpa(*arguments: Any, **keywords: Any) -> Tensor:
    """Torch's attention, looked up at each call."""
    return F.scaled_dot_product_attention(*arguments, **keywords)


TORCH = Namespace(
    nn,
    sdpa,
    {
        "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
        "silu": F.silu,
        "gelu_callable": F.gelu,
        "gelu_tanh_module": nn.GELU(approximate="tanh"),
    },
)


def build(component: str, options: Mapping[str, Any], namespace: Namespace = TORCH, **factory: Any) -> nn.Module:
    """The component, as its class's constructor makes it.

    Args:
        component: a key of `CLASSES`, or "attention".
        options: constructor arguments by torch's names; stacks take those of their layer, `num_layers`, and
            `norm`, whether a final layer norm follows.
        namespace: whose classes.
        factory: `dropout`, `dtype`, `device`.

    Raises:
        ValueError: an unknown component.
    """
    if component == "attention":
        return AttentionModule(namespace.attention)
    if component not in CLASSES:
        raise ValueError(f"component: expected one of {['attention', *CLASSES]}, got {component!r}")
    options = dict(options)
    if options.get("activation") in namespace.activations:
        options["activation"] = namespace.activations[options["activation"]]
    if component == "layer_norm":
        factory.pop("dropout", None)
    with warnings.catch_warnings():
        # torch warns that a stack cannot use nested tensors; the reference does not want them.
        warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
        if component in ("encoder", "decoder"):
            return _stack(component, options, namespace, **factory)
        return getattr(namespace.modules, CLASSES[component])(**options, **factory)


def _stack(component: str, options: dict[str, Any], namespace: Namespace, **factory: Any) -> nn.Module:
    layers, with_norm = options.pop("num_layers"), options.pop("norm")
    layer = build(f"{component}_layer", options, namespace, **factory)
    norm = None
    if with_norm:
        own = {"eps": options.get("layer_norm_eps", 1e-5), "bias": options.get("bias", True)}
        kept = {name: value for name, value in factory.items() if name != "dropout"}
        norm = namespace.modules.LayerNorm(options["d_model"], **own, **kept)
    return getattr(namespace.modules, CLASSES[component])(layer, layers, norm)
