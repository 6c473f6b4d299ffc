"""Which cases a clause reads: predicates over cases, and short lists of cases of a clause's own."""

from typing import Any

from .case import Case
from .components import COMPONENTS, TRANSFORMER, masks_of

MODULES = tuple(name for name in TRANSFORMER if name not in ("attention", "layer_norm"))
NORMED = ("encoder_layer", "decoder_layer", "encoder", "decoder", "transformer")


def unmasked(case: Case) -> bool:
    """No mask of any kind."""
    return not masks_of(case) and not case.is_causal


def has_kind(case: Case, *kinds: str, padding: bool = False) -> bool:
    """A module with an attention mask, or a padding mask, of one of the kinds."""
    if case.component == "attention":
        return False
    return any(kind in kinds and field.endswith("padding_mask") == padding for field, kind in masks_of(case).items())


def few_masks(case: Case) -> bool:
    """At most two masks, in float64: more at once, and other dtypes, have clauses of their own."""
    return len(masks_of(case)) <= 2 and case.dtype == "float64"


def floating_masks(case: Case) -> bool:
    """At least one mask that is added to the scores."""
    return any(kind.startswith("float") for kind in masks_of(case).values())


def each(*components: str, **fields: Any) -> list[Case]:
    """One case of each component with these options, for both norm positions where it has norms.

    Options that start with a component's mask role go to those components only that have the role.
    """
    made = []
    for component in components:
        roles = {name for a in COMPONENTS[component].attentions for name in (a.mask, a.padding)}
        own = {name: value for name, value in fields.items() if not name.endswith("mask") or name in roles}
        norms = (False, True) if component in NORMED and "norm_first" not in own else (own.pop("norm_first", False),)
        made += [Case(component, norm_first=norm_first, **own) for norm_first in norms]
    return list(dict.fromkeys(made))


def around(**fields: Any) -> list[Case]:
    """One case of each part around the Transformer that is a module with one forward."""
    maps = each("embedding", "token_embedding", "positional_encoding", "rotary", "rms_norm", "swiglu", **fields)
    return [
        *maps,
        Case("mixture_of_experts", activation="gelu", **fields),
        Case("grouped_query_attention", heads=4, key_heads=2, rotary=True, **fields),
        Case("self_attention", heads=1, head_dim=12, **fields),
    ]
