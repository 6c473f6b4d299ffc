"""What torch does to a function besides calling it."""

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn import Parameter

# Functions of an older torch do not know of torch.func.
KNOWS_TRANSFORMS = hasattr(Function, "setup_context")


def compiling() -> bool:
    """Whether torch.compile is tracing."""
    compiler = getattr(torch, "compiler", None)
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()


def functions_apply(*tensors: Tensor | None) -> bool:
    """Whether a function with a backward pass by hand can be used on these tensors.

    A compiler could not look into it, a tensor that stands for another has no values to decide by, and a forward-mode
    derivative by hand cannot be differentiated in forward mode again.
    """
    if not KNOWS_TRANSFORMS or compiling():
        return False
    given = [x for x in tensors if x is not None]
    return all(type(x) in (Tensor, Parameter) and forward_ad.unpack_dual(x).tangent is None for x in given)
