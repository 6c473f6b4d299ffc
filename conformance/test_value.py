"""VALUE: what the components compute where nothing is masked."""

import copy
import math
from typing import Any

from torch import Tensor
from torch.nn import init

from .arguments import array
from .cases.case import Case
from .cases.components import STACKS
from .cases.grid import grid
from .cases.select import MODULES, each, unmasked
from .clauses import DOCS, MEASURED, MUST, PAPER, clause
from .trial import Trial


@clause("VALUE-01", MUST, f"{PAPER}, equation 1", lambda c: c.component == "attention" and unmasked(c))
def test_attention(trial: Trial) -> None:
    """Attention without a mask is softmax(Q Kᵀ / √E) V, with the batch dimensions broadcast."""
    trial.compare_output()


@clause("VALUE-02", MUST, f"{PAPER}, section 3.2.2", lambda c: c.component == "multihead_attention" and unmasked(c))
def test_multihead_attention(trial: Trial) -> None:
    """Multi-head attention projects, attends in contiguous slices of the features, joins and projects again."""
    trial.compare_output()


@clause("VALUE-03", MUST, f"{PAPER}, section 3.1", lambda c: c.component == "encoder_layer" and unmasked(c))
def test_encoder_layer(trial: Trial) -> None:
    """An encoder layer is self-attention and the feed-forward network, each in a residual connection with its norm."""
    trial.compare_output()


@clause("VALUE-04", MUST, f"{PAPER}, section 3.1", lambda c: c.component == "decoder_layer" and unmasked(c))
def test_decoder_layer(trial: Trial) -> None:
    """A decoder layer puts attention to the memory, whose keys and values are not normalised, between the two."""
    trial.compare_output()


@clause("VALUE-05", MUST, f"{PAPER}, section 3.1", lambda c: c.component in ("encoder", "decoder") and unmasked(c))
def test_stack(trial: Trial) -> None:
    """A stack applies its layers in turn, each with its own parameters, then the final norm where it has one."""
    trial.compare_output()


@clause("VALUE-06", MUST, DOCS, lambda c: c.component == "transformer" and unmasked(c))
def test_transformer(trial: Trial) -> None:
    """The Transformer decodes the target against the encoder's normalised output; both stacks end in a norm."""
    trial.compare_output()


@clause("VALUE-07", MUST, DOCS, [
    *(case for case in grid() if case.component == "attention" and case.scale is not None),
    *(Case("attention", scale=scale, **masks) for scale in (-0.3, 0.0) for masks in ({}, {"attn_mask": "bool"}, {"is_causal": True})),
])  # fmt: skip
def test_scale(trial: Trial) -> None:
    """A given scale replaces 1/√E, a negative one and 0 as well."""
    trial.compare_output()


@clause("VALUE-08", MUST, DOCS, lambda c: c.component == "attention" and c.key_heads is not None)
def test_grouped_heads(trial: Trial) -> None:
    """With enable_gqa each key and value head serves a group of consecutive query heads."""
    trial.compare_output()


@clause("VALUE-09", MUST, DOCS, lambda c: bool(c.kdim or c.vdim))
def test_own_key_and_value_sizes(trial: Trial) -> None:
    """With kdim or vdim the three projections are separate matrices, and the biases stay packed as q, k, v."""
    trial.compare_output()


@clause("VALUE-10", MUST, DOCS, lambda c: c.add_bias_kv or c.add_zero_attn)
def test_appended_keys(trial: Trial) -> None:
    """add_bias_kv appends a learnt key and value after the keys, add_zero_attn zeros after those; no mask hides them."""
    trial.compare_output()


@clause("VALUE-11", MUST, DOCS, lambda c: c.activation != "relu" and unmasked(c))
def test_activation(trial: Trial) -> None:
    """The activation is exact GELU for "gelu", and a callable is used as it is."""
    trial.compare_output()


@clause("VALUE-12", MUST, DOCS, lambda c: not c.bias and unmasked(c))
def test_without_bias(trial: Trial) -> None:
    """With bias=False neither projections nor norms have a bias."""
    trial.compare_output()


@clause("VALUE-13", MUST, MEASURED, lambda c: c.magnitude != 1 and unmasked(c))
def test_magnitude(trial: Trial) -> None:
    """The values hold for inputs a tenth and ten times as large, where scores saturate."""
    trial.compare_output()


