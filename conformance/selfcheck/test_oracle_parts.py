"""The oracle's parts that torch.nn lacks: against what torch has of them, and against their definitions."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conformance.selfcheck.oracle_checks import agree, random_arrays, randomised


@pytest.mark.parametrize("shape", [(5,), (3, 5)], ids=str)
@pytest.mark.parametrize("eps", [None, 1e-5, 0.1])
def test_rms_norm_agrees(shape: tuple[int, ...], eps: float | None) -> None:
    options: dict[str, Any] = {"normalized_shape": shape, "eps": eps}
    agree("rms_norm", options, randomised(nn.RMSNorm(**options)), {"x": random_arrays(1, (2, 3, 5))[0]})


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotation_is_a_product_of_complex_numbers(interleaved: bool) -> None:
    def turned(x: Tensor, offset: int) -> Tensor:
        pairs = x.unflatten(-1, (3, 2)) if interleaved else x.unflatten(-1, (2, 3)).transpose(-1, -2)
        places = torch.arange(offset, offset + 4, dtype=torch.float64)
        angles = torch.outer(places, 50.0 ** (-torch.arange(3, dtype=torch.float64) / 3))
        product = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)
        found = torch.view_as_real(product)
        return (found if interleaved else found.transpose(-1, -2)).flatten(-2)

    options = {"head_dim": 6, "base": 50.0, "interleaved": interleaved}
    agree("rotary", options, turned, {"x": random_arrays(2, (2, 4, 6))[0], "offset": 3})


class Gated(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(4, 5, bias), nn.Linear(5, 4, bias), nn.Linear(4, 5, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


@pytest.mark.parametrize("bias", [True, False])
def test_swiglu_agrees(bias: bool) -> None:
    options = {"d_model": 4, "d_ff": 5, "bias": bias}
    agree("swiglu", options, randomised(Gated(bias)), {"x": random_arrays(3, (2, 3, 4))[0]})


class Grouped(nn.Module):
    """Grouped queries by torch's own attention function."""

    def __init__(self, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups
        self.q_proj, self.out_proj = nn.Linear(12, 12), nn.Linear(12, 12)
        self.k_proj, self.v_proj = (nn.Linear(12, groups * 12 // heads) for _ in range(2))

    def forward(self, x: Tensor, is_causal: bool) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (p(x).unflatten(-1, (self.groups, -1)).transpose(1, 2) for p in (self.k_proj, self.v_proj))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
        return self.out_proj(context.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("is_causal", [True, False])
def test_grouped_queries_agree(groups: int, is_causal: bool) -> None:
    options = {"d_model": 12, "num_heads": 4, "num_kv_heads": groups}
    arguments = {"x": random_arrays(4, (2, 5, 12))[0], "is_causal": is_causal}
    agree("grouped_query_attention", options, randomised(Grouped(4, groups)), arguments)


class Single(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(6, 6) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(self.W_q(x), self.W_k(x), self.W_v(x))


def test_single_head_agrees() -> None:
    agree("self_attention", {"d_model": 6}, randomised(Single()), {"x": random_arrays(5, (2, 5, 6))[0]})


class Experts(nn.Module):
    """Token by token and choice by choice, as one would do it on paper."""

    def __init__(self, top_k: int, factor: float | None, renormalize: bool) -> None:
        super().__init__()
        self.top_k, self.factor, self.renormalize = top_k, factor, renormalize
        self.router = nn.Linear(4, 3, bias=False)
        self.experts = nn.ModuleList(
            nn.ModuleDict({"linear1": nn.Linear(4, 5), "linear2": nn.Linear(5, 4)}) for _ in range(3)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens = x.flatten(0, 1)
        likely = self.router(tokens).softmax(-1)
        best = likely.topk(self.top_k)
        room = (
            len(tokens) * self.top_k
            if self.factor is None
            else int(np.ceil(self.factor * self.top_k * len(tokens) / 3))
        )
        taken, outputs = [0] * 3, [torch.zeros(4, dtype=torch.float64)] * len(tokens)
        for rank in range(self.top_k):
            for place, token in enumerate(tokens):
                expert = int(best.indices[place, rank])
                taken[expert] += 1
                if taken[expert] <= room:
                    gate = best.values[place, rank] / (best.values[place].sum() if self.renormalize else 1)
                    parts: Any = self.experts[expert]
                    outputs[place] = outputs[place] + gate * parts["linear2"](parts["linear1"](token).relu())
        loss = 3 * sum(taken[e] / sum(taken) * likely[:, e].mean() for e in range(3))
        return torch.stack(outputs).unflatten(0, x.shape[:2]), torch.as_tensor(loss)


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("factor", [None, 0.5, 1.0])
@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_experts_agree(top_k: int, factor: float | None, renormalize: bool) -> None:
    options: dict[str, Any] = {"d_model": 4, "d_ff": 5, "num_experts": 3, "top_k": top_k}
    options |= {"capacity_factor": factor, "renormalize": renormalize}
    subject = randomised(Experts(top_k, factor, renormalize))
    agree("mixture_of_experts", options, subject, {"x": random_arrays(6, (2, 4, 4))[0]})
