"""MODEL: the text model, whose two halves read the same ids, and the decoder-only language model."""

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference import torch_models
from reference.weights import copy_weights

from . import tolerance
from .cases.case import Case
from .clauses import DOCS, MEASURED, MUST, PAPER, clause
from .subjects import export
from .trial import Trial
from .verdicts import Difference
from .whole_models import named, require_each_dropout_acts, require_equal, require_equal_models, text_model_weights

RADFORD = "Radford et al. 2019, section 2.3"
TEXT = [Case("text_model"), Case("text_model", heads=2, head_dim=3, layers=1, target=4, batch=3)]
LANGUAGE = [Case("language_model", tied=tied, mode=mode) for tied in (False, True) for mode in ("train", "eval")]
EITHER = [*TEXT[:1], *LANGUAGE[:1]]


def text_model(trial: Trial, **changes: Any) -> Any:
    """The subject's text model with random parameters."""
    case = trial.case
    sizes = {"n_embd": case.d_model, "n_heads": case.heads, "dim": case.d_model, "dropout": 0.0, "n_layer": case.layers}
    lengths = {"max_seq_len": case.max_len, "block_size": case.max_len, "vocab_size": case.vocabulary}
    model = named(trial, "TextModel")(named(trial, "ModelArgs")(**{**sizes, **lengths, **changes})).double()
    return _random(trial, model)


def language_model(trial: Trial, **changes: Any) -> Any:
    """The subject's language model with random parameters."""
    case = trial.case
    sizes = (case.vocabulary, case.d_model, case.heads, case.dim_feedforward, case.layers)
    options = {"block_size": case.max_len, "tied": case.tied, "dtype": torch.float64, **changes}
    return _random(trial, named(trial, "LanguageModel")(*sizes, **options))


def either(trial: Trial, **changes: Any) -> Any:
    """The model that the case is about."""
    return (text_model if trial.case.component == "text_model" else language_model)(trial, **changes)


def ids_of(trial: Trial) -> Tensor:
    """The ids of the case."""
    return torch.tensor(trial.inputs.integers["ids"])


def targets_of(trial: Trial) -> Tensor:
    """Random targets, one of them left out of the loss."""
    drawn = torch.from_numpy(trial.case.rng("targets").integers(trial.case.vocabulary, size=tuple(ids_of(trial).shape)))
    drawn[0, 1] = -100
    return drawn


def all_logits(trial: Trial, model: Any, ids: Tensor | None = None) -> Tensor:
    """The logits at every place."""
    return model(ids_of(trial) if ids is None else ids, targets_of(trial))[0]


@clause("MODEL-20", MUST, PAPER, TEXT)
def test_text_model(trial: Trial) -> None:
    """The text model is embedding plus positions, torch.nn.Transformer with norm_first=True and final norms, a head without bias."""
    case = trial.case
    found = text_model(trial)
    expected = torch_models.TextModel(case.vocabulary, case.d_model, case.heads, case.layers, dtype=torch.float64)
    weights = text_model_weights(found.state_dict())
    biases = {name: torch.zeros_like(value) for name, value in expected.state_dict().items() if name not in weights}
    copy_weights({**biases, **weights}, expected)
    require_equal_models(trial, found, expected, lambda model: _logits(trial, model), translate=text_model_weights)


