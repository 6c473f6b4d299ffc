"""The memory that an attention takes at its peak, in a process of its own: `python -m conformance.benchmarks.memory CORE LENGTH`.

What counts is what is resident beyond the inputs, the output and their gradients. The peak is Linux's VmHWM.
"""

import subprocess
import sys
from pathlib import Path

import torch

from .cores import CORES, Shape

SHAPE = (1, 8, 64)


def extra_bytes(core: str, length: int) -> int:
    """Resident bytes at the peak of forward and backward, less those of inputs, output and gradients.

    Args:
        core: a name of `CORES`.
        length: of queries and keys; batch 1, 8 heads of 64 features, float32.

    Raises:
        OSError: this system does not tell.
    """
    batch, heads, width = SHAPE
    warm = [torch.randn(1, 1, 64, width, requires_grad=True) for _ in range(3)]
    attend = CORES[core](Shape(1, 1, 64, 64, width), "none", torch.float32)
    attend(*warm).sum().backward()
    leaves = [torch.randn(batch, heads, length, width, requires_grad=True) for _ in range(3)]
    attend = CORES[core](Shape(batch, heads, length, length, width), "none", torch.float32)
    cotangent = torch.randn(batch, heads, length, width)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    out = attend(*leaves)
    torch.autograd.backward(out, cotangent)
    kept = sum(x.nbytes for x in (out, *(leaf.grad for leaf in leaves if leaf.grad is not None)))
    return _status("VmHWM") - before - kept


def in_a_process_of_its_own(core: str, length: int) -> int | None:
    """`extra_bytes` without what this process has kept, or None where it cannot be had."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, core, str(length)], capture_output=True, text=True, check=False
    )
    return int(done.stdout) if done.returncode == 0 else None


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    sys.stdout.write(str(extra_bytes(sys.argv[1], int(sys.argv[2]))))
