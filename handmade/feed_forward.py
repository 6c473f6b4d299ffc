"""The position-wise feed-forward network."""

from collections.abc import Callable

from torch import Tensor

Map = Callable[[Tensor], Tensor]


def feed_forward(x: Tensor, linear1: Map, activation: Map, dropout: Map, linear2: Map) -> Tensor:
    r"""Widen, bend, narrow: :math:`W_2\,\mathrm{drop}(\phi(W_1 x + b_1)) + b_2`, at each position alone.

    Args:
        x: (..., d_model).
        linear1: d_model → dim_feedforward.
        activation: φ.
        dropout: acts between φ and linear2.
        linear2: dim_feedforward → d_model.

    Returns:
        (..., d_model).

    Counterpart: `_ff_block` of torch's layers, less the dropout after it.
    Source: Vaswani et al. 2017, section 3.3.
    """
    return linear2(dropout(activation(linear1(x))))
