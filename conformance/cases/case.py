"""One configuration and call, as data."""

import dataclasses
import functools
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

# The fields that are options of torch's constructors and no sizes: an implementation may have one value of them only.
CONSTRUCTOR = (
    "norm_first",
    "activation",
    "layer_norm_eps",
    "bias",
    "final_norm",
    "add_bias_kv",
    "add_zero_attn",
    "kdim",
    "vdim",
    "elementwise_affine",
    "batch_first",
)


@dataclass(frozen=True)
class Case:
    """One component, how it is built and how it is called.

    A new option is one field here, with the default that torch has, one entry in `components`, and one line in
    `grid`. Mask fields hold a kind (see `masks`); "none" is no mask. With "trained" weights the inputs are sentences
    (see `pretrained`); "large" ones make scores of 1e4.
    """

    component: str
    # How it is built
    heads: int = 3
    head_dim: int = 4
    dim_feedforward: int = 10
    layers: int = 2
    norm_first: bool = False
    activation: str = "relu"
    layer_norm_eps: float = 1e-5
    final_norm: bool = True
    bias: bool = True
    batch_first: bool = True
    add_bias_kv: bool = False
    add_zero_attn: bool = False
    kdim: int | None = None
    vdim: int | None = None
    elementwise_affine: bool = True
    normalized_dims: int = 1
    vocabulary: int = 9
    padding_idx: int | None = None
    max_len: int = 11
    base: float = 10000.0
    interleaved: bool = True
    rotary: bool = False
    experts: int = 4
    top_k: int = 2
    capacity_factor: float | None = None
    renormalize: bool = True
    tied: bool = False
    # How it is called
    mode: str = "train"
    dtype: str = "float64"
    device: str = "cpu"
    batch: int | None = 2
    target: int = 5
    source: int = 7
    attends: str = "cross"
    need_weights: bool = True
    average_attn_weights: bool = True
    attn_mask: str = "none"
    key_padding_mask: str = "none"
    src_mask: str = "none"
    src_key_padding_mask: str = "none"
    tgt_mask: str = "none"
    tgt_key_padding_mask: str = "none"
    memory_mask: str = "none"
    memory_key_padding_mask: str = "none"
    hint: str = "default"
    is_causal: bool = False
    mask_shape: str = "LS"
    scale: float | None = None
    key_heads: int | None = None
    value_dim: int | None = None
    dims: int = 4
    broadcast: bool = False
    first: int = 0
    ignore_index: int = -100
    label_smoothing: float = 0.0
    reduction: str = "mean"
    # What the numbers are like
    magnitude: float = 1.0
    offset: float = 0.0
    layout: str = "contiguous"
    weights: str = "random"

    @functools.cached_property
    def id(self) -> str:
        """The component and every option that is not the default, readable and stable; the seed derives from it."""
        parts = [self.component]
        for field in dataclasses.fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                parts.append(_part(field.name, value))
        return "-".join(parts)

    @property
    def configuration(self) -> "Case":
        """The case without its dtype: two cases that differ in nothing else are one configuration."""
        return self.but(dtype="float64")

    @property
    def d_model(self) -> int:
        """Features."""
        return self.heads * self.head_dim

    def but(self, **changes: Any) -> "Case":
        """The case with some options changed."""
        return dataclasses.replace(self, **changes)

    def rng(self, label: str) -> np.random.Generator:
        """The random stream of this case for one purpose."""
        digest = hashlib.sha256(f"{self.id}:{label}".encode()).digest()
        return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))


def _part(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"no_{name}"
    if value is None:
        return f"un{name}ed" if name == "batch" else f"{name}=none"
    if name in ("mode", "dtype", "device", "layout"):
        return str(value)
    return f"{name}={value}"
