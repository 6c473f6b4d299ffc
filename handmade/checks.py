"""Argument checks: each names the argument, what was expected and what came, before anything is computed."""

import math
import numbers
from collections.abc import Sequence

import torch
from torch import Tensor

from .precision import HALVES
from .transforms import compiling

try:
    torch.is_autocast_enabled("cpu")
    _AUTOCAST_BY_DEVICE = True
except TypeError:  # an older torch has a function for each device instead
    _AUTOCAST_BY_DEVICE = False


def positive(name: str, value: int) -> None:
    """`value` is an integer of at least 1."""
    integer(name, value)
    if value <= 0:
        raise ValueError(f"{name}: expected an integer greater than 0, got {value}")


def not_negative(name: str, value: int) -> None:
    """`value` is an integer of at least 0."""
    integer(name, value)
    if value < 0:
        raise ValueError(f"{name}: expected an integer of at least 0, got {value}")


def sizes(name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """One size or several of them, none negative, as a tuple."""
    found = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    for size in found:
        not_negative(name, size)
    return found


def integer(name: str, value: object) -> None:
    """`value` is an integer."""
    if not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}: expected an integer, got {value!r}")


def number(name: str, value: object) -> None:
    """`value` is a real number."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected a number, got {value!r}")


def finite(name: str, value: float) -> None:
    """`value` is a finite real number."""
    number(name, value)
    if not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, got {value}")


def probability(name: str, value: float) -> None:
    """`value` lies in [0, 1]."""
    number(name, value)
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a probability between 0 and 1, got {value}")


def divisible(name: str, value: int, by: str, divisor: int) -> None:
    """`value` is a multiple of `divisor`."""
    if value % divisor != 0:
        raise ValueError(f"{name}: expected a multiple of {by}={divisor}, got {value}")


def tensor(name: str, value: object) -> None:
    """`value` is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")


def trailing_shape(name: str, value: Tensor, shape: Sequence[int]) -> None:
    """The last dimensions of `value` are `shape`."""
    tensor(name, value)
    if tuple(value.shape[-len(shape) :]) != tuple(shape):
        raise ValueError(f"{name}: expected shape (..., {_sizes(shape)}), got {_shape(value)}")


def shape(name: str, value: Tensor, *alternatives: Sequence[int], meaning: str = "") -> None:
    """`value` has one of the shapes."""
    tensor(name, value)
    if tuple(value.shape) not in {tuple(sizes) for sizes in alternatives}:
        wanted = " or ".join(f"({_sizes(sizes)})" for sizes in alternatives)
        raise ValueError(f"{name}: expected shape {wanted}{meaning and f' = {meaning}'}, got {_shape(value)}")


def sequence(name: str, value: Tensor, features: int, features_name: str, dim: int | None = None) -> None:
    """`value` is (length, features), or with a batch dimension as well; `dim` fixes which of the two."""
    tensor(name, value)
    if value.dim() not in ((2, 3) if dim is None else (dim,)):
        wanted = "2-D (unbatched) or 3-D (batched)" if dim is None else f"{dim}-D like the query"
        raise ValueError(f"{name}: expected a {wanted} tensor, got {value.dim()}-D {_shape(value)}")
    if value.size(-1) != features:
        raise ValueError(f"{name}: expected {features_name}={features} features last, got {_shape(value)}")


def matching(name: str, value: Tensor, other_name: str, other: Tensor, dims: Sequence[int], what: str) -> None:
    """`value` and `other` agree in the sizes of `dims`."""
    mine, theirs = (tuple(x.size(dim) for dim in dims) for x in (value, other))
    if mine != theirs:
        raise ValueError(f"{name}: expected the {what} of {other_name}, {theirs}, got {mine} in {_shape(value)}")


