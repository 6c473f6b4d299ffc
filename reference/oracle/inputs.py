"""Checked reading of what `evaluate` is given: names, options, parameters, arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from .tape import Array, Node

IGNORED_OPTIONS = frozenset({"dropout", "device", "dtype", "enable_nested_tensor", "mask_check"})


def check_names(kind: str, given: Collection[str], known: Collection[str]) -> None:
    """Raise ValueError for the first given name that is not a known one."""
    for name in given:
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}, expected one of {sorted(known)}")


def check_shape(name: str, shape: tuple[int, ...], *expected: tuple[int, ...]) -> None:
    """Raise ValueError unless the shape is one of those expected."""
    if shape not in expected:
        wanted = " or ".join(str(one) for one in expected)
        raise ValueError(f"{name}: expected shape {wanted}, got {shape}")


def check_rank(name: str, shape: tuple[int, ...], *expected: int) -> None:
    """Raise ValueError unless the number of axes is one of those expected."""
    if len(shape) not in expected:
        wanted = " or ".join(str(rank) for rank in expected)
        raise ValueError(f"{name}: expected {wanted} axes, got shape {shape}")


class Options:
    """The constructor options, by torch's names; a missing one has torch's default."""

    def __init__(self, given: Mapping[str, object], known: Collection[str]) -> None:
        check_names("option", given, IGNORED_OPTIONS.union(known))
        self._given = given

    def get(self, name: str, default: Any) -> Any:
        """The option, or its default where it is missing."""
        return self._given.get(name, default)

    def size(self, name: str, default: int | None = None) -> int:
        """A positive integer; without a default it must be there."""
        found = self._given.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int | np.integer) or found < 1:
            raise ValueError(f"option {name!r}: expected a positive integer, got {found!r}")
        return int(found)


class Parameters:
    """The parameters below one prefix of a state_dict."""

    def __init__(self, leaves: Mapping[str, Node], used: set[str], prefix: str = "") -> None:
        self._leaves, self._used, self._prefix = leaves, used, prefix

    def within(self, name: str) -> Parameters:
        """The parameters of the submodule `name`."""
        return Parameters(self._leaves, self._used, f"{self._prefix}{name}.")

    def optional(self, name: str, *shape: int, present: bool = True) -> Node | None:
        """The parameter, or `None` where it is absent or, by the options, not `present`."""
        full = self._prefix + name
        if not present or full not in self._leaves:
            return None
        node = self._leaves[full]
        check_shape(f"parameter {full!r}", node.value.shape, shape)
        self._used.add(full)
        return node

    def required(self, name: str, *shape: int) -> Node:
        """The parameter; ValueError where it is missing."""
        node = self.optional(name, *shape)
        if node is None:
            raise ValueError(f"missing parameter {self._prefix + name!r}, expected shape {shape}")
        return node

    def check_all_used(self) -> None:
        """Raise ValueError for a parameter that no module has read."""
        for name in self._leaves:
            if name not in self._used:
                used = sorted(self._used)
                raise ValueError(f"leftover parameter {name!r}, this component has {used}")


class Arguments:
    """The forward arguments, by torch's names; `None` counts as absent."""

    def __init__(self, given: Mapping[str, object], known: Collection[str]) -> None:
        check_names("argument", given, known)
        self._given = {name: value for name, value in given.items() if value is not None}
        self.leaves: dict[str, Node] = {
            name: Node(np.array(value, dtype=np.float64))
            for name, value in self._given.items()
            if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.floating)
        }

    def get(self, name: str, default: Any) -> Any:
        """A flag or number, or its default where it is absent."""
        return self._given.get(name, default)

    def tensor(self, name: str, *ranks: int) -> Node:
        """A float array that must be there, with one of the given numbers of axes."""
        if name not in self.leaves:
            found = type(self._given.get(name)).__name__
            raise ValueError(f"argument {name!r}: expected a float array, got {found}")
        node = self.leaves[name]
        if ranks:
            check_rank(f"argument {name!r}", node.value.shape, *ranks)
        return node

    def integers(self, name: str) -> Array:
        """An integer array that must be there."""
        found = self._given.get(name)
        if not isinstance(found, np.ndarray) or not np.issubdtype(found.dtype, np.integer):
            got = found.dtype if isinstance(found, np.ndarray) else type(found).__name__
            raise ValueError(f"argument {name!r}: expected an integer array, got {got}")
        return found

    def mask(self, name: str) -> Node | Array | None:
        """A float mask as a node, a bool mask as an array, or `None` where it is absent."""
        found = self._given.get(name)
        if found is None or name in self.leaves:
            return self.leaves.get(name)
        if not isinstance(found, np.ndarray) or found.dtype != np.bool_:
            got = found.dtype if isinstance(found, np.ndarray) else type(found).__name__
            raise ValueError(f"argument {name!r}: expected a bool or float array, got {got}")
        return found


def float_leaves(arrays: Mapping[str, Array]) -> dict[str, Node]:
    """A float64 node for every parameter array; ValueError for what is not one."""
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.floating):
            raise ValueError(f"parameter {name!r}: expected a float array, got {type(array).__name__}")
    return {name: Node(np.array(array, dtype=np.float64)) for name, array in arrays.items()}
