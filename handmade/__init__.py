"""A Transformer by hand: torch.nn's modules, written out on tensor operations."""

from .attention_function import scaled_dot_product_attention
from .beams import beam_search
from .decoder import TransformerDecoder, TransformerDecoderLayer
from .decoding import Decoded, greedy
from .embedding import Embedding, TokenEmbedding
from .encoder import TransformerEncoder, TransformerEncoderLayer
from .kv_cache import KeyValueCache
from .language_model import LanguageModel
from .linear import Linear
from .masks import generate_square_subsequent_mask
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm, layer_norm
from .positions import PositionalEncoding, sinusoidal
from .sampling import distribution, sample
from .sequence_model import SequenceModel
from .strategies import decode
from .text_layers import ModelArgs
from .text_model import TextModel
from .training_loss import cross_entropy, log_softmax, shift_right
from .transformer import Transformer
from .tutorial import Decoder, DecoderBlock, Encoder, FeedForward, TransformerBlock

__all__ = [
    "Decoded",
    "Decoder",
    "DecoderBlock",
    "Embedding",
    "Encoder",
    "FeedForward",
    "KeyValueCache",
    "LanguageModel",
    "LayerNorm",
    "Linear",
    "ModelArgs",
    "MultiheadAttention",
    "PositionalEncoding",
    "SequenceModel",
    "TextModel",
    "TokenEmbedding",
    "Transformer",
    "TransformerBlock",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "beam_search",
    "cross_entropy",
    "decode",
    "distribution",
    "generate_square_subsequent_mask",
    "greedy",
    "layer_norm",
    "log_softmax",
    "sample",
    "scaled_dot_product_attention",
    "shift_right",
    "sinusoidal",
]
