"""The handmade model is made by hand: what it imports and calls, and which operators it runs on."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import handmade
from conformance import arguments
from conformance.cases.case import Case
from conformance.inputs import make_inputs
from conformance.observation import instantiate
from conformance.subjects.torch_interface import HANDMADE, TorchInterface
from reference.torch_modules import TORCH, Namespace

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "handmade").rglob("*.py"))

# From where anything but the standard library and the package itself may come, and what.
IMPORTS = {
    "torch": {"Tensor"},
    "torch.nn": {"Module", "ModuleList", "Parameter", "init"},
    "torch.autograd": {"Function", "forward_ad"},
    "jaxtyping": None,
}
# What computes a whole step of a Transformer, as a function of torch or a method of a tensor.
READY_MADE = {
    "alpha_dropout", "celu", "dropout", "elu", "feature_dropout", "gelu", "group_norm",
    "layer_norm", "log_softmax", "multi_head_attention_forward", "native_dropout", "native_layer_norm", "relu", "relu_",
    "rms_norm", "scaled_dot_product_attention", "selu", "silu", "softmax",
}  # fmt: skip
# Parts of torch that are not arithmetic on tensors.
NOT_ARITHMETIC = {"nn", "ops", "special", "jit", "fx", "library", "functional", "overrides", "utils"}

# The operators of tensor arithmetic, in place or not, without a name for what a Transformer is made of.
ARITHMETIC = {
    *("add", "sub", "mul", "div", "neg", "reciprocal", "pow", "exp", "exp2", "erf", "tanh", "tanh_backward", "sqrt", "rsqrt"),
    *("sum", "mean", "amax", "amin", "aminmax", "all", "any", "mm", "bmm", "addmm", "baddbmm", "addcmul", "matmul", "t"),
    *("eq", "ne", "le", "lt", "ge", "gt", "logical_not", "bitwise_not", "bitwise_and", "bitwise_or", "where", "masked_fill"),
    *("threshold", "threshold_backward", "tril", "triu", "empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like"),
    *("full", "full_like", "new_zeros", "new_ones", "new_empty", "new_empty_strided", "scalar_tensor", "lift_fresh", "fill"),
    *("zero", "bernoulli", "_to_copy", "_local_scalar_dense"),
    *("view", "_unsafe_view", "reshape", "_reshape_alias", "expand", "permute", "transpose", "squeeze", "unsqueeze"),
    *("slice", "slice_backward", "select", "select_backward", "split", "split_with_sizes", "repeat_interleave", "cat"),
    *("clone", "copy", "detach", "alias", "index_select", "index_add", "gather", "scatter", "scatter_add", "arange", "stack"),
    *("sin", "cos", "log", "sigmoid", "sigmoid_backward", "sort", "nonzero", "isnan", "cumsum", "unbind", "argmax", "max", "min"),
    *("clamp", "new_full", "rand", "topk", "floor_divide", "remainder", "repeat"),
}  # fmt: skip


def violations(source: str) -> list[str]:
    """The imports, calls and attributes in a module's text by which it would not be made by hand."""
    tree = ast.parse(source)
    own = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and _annotation(node) in own}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)]
    return [f"line {node.lineno}: {found}" for node in nodes for found in _violations(node, own)]


def _annotation(argument: ast.arg) -> str | None:
    return argument.annotation.id if isinstance(argument.annotation, ast.Name) else None


def _violations(node: ast.AST, own: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"import {a.name}" for a in node.names if a.name != "torch" and not _standard(a.name))
    elif isinstance(node, ast.ImportFrom) and node.level != 1:
        module = node.module or ""
        allowed = IMPORTS.get(module, set())
        for alias in node.names:
            if node.level > 1 or not (_standard(module) or allowed is None or alias.name in allowed):
                yield f"from {'.' * node.level}{module} import {alias.name}"
    elif isinstance(node, ast.Attribute):
        yield from _attribute(node.value, node.attr, own)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        name = node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield from _attribute(node.args[0], name.value, own)


def _attribute(value: ast.expr, name: str, own: set[str]) -> Iterator[str]:
    root = value.id if isinstance(value, ast.Name) else None
    if root in own or root == "self":
        return
    if name in READY_MADE or (root == "torch" and (name in NOT_ARITHMETIC or re.match("_[^_]", name))):
        yield f"{root or '…'}.{name}"


def _standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names - {"importlib", "ctypes"}


class Recorder(TorchDispatchMode):
    """Notes every operator that reaches torch's dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note the operator and run it."""
        self.operators.add(func._schema.name.partition("::")[2])
        return func(*args, **(kwargs or {}))

    @property
    def foreign(self) -> set[str]:
        """Those that are no arithmetic."""
        return {name.removesuffix("_") for name in self.operators} - ARITHMETIC


