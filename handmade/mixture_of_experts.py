"""A mixture of experts: many feed-forward networks, of which each token goes through a few."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, ModuleList

from . import activations, checks
from .activations import Activation
from .feed_forward import feed_forward
from .linear import Linear, linear
from .precision import widen
from .softmax import softmax


class Routing(NamedTuple):
    """Where the tokens go.

    Attributes:
        experts: (k, T), the experts of each token, the most probable first.
        gates: (k, T), their weights.
        probabilities: (T, E), of all experts.
    """

    experts: Tensor
    gates: Tensor
    probabilities: Tensor


def route(logits: Tensor, top_k: int, renormalize: bool = True) -> Routing:
    r"""Choose the k most probable experts of each token: gates :math:`p_e / \sum_{\text{chosen}} p`, or :math:`p_e` itself.

    Args:
        logits: (T, E).
        top_k: k.
        renormalize: whether a token's gates sum to 1. With k = 1 they then are 1, whatever the logits, and pass no
            gradient to the router.

    Returns:
        Experts, gates and probabilities. Of equal probabilities the first expert is chosen.

    Source: Shazeer et al. 2017, "Outrageously Large Neural Networks", section 2.1.
    """
    probabilities = softmax(logits)
    gates, experts = (x[:, :top_k].t() for x in torch.sort(probabilities, dim=-1, descending=True, stable=True))
    return Routing(experts, gates / gates.sum(0) if renormalize else gates, probabilities)


def load_balancing_loss(routing: Routing) -> Tensor:
    r"""How unevenly tokens are spread: :math:`E\sum_e f_e P_e`, which is 1 where they are spread evenly.

    :math:`f_e` is the part of all choices that fell on expert e, before any is dropped; :math:`P_e` the mean of its
    probability. Only the latter passes a gradient.

    Args:
        routing: of at least one token.

    Returns:
        A scalar.

    Source: Fedus et al. 2021, "Switch Transformers", equations 4 to 6, where k = 1.
    """
    experts = routing.probabilities.size(-1)
    chosen = _chosen(routing.experts, experts).to(routing.probabilities.dtype)
    return experts * (chosen.mean((0, 1)) * routing.probabilities.mean(0)).sum()


def within_capacity(experts: Tensor, num_experts: int, capacity: int | None) -> Tensor:
    """Which choices an expert has room for: first choices before second ones, and earlier tokens before later ones.

    Args:
        experts: (k, T), as in `Routing`.
        num_experts: E.
        capacity: tokens that one expert takes; None for all.

    Returns:
        (k, T, E), True where a token goes to an expert.

    Source: Lepikhin et al. 2020, "GShard", section 2.2, algorithm 1.
    """
    chosen = _chosen(experts, num_experts)
    if capacity is None:
        return chosen
    places = chosen.flatten(0, 1).cumsum(0).reshape(chosen.shape)
    return chosen & (places <= capacity)


class Expert(Module):
    r"""One feed-forward network: :math:`W_2\,\phi(W_1 x + b_1) + b_2`."""

    def __init__(
        self, d_model: int, d_ff: int, activation: Activation, bias: bool, device: Any, dtype: torch.dtype | None
    ) -> None:
        super().__init__()
        self.linear1 = Linear(d_model, d_ff, bias, device, dtype)
        self.linear2 = Linear(d_ff, d_model, bias, device, dtype)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """(tokens, d_model) → (tokens, d_model)."""
        return feed_forward(x, self.linear1, self.activation, lambda inner: inner, self.linear2)


class MixtureOfExperts(Module):
    r"""Send each token through its k most probable experts: :math:`y = \sum_{e\,\text{chosen}} g_e\,f_e(x)`.

    Logits, probabilities and gates of halves are computed in float32: a rounded logit would choose another expert.

    Args:
        d_model: features.
        d_ff: features inside an expert.
        num_experts: E.
        top_k: k, experts of a token.
        capacity_factor: c; an expert takes ⌈c·k·T/E⌉ of T tokens, and what it has no room for contributes 0, so that
            in a residual connection the token passes as it is. None for no limit.
        activation: of the experts; "relu", "gelu", or a callable.
        bias: whether the experts have one; the router has none.
        renormalize: whether the gates of a token sum to 1; see `route`.
        device: of the parameters.
        dtype: of the parameters.

    Raises:
        ValueError: sizes that are not positive, more choices than experts.

    Counterpart: none in torch.nn.
    Source: Shazeer et al. 2017, "Outrageously Large Neural Networks", section 2.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        num_experts: int,
        top_k: int = 2,
        capacity_factor: float | None = None,
        activation: str | Activation = "relu",
        bias: bool = True,
        renormalize: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("d_model", d_model), ("d_ff", d_ff), ("num_experts", num_experts), ("top_k", top_k)):
            checks.positive(name, size)
        if top_k > num_experts:
            raise ValueError(f"top_k: expected at most num_experts={num_experts}, got {top_k}")
        if capacity_factor is not None:
            checks.number("capacity_factor", capacity_factor)
            if not 0 < capacity_factor < math.inf:
                raise ValueError(f"capacity_factor: expected a number greater than 0, got {capacity_factor}")
        function = activations.resolve(activation)
        self.top_k = top_k
        self.capacity_factor = capacity_factor
        self.renormalize = renormalize
        self.router = Linear(d_model, num_experts, False, device, dtype)
        self.experts = ModuleList(Expert(d_model, d_ff, function, bias, device, dtype) for _ in range(num_experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Route and mix.

        Args:
            x: (..., d_model), at least one token.

        Returns:
            The output, in the shape and dtype of `x`, and the load-balancing loss, a scalar in its accumulation dtype.

        Raises:
            ValueError: another number of features, no token, a dtype that is not the parameters'.
        """
        weight = self.router.weight
        checks.trailing_shape("x", x, (weight.size(1),))
        checks.same_kind("x", x, "the parameters", weight)
        tokens = x.reshape(-1, weight.size(1))
        if tokens.size(0) == 0:
            raise ValueError(f"x: expected at least one token, got {tuple(x.shape)}")
        routing = route(linear(widen(tokens), widen(weight)), self.top_k, self.renormalize)
        goes = within_capacity(routing.experts, len(self.experts), self.capacity(tokens.size(0)))
        return self.mix(tokens, goes, routing.gates).reshape(x.shape), load_balancing_loss(routing)

    def mix(self, tokens: Tensor, goes: Tensor, gates: Tensor) -> Tensor:
        """The experts' outputs for the tokens that go there, weighted and added up.

        Args:
            tokens: (T, d_model).
            goes: (k, T, E), True where a token goes to an expert.
            gates: (k, T).

        Returns:
            (T, d_model).
        """
        weights = (goes * gates.unsqueeze(-1)).sum(0)
        output = torch.zeros_like(widen(tokens))
        for number, expert in enumerate(self.experts):
            here = goes[..., number].any(0).nonzero().squeeze(-1)
            made = widen(expert(tokens.index_select(0, here)))
            output = output.index_add(0, here, made * weights[:, number].index_select(0, here).unsqueeze(-1))
        return output.to(tokens.dtype)

    def capacity(self, tokens: int) -> int | None:
        """How many of so many tokens one expert takes; None for all."""
        if self.capacity_factor is None:
            return None
        # 0.07 · 100 is a little more than 7 in floating point, and 7 all the same.
        return math.ceil(round(self.capacity_factor * self.top_k * tokens / len(self.experts), 9))

    def extra_repr(self) -> str:
        """The arguments that `repr` shows."""
        return f"top_k={self.top_k}, capacity_factor={self.capacity_factor}, renormalize={self.renormalize}"


def _chosen(experts: Tensor, num_experts: int) -> Tensor:
    """(k, T) → (k, T, E), True at the chosen expert."""
    return experts.unsqueeze(-1) == torch.arange(num_experts, device=experts.device)
