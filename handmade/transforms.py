"""What torch does to a function besides calling it."""

import torch
from torch.autograd import Function

# Functions of an older torch do not know of torch.func.
KNOWS_TRANSFORMS = hasattr(Function, "setup_context")


def compiling() -> bool:
    """Whether torch.compile is tracing."""
    compiler = getattr(torch, "compiler", None)
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()


def functions_apply() -> bool:
    """Whether a function with a backward pass by hand can be used: a compiler could not look into it."""
    return KNOWS_TRANSFORMS and not compiling()
