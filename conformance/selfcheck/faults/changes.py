"""What a fault does to a function, a method or a class: each makes the wrong one of the right one."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from .fault import Change

Right = Callable[..., Any]
Came = SimpleNamespace
Of = Callable[[Came], Any]


def given(**changed: Of) -> Change:
    """Called with changed arguments, each a function of all the arguments that came."""

    def wrong(right: Right, came: Came) -> Any:
        return right(**{**vars(came), **{name: of(came) for name, of in changed.items()}})

    return instead(wrong)


def instead(wrong: Callable[[Right, Came], Any]) -> Change:
    """Replaced by a function of the right one and of the arguments that came."""

    def change(right: Right) -> Right:
        parameters = inspect.signature(right).parameters
        defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}

        @functools.wraps(right)
        def call(*positional: Any, **named: Any) -> Any:
            came = {**defaults, **dict(zip(parameters, positional, strict=False)), **named}
            return wrong(right, Came(**came))

        return call

    return change


def returning(change_result: Callable[[Any, Came], Any]) -> Change:
    """Called as it should be; what it returns is changed, by a function of that and of the arguments that came."""
    return instead(lambda right, came: change_result(right(**vars(came)), came))


def having(**attributes: Callable[[Any], Any]) -> Change:
    """A method, called while attributes of its object are others: each a function of the object."""
    return instead(lambda right, came: _with_attributes(right, came, attributes))


def built(afterwards: Callable[[Any], None]) -> Change:
    """A constructor, after which something is done to the new object."""
    return returning(lambda _, came: afterwards(came.self))


def derived(**members: Any) -> Change:
    """A class, replaced by one derived from it with other methods."""
    return lambda right: type(right.__name__, (right,), {"__doc__": right.__doc__, **members})


@contextlib.contextmanager
def attributes_of(place: Any, **values: Any) -> Iterator[None]:
    """Inside, attributes of an object have other values."""
    before = {name: getattr(place, name) for name in values}
    try:
        for name, value in values.items():
            setattr(place, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(place, name, value)


def _with_attributes(right: Right, came: Came, attributes: dict[str, Callable]) -> Any:
    with attributes_of(came.self, **{name: of(came.self) for name, of in attributes.items()}):
        return right(**vars(came))
