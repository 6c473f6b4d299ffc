"""Finding the subject that the command line names."""

import difflib
import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from ..cases.components import COMPONENTS
from .adapter import Adapter
from .attention_backends import BACKENDS
from .subject import DEFAULTS, OPTIONS, Subject
from .torch_interface import handmade_subject, torch_backend_subject, torch_fast_subject, torch_subject

BUILT_IN: dict[str, Callable[[], Mapping[str, Adapter]]] = {
    "handmade": handmade_subject,
    "torch": torch_subject,
    "torch-fast": torch_fast_subject,
    **{f"torch-{backend}": functools.partial(torch_backend_subject, backend) for backend in BACKENDS},
}
_MEMBERS = [name for name in vars(Adapter) if not name.startswith("_")]


class UnusableSubject(Exception):
    """The subject cannot be loaded; the message is one line."""


def load(name: str) -> Subject:
    """The subject of a name.

    Args:
        name: a key of `BUILT_IN`, or a place: "path/to/file.py:Name" or "package.module:Name", where Name is an `Adapter`,
            or "path/to/file.py" for all the adapters in it.

    Raises:
        UnusableSubject: an unknown name, a file that does not import, an object that is no adapter.
    """
    if name in BUILT_IN:
        return Subject(name, BUILT_IN[name](), strict=name == "handmade", is_torch=name != "handmade")
    place, _, attribute = name.partition(":")
    if not place.endswith(".py") and not attribute:
        raise UnusableSubject(
            f"--subject: expected one of {sorted(BUILT_IN)}, FILE.py, FILE.py:ADAPTER or MODULE:ADAPTER, got {name!r}"
        )
    module = _module(place)
    found = [_adapter(module, place, attribute)] if attribute else _all_adapters(module, place)
    adapters = {}
    for adapter in found:
        if adapter.component in adapters:
            raise UnusableSubject(
                f"--subject: {place} has several adapters of {adapter.component}; name one as {place}:ADAPTER"
            )
        adapters[adapter.component] = adapter
    return Subject(name, adapters)


def _module(place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        path = Path(place)
        if not path.is_file():
            raise UnusableSubject(f"--subject: no such file: {place}")
        # The name is not the stem: a file called torch.py must not hide torch.
        spec = importlib.util.spec_from_file_location(f"conformance_subject_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        sys.path.insert(0, str(path.resolve().parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.pop(0)
        return module
    except UnusableSubject:
        raise
    except (Exception, SystemExit) as error:
        first = (str(error).splitlines() or [""])[0]
        raise UnusableSubject(f"--subject: {place} does not import: {type(error).__name__}: {first}") from None


def _adapter(module: ModuleType, place: str, attribute: str) -> Adapter:
    try:
        found = getattr(module, attribute)
    except Exception:
        raise UnusableSubject(f"--subject: {place} has no {attribute}") from None
    return _instance(found, f"{place}:{attribute}")


def _all_adapters(module: ModuleType, place: str) -> list[Adapter]:
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Adapter) and value.__module__ == module.__name__
    ]
    if not own:
        raise UnusableSubject(f"--subject: {place} has no adapter, a class derived from conformance.subjects.Adapter")
    return [_instance(value, f"{place}:{value.__name__}") for value in own]


def _instance(value: object, place: str) -> Adapter:
    if inspect.isclass(value) and issubclass(value, Adapter):
        try:
            value = value()
        except (Exception, SystemExit) as error:
            first = (str(error).splitlines() or [""])[0]
            raise UnusableSubject(f"--subject: {place}() raised {type(error).__name__}: {first}") from None
    if not isinstance(value, Adapter):
        kind = value.__name__ if inspect.isclass(value) else type(value).__name__
        raise UnusableSubject(
            f"--subject: {place} is no adapter: expected a class derived from conformance.subjects.Adapter, got {kind}"
        )
    complaint = _complaint(value)
    if complaint:
        raise UnusableSubject(f"--subject: {place}: {complaint}")
    return value


def _complaint(adapter: Adapter) -> str:
    """What an adapter declares that means nothing; empty if all of it does."""
    if not isinstance(adapter.component, str) or adapter.component not in COMPONENTS:
        return f"component: expected one of {sorted(COMPONENTS)}, got {adapter.component!r}"
    for declared in ("reference", "fixed"):
        if not isinstance(getattr(adapter, declared), Mapping):
            return f"{declared}: expected a mapping, got {getattr(adapter, declared)!r}"
    if not isinstance(adapter.unsupported, tuple | list) or not all(isinstance(x, str) for x in adapter.unsupported):
        return f"unsupported: expected a tuple of strings, got {adapter.unsupported!r}"
    for member in vars(type(adapter)):
        meant = difflib.get_close_matches(member, _MEMBERS, n=1, cutoff=0.85)
        if meant and member not in _MEMBERS:
            return f"{member}: an adapter has {meant[0]}"
    unsupported = [entry.partition("=")[0] for entry in adapter.unsupported]
    for declared, names, known in (
        ("reference", adapter.reference, set(OPTIONS.values())),
        ("fixed", adapter.fixed, set(DEFAULTS) - {"component"}),
        ("unsupported", unsupported, set(DEFAULTS) - {"component"}),
        ("dead_rows", [adapter.dead_rows], {"zero", "uniform", "nan"}),
        ("padded_rows", [adapter.padded_rows], {"computed", "zero"}),
        ("gradients", [adapter.gradients], {True, False}),
    ):
        for name in names:
            if name not in known:
                return f"{declared}: expected one of {sorted(known)}, got {name!r}"
    return ""
