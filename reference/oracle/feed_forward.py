"""The position-wise feed-forward block."""

from __future__ import annotations

from .activations import ACTIVATIONS
from .inputs import Parameters
from .layer_config import LayerConfig
from .linear import linear
from .tape import Node, Tape


def feed_forward(tape: Tape, config: LayerConfig, parameters: Parameters, x: Node) -> Node:
    """Two linear maps with an activation between them, at every position alike.

    Formula: `y = f(x W1^T + b1) W2^T + b2`.

    Args:
        tape: where the computation is recorded.
        config: the layer's options.
        parameters: linear1.weight (F, E), linear1.bias, linear2.weight (E, F), linear2.bias.
        x: (..., E).

    Returns:
        `y` (..., E).

    Raises:
        ValueError: a parameter is missing or has another shape.

    torch counterpart: linear1, activation and linear2 of torch.nn.TransformerEncoderLayer.
    Source: Vaswani et al., "Attention Is All You Need", section 3.3, equation 2.
    """
    width, inner = config.d_model, config.dim_feedforward
    weight1 = parameters.required("linear1.weight", inner, width)
    bias1 = parameters.optional("linear1.bias", inner, present=config.bias)
    weight2 = parameters.required("linear2.weight", width, inner)
    bias2 = parameters.optional("linear2.bias", width, present=config.bias)
    opened = tape.apply(ACTIVATIONS[config.activation], tape.apply(linear, x, weight1, bias1))
    return tape.apply(linear, opened, weight2, bias2)
