"""A Transformer by hand: torch.nn's modules, written out on tensor operations."""

from .activations import gelu, gelu_sigmoid, silu
from .attention_function import scaled_dot_product_attention
from .beams import beam_search
from .decoder import TransformerDecoder, TransformerDecoderLayer
from .decoding import Decoded, greedy
from .embedding import Embedding, TokenEmbedding
from .encoder import TransformerEncoder, TransformerEncoderLayer
from .grouped_query_attention import GroupedQueryAttention
from .kv_cache import KeyValueCache
from .language_model import LanguageModel
from .linear import Linear
from .masks import generate_square_subsequent_mask
from .mixture_of_experts import MixtureOfExperts, Routing, load_balancing_loss, route
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm, layer_norm
from .positions import PositionalEncoding, sinusoidal
from .rms_normalization import RMSNorm, rms_norm
from .rotary import RotaryEmbedding, rotary_angles, rotate
from .sampling import distribution, sample
from .self_attention import SelfAttention
from .sequence_model import SequenceModel
from .strategies import decode
from .swiglu import SwiGLU
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
    "GroupedQueryAttention",
    "KeyValueCache",
    "LanguageModel",
    "LayerNorm",
    "Linear",
    "MixtureOfExperts",
    "ModelArgs",
    "MultiheadAttention",
    "PositionalEncoding",
    "RMSNorm",
    "RotaryEmbedding",
    "Routing",
    "SelfAttention",
    "SequenceModel",
    "SwiGLU",
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
    "gelu",
    "gelu_sigmoid",
    "generate_square_subsequent_mask",
    "greedy",
    "layer_norm",
    "load_balancing_loss",
    "log_softmax",
    "rms_norm",
    "rotary_angles",
    "rotate",
    "route",
    "sample",
    "scaled_dot_product_attention",
    "shift_right",
    "silu",
    "sinusoidal",
]
