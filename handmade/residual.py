"""The residual connection: the one place where Pre-Norm and Post-Norm differ."""

from collections.abc import Callable

from torch import Tensor


def residual(
    x: Tensor, sublayer: Callable[[Tensor], Tensor], norm: Callable[[Tensor], Tensor], norm_first: bool
) -> Tensor:
    r"""Add a sublayer to its input.

    Post-Norm (``norm_first=False``): :math:`\mathrm{norm}(x + f(x))`;
    Pre-Norm (``norm_first=True``): :math:`x + f(\mathrm{norm}(x))`, where the sum keeps the *unnormalised* input.

    Args:
        x: (..., d_model).
        sublayer: f, dropout included.
        norm: the sublayer's layer norm.
        norm_first: which of the two.

    Source: Vaswani et al. 2017, section 3.1 (post); Xiong et al. 2020, "On Layer Normalization in the
    Transformer Architecture", figure 1 (pre).
    """
    return x + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