@clause("VALUE-14", MUST, DOCS, each("encoder", "decoder", layers=3, tgt_mask="causal"))
def test_composition(trial: Trial) -> None:
    """A stack of layers equals its layers called one after the other, then its norm."""
    module = trial.torch_module()
    arguments = trial.call_arguments()
    whole = module(**arguments)
    name = "src" if "src" in arguments else "tgt"
    for layer in module.layers:
        arguments[name] = layer(**arguments)
    stepwise = module.norm(arguments[name])
    trial.require_same("output", array(whole), array(stepwise))


@clause("VALUE-15", MUST, DOCS, each("transformer", tgt_mask="causal", src_key_padding_mask="right"))
def test_custom_stacks(trial: Trial) -> None:
    """The Transformer uses a custom encoder and a custom decoder, and equals its two stacks called in turn."""
    module = trial.torch_module()
    arguments = trial.call_arguments()
    sizes = {"d_model": module.d_model, "nhead": module.nhead, "batch_first": module.batch_first}
    custom = type(module)(**sizes, custom_encoder=module.encoder, custom_decoder=module.decoder)
    padding = arguments["src_key_padding_mask"]
    memory = custom.encoder(arguments["src"], src_key_padding_mask=padding)
    stepwise = custom.decoder(arguments["tgt"], memory, tgt_mask=arguments["tgt_mask"])
    trial.require_same("output", array(custom(**arguments)), array(stepwise))


@clause("VALUE-16", MUST, DOCS, lambda c: c.component in MODULES and (c.heads in (1, 2, 4, 8)) and unmasked(c))
def test_number_of_heads(trial: Trial) -> None:
    """The values hold for one head, for even and for odd numbers of heads."""
    trial.compare_output()


@clause("VALUE-17", MUST, DOCS, lambda c: c.component in STACKS and c.layers == 1 and unmasked(c))
def test_single_layer(trial: Trial) -> None:
    """The values hold for a stack of a single layer."""
    trial.compare_output()


@clause("VALUE-18", MUST, DOCS, [
    Case("multihead_attention", kdim=6, vdim=6, attends=attends, bias=bias)
    for attends in ("cross", "memory") for bias in (True, False)
])  # fmt: skip
def test_equal_key_and_value_sizes(trial: Trial) -> None:
    """Where kdim equals vdim, keys and values still have a matrix of their own each."""
    trial.compare_output()


@clause("VALUE-19", MUST, MEASURED, [
    *(Case("attention", dtype=dtype, batch=1, heads=2, target=267, source=1030) for dtype in ("float64", "float32", "bfloat16", "float16")),
    Case("attention", batch=1, heads=2, target=1030, source=1030, is_causal=True),
    Case("multihead_attention", heads=2, target=33, source=1030, attn_mask="float", key_padding_mask="right"),
    *each("encoder_layer", batch=1, heads=2, source=1030, src_key_padding_mask="right", dtype="float32"),
])  # fmt: skip
def test_long_sequences(trial: Trial) -> None:
    """The values and gradients hold for more than a thousand positions, in no whole number of blocks."""
    trial.compare_output()
    trial.compare_gradients(lambda _: True)


@clause("VALUE-20", MUST, DOCS, each("encoder", "decoder", tgt_mask="causal", final_norm=False))
def test_derived_layers(trial: Trial) -> None:
    """A stack calls the layers that it is given as they are: one of a derived class does what that class says."""
    module = trial.torch_module()
    layer: Any = copy.deepcopy(module.layers[0])

    class Doubled(type(layer)):  # type: ignore[misc]
        def forward(self, *given: Any, **named: Any) -> Tensor:
            return 2 * super().forward(*given, **named)

    layer.__class__ = Doubled
    arguments = trial.call_arguments()
    whole = type(module)(layer, 2)(**arguments)
    name = "src" if "src" in arguments else "tgt"
    for _ in range(2):
        arguments[name] = layer(**arguments)
    trial.require_same("output", array(whole), array(arguments[name]))


@clause("VALUE-21", MUST, MEASURED, each("encoder_layer", "decoder_layer", norm_first=True))
def test_relu_at_zero(trial: Trial) -> None:
    """ReLU has derivative 0 at 0, and NaN stays NaN."""
    trial.require_gradients()
    module, arguments = trial.torch_module(), trial.call_arguments()
    for parameter in module.linear1.parameters():
        init.zeros_(parameter)
    module(**arguments).sum().backward()
    trial.require(not module.linear1.bias.grad.any(), "expected gradient 0 where the activation's input is 0")
    init.constant_(module.linear1.bias, math.nan)
    trial.require(bool(module(**arguments).isnan().all()), "expected NaN where the activation's input is NaN")
