"""MODEL: the encoder-decoder from ids to logits, and the blocks with a tutorial's arguments."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from reference import torch_models
from reference.torch_modules import build
from reference.weights import copy_weights

from . import tolerance
from .cases.case import Case
from .clauses import MEASURED, MUST, PAPER, clause
from .subjects import export
from .trial import Trial
from .whole_models import (
    PAD,
    cotangent,
    gradients,
    named,
    require_each_dropout_acts,
    require_equal,
    require_equal_models,
    sequences,
)

TIED = "Vaswani et al. 2017, section 3.4"
CASES = [
    Case("sequence_model", norm_first=norm_first, tied=tied, padding_idx=padding)
    for norm_first in (False, True)
    for tied in (False, True)
    for padding in (None, PAD)
]
PADDED = [case for case in CASES if case.padding_idx is not None]
UNTIED = [case for case in CASES if not case.tied]
BLOCKS = [Case("sequence_model"), Case("sequence_model", heads=1, head_dim=6, layers=3, source=5)]


def sequence_model(trial: Trial, **changes: Any) -> Any:
    """The subject's model with the random parameters of the case."""
    return trial.instance(**changes).module.train(trial.case.mode == "train")


def of_torch(case: Case) -> torch_models.SequenceModel:
    """The model of a case on torch.nn.Transformer."""
    return torch_models.SequenceModel(
        case.vocabulary,
        case.d_model,
        case.heads,
        case.dim_feedforward,
        case.layers,
        norm_first=case.norm_first,
        tied=case.tied,
        pad=case.padding_idx,
        dtype=torch.float64,
    )


@clause("MODEL-01", MUST, PAPER, CASES)
def test_sequence_model(trial: Trial) -> None:
    """Scaled embeddings, positions, torch.nn.Transformer under causal and padding masks, a linear map: equal logits and gradients."""
    found, expected = sequence_model(trial), of_torch(trial.case)
    copy_weights(found, expected)
    src, tgt, rows = sequences(trial)
    require_equal_models(trial, found, expected, lambda model: model(src, tgt), rows)


@clause("MODEL-02", MUST, MEASURED, CASES)
def test_encode_and_decode(trial: Trial) -> None:
    """The model is decode after encode: the memory that encode makes of a source serves any target."""
    model = sequence_model(trial)
    src, tgt, _ = sequences(trial)
    memory = model.encode(src)
    trial.require(memory.shape == (*src.shape, trial.case.d_model), f"memory: got shape {tuple(memory.shape)}")
    require_equal(trial, "logits", model.decode(tgt, memory, src), model(src, tgt))
    require_equal(trial, "logits of a prefix", model.decode(tgt[:, :2], memory, src), model(src, tgt)[:, :2])


@clause("MODEL-03", MUST, TIED, UNTIED)
def test_tying(trial: Trial) -> None:
    """Tied, three matrices are one parameter, 2·V·d numbers fewer; its gradient is the sum of those of three equal matrices."""
    apart, together = sequence_model(trial), sequence_model(trial, tied=True)
    shared, *others = _matrices(together)
    trial.require(all(other is shared for other in others), "matrices: expected one parameter, got several")
    saved = _count(apart) - _count(together)
    wanted = 2 * trial.case.vocabulary * trial.case.d_model
    trial.require(saved == wanted, f"parameters saved: expected {wanted}, got {saved}")
    copy_weights(together, apart)
    src, tgt, rows = sequences(trial)
    logits = apart(src, tgt)
    along = cotangent(trial, logits, rows)
    of_three = torch.autograd.grad(logits, _matrices(apart), along)
    (of_one,) = torch.autograd.grad(together(src, tgt), [shared], along)
    require_equal(trial, "gradient of the shared matrix", of_one, sum(of_three[1:], of_three[0]))


@clause("MODEL-04", MUST, PAPER, CASES)
def test_later_targets(trial: Trial) -> None:
    """A later target id changes no earlier logits, and reaches all the later ones."""
    model = sequence_model(trial)
    src, tgt = (torch.from_numpy(trial.inputs.integers[name]).clamp(min=1) for name in ("src", "tgt"))
    changed = tgt.clone()
    changed[:, 2] = 1 + tgt[:, 2] % (trial.case.vocabulary - 1)
    before, after = model(src, tgt), model(src, changed)
    require_equal(trial, "earlier logits", after[:, :2], before[:, :2])
    reached = ((before - after)[:, 2:].abs().amax(-1) > tolerance.APART).all()
    trial.require(bool(reached), "later logits: expected other ones at every later place, got the same")


