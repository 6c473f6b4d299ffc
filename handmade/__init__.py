"""A Transformer by hand: torch.nn's modules, written out on tensor operations."""

from .attention_function import scaled_dot_product_attention
from .decoder import TransformerDecoder, TransformerDecoderLayer
from .embedding import Embedding, TokenEmbedding
from .encoder import TransformerEncoder, TransformerEncoderLayer
from .kv_cache import KeyValueCache
from .linear import Linear
from .masks import generate_square_subsequent_mask
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm, layer_norm
from .positions import PositionalEncoding, sinusoidal
from .training_loss import cross_entropy, log_softmax, shift_right
from .transformer import Transformer

__all__ = [
    "Embedding",
    "KeyValueCache",
    "LayerNorm",
    "Linear",
    "MultiheadAttention",
    "PositionalEncoding",
    "TokenEmbedding",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "cross_entropy",
    "generate_square_subsequent_mask",
    "layer_norm",
    "log_softmax",
    "scaled_dot_product_attention",
    "shift_right",
    "sinusoidal",
]