@clause("MODEL-21", MUST, MEASURED, TEXT)
def test_text_model_names(trial: Trial) -> None:
    """Its parameters are wte, lm_head, and in each layer wq, wk, wv, wo, w1, w2 and norms; no other projection has a bias."""
    case = trial.case
    shapes = {name: tuple(value.shape) for name, value in text_model(trial).state_dict().items()}
    width, hidden, table = case.d_model, 4 * case.d_model, (case.vocabulary, case.d_model)
    expected: dict[str, tuple[int, ...]] = {"wte.weight": table, "lm_head.weight": table}
    norms = ["encoder.norm", "decoder.norm"]
    for i in range(case.layers):
        encoder, decoder = f"encoder.layers.{i}", f"decoder.layers.{i}"
        for attention in (f"{encoder}.attention", f"{decoder}.attention", f"{decoder}.mask_attention"):
            expected.update({f"{attention}.{name}.weight": (width, width) for name in ("wq", "wk", "wv", "wo")})
        for layer in (encoder, decoder):
            expected[f"{layer}.feed_forward.w1.weight"] = (hidden, width)
            expected[f"{layer}.feed_forward.w2.weight"] = (width, hidden)
        norms += [f"{encoder}.attention_norm", f"{encoder}.ffn_norm"]
        norms += [f"{decoder}.{name}" for name in ("attention_norm_1", "attention_norm_2", "ffn_norm")]
    expected.update({f"{norm}.{kind}": (width,) for norm in norms for kind in ("weight", "bias")})
    wrong = sorted(set(shapes.items()) ^ set(expected.items()))
    trial.require(not wrong, f"parameters: expected {len(expected)} by name and shape, different are {wrong[:4]}")


@clause("MODEL-22", MUST, MEASURED, TEXT)
def test_text_model_sees_ahead(trial: Trial) -> None:
    """As the same ids feed its encoder, a later id changes the logits of every earlier place, whatever the decoder's mask hides."""
    model, ids = text_model(trial), ids_of(trial)
    changed = ids.clone()
    changed[:, -1] = (ids[:, -1] + 1) % trial.case.vocabulary
    apart = (all_logits(trial, model, changed) - all_logits(trial, model, ids)).abs().amax(-1)
    trial.require(
        bool((apart > tolerance.APART).all()), "earlier logits: expected other ones at every place, got the same"
    )


@clause("MODEL-23", MUST, MEASURED, TEXT)
def test_text_layers_of_two_lengths(trial: Trial) -> None:
    """Its decoder attends to an encoder's output of any length, and its mask hides later places from earlier ones."""
    model, case = text_model(trial), trial.case
    x, memory = (
        torch.from_numpy(case.rng(name).normal(size=(2, length, case.d_model)))
        for name, length in (("x", case.target), ("memory", case.source))
    )
    made = model.decoder(x, memory)
    trial.require(made.shape == x.shape, f"decoder: expected the shape of its target, got {tuple(made.shape)}")
    require_equal(trial, "decoder's output of a prefix", model.decoder(x[:, :2], memory), made[:, :2])


@clause("MODEL-24", MUST, DOCS, EITHER)
def test_loss(trial: Trial) -> None:
    """With targets there are logits at every place and their mean cross-entropy, as torch's; a target of -100 does not count."""
    model, targets = either(trial), targets_of(trial)
    logits, loss = model(ids_of(trial), targets)
    expected = (*targets.shape, trial.case.vocabulary)
    trial.require(logits.shape == expected, f"logits: expected shape {expected}, got {tuple(logits.shape)}")
    require_equal(trial, "loss", loss, F.cross_entropy(logits.flatten(0, 1), targets.flatten()))


@clause("MODEL-25", MUST, MEASURED, EITHER)
def test_last_place(trial: Trial) -> None:
    """Without targets there is no loss, and the logits are those of the last place alone."""
    model = either(trial)
    logits, loss = model(ids_of(trial))
    trial.require(loss is None, f"loss: expected None, got {loss}")
    require_equal(trial, "logits", logits, all_logits(trial, model)[:, -1:])


@clause("MODEL-26", MUST, MEASURED, EITHER)
def test_state_without_tables(trial: Trial) -> None:
    """The state dict holds parameters alone, neither sinusoidal positions nor causal masks."""
    model = either(trial)
    extra = set(model.state_dict()) - {name for name, _ in model.named_parameters()}
    trial.require(not extra, f"state dict: expected parameters alone, got {sorted(extra)}")


