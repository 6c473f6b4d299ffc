"""The names in the handmade model that faults replace, each as its users look it up."""

from .fault import Change

SOFTMAX = "handmade.softmax.softmax"
ATTENTION = "handmade.attention.attention"
REPEAT_HEADS = "handmade.attention_function.repeat_heads"
SDPA = "handmade.scaled_dot_product_attention"
APPLY_MASK = "handmade.masks.apply"
MERGE_MASKS = "handmade.masks.merge"
ADDITIVE_MASK = "handmade.masks.additive"
CAUSAL_KEEP = "handmade.masks.causal_keep"
CAUSAL_MASK = "handmade.masks.generate_square_subsequent_mask"
VISIBLE_COLUMNS = "handmade.masks.visible_columns"
MULTIHEAD = "handmade.multihead_attention.MultiheadAttention"
OUT_PROJECTION = "handmade.multihead_attention.Linear"
IN_PROJECTION = "handmade.multihead_attention.linear"
LINEAR = "handmade.linear.linear"
LAYER_NORM = "handmade.normalization.layer_norm"
DROPOUT = "handmade.dropout.dropout"
DROPOUT_MODULE = "handmade.dropout.Dropout"
ENCODER_LAYER = "handmade.encoder.TransformerEncoderLayer"
DECODER_LAYER = "handmade.decoder.TransformerDecoderLayer"
ENCODER = "handmade.encoder.TransformerEncoder"
DECODER = "handmade.decoder.TransformerDecoder"
TRANSFORMER = "handmade.transformer.Transformer"
EMBED = "handmade.embedding.embed"
TOKEN_EMBEDDING = "handmade.embedding.TokenEmbedding"
SINUSOIDAL = "handmade.positions.sinusoidal"
ROTATE = "handmade.rotary.rotate"
ROTARY_ANGLES = "handmade.rotary.rotary_angles"
RMS_NORM = "handmade.rms_normalization.rms_norm"
SWIGLU = "handmade.swiglu.SwiGLU"
SILU_OF_GATE = "handmade.swiglu.silu"
ROUTE = "handmade.mixture_of_experts.route"
WITHIN_CAPACITY = "handmade.mixture_of_experts.within_capacity"
SPREAD = "handmade.mixture_of_experts.load_balancing_loss"
REPEATED_GROUPS = "handmade.grouped_query_attention.repeat_heads"
GROUP_HEADS = "handmade.grouped_query_attention.GroupedQueryAttention.split_heads"
SINGLE_HEAD = "handmade.self_attention.SelfAttention"
CROSS_ENTROPY = "handmade.cross_entropy"
LOG_SOFTMAX = "handmade.training_loss._log_softmax"

# Components by what is in them.
SELF_ATTENTION = ("encoder_layer", "encoder")
CROSS_ATTENTION = ("decoder_layer", "decoder", "transformer")
LAYERED = ("encoder_layer", "decoder_layer", "encoder", "decoder", "transformer")
MODULES = ("multihead_attention", *LAYERED)
ATTENDING = ("attention", *MODULES)


def in_both_layers(name: str, change: Change) -> dict[str, Change]:
    """The change to a name that the encoder layer and the decoder layer each look up."""
    return {f"handmade.{side}.{name}": change for side in ("encoder", "decoder")}


def on_both_layers(method: str, change: Change) -> dict[str, Change]:
    """The change to a method of the encoder layer and of the decoder layer."""
    return {f"{layer}.{method}": change for layer in (ENCODER_LAYER, DECODER_LAYER)}


def on_both_stacks(method: str, change: Change) -> dict[str, Change]:
    """The change to a method of the encoder and of the decoder."""
    return {f"{stack}.{method}": change for stack in (ENCODER, DECODER)}
