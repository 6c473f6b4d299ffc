"""Claims on torch's own modules; the handmade ones are held to the same."""

import inspect

import pytest
import torch
from torch import nn

import handmade

from .claim import Claim
from .measures import apart, normal, random, same

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")
NAMESPACES = pytest.mark.parametrize("namespace", [nn, handmade], ids=["torch", "handmade"])
FOUR = ("TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder", "TransformerDecoderLayer")


def count(module: nn.Module, kind: str) -> int:
    """How many parts of a class of this name a module has, in itself and in its parts but the attentions."""
    inside = [
        part for attn in module.modules() if "Multihead" in type(attn).__name__ for part in list(attn.modules())[1:]
    ]
    return sum(type(part).__name__ == kind and all(part is not i for i in inside) for part in module.modules())


@NAMESPACES
def test_defaults(namespace: object) -> None:
    defaults = inspect.signature(namespace.Transformer).parameters  # type: ignore[attr-defined]
    names = ("d_model", "nhead", "num_encoder_layers", "num_decoder_layers", "dim_feedforward")
    assert [defaults[name].default for name in names] == [512, 8, 6, 6, 2048]


@NAMESPACES
def test_four_classes(namespace: object) -> None:
    model = namespace.Transformer(8, 2, 1, 1, 16)  # type: ignore[attr-defined]
    kinds = {type(part).__name__ for part in model.modules()} - {"Transformer"}
    assert {kind for kind in kinds if kind.startswith("Transformer")} == set(FOUR)
    below = {"MultiheadAttention", "Linear", "NonDynamicallyQuantizableLinear", "LayerNorm", "Dropout", "ModuleList"}
    assert kinds - set(FOUR) <= below


def test_post_norm_by_default(claim: Claim) -> None:
    for name in ("Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer"):
        assert inspect.signature(getattr(nn, name)).parameters["norm_first"].default is False
    layer, x = random(lambda: nn.TransformerEncoderLayer(16, 4, 64, batch_first=True)), normal(2, 5, 16)
    with torch.enable_grad():
        h = layer.norm1(x + layer.self_attn(x, x, x)[0])
        assert same(layer(x), layer.norm2(h + layer.linear2(layer.linear1(h).relu())))
    pre = random(lambda: nn.TransformerEncoderLayer(16, 4, 64, batch_first=True, norm_first=True))
    pre.load_state_dict(layer.state_dict())
    claim.states("and {:.2f} from Pre-Norm's", apart(layer(x), pre(x)))
    for norm_first, theirs in ((False, layer), (True, pre)):
        ours = handmade.TransformerEncoderLayer(16, 4, 64, batch_first=True, norm_first=norm_first).double().eval()
        ours.load_state_dict(theirs.state_dict())
        assert same(ours(x), theirs(x))


@NAMESPACES
def test_parts_of_layers(namespace: object) -> None:
    for name, attentions, norms in (("TransformerEncoderLayer", 1, 2), ("TransformerDecoderLayer", 2, 3)):
        layer = getattr(namespace, name)(8, 2, 16)
        assert [count(layer, kind) for kind in ("MultiheadAttention", "Linear", "LayerNorm")] == [attentions, 2, norms]


@NAMESPACES
def test_dropouts_of_layers(namespace: object) -> None:
    for name, claimed, dropouts in (("TransformerEncoderLayer", 2, 3), ("TransformerDecoderLayer", 3, 4)):
        layer = getattr(namespace, name)(8, 2, 16, dropout=0.25)
        assert count(layer, "Dropout") == dropouts != claimed
        assert layer.self_attn.dropout == 0.25


@NAMESPACES
def test_inner_width(namespace: object) -> None:
    with torch.device("meta"):
        layer = namespace.TransformerEncoderLayer(512, 8)  # type: ignore[attr-defined]
    assert (layer.linear1.weight.shape, layer.linear2.weight.shape) == ((2048, 512), (512, 2048))


@NAMESPACES
def test_one_class_of_attention(namespace: object) -> None:
    layer = namespace.TransformerDecoderLayer(8, 2, 16)  # type: ignore[attr-defined]
    assert type(layer.self_attn) is type(layer.multihead_attn) is namespace.MultiheadAttention  # type: ignore[attr-defined]


@NAMESPACES
def test_final_norm(namespace: object) -> None:
    for norm_first in (False, True):
        model = namespace.Transformer(8, 2, 2, 2, 16, norm_first=norm_first)  # type: ignore[attr-defined]
        for stack in (model.encoder, model.decoder):
            assert type(stack.norm).__name__ == "LayerNorm"
    layer = namespace.TransformerEncoderLayer(8, 2, 16, dropout=0.0)  # type: ignore[attr-defined]
    alone = random(lambda: namespace.TransformerEncoder(layer, 2)).train()  # type: ignore[attr-defined]
    assert alone.norm is None
    x = normal(5, 2, 8)
    assert same(alone(x), alone.layers[1](alone.layers[0](x)))


@NAMESPACES
def test_no_probabilities(namespace: object) -> None:
    model = random(lambda: namespace.Transformer(16, 2, 1, 1, 16, dropout=0.0)).train()  # type: ignore[attr-defined]
    nn.init.ones_(model.decoder.norm.weight)
    nn.init.zeros_(model.decoder.norm.bias)
    out = model(normal(5, 2, 16), normal(4, 2, 16))
    assert out.shape == (4, 2, 16)
    assert out.sum(-1).abs().max() < 1e-12
    assert out.min() < 0
    assert not [part for part in model.modules() if type(part).__name__ in ("Embedding", "Softmax", "LogSoftmax")]


@NAMESPACES
def test_dropout_in_training(namespace: object) -> None:
    layer = random(lambda: namespace.TransformerEncoderLayer(8, 2, 16, dropout=0.5))  # type: ignore[attr-defined]
    x = normal(5, 2, 8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        assert torch.equal(layer(x), layer(x))
        assert apart(layer.train()(x), layer(x)) > 0.1
