"""The figures behind the pictures; the tests of claims assert the same ones."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from handmade import LayerNorm, TransformerEncoder, TransformerEncoderLayer
from handmade.positions import sinusoidal
from handmade.softmax import softmax

from .measures import initial, normal

WIDTHS = (4, 16, 64, 256, 1024)
KEYS = 16
QUERIES = 400
D_MODEL = 512
STARTS = (100, 200, 1000)
FARTHEST = 100
DEPTHS = (3, 6, 12, 24)
SEEDS = range(4)


@dataclass(frozen=True)
class Saturation:
    """Softmax over 16 independent keys: means over 400 queries.

    Attributes:
        d_k: features of queries and keys, all independent and standard normal.
        scaled: whether the scores are divided by √d_k.
        variance: of the scores.
        largest: the largest weight.
        entropy: of the weights, in nats; log 16 = 2.77 where all are equal.
        gradient: Frobenius norm of the softmax's Jacobian, diag(w) − w wᵀ.
    """

    d_k: int
    scaled: bool
    variance: float
    largest: float
    entropy: float
    gradient: float


@functools.cache
def saturation() -> tuple[Saturation, ...]:
    """By width, without the scaling and with it."""
    return tuple(_saturation(d_k, scaled) for d_k in WIDTHS for scaled in (False, True))


def _saturation(d_k: int, scaled: bool) -> Saturation:
    query, keys = normal(QUERIES, 1, d_k, seed=1), normal(QUERIES, KEYS, d_k, seed=2)
    scores = (query * keys).sum(-1) / (d_k**0.5 if scaled else 1)
    w = softmax(scores)
    jacobian = torch.diag_embed(w) - w.unsqueeze(-1) * w.unsqueeze(-2)
    entropy = -(w * w.clamp_min(torch.finfo(w.dtype).tiny).log()).sum(-1)
    quantities = (scores.var(), w.amax(-1).mean(), entropy.mean(), jacobian.norm(dim=(1, 2)).mean())
    return Saturation(d_k, scaled, *(quantity.item() for quantity in quantities))


@functools.cache
def products() -> np.ndarray:
    """Products of position codes, PE(p) · PE(p + k) / (d/2), by start p (rows) and distance k from −100 to 100."""
    table = sinusoidal(max(STARTS) + FARTHEST + 1, D_MODEL, dtype=torch.float64).numpy()
    rows = [table[p - FARTHEST : p + FARTHEST + 1] @ table[p] for p in STARTS]
    return np.array(rows) / (D_MODEL / 2)


@functools.cache
def gradients(norm_first: bool) -> dict[int, np.ndarray]:
    """Gradient norms at initialisation of the feed-forward networks' second matrices: depth → by layer, from the input.

    Stacks of width 64 with 4 heads and inner width 256, Xavier-uniform matrices, a final norm where the norms come
    first; 2 sequences of 16 random vectors, a random cotangent of the output; root mean square over 4 draws.
    """
    return {depth: _rms([_gradients(depth, norm_first, seed) for seed in SEEDS]) for depth in DEPTHS}


def _gradients(depth: int, norm_first: bool, seed: int) -> list[float]:
    d = 64

    def make() -> TransformerEncoder:
        layer = TransformerEncoderLayer(d, 4, 4 * d, dropout=0.0, batch_first=True, norm_first=norm_first)
        stack = TransformerEncoder(layer, depth, LayerNorm(d) if norm_first else None)
        for parameter in stack.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        return stack

    stack = initial(make, seed)
    output = stack(normal(2, 16, d, seed=100 + seed))
    (output * normal(*output.shape, seed=200 + seed)).mean((0, 1)).sum().backward()
    return [_norm(parameter.grad) for name, parameter in stack.named_parameters() if name.endswith("linear2.weight")]


def _norm(gradient: Tensor | None) -> float:
    assert gradient is not None
    return gradient.norm().item()


def _rms(draws: list[list[float]]) -> np.ndarray:
    return np.sqrt(np.mean(np.square(draws), axis=0))


@dataclass(frozen=True)
class Figure:
    """A picture's title, and the numbers beneath it.

    Attributes:
        title: what it shows.
        head: the table's columns.
        rows: the table's rows, in text.
    """

    title: str
    head: tuple[str, ...]
    rows: Callable[[], list[tuple[str, ...]]]


def _saturation_rows() -> list[tuple[str, ...]]:
    return [
        (
            str(one.d_k), "yes" if one.scaled else "no", f"{one.variance:.2f}", f"{one.largest:.2f}",
            f"{one.entropy:.2f}", f"{one.gradient:.2f}",
        )
        for one in saturation()
    ]  # fmt: skip


def _product_rows() -> list[tuple[str, ...]]:
    distances = (-100, -50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50, 100)
    return [(f"{k:+d}" if k else "0", *(f"{value:.4f}" for value in products()[:, k + FARTHEST])) for k in distances]


def _gradient_rows() -> list[tuple[str, ...]]:
    post, pre = gradients(False), gradients(True)
    return [(str(n), *(f"{value:.3f}" for value in (post[n][0], post[n][-1], pre[n][0], pre[n][-1]))) for n in DEPTHS]


FIGURES = {
    "softmax-saturation": Figure(
        "Softmax over 16 keys, by the width of queries and keys, with and without the division by √d_k",
        ("d_k", "scaled", "variance of scores", "largest weight", "entropy", "norm of Jacobian"),
        _saturation_rows,
    ),
    "positional-products": Figure(
        f"Products of position codes of width {D_MODEL}, PE(p) · PE(p + k) / {D_MODEL // 2}, by distance",
        ("k", *(f"p = {p}" for p in STARTS)),
        _product_rows,
    ),
    "gradient-norms": Figure(
        "Gradient norms of the feed-forward networks' second matrices at initialisation, by depth and layer",
        ("layers", "Post-Norm, first layer", "Post-Norm, last layer", "Pre-Norm, first layer", "Pre-Norm, last layer"),
        _gradient_rows,
    ),
}
