"""Whether a compiler looks on, for which a branch on a tensor's content would break the graph."""

import torch


def compiling() -> bool:
    """Whether torch.compile is tracing."""
    compiler = getattr(torch, "compiler", None)
    return compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling()
