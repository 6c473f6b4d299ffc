"""Between the callers' layouts and the modules' own, which is batch first: (N, L, E)."""

from __future__ import annotations

from dataclasses import dataclass

from .inputs import Arguments, check_shape
from .masks import Mask, merge_masks
from .shapes import reshape, swap_axes
from .tape import Node, Tape


@dataclass(frozen=True)
class Layout:
    """How a caller lays out a sequence: (L, E), (L, N, E) or, batch first, (N, L, E)."""

    tape: Tape
    arguments: Arguments
    batched: bool
    batch_first: bool

    def read(self, name: str, width: int, batch: int | None = None) -> Node:
        """An argument as (N, L, E).

        Args:
            name: the argument's name.
            width: E.
            batch: N, where another argument has settled it.

        Returns:
            The node, with N = 1 for unbatched input.

        Raises:
            ValueError: the argument is missing or has another shape.
        """
        node = self.arguments.tensor(name, 3 if self.batched else 2)
        shape = node.value.shape
        expected = (*shape[:-1], width)
        if self.batched and batch is not None:
            expected = (batch, shape[1], width) if self.batch_first else (shape[0], batch, width)
        check_shape(f"argument {name!r}", shape, expected)
        if not self.batched:
            return self.tape.apply(reshape, node, shape=(1, *shape))
        return node if self.batch_first else self.tape.apply(swap_axes, node, first=0, second=1)

    def write(self, node: Node) -> Node:
        """A module's (N, L, E) in the caller's layout."""
        if not self.batched:
            return self.tape.apply(reshape, node, shape=node.value.shape[1:])
        return node if self.batch_first else self.tape.apply(swap_axes, node, first=0, second=1)

    def mask(self, attention: str, padding: str, query: Node, key: Node, heads: int) -> Mask:
        """The merged mask of two mask arguments.

        Args:
            attention: the attention mask's name; (L, S) or (N * H, L, S).
            padding: the key padding mask's name; (N, S), unbatched (S,).
            query: (N, L, E).
            key: (N, S, E).
            heads: H.

        Returns:
            The mask over (N, H, L, S).

        Raises:
            ValueError: a mask has another shape or is neither bool nor float.
        """
        batch, queries, _ = query.value.shape
        return merge_masks(
            self.tape,
            self.arguments.mask(attention),
            self.arguments.mask(padding),
            (batch, heads, queries, key.value.shape[1]),
            (attention, padding),
            batched=self.batched,
        )


def layout_of(tape: Tape, arguments: Arguments, name: str, *, batch_first: bool) -> Layout:
    """The layout in which a caller gave its first sequence, and so all of them."""
    batched = arguments.tensor(name, 2, 3).value.ndim == 3
    return Layout(tape, arguments, batched, batch_first)