def foreign(call: Callable[[], Tensor]) -> set[str]:
    """The operators of a call and its backward pass that are no arithmetic."""
    with Recorder() as recorder:
        made = call()
        made.backward(torch.ones_like(made))
    return recorder.foreign


def component(case: Case, namespace: Namespace, dropout: float = 0.1) -> Callable[[], Tensor]:
    """The call of a case in train mode; without dropout it asks for no weights either, so that blocks are enough."""
    adapter = TorchInterface(case.component, namespace)
    module = instantiate(adapter, case, dropout=dropout).module.train()
    given = arguments.tensors(make_inputs(case), gradient=True)
    if case.component == "attention":
        given["dropout_p"] = dropout
    if case.component == "multihead_attention" and not dropout:
        given["need_weights"] = False

    def call() -> Tensor:
        made = module(**given)
        if not isinstance(made, tuple):
            return made
        output, weights = made
        return output if weights is None else output + weights.sum()

    return call


MASKS: dict[str, Any] = {
    "src_mask": "float",
    "src_key_padding_mask": "right",
    "tgt_mask": "float_causal",
    "memory_mask": "bool",
}
SOURCE: dict[str, Any] = {"src_mask": "float", "src_key_padding_mask": "right"}
CASES = [
    Case("attention", attn_mask="bool", dtype="float16"),
    Case("attention", is_causal=True, key_heads=1, scale=0.3),
    Case("multihead_attention", attn_mask="float3d", key_padding_mask="float", add_bias_kv=True, add_zero_attn=True),
    Case("multihead_attention", kdim=5, vdim=6, batch=None, attn_mask="bool", key_padding_mask="right"),
    Case("multihead_attention", attends="self", attn_mask="dead", average_attn_weights=False),
    Case("layer_norm", dtype="bfloat16"),
    Case("encoder_layer", activation="gelu", **SOURCE),
    Case("encoder_layer", activation="gelu_tanh", norm_first=True, batch_first=False, dtype="float16"),
    Case("decoder_layer", tgt_mask="float_causal", memory_mask="bool", memory_key_padding_mask="holes"),
    Case("encoder", norm_first=True, **SOURCE),
    Case("decoder", activation="gelu", tgt_mask="causal", tgt_key_padding_mask="left"),
    Case("transformer", **MASKS),
    Case("transformer", norm_first=True, batch_first=False, bias=False, **MASKS),
]
# What torch.nn lacks, or has no ready-made operator for.
PARTS = [
    Case("embedding", padding_idx=2),
    Case("token_embedding"),
    Case("positional_encoding", target=25, dtype="float16"),
    *(Case("rotary", interleaved=pairs, dtype="bfloat16") for pairs in (True, False)),
    Case("rms_norm", dtype="float16"),
    Case("swiglu", dtype="bfloat16"),
    Case("mixture_of_experts", activation="silu", capacity_factor=0.5),
    Case("mixture_of_experts", activation="gelu_sigmoid", top_k=1, renormalize=False, dtype="float16"),
    Case("grouped_query_attention", heads=4, key_heads=2, rotary=True, attn_mask="float", key_padding_mask="right"),
    Case("self_attention", heads=1, attn_mask="bool"),
    Case("cross_entropy", dims=3, label_smoothing=0.1, ignore_index=1),
]


IDS = torch.arange(10).reshape(2, 5)
FEATURES = torch.linspace(-1, 1, 60).reshape(2, 5, 6)
# What is called with ids or has a call of its own: the module, and what it is called with.
WHOLE: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "token_embedding": (lambda: handmade.TokenEmbedding(10, 6), (IDS,)),
    "padded_embedding": (lambda: handmade.Embedding(10, 6, padding_idx=3), (IDS,)),
    "tutorial_feed_forward": (lambda: handmade.FeedForward(6, 8), (FEATURES,)),
    "tutorial_encoder": (lambda: handmade.Encoder(6, 3, 8, 2), (FEATURES,)),
    "tutorial_decoder": (lambda: handmade.Decoder(6, 3, 8, 2), (FEATURES, FEATURES)),
    "sequence_model": (lambda: handmade.SequenceModel(10, 6, 3, 8, 1, dropout=0.1, pad=9, max_len=2), (IDS, IDS)),
    "text_model": (lambda: handmade.TextModel(handmade.ModelArgs(6, 3, 6, 0.1, 5, 10, 5, 1)), (IDS, IDS)),
    "language_model": (lambda: handmade.LanguageModel(10, 6, 3, 8, 1, 5, dropout=0.1), (IDS, IDS)),
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_imports_and_calls(path: Path) -> None:
    """No file of the handmade model imports or calls a ready-made part of a Transformer."""
    assert violations(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn.functional as F",
        "import torch.nn as nn",
        "import numpy",
        "import importlib",
        "from torch import nn",
        "from torch import softmax",
        "from torch.nn import LayerNorm",
        "from torch.nn import Linear",
        "from torch.nn import MultiheadAttention",
        "from torch.nn import TransformerEncoderLayer",
        "from torch.nn import functional",
        "from torch.nn.functional import gelu",
        "from torch.nn.modules.normalization import LayerNorm",
        "from reference.torch_modules import build",
        "from conformance import arguments",
        "from ..reference import weights",
        "import torch\ny = torch.softmax(x, -1)",
        "import torch\ny = torch.nn.functional.relu(x)",
        "import torch\ny = torch.ops.aten.mm(x, x)",
        "import torch\ny = torch._softmax(x, -1, False)",
        "import torch\ny = torch._C._nn.gelu(x)",
        "import torch\ny = torch.layer_norm(x, (3,))",
        "import torch\ny = torch.rms_norm(x, (3,))",
        "import torch\ny = torch.special.softmax(x, -1)",
        "y = x.softmax(-1)",
        "y = x.log_softmax(-1).exp()",
        "y = (x + 1).relu()",
        "import torch\ny = getattr(torch, 'softmax')(x, -1)",
        "import torch\nt = torch\ny = t.softmax(x, -1)",
        "from torch import Tensor\ndef f(x: Tensor): return x.softmax(-1)",
    ],
)
def test_the_syntax_check_refuses(source: str) -> None:
    """Every ready-made part is found, whichever way it comes in."""
    assert violations(source)


