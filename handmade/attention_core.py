"""Which core computes an attention: the plain one, which is its definition, or the blockwise one, which is fast."""

from torch import Tensor

from . import attention, blockwise_function, masks


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    scale: float | None = None,
    is_causal: bool = False,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Context and weights of an attention; see `attention.attention` for the formula and the shapes.

    Blocks keep no weights, so the plain core takes the calls that ask for them, and those that drop some: it draws as
    torch does.

    Args:
        query: (..., L, E).
        key: (..., S, E).
        value: (..., S, Ev).
        mask: broadcasts to (..., L, S); True = keep, or added to the scores; None for no mask.
        dropout_p: probability with which a weight is dropped.
        scale: of the scores; None for 1/√E.
        is_causal: query i sees keys 0 … i; without a mask only.
        need_weights: return the weights as well.

    Returns:
        The context (..., L, Ev), and the weights (..., L, S) or None.
    """
    if not need_weights and dropout_p == 0.0 and blockwise_function.applicable(query, key, value, mask):
        return blockwise_function.blockwise(query, key, value, mask, is_causal, scale), None
    if is_causal:
        mask = masks.causal_keep(query.size(-2), key.size(-2), query.device)
    context, weights = attention.attention(query, key, value, mask, dropout_p, scale)
    return context, weights if need_weights else None
