"""ERROR: wrong arguments are refused, before anything is computed."""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from . import bad_calls, bad_options
from .bad_calls import BadCall
from .cases.case import Case
from .cases.components import TRANSFORMER
from .cases.select import MODULES, each
from .clauses import DOCS, MEASURED, MUST, SHOULD, clause
from .trial import Trial
from .verdicts import Difference

BUILDS = each(*(name for name in TRANSFORMER if name != "attention"), norm_first=False)
CALLS = [
    *each(*MODULES, norm_first=False),
    *each(*MODULES, norm_first=True, batch_first=False),
    *each(*MODULES, norm_first=False, batch=None),
    *each(*MODULES, norm_first=False, mode="eval", heads=4, head_dim=3),
]
# torch's fused kernel, for values as wide as the keys, takes a value shorter than the key, and a mask with is_causal.
ATTENTION = [Case("attention", value_dim=6)]
# What a layer calls otherwise than the attention or the norm that refuses it, and a stack otherwise than its layers.
ALSO_CALLED = {
    "d_model": "embed_dim",
    "nhead": "num_heads",
    "layer_norm_eps": "eps",
    "mask": "src_mask",
    "src_is_causal": "is_causal",
}


def require_refusals(trial: Trial, attempt: Callable[..., Any], calls: Iterable[BadCall]) -> None:
    """The good call passes and every bad one raises; a strict subject names argument, expectation and what came."""
    attempt()
    for call in calls:
        try:
            attempt(**call.changes)
        except Exception as error:
            if trial.subject.strict:
                _require_words(call, error)
        else:
            raise Difference(f"{call.what}: accepted")


def _require_words(call: BadCall, error: Exception) -> None:
    names = "|".join({*call.arguments, *(ALSO_CALLED.get(name, name) for name in call.arguments)})
    if not isinstance(error, ValueError | TypeError):
        raise Difference(f"{call.what}: expected ValueError or TypeError, got {type(error).__name__}: {error}")
    if not re.match(rf"({names})\b.*: expected .*, got ", str(error)):
        raise Difference(f"{call.what}: expected a message '{names}: expected …, got …', got '{error}'")


def require_refused_calls(trial: Trial, source: Callable[..., Iterable[BadCall]]) -> None:
    """The case's module refuses the calls of a source of bad ones."""
    module = trial.torch_module()
    given = trial.call_arguments()
    # In eval mode without gradients torch has paths of their own, with checks of their own.
    with torch.set_grad_enabled(trial.case.mode == "train"):
        require_refusals(trial, lambda **changes: module(**{**given, **changes}), source(trial.case, given))


def require_refused_options(trial: Trial, source: Callable[[Case], Iterable[BadCall]]) -> None:
    """The case's constructor, or at the latest the first call, refuses the options of a source of bad ones."""
    trial.torch_module()
    given = trial.call_arguments()

    def attempt(**changes: Any) -> None:
        module = trial.construct(**changes)
        if changes == {} or not trial.subject.strict:
            module.train(trial.case.mode == "train")(**given)

    require_refusals(trial, attempt, source(trial.case))


@clause("ERROR-01", MUST, MEASURED, BUILDS)
def test_sizes(trial: Trial) -> None:
    """Sizes that are not positive, and features that the heads do not divide, are refused by the constructor."""
    require_refused_options(trial, bad_options.sizes)


@clause("ERROR-02", MUST, MEASURED, [case for case in BUILDS if case.component != "layer_norm"])
def test_options(trial: Trial) -> None:
    """A dropout outside [0, 1] and an activation that is no known name and no callable are refused."""
    require_refused_options(trial, bad_options.values)


@clause("ERROR-03", MUST, MEASURED, BUILDS)
def test_option_kinds(trial: Trial) -> None:
    """Sizes that are no integers, and probabilities and epsilons that are no numbers, are refused."""
    require_refused_options(trial, bad_options.kinds)


@clause("ERROR-04", MUST, DOCS, CALLS)
def test_ranks(trial: Trial) -> None:
    """Every tensor is 2-D (unbatched) or 3-D (batched), and all of them are the same."""
    require_refused_calls(trial, bad_calls.ranks)


@clause("ERROR-05", MUST, DOCS, CALLS)
def test_features(trial: Trial) -> None:
    """Every tensor has the features that the parameters are made for."""
    require_refused_calls(trial, bad_calls.features)


@clause("ERROR-06", MUST, DOCS, CALLS)
def test_sizes_together(trial: Trial) -> None:
    """All tensors have one batch size, and the value is as long as the key."""
    require_refused_calls(trial, bad_calls.sizes)


@clause("ERROR-07", MUST, MEASURED, CALLS)
def test_dtypes(trial: Trial) -> None:
    """Every tensor has the dtype of the parameters."""
    require_refused_calls(trial, bad_calls.dtypes)


@clause("ERROR-08", MUST, MEASURED, CALLS)
def test_no_tensors(trial: Trial) -> None:
    """Lists, arrays and None are no tensors, and lists are no masks."""
    require_refused_calls(trial, bad_calls.no_tensors)