@pytest.mark.parametrize(
    "source",
    [
        "import math\nimport torch\nfrom torch import Tensor\nfrom torch.nn import Module, ModuleList, Parameter, init",
        "from collections.abc import Callable",
        "from jaxtyping import Float",
        "from . import softmax\ny = softmax.softmax(x)",
        "import torch\ny = torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)",
        "class A:\n    def f(self, x):\n        return self.dropout(x)",
        "class A:\n    dropout: float\ndef f(a: A):\n    return a.dropout",
    ],
)
def test_the_syntax_check_accepts(source: str) -> None:
    """Arithmetic, the standard library and the package's own parts are no violations."""
    assert violations(source) == []


def test_reference_does_not_import_handmade() -> None:
    """The reference knows nothing of the model that it is compared with."""
    for path in sorted((ROOT / "reference").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.partition(".")[0] in ("handmade", "conformance")], path


@pytest.mark.parametrize("dropout", [0.1, 0.0])
@pytest.mark.parametrize("case", [*CASES, *PARTS], ids=lambda case: case.id)
def test_operators(case: Case, dropout: float) -> None:
    """Forward and backward, in train mode, the handmade model runs on arithmetic alone: the plain core and the blocks."""
    assert foreign(component(case, HANDMADE, dropout)) == set()


@pytest.mark.parametrize(("make", "given"), WHOLE.values(), ids=WHOLE)
def test_operators_of_whole_models(make: Callable[[], nn.Module], given: tuple[Tensor, ...]) -> None:
    """From ids to logits and loss, and back, a whole model runs on arithmetic alone."""
    module = make().train()

    def call() -> Tensor:
        made = module(*given)
        return made[1] if isinstance(made, tuple) else made

    assert foreign(call) == set()


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("greedy", {"end": 2, "min_length": 1}),
        ("beam", {"width": 3, "length_penalty": 0.6, "end": 2}),
        ("sample", {"top_k": 5, "top_p": 0.8, "temperature": 2.0}),
    ],
)
def test_operators_of_decoding(strategy: str, options: dict[str, Any]) -> None:
    """A model decodes, with its cache, on arithmetic alone; there is no gradient to go back."""
    model = handmade.SequenceModel(10, 6, 3, 8, 2, pad=9).eval()
    if strategy == "sample":
        options = {**options, "generator": torch.Generator().manual_seed(0)}
    with Recorder() as recorder:
        handmade.decode(model.step, model.start(IDS), [[1], [2, 3, 9]], 20, strategy, **options)
    assert recorder.foreign == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_operator_check_sees_torch(case: Case) -> None:
    """The modules of torch do not pass for arithmetic."""
    assert foreign(component(case, TORCH))


class Hidden(nn.Module):
    """Calls a ready-made function by a name that no reader of the text finds."""

    def __init__(self, *parts: str) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, x: Tensor) -> Tensor:
        """Call it."""
        return getattr(torch, "".join(self.parts))(x, -1 if self.parts[0] == "soft" else x.shape[-1:])


@pytest.mark.parametrize(
    ("parts", "operator"), [(("soft", "max"), "_softmax"), (("layer", "_norm"), "native_layer_norm")]
)
def test_the_operator_check_sees_what_is_hidden(parts: tuple[str, str], operator: str) -> None:
    """A name put together at run time passes the check of the text and not that of the operators."""
    assert violations("import torch\ny = getattr(torch, 'soft' + 'max')(x, -1)") == []
    x = torch.randn(2, 3, requires_grad=True)
    assert operator in foreign(lambda: Hidden(*parts)(x))
