"""The handmade classes are called as the installed torch's: parameter names, order, kinds and defaults."""

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

import pytest
from torch import nn

import handmade

CLASSES = [
    "LayerNorm",
    "Linear",
    "RMSNorm",
    "MultiheadAttention",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerDecoder",
    "Transformer",
]
METHODS = [(name, method) for name in CLASSES for method in ("__init__", "forward")]
# torch's constructor has options beside, for norms and sparse gradients.
METHODS.append(("Embedding", "forward"))
METHODS.append(("Transformer", "generate_square_subsequent_mask"))

# torch's function is a builtin without a signature, so its list stands here, as its documentation has it.
ATTENTION = [
    ("query", Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty),
    ("key", Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty),
    ("value", Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty),
    ("attn_mask", Parameter.POSITIONAL_OR_KEYWORD, None),
    ("dropout_p", Parameter.POSITIONAL_OR_KEYWORD, 0.0),
    ("is_causal", Parameter.POSITIONAL_OR_KEYWORD, False),
    ("scale", Parameter.KEYWORD_ONLY, None),
    ("enable_gqa", Parameter.KEYWORD_ONLY, False),
]


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each parameter; a callable default by its name."""
    listed = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default.__name__ if _named(p.default) else p.default) for p in listed]


def _named(default: Any) -> bool:
    return callable(default) and default is not Parameter.empty


def differences(mine: list[tuple[str, Any, Any]], theirs: list[tuple[str, Any, Any]]) -> list[str]:
    """How a signature differs from torch's; what the installed torch does not have yet may be extra."""
    known = {name for name, _, _ in theirs}
    common = [entry for entry in mine if entry[0] in known]
    missing = [f"no {entry}" for entry in theirs if entry[0] not in {name for name, _, _ in mine}]
    changed = [f"expected {b}, got {a}" for a, b in zip(common, theirs, strict=False) if a != b]
    return missing or changed


@pytest.mark.parametrize(("name", "method"), METHODS, ids=[f"{name}.{method}" for name, method in METHODS])
def test_methods(name: str, method: str) -> None:
    """A class is built and called with torch's arguments."""
    mine, theirs = (parameters(getattr(getattr(namespace, name), method)) for namespace in (handmade, nn))
    assert differences(mine, theirs) == []


def test_attention() -> None:
    """scaled_dot_product_attention has torch's arguments."""
    assert parameters(handmade.scaled_dot_product_attention) == ATTENTION


def _original(a, b=1, *, c=None):  # type: ignore[no-untyped-def]
    return None


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        (lambda a, b=1, *, c=None: None, True),
        (lambda a, b=1, extra=0, *, c=None: None, True),
        (lambda a, b=2, *, c=None: None, False),
        (lambda a, b=1, c=None: None, False),
        (lambda a, *, c=None: None, False),
        (lambda a, other=1, *, c=None: None, False),
        (lambda a, b=1, *, c=print: None, False),
    ],
    ids=["equal", "extra", "default", "kind", "missing", "renamed", "callable"],
)
def test_the_check_sees_changes(changed: Callable[..., Any], same: bool) -> None:
    """Another default, kind or name is seen; an extra argument is no difference."""
    assert (differences(parameters(changed), parameters(_original)) == []) is same


def test_the_check_sees_the_order() -> None:
    """Two arguments that change places are seen."""
    assert differences(parameters(lambda b, a: None), parameters(lambda a, b: None))
