"""The options that the layers and stacks share."""

from __future__ import annotations

from dataclasses import dataclass

from .activations import ACTIVATIONS
from .multihead_attention import AttentionConfig


@dataclass(frozen=True)
class LayerConfig:
    """The constructor options of torch's Transformer layers, by torch's names."""

    d_model: int
    nhead: int
    dim_feedforward: int = 2048
    activation: str = "relu"
    layer_norm_eps: float = 1e-5
    norm_first: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation: expected one of {sorted(ACTIVATIONS)}, got {self.activation!r}")

    @property
    def attention(self) -> AttentionConfig:
        """The options of the layer's attention blocks."""
        return AttentionConfig(self.d_model, self.nhead, self.bias)
