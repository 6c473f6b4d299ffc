"""A Transformer by hand: torch.nn's modules, written out on tensor operations."""

from .attention_function import scaled_dot_product_attention
from .decoder import TransformerDecoder, TransformerDecoderLayer
from .encoder import TransformerEncoder, TransformerEncoderLayer
from .kv_cache import KeyValueCache
from .linear import Linear
from .masks import generate_square_subsequent_mask
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm, layer_norm
from .transformer import Transformer

__all__ = [
    "KeyValueCache",
    "LayerNorm",
    "Linear",
    "MultiheadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "generate_square_subsequent_mask",
    "layer_norm",
    "scaled_dot_product_attention",
]
