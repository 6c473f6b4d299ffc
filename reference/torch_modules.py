"""Building a component from torch's constructor options, out of torch.nn or of anything with its class names.

The reference is torch's *slow path*: gradients enabled and parameters that require them, so that neither the native
encoder kernel nor the native attention kernel is taken, in train and in eval mode alike.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FUNCTIONS = {
    "attention": "scaled_dot_product_attention",
    "cross_entropy": "cross_entropy",
    "decoding": "greedy",
}
CLASSES = {
    "multihead_attention": "MultiheadAttention",
    "layer_norm": "LayerNorm",
    "encoder_layer": "TransformerEncoderLayer",
    "decoder_layer": "TransformerDecoderLayer",
    "encoder": "TransformerEncoder",
    "decoder": "TransformerDecoder",
    "transformer": "Transformer",
    "embedding": "Embedding",
    "token_embedding": "TokenEmbedding",
    "positional_encoding": "PositionalEncoding",
    "rotary": "RotaryEmbedding",
    "rms_norm": "RMSNorm",
    "swiglu": "SwiGLU",
    "mixture_of_experts": "MixtureOfExperts",
    "grouped_query_attention": "GroupedQueryAttention",
    "self_attention": "SelfAttention",
    "sequence_model": "SequenceModel",
    "language_model": "LanguageModel",
    "text_model": "TextModel",
}
# What not every version of torch has.
LATER = ("attention", "rms_norm")
# Options that not every version's constructors take, and what those do that do not.
ALWAYS = {"bias": True}


class FunctionModule(nn.Module):
    """A function as a module without parameters, looked up by its name at each call."""

    def __init__(self, functions: Any, name: str, **options: Any) -> None:
        super().__init__()
        self.functions, self.name, self.options = functions, name, options

    def forward(self, *arguments: Any, **keywords: Any) -> Tensor:
        """Call the function."""
        return getattr(self.functions, self.name)(*arguments, **self.options, **keywords)


@dataclass(frozen=True)
class Namespace:
    """Where a component's classes come from.

    Attributes:
        modules: has torch.nn's class names as attributes, of those components that it has.
        functions: has the names of torch.nn.functional, likewise.
        activations: callables by the name that a case gives them; other names are handed to the constructor.
    """

    modules: Any
    functions: Any
    activations: Mapping[str, Callable[[Tensor], Tensor]]

    def has(self, component: str) -> bool:
        """Whether there is such a component."""
        if component in FUNCTIONS:
            return hasattr(self.functions, FUNCTIONS[component])
        return hasattr(self.modules, CLASSES[component])


def gelu_sigmoid(x: Tensor) -> Tensor:
    """What torch has no function for: x σ(1.702 x)."""
    return x * torch.sigmoid(1.702 * x)


TORCH = Namespace(
    nn,
    F,
    {
        "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
        "silu": F.silu,
        "gelu_sigmoid": gelu_sigmoid,
        "gelu_callable": F.gelu,
        "gelu_tanh_module": nn.GELU(approximate="tanh"),
    },
)


def build(component: str, options: Mapping[str, Any], namespace: Namespace = TORCH, **factory: Any) -> nn.Module:
    """The component, as its class's constructor makes it.

    Args:
        component: a key of `CLASSES` or of `FUNCTIONS`.
        options: constructor arguments by torch's names; stacks take those of their layer, `num_layers`, and
            `norm`, whether a final layer norm follows.
        namespace: whose classes.
        factory: `dropout`, `dtype`, `device`; those that the constructor does not take are left out.

    Raises:
        ValueError: an unknown component.
    """
    if component in FUNCTIONS:
        return FunctionModule(namespace.functions, FUNCTIONS[component], **options)
    if component not in CLASSES:
        raise ValueError(f"component: expected one of {[*FUNCTIONS, *CLASSES]}, got {component!r}")
    options = dict(options)
    if options.get("activation") in namespace.activations:
        options["activation"] = namespace.activations[options["activation"]]
    with warnings.catch_warnings():
        # torch warns that a stack cannot use nested tensors; the reference does not want them.
        warnings.filterwarnings("ignore", message="enable_nested_tensor is True")
        if component in ("encoder", "decoder"):
            return _stack(component, options, namespace, **factory)
        made = getattr(namespace.modules, CLASSES[component])
        return made(**_known(made, options), **_taken(made, factory))


def _stack(component: str, options: dict[str, Any], namespace: Namespace, **factory: Any) -> nn.Module:
    layers, with_norm = options.pop("num_layers"), options.pop("norm")
    layer = build(f"{component}_layer", options, namespace, **factory)
    norm = None
    if with_norm:
        own = {"eps": options.get("layer_norm_eps", 1e-5), "bias": options.get("bias", True)}
        made = namespace.modules.LayerNorm
        norm = made(options["d_model"], **_known(made, own), **_taken(made, factory))
    return getattr(namespace.modules, CLASSES[component])(layer, layers, norm)


def _taken(made: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that the constructor takes."""
    taken = inspect.signature(made).parameters
    return {name: value for name, value in given.items() if name in taken}


def _known(made: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that the constructor does not take where it does what they say all the same."""
    taken = inspect.signature(made).parameters
    return {name: value for name, value in options.items() if name in taken or ALWAYS.get(name) != value}
