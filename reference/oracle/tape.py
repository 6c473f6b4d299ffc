"""The tape: reverse-mode differentiation as a list of nodes and vjp closures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
Vjp = Callable[[Array], Sequence["Array | None"]]
Primitive = Callable[..., "tuple[Array, Vjp]"]


@dataclass(frozen=True, eq=False)
class Node:
    """A value on the tape; `==` and hashing go by identity, so a node can be a key."""

    value: Array


class Tape:
    """The record of a computation, in the order it was made.

    A primitive is a function `primitive(*arrays, **options) -> (value, vjp)`; its
    `vjp(cotangent)` returns one cotangent for each array, `None` where nothing flows.

    Source: Baydin et al., "Automatic Differentiation in Machine Learning: a Survey",
    section 3.2.
    """

    def __init__(self) -> None:
        self._records: list[tuple[Node, tuple[Node | None, ...], Vjp]] = []

    def apply(self, primitive: Primitive, *inputs: Node | None, **options: Any) -> Node:
        """Run one primitive on the values of its inputs and record its vjp.

        Args:
            primitive: a function as described at `Tape`.
            inputs: the nodes it reads; `None` stands for an absent one (no bias, no mask).
            options: what the primitive takes and is not differentiated by.

        Returns:
            The node that holds the primitive's value.
        """
        value, vjp = primitive(*(None if node is None else node.value for node in inputs), **options)
        node = Node(value)
        self._records.append((node, inputs, vjp))
        return node

    def cotangents(self, seeds: Mapping[Node, Array]) -> dict[Node, Array]:
        """Carry the outputs' cotangents back to every node they reach.

        Formula: `cotangent(input) = sum over uses of vjp_use(cotangent(use))`.

        Args:
            seeds: the cotangent of each output, in its output's shape.

        Returns:
            The cotangent of every node reached; a node that is missing has cotangent zero.
        """
        found: dict[Node, Array] = dict(seeds)
        for node, inputs, vjp in reversed(self._records):
            cotangent = found.get(node)
            if cotangent is None:
                continue
            for source, contribution in zip(inputs, vjp(cotangent), strict=True):
                if source is None or contribution is None:
                    continue
                known = found.get(source)
                found[source] = contribution if known is None else known + contribution
        return found
