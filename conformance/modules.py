"""What the chapters on modules share: torch's own as its constructor leaves it, and the first output of any."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from reference.torch_modules import build

from . import capabilities
from .cases.case import Case
from .cases.components import COMPONENTS
from .verdicts import Difference, Kind, Unsupported


def reference(case: Case) -> nn.Module:
    """The module of torch as its constructor leaves it.

    Raises:
        Unsupported: this torch does not do the case.
    """
    capabilities.require(*capabilities.of_torch(case))
    return build(case.component, COMPONENTS[case.component].options(case), dtype=getattr(torch, case.dtype))


def output(module: Callable[..., Any], given: Mapping[str, Any]) -> Tensor:
    """The first output of a call."""
    returned = module(**given)
    return returned[0] if isinstance(returned, tuple) else returned


def attempt(what: str, action: Callable[[], Any]) -> Any:
    """What the action returns; whatever it raises is a difference, not a crash.

    Raises:
        Difference: the action raised.
        Unsupported: the subject does not do this.
    """
    try:
        return action()
    except Unsupported:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise Difference(f"{what}: {type(error).__name__}: {first}", Kind.RAISES) from error
