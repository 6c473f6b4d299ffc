"""The implementations among which torch's scaled_dot_product_attention chooses on a CPU, each made the only one."""

import contextlib
import re
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..verdicts import Unsupported

# By the name that a subject has it by: torch's.
BACKENDS = {"math": "MATH", "flash": "FLASH_ATTENTION"}
# What torch calls the fused one when it chooses.
FLASH = 1
NONE_LEFT = re.compile(r"no (viable|available) (backend|kernel)", re.IGNORECASE)


def only(name: str) -> contextlib.AbstractContextManager[Any]:
    """A context in which the backend of that name is the only one.

    Raises:
        AttributeError: a torch that has no choice.
    """
    if hasattr(torch.nn, "attention") and hasattr(torch.nn.attention, "sdpa_kernel"):
        kernels: Any = torch.nn.attention
        return kernels.sdpa_kernel(getattr(kernels.SDPBackend, BACKENDS[name]))
    before: Any = torch.backends.cuda
    chosen = {f"enable_{one}": one == name for one in ("math", "flash", "mem_efficient")}
    return before.sdp_kernel(**chosen)


class OneBackend:
    """torch's function as it is with one backend alone, in place of torch.nn.functional."""

    def __init__(self, name: str) -> None:
        self.name = name

    def scaled_dot_product_attention(self, *arguments: Any, **keywords: Any) -> Tensor:
        """Attention.

        Raises:
            Unsupported: a call that the backend does not take.
        """
        try:
            with only(self.name):
                return F.scaled_dot_product_attention(*arguments, **keywords)
        except RuntimeError as error:
            if NONE_LEFT.search(str(error)):
                raise Unsupported(f"a call that the {self.name} backend does not take") from None
            raise


def try_flash() -> None:
    """Call the fused kernel on the CPU.

    Raises:
        RuntimeError: this torch takes another.
    """
    x = torch.zeros(1, 1, 8, 8)
    with only("flash"):
        chosen = int(torch._fused_sdp_choice(x, x, x))
        if chosen != FLASH:
            raise RuntimeError(f"backend: expected {FLASH}, got {chosen}")
        F.scaled_dot_product_attention(x, x, x)