@clause("MODEL-05", MUST, PAPER, PADDED)
def test_padding(trial: Trial) -> None:
    """Padding is not seen: more of it, on either side, changes no logits at the other places, and no gradient."""
    model = sequence_model(trial)
    src, tgt, rows = sequences(trial)
    longer = [torch.cat((x, torch.full_like(x[:, :3], PAD)), dim=1) for x in (src, tgt)]
    few, many = model(src, tgt), model(*longer)[:, : tgt.size(1)]
    require_equal(trial, "logits", many[rows], few[rows])
    along = cotangent(trial, few, rows)
    of_few, of_many = gradients(model, few, along), gradients(model, many, along)
    for name, value in of_few.items():
        require_equal(trial, f"gradient of {name}", of_many[name], value)


@clause("MODEL-06", MUST, MEASURED, [case.but(max_len=2) for case in UNTIED])
def test_longer_than_the_table(trial: Trial) -> None:
    """Sequences longer than max_len have positions as well: the model is that with a long table."""
    short, long = sequence_model(trial), sequence_model(trial, max_len=50)
    src, tgt, _ = sequences(trial)
    require_equal(trial, "logits", short(src, tgt), long(src, tgt))


@clause("MODEL-07", MUST, MEASURED, [Case("sequence_model", tied=True)])
def test_state(trial: Trial) -> None:
    """The state dict holds parameters alone, neither positions nor masks, and fits a model with another max_len."""
    model, other = sequence_model(trial), sequence_model(trial, max_len=50)
    extra = set(model.state_dict()) - {name for name, _ in model.named_parameters(remove_duplicate=False)}
    trial.require(not extra, f"state dict: expected parameters alone, got {sorted(extra)}")
    other.load_state_dict(model.state_dict())


