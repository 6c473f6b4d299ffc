"""What the figures of a run depend on, saved with them."""

from typing import Any

from conformance.environment import fingerprint


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Versions, capability and threads beside what pytest-benchmark knows of the machine."""
    machine_info["conformance"] = fingerprint("cpu")