@clause("MODEL-27", MUST, MEASURED, EITHER)
def test_wrong_ids(trial: Trial) -> None:
    """Ids outside the vocabulary, no ids, more than block_size, fractions, one dimension, and targets of another shape are refused."""
    model, ids, targets = either(trial), ids_of(trial), targets_of(trial)
    too_long = ids.new_zeros(1, trial.case.max_len + 1)
    bad: dict[str, Callable[[], Any]] = {
        "an id as large as the vocabulary": lambda: model(ids.masked_fill(ids == ids[0, 0], trial.case.vocabulary)),
        "a negative id": lambda: model(ids.masked_fill(ids == ids[0, 0], -1)),
        "no ids": lambda: model(ids[:, :0]),
        "too many ids": lambda: model(too_long),
        "fractions": lambda: model(ids.double()),
        "one dimension": lambda: model(ids[0]),
        "targets of another shape": lambda: model(ids, targets[:, :-1]),
        "a target outside the vocabulary": lambda: model(ids, targets.masked_fill(targets >= 0, trial.case.vocabulary)),
    }
    require_all_refused(trial, bad)
    trial.require(model(ids.new_zeros(1, trial.case.max_len))[0] is not None, "block_size ids: expected logits")


@clause("MODEL-28", MUST, MEASURED, [Case("sequence_model", padding_idx=0)])
def test_wrong_sequences(trial: Trial) -> None:
    """The encoder-decoder refuses ids outside the vocabulary, no ids, fractions, one dimension, and batches of two sizes."""
    model: Any = trial.instance().module
    src, tgt = (torch.tensor(trial.inputs.integers[name]) for name in ("src", "tgt"))
    outside = torch.full_like(src, trial.case.vocabulary)
    bad: dict[str, Callable[[], Any]] = {
        "a source id as large as the vocabulary": lambda: model(outside, tgt),
        "a negative target id": lambda: model(src, tgt - trial.case.vocabulary),
        "an empty source": lambda: model(src[:, :0], tgt),
        "an empty target": lambda: model(src, tgt[:, :0]),
        "a source of fractions": lambda: model(src.double(), tgt),
        "a target of one dimension": lambda: model(src, tgt[0]),
        "batches of two sizes": lambda: model(src, tgt[:1]),
        "a source to encode outside the vocabulary": lambda: model.encode(outside),
        "a padding id outside the vocabulary": lambda: trial.construct(pad=trial.case.vocabulary),
        "no vocabulary": lambda: trial.construct(vocab_size=0, pad=None),
    }
    require_all_refused(trial, bad)


@clause("MODEL-29", MUST, MEASURED, TEXT[:1])
def test_wrong_arguments_of_the_text_model(trial: Trial) -> None:
    """Its arguments are refused where sizes are not positive, heads do not divide, or widths and lengths do not fit together."""
    changes: list[dict[str, Any]] = [
        {"n_heads": 5}, {"n_heads": 0}, {"vocab_size": 0}, {"n_layer": -1}, {"dropout": 1.5}, {"block_size": 0},
        {"dim": 2 * trial.case.d_model}, {"block_size": trial.case.max_len + 1},
    ]  # fmt: skip
    require_all_refused(trial, {str(change): functools.partial(text_model, trial, **change) for change in changes})


@clause("MODEL-33", MUST, PAPER, TEXT[:1])
def test_attention_function(trial: Trial) -> None:
    """Its attention(q, k, v, dropout) returns torch's context, and the weights: rows that sum to 1, to which dropout is applied."""
    attention = named(trial, "text_layers").attention
    rng = trial.case.rng("attention")
    q, k, v = (torch.from_numpy(rng.normal(size=(2, 3, length, 4))) for length in (5, 7, 7))
    context, weights = attention(q, k, v)
    require_equal(trial, "context", context, F.scaled_dot_product_attention(q, k, v))
    require_equal(trial, "sums of weights", weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))
    require_equal(trial, "weights times values", weights @ v, context)
    halved, half = attention(q, k, v, lambda given: given / 2)
    require_equal(trial, "weights after dropout", half, weights / 2)
    require_equal(trial, "context after dropout", halved, context / 2)