@clause("MODEL-08", MUST, MEASURED, [Case("sequence_model", tied=tied) for tied in (False, True)])
def test_initial_size(trial: Trial) -> None:
    """At the start embeddings times √d and logits are of size 1, so that the first loss is near log V."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(trial.case.rng("initial values").integers(2**31)))
        model: Any = trial.construct(vocab_size=50, d_model=128, h=4)
    drawn = trial.case.rng("ids").integers(50, size=(4, 16))
    tokens = torch.from_numpy(drawn)
    for name, value in (("embeddings", model.src_embedding(tokens)), ("logits", model(tokens, tokens))):
        size = value.pow(2).mean().sqrt().item()
        trial.require(0.5 < size < 2, f"rms of the {name}: expected about 1, got {size:.3g}")


@clause("MODEL-09", MUST, PAPER, [Case("sequence_model", tied=True)])
def test_dropout(trial: Trial) -> None:
    """With dropout two calls differ in train mode and agree in eval mode, there with those of a model without dropout."""
    dropped, plain = trial.instance(dropout=0.3).module, sequence_model(trial)
    src, tgt, _ = sequences(trial)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        trial.require(not torch.equal(dropped.train()(src, tgt), dropped(src, tgt)), "train mode: two calls agree")
    require_equal(trial, "logits in eval mode", dropped.eval()(src, tgt), plain(src, tgt))


@clause("MODEL-16", MUST, PAPER, [
    Case("sequence_model"), Case("language_model", max_len=9), Case("language_model", norm_first=True, max_len=9)
])  # fmt: skip
def test_each_dropout(trial: Trial) -> None:
    """Each dropout of a model acts in train mode: alone, with all others off, it changes what comes out."""
    require_each_dropout_acts(trial, trial.instance(dropout=0.5).module)


@clause("MODEL-10", MUST, PAPER, BLOCKS)
def test_feed_forward(trial: Trial) -> None:
    """FeedForward(d_model, d_ff) is linear1, ReLU, linear2, equal to those of torch."""
    case = trial.case
    found = _random(trial, named(trial, "FeedForward")(case.d_model, case.dim_feedforward, dtype=torch.float64))
    expected = nn.Sequential(
        nn.Linear(case.d_model, case.dim_feedforward), nn.ReLU(), nn.Linear(case.dim_feedforward, case.d_model)
    ).double()
    renamed = {"linear1": "0", "linear2": "2"}

    def translate(values: Any) -> dict[str, Tensor]:
        return {f"{renamed[name.split('.')[0]]}.{name.split('.')[1]}": value for name, value in values.items()}

    copy_weights(translate(found.state_dict()), expected)
    x = _features(trial, "x", case.target)
    require_equal_models(trial, found, expected, lambda module: module(x), translate=translate)


@clause("MODEL-11", MUST, PAPER, BLOCKS)
def test_transformer_block(trial: Trial) -> None:
    """TransformerBlock(d_model, h, d_ff) is torch.nn.TransformerEncoderLayer, batch first and without dropout."""
    _require_torchs(trial, "TransformerBlock", "encoder_layer", lambda module, x, _: module(x))


@clause("MODEL-12", MUST, PAPER, BLOCKS)
def test_encoder(trial: Trial) -> None:
    """Encoder(d_model, h, d_ff, N) is torch.nn.TransformerEncoder of N such layers without a final norm."""
    _require_torchs(trial, "Encoder", "encoder", lambda module, x, _: module(x))


@clause("MODEL-13", MUST, PAPER, BLOCKS)
def test_decoder_block(trial: Trial) -> None:
    """DecoderBlock(d_model, h, d_ff) is torch.nn.TransformerDecoderLayer under a causal target mask."""
    _require_torchs(trial, "DecoderBlock", "decoder_layer", _decode)


@clause("MODEL-14", MUST, PAPER, BLOCKS)
def test_decoder(trial: Trial) -> None:
    """Decoder(d_model, h, d_ff, N) is torch.nn.TransformerDecoder of N such layers without a final norm."""
    _require_torchs(trial, "Decoder", "decoder", _decode)


@clause("MODEL-15", MUST, MEASURED, BLOCKS)
def test_blocks_start_different(trial: Trial) -> None:
    """The blocks of Encoder and Decoder start from different values, those of torch.nn's stacks from equal ones."""
    case = trial.case
    for name in ("Encoder", "Decoder"):
        stack = named(trial, name)(case.d_model, case.heads, case.dim_feedforward, 3)
        weights = [layer.linear1.weight for layer in stack.layers]
        trial.require(len(weights) == 3, f"{name}: expected 3 blocks, got {len(weights)}")
        trial.require(not any(torch.equal(weights[0], other) for other in weights[1:]), f"{name}: blocks start equal")


def _matrices(model: Any) -> list[nn.Parameter]:
    return [model.src_embedding.emb.weight, model.tgt_embedding.emb.weight, model.generator.weight]


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _random(trial: Trial, module: nn.Module) -> nn.Module:
    export.randomise(module, trial.case)
    return module.train(trial.case.mode == "train")


def _features(trial: Trial, name: str, length: int) -> Tensor:
    return torch.from_numpy(trial.case.rng(name).normal(size=(2, length, trial.case.d_model)))


def _decode(module: nn.Module, x: Tensor, memory: Tensor) -> Tensor:
    """A block of the tutorial's masks by itself; torch's is told."""
    if isinstance(module, nn.TransformerDecoderLayer | nn.TransformerDecoder):
        return module(x, memory, tgt_mask=torch_models.causal_mask(x))
    return module(x, memory)


def _require_torchs(
    trial: Trial, name: str, component: str, call: Callable[[nn.Module, Tensor, Tensor], Tensor]
) -> None:
    case = trial.case
    stack = component in ("encoder", "decoder")
    sizes = (case.d_model, case.heads, case.dim_feedforward, *([case.layers] if stack else []))
    found = _random(trial, named(trial, name)(*sizes, dtype=torch.float64))
    options = {"d_model": case.d_model, "nhead": case.heads, "dim_feedforward": case.dim_feedforward}
    if stack:
        options |= {"num_layers": case.layers, "norm": False}
    expected = build(component, {**options, "batch_first": True}, dropout=0.0, dtype=torch.float64)
    copy_weights(found, expected)
    x, memory = _features(trial, "x", case.target), _features(trial, "memory", case.source)
    require_equal_models(trial, found, expected, lambda module: call(module, x, memory))