@clause("ERROR-09", MUST, DOCS, CALLS)
def test_mask_shapes(trial: Trial) -> None:
    """An attention mask is (L, S), or (N·heads, L, S) one for each sequence and head; nothing broadcasts."""
    require_refused_calls(trial, bad_calls.mask_shapes)


@clause("ERROR-10", MUST, DOCS, CALLS)
def test_padding_shapes(trial: Trial) -> None:
    """A padding mask is (N, S), or (S,) in an unbatched call; nothing broadcasts."""
    require_refused_calls(trial, bad_calls.padding_shapes)


@clause("ERROR-11", MUST, MEASURED, CALLS)
def test_integer_masks(trial: Trial) -> None:
    """A mask of integers is refused, since it could mean either polarity."""
    require_refused_calls(trial, bad_calls.integer_masks)


@clause("ERROR-12", MUST, DOCS, [*CALLS, Case("multihead_attention", attends="self", mode="eval", heads=4, head_dim=3)])
def test_hints(trial: Trial) -> None:
    """A causal hint is refused without the mask that it describes."""
    require_refused_calls(trial, bad_calls.hints)


@clause("ERROR-13", MUST, MEASURED, ATTENTION)
def test_attention_tensors(trial: Trial) -> None:
    """Query, key and value are floating, of one dtype, at least 2-D, and agree in features, lengths and batch."""
    require_refused_calls(trial, bad_calls.attention_tensors)


@clause("ERROR-14", MUST, DOCS, ATTENTION)
def test_attention_masks(trial: Trial) -> None:
    """attn_mask is boolean or floating, broadcasts to the scores, and excludes is_causal."""
    require_refused_calls(trial, bad_calls.attention_masks)


@clause("ERROR-20", MUST, DOCS, [Case("attention", mode=mode) for mode in ("train", "eval")])
def test_two_masks(trial: Trial) -> None:
    """A mask and is_causal together are refused for values as wide as the keys as well, whichever kernel serves them."""
    given = trial.call_arguments()
    keep = torch.ones(trial.case.target, trial.case.source, dtype=torch.bool)
    for mask in (keep, torch.zeros(keep.shape, dtype=given["query"].dtype)):
        attempt = functools.partial(trial.torch_module(), **{**given, "attn_mask": mask, "is_causal": True})
        trial.require(_raises(attempt) is not None, f"attn_mask of {mask.dtype} with is_causal=True: accepted")


@clause("ERROR-21", SHOULD, MEASURED, each("encoder", "decoder", "transformer", norm_first=False))
def test_no_layers(trial: Trial) -> None:
    """A stack of no layers is refused by name, or is its norm: it does not fail within, over a layer that is not there."""
    names = ("num_encoder_layers", "num_decoder_layers") if trial.case.component == "transformer" else ("num_layers",)
    for name in names:
        error = _raises(functools.partial(_without_layers, trial, name))
        trial.require(not isinstance(error, LookupError), f"{name}=0: {type(error).__name__}: {error}")


def _without_layers(trial: Trial, name: str) -> Any:
    return trial.construct(**{name: 0})(**trial.call_arguments())


def _raises(action: Callable[[], Any]) -> Exception | None:
    try:
        action()
    except Exception as error:
        return error
    return None


@clause("ERROR-15", MUST, MEASURED, ATTENTION)
def test_attention_values(trial: Trial) -> None:
    """dropout_p is at most 1, and scale is a number."""
    require_refused_calls(trial, bad_calls.attention_values)


@clause("ERROR-16", MUST, DOCS, ATTENTION)
def test_grouped_heads(trial: Trial) -> None:
    """With enable_gqa the key's heads divide the query's."""
    require_refused_calls(trial, bad_calls.grouped_heads)


@clause("ERROR-17", MUST, DOCS, each("layer_norm") + each("layer_norm", normalized_dims=2))
def test_normalized_shape(trial: Trial) -> None:
    """A layer norm takes tensors of its parameters' dtype whose last dimensions are normalized_shape."""
    require_refused_calls(trial, bad_calls.normalized)


@clause("ERROR-18", MUST, MEASURED, each("transformer", norm_first=False))
def test_causal_mask(trial: Trial) -> None:
    """generate_square_subsequent_mask takes an integer that is not negative."""
    generate = trial.torch_module().generate_square_subsequent_mask
    calls = [bad_calls.change("sz", value) for value in (-1, 2.5, "3", None)]
    require_refusals(trial, lambda sz=3: generate(sz), calls)


@clause("ERROR-19", SHOULD, MEASURED, CALLS)
def test_before_anything(trial: Trial) -> None:
    """A wrong argument is refused before any projection or norm has been computed."""
    module = trial.torch_module()
    given = trial.call_arguments()
    reached: list[str] = []
    for name, part in module.named_modules():
        if not list(part.children()) and list(part.parameters()):
            part.register_forward_pre_hook(lambda _part, _given, name=name: reached.append(name))
    for call in bad_calls.of_calls(trial.case, given):
        reached.clear()
        _attempt(module, {**given, **call.changes})
        trial.require(not reached, f"{call.what}: {', '.join(reached[:1])} was computed first")


def _attempt(module: nn.Module, arguments: dict[str, Any]) -> None:
    try:
        module(**arguments)
    except Exception:
        return
