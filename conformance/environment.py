"""What a run's results depend on besides the subject."""

import os
import platform
from typing import Any

import numpy
import torch

from . import capabilities


def fingerprint(device: str) -> dict[str, Any]:
    """Versions, machine, device, threads."""
    capability = torch.backends.cpu.get_cpu_capability() if hasattr(torch.backends, "cpu") else "unknown"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu_capability": capability,
        "cpus": os.cpu_count(),
        "device": device if device == "cpu" else f"{device} ({device_name(device)})",
        "threads": torch.get_num_threads(),
    }


def device_name(device: str) -> str:
    """The accelerator's name."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def describe(device: str) -> str:
    """The fingerprint on one line."""
    found = fingerprint(device)
    return (
        f"torch {found['torch']}, numpy {found['numpy']}, device {found['device']}, "
        f"{found['threads']} threads, {found['cpu_capability']}"
    )


def lacking() -> list[str]:
    """Lines on what this torch cannot do, if there is anything, and what follows."""
    missing = [name for name, there in capabilities.probed().items() if not there]
    if not missing:
        return []
    plain = "the handmade attention and norm are the plain ones, and " if "Function.setup_context" in missing else ""
    return [
        f"{capabilities.NOT_SUPPORTED}: {', '.join(missing)}",
        f"so {plain}the suite's own tests, which want a torch that lacks nothing, are left out",
    ]
