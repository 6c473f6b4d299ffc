"""What there is to say of a component: its tensors, its attentions, its constructor options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .case import Case


@dataclass(frozen=True)
class Attention:
    """One attention inside a component: who asks whom, and the names of its masks.

    `mask` and `padding` are fields of the case; `mask_argument` is the name that torch's forward gives the mask.
    """

    query: str
    key: str
    mask: str
    padding: str | None
    mask_argument: str
    hint_argument: str | None


@dataclass(frozen=True)
class Shapes:
    """The call of a part: what goes in and comes out.

    Attributes:
        tensors: the shape of each floating tensor, by argument name.
        integers: shape, and number of different values from 0 on, of each tensor of integers.
        outputs: the shape of each output.
        flags: further arguments.
    """

    tensors: Mapping[str, tuple[int, ...]]
    outputs: tuple[tuple[int, ...], ...]
    integers: Mapping[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Component:
    """A component by its tensors (the first decides the output's shape), attentions and constructor options.

    `shapes` says of a part how it is called, where it is not called as a Transformer's layers are.
    """

    tensors: tuple[str, ...]
    attentions: tuple[Attention, ...]
    options: Callable[[Case], dict[str, Any]]
    shapes: Callable[[Case], Shapes] | None = None

    @property
    def rows(self) -> str:
        """The tensor whose positions are the output's."""
        if not self.tensors:
            raise LookupError("x: no floating tensor goes in; the integers are in `arguments`, by their names")
        return self.tensors[-1] if self.tensors == ("src", "tgt") else self.tensors[0]
