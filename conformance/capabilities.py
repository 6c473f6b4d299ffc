"""What the installed torch can do, found out by trying: a version number says little of a build, and nothing of a nightly."""

import functools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from reference.torch_modules import CLASSES

from .cases.case import Case
from .cases.components import TRANSFORMER
from .inputs import hints
from .subjects import attention_backends
from .verdicts import Unsupported

# Without the name of the build.
VERSION = torch.__version__.partition("+")[0]
NOT_SUPPORTED = f"not supported by torch {VERSION}"
# Of torch's own modules a release can compile what it is made for.
ORDINARY_PYTHON = "torch.compile of ordinary Python"
HINTED = tuple(name for name, it in TRANSFORMER.items() if any(one.hint_argument for one in it.attentions))


def _hint(component: str) -> str:
    return f"{TRANSFORMER[component].attentions[0].hint_argument} of {CLASSES[component]}"


def _attention(**flags: Any) -> Any:
    x = torch.zeros(1, 2, 1, 2)
    return F.scaled_dot_product_attention(x, x, x, **flags)


def _without_bias() -> Any:
    return nn.LayerNorm(2, bias=False), nn.TransformerEncoderLayer(2, 1, 2, bias=False)


def _hints(component: str) -> Any:
    """A call with every hint that the component takes."""
    x, mask = torch.zeros(1, 1, 2), torch.zeros(1, 1)
    layer = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}.get(component)
    sizes = (
        (2, 1) if component == "multihead_attention" else (2, 1, 1, 1, 2) if component == "transformer" else (2, 1, 2)
    )
    made = getattr(nn, CLASSES[component])(*((layer(*sizes), 1) if layer else sizes))
    given: dict[Any, Any] = dict.fromkeys(TRANSFORMER[component].tensors, x)
    for attention in TRANSFORMER[component].attentions:
        given |= {attention.mask_argument: mask, attention.hint_argument: True}
    return made(**given)


def _float_padding() -> Any:
    x = torch.zeros(1, 1, 2)
    return nn.MultiheadAttention(2, 1)(x, x, x, key_padding_mask=torch.zeros(1, 1))


def _arithmetic(dtype: torch.dtype) -> Any:
    """What the products, norms and activations by hand are made of, forward and backward."""
    x = torch.ones(2, 2, 2, dtype=dtype, requires_grad=True)
    made = torch.baddbmm(x, x, x) @ x.mean(0) + torch.addmm(x[0], x[0], x[1])
    made = made.exp().rsqrt() + made.tanh() + torch.erf(made) + torch.sigmoid(made)
    made = (made.cumsum(-1) - made.amax(-1, keepdim=True)).masked_fill(made < 0, 0)
    made.sum().backward()
    return x.grad


def _layers(dtype: torch.dtype) -> Any:
    x = torch.ones(1, 2, 2, dtype=dtype, requires_grad=True)
    made = nn.TransformerEncoderLayer(2, 1, 2, activation="gelu", dtype=dtype)(x)
    made.sum().backward()
    return x.grad


def _compiled() -> Any:
    return torch.compile(torch.neg, backend="eager")(torch.zeros(1))


def _compiled_python() -> Any:
    """In one graph what the checks of a module are written in, and the question whether they are to be made."""

    def function(x: torch.Tensor) -> torch.Tensor:
        first, second = (y + 1 for y in (x, x))
        if tuple(x.shape) not in {tuple(sizes) for sizes in ([1], [2, 3])}:
            raise ValueError(f"x: got shape {tuple(x.shape)}")
        return first if torch.compiler.is_compiling() else second

    return torch.compile(function, backend="eager", fullgraph=True)(torch.zeros(1))


def _function_transforms() -> Any:
    return torch.func.grad(torch.sin)(torch.zeros(()))