@clause("MODEL-35", MUST, PAPER, TEXT[:1])
def test_each_dropout(trial: Trial) -> None:
    """Each dropout of the text model acts in train mode: alone, with all others off, it changes what comes out."""
    require_each_dropout_acts(trial, text_model(trial, dropout=0.5))


@clause("MODEL-34", MUST, MEASURED, EITHER)
def test_small_integers(trial: Trial) -> None:
    """Ids of 32 bits give what ids of 64 bits do."""
    model, ids = either(trial), ids_of(trial)
    require_equal(trial, "logits", model(ids.int())[0], model(ids)[0])


@clause("MODEL-30", MUST, RADFORD, LANGUAGE)
def test_language_model(trial: Trial) -> None:
    """The language model is two embeddings, torch.nn.TransformerEncoder with norm_first=True, GELU and a causal mask, and a head."""
    case = trial.case
    found = language_model(trial)
    expected = torch_models.LanguageModel(
        case.vocabulary, case.d_model, case.heads, case.dim_feedforward, case.layers, case.max_len, case.tied,
        dtype=torch.float64,
    )  # fmt: skip
    copy_weights(found, expected)
    require_equal_models(trial, found, expected, lambda model: _logits(trial, model))


@clause("MODEL-31", MUST, RADFORD, LANGUAGE)
def test_language_model_is_causal(trial: Trial) -> None:
    """A later id changes no earlier logits: those of a prefix are the same alone and within the sequence."""
    model, ids = language_model(trial), ids_of(trial)
    whole = all_logits(trial, model)
    for length in range(1, ids.size(1) + 1):
        require_equal(trial, f"logits of {length} ids", model(ids[:, :length])[0][:, 0], whole[:, length - 1])


@clause("MODEL-32", MUST, RADFORD, LANGUAGE[:1])
def test_language_model_names(trial: Trial) -> None:
    """Its tables are wte (V, d) and wpe (block_size, d); lm_head (V, d) has no bias, and tied it is wte, V·d numbers fewer."""
    case = trial.case
    apart, together = language_model(trial), language_model(trial, tied=True)
    table = (case.vocabulary, case.d_model)
    expected = {"wte.weight": table, "wpe.weight": (case.max_len, case.d_model), "lm_head.weight": table}
    shapes = {name: tuple(value.shape) for name, value in apart.state_dict().items() if not name.startswith("blocks")}
    trial.require(shapes == expected, f"parameters: expected {expected}, got {shapes}")
    trial.require(together.lm_head.weight is together.wte.weight, "tied: expected one parameter, got two")
    counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (apart, together)]
    saved = counts[0] - counts[1]
    trial.require(saved == case.vocabulary * case.d_model, f"tied: expected {table} fewer parameters, got {saved}")


def require_all_refused(trial: Trial, bad: dict[str, Callable[[], Any]]) -> None:
    """Every call raises ValueError or TypeError that names argument, expectation and what came."""
    for what, call in bad.items():
        try:
            call()
        except (ValueError, TypeError) as error:
            words = re.match(r"\w+: expected .*, got ", str(error))
            trial.require(bool(words), f"{what}: expected a message 'argument: expected …, got …', got '{error}'")
        except Exception as error:
            raise Difference(f"{what}: expected ValueError or TypeError, got {type(error).__name__}: {error}") from None
        else:
            raise Difference(f"{what}: accepted")


def _random(trial: Trial, model: nn.Module) -> nn.Module:
    export.randomise(model, trial.case)
    return model.train(trial.case.mode == "train")


def _logits(trial: Trial, model: Any) -> Tensor:
    """At every place: the subject's model gives them with targets, torch's always."""
    if type(model).__module__ == torch_models.__name__:
        return model(ids_of(trial))
    return all_logits(trial, model)
