"""Cases that differ in how a component is built: every constructor option that has a say in its parameters."""

from .case import Case
from .select import each

_NORMS = [
    Case("layer_norm"),
    Case("layer_norm", normalized_dims=2),
    Case("layer_norm", bias=False),
    Case("layer_norm", elementwise_affine=False),
]
_ATTENTIONS = [
    Case("multihead_attention"),
    Case("multihead_attention", heads=1),
    Case("multihead_attention", bias=False),
    Case("multihead_attention", add_bias_kv=True),
    Case("multihead_attention", add_zero_attn=True),
    Case("multihead_attention", kdim=5),
    Case("multihead_attention", vdim=6),
    Case("multihead_attention", kdim=5, vdim=6, add_bias_kv=True, bias=False),
    Case("multihead_attention", kdim=5, vdim=6, add_bias_kv=True, add_zero_attn=True, batch_first=False),
]
_LAYERS = [
    *each("encoder_layer", "decoder_layer"),
    *each("encoder_layer", "decoder_layer", bias=False),
    *each("encoder_layer", "decoder_layer", activation="gelu", dim_feedforward=7, batch_first=False),
]
_STACKS = [
    *each("encoder", "decoder", "transformer", layers=3),
    *each("encoder", "decoder", "transformer", layers=1, bias=False),
    *each("encoder", "decoder", final_norm=False),
]

CONFIGURATIONS = [*_NORMS, *_ATTENTIONS, *_LAYERS, *_STACKS]