PROBES: dict[str, Callable[[], Any]] = {
    "scaled_dot_product_attention": _attention,
    "scale": functools.partial(_attention, scale=1.0),
    "enable_gqa": functools.partial(_attention, enable_gqa=True),
    "bias=": _without_bias,
    **{_hint(component): functools.partial(_hints, component) for component in HINTED},
    "floating key_padding_mask": _float_padding,
    "dtype= of generate_square_subsequent_mask": lambda: nn.Transformer.generate_square_subsequent_mask(
        1, dtype=torch.float64
    ),
    "fused attention on the CPU": attention_backends.try_flash,
    "RMSNorm": lambda: nn.RMSNorm(2)(torch.zeros(1, 2)),
    "float16 arithmetic on the CPU": functools.partial(_arithmetic, torch.float16),
    "bfloat16 arithmetic on the CPU": functools.partial(_arithmetic, torch.bfloat16),
    "float16 in torch.nn on the CPU": functools.partial(_layers, torch.float16),
    "bfloat16 in torch.nn on the CPU": functools.partial(_layers, torch.bfloat16),
    "Function.setup_context": lambda: torch.autograd.Function.setup_context,
    "hooks with keyword arguments": lambda: nn.Identity().register_forward_pre_hook(print, with_kwargs=True),
    "torch.device as a context": lambda: torch.device("cpu").__enter__,
    "torch.func": _function_transforms,
    "torch.compile": _compiled,
    ORDINARY_PYTHON: _compiled_python,
    "torch.export": lambda: torch.export.export(nn.Linear(1, 1), (torch.zeros(1, 1),)),
}
HALVES = ("bfloat16", "float16")
# What takes seconds to try is tried where a clause needs it.
SLOW = ("torch.compile", ORDINARY_PYTHON, "torch.export")


@functools.cache
def has(name: str) -> bool:
    """Whether the installed torch can do what the probe of that name does.

    Raises:
        KeyError: no such probe.
    """
    # Asked in the middle of a check as well: what a probe draws must not be missing there.
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.enable_grad():
        warnings.simplefilter("ignore")
        try:
            PROBES[name]()
        except KeyError:
            if name not in PROBES:
                raise
            return False
        except Exception:
            return False
    return True


def probed(slow: bool = False) -> dict[str, bool]:
    """All capabilities, the slow ones on request."""
    return {name: has(name) for name in PROBES if slow or name not in SLOW}


def refusal(names: Iterable[str]) -> str | None:
    """What to say where one of the capabilities is missing, or None."""
    for name in names:
        if not has(name):
            return f"{name}: {NOT_SUPPORTED}"
    return None


def of_any(case: Case) -> Iterator[str]:
    """What a case needs whoever does it: torch's arithmetic."""
    if case.device == "cpu" and case.dtype in HALVES:
        yield f"{case.dtype} arithmetic on the CPU"


def of_torch(case: Case, backend: str = "") -> Iterator[str]:
    """What a case needs of torch.nn besides, where torch.nn does it, by one of its attention's backends or any."""
    if backend == "flash" and case.device == "cpu":
        yield "fused attention on the CPU"
    if case.component == "attention":
        yield "scaled_dot_product_attention"
        yield from (
            name for name, value in (("scale", case.scale), ("enable_gqa", case.key_heads)) if value is not None
        )
    if case.component == "rms_norm":
        yield "RMSNorm"
    if case.component not in TRANSFORMER:
        return
    if not case.bias and case.component != "multihead_attention":
        yield "bias="
    if any(attention.hint_argument in hints(case) for attention in TRANSFORMER[case.component].attentions):
        yield _hint(case.component)
    if case.device == "cpu" and case.dtype in HALVES:
        yield f"{case.dtype} in torch.nn on the CPU"


def require(*names: str) -> None:
    """A clause needs some capabilities.

    Raises:
        Unsupported: the installed torch does not have them all.
    """
    missing = refusal(names)
    if missing:
        raise Unsupported(missing)