def same_kind(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    """`value` has the dtype and device of `other`; under autocast the dtypes may differ."""
    if value.dtype != other.dtype and not _autocast(value.device.type):
        raise ValueError(f"{name}: expected the dtype of {other_name}, {other.dtype}, got {value.dtype}")
    if value.device != other.device:
        raise ValueError(f"{name}: expected the device of {other_name}, {other.device}, got {value.device}")


def floating(name: str, value: Tensor) -> None:
    """`value` is a floating tensor."""
    tensor(name, value)
    if not value.is_floating_point():
        raise TypeError(f"{name}: expected a floating tensor, got {value.dtype}")


def indices(
    name: str,
    value: Tensor,
    size: int,
    device: torch.device,
    also: int | None = None,
    dtypes: Sequence[torch.dtype] = (torch.int32, torch.int64),
) -> None:
    """`value` holds integers from 0 to size − 1, or `also`; on a device that has values to look at."""
    tensor(name, value)
    if value.dtype not in dtypes:
        wanted = " or ".join(str(dtype) for dtype in dtypes)
        raise TypeError(f"{name}: expected {wanted}, got {value.dtype}")
    if value.device != device:
        raise ValueError(f"{name}: expected the device {device}, got {value.device}")
    if value.device.type == "meta" or compiling():
        return
    outside = (value < 0) | (value >= size)
    if also is not None:
        outside = outside & (value != also)
    try:
        wrong = bool(outside.any())
    except RuntimeError:  # under vmap there is no one value
        return
    if wrong:
        raise ValueError(f"{name}: expected integers from 0 to {size - 1}, got {int(value[outside][0])}")


def within(name: str, value: int, size: int) -> None:
    """`value` is an integer from 0 to size − 1."""
    integer(name, value)
    if not 0 <= value < size:
        raise ValueError(f"{name}: expected an integer from 0 to {size - 1}, got {value}")


def token_ids(name: str, value: Tensor, size: int, device: torch.device, longest: int | None = None) -> None:
    """`value` is a batch of sequences of at least one id of a vocabulary of `size`, and of at most `longest`."""
    tensor(name, value)
    if value.dim() != 2:
        raise ValueError(f"{name}: expected ids (batch, length), got shape {_shape(value)}")
    if value.size(1) == 0:
        raise ValueError(f"{name}: expected at least one id in each sequence, got shape {_shape(value)}")
    if longest is not None and value.size(1) > longest:
        raise ValueError(f"{name}: expected at most block_size={longest} ids in each sequence, got {value.size(1)}")
    indices(name, value, size, device)


def normalized_kind(name: str, value: Tensor, parameter: Tensor) -> None:
    """`value` has the dtype of the norm's parameter, which may be float32 for a half; under autocast any."""
    widened = value.dtype in HALVES and parameter.dtype == torch.float32
    if not widened:
        same_kind(name, value, "the parameters", parameter)


def mask_kind(name: str, mask: Tensor, query: Tensor) -> None:
    """`mask` is boolean (an integer mask could mean either polarity), of the query's dtype, or float32."""
    tensor(name, mask)
    if mask.dtype == torch.bool:
        return
    if not mask.is_floating_point():
        raise TypeError(f"{name}: expected a boolean or floating mask, got {mask.dtype}")
    if mask.dtype != torch.float32:
        same_kind(name, mask, "the query", query)


def attention_masks(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool | None,
    *,
    query: Tensor,
    batch: int | None,
    heads: int,
    queries: int,
    keys: int,
    names: tuple[str, str, str] = ("attn_mask", "key_padding_mask", "is_causal"),
) -> None:
    """The masks of one attention fit its sizes; `batch` is None for an unbatched call."""
    attn_name, padding_name, causal_name = names
    if attn_mask is not None:
        mask_kind(attn_name, attn_mask, query)
        per_head = (heads if batch is None else batch * heads, queries, keys)
        shape(attn_name, attn_mask, (queries, keys), per_head, meaning="(L, S) or (N·heads, L, S)")
    elif is_causal:
        raise ValueError(
            f"{causal_name}: expected {attn_name} with it, since the hint only describes a mask, got None; "
            "generate_square_subsequent_mask makes one"
        )
    if key_padding_mask is not None:
        mask_kind(padding_name, key_padding_mask, query)
        sizes = (keys,) if batch is None else (batch, keys)
        shape(padding_name, key_padding_mask, sizes, meaning="(S,)" if batch is None else "(N, S)")


def _autocast(device_type: str) -> bool:
    if _AUTOCAST_BY_DEVICE:
        return torch.is_autocast_enabled(device_type)
    return torch.is_autocast_cpu_enabled() if device_type == "cpu" else torch.is_autocast_enabled()


def _sizes(sizes: Sequence[int]) -> str:
    return ", ".join(str(size) for size in sizes)


def _shape(value: Tensor) -> str:
    return f"({_sizes(value.shape)})"
