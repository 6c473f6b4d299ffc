"""Calls that may kill the interpreter: made in a process of their own, with a limit of time."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from .cases.case import Case

LIMIT = 120
SCRIPT = "from conformance.child import main; main()"


def in_child(subject: str, case: Case, sizes: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Attention of a subject with zeros of each of the sizes.

    Args:
        subject: its name, as `--subject` takes it.
        case: whose dtype.
        sizes: batch, heads, queries, keys and features of a head.

    Returns:
        How many of the sizes were done, and the exit code: negative where a signal ended the process.
    """
    # What this process found beside the working folder the child must find as well.
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    order = json.dumps([subject, case.dtype, [list(one) for one in sizes]])
    try:
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, order],
            capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return len((error.stdout or b"").splitlines()), -1
    return len(ended.stdout.splitlines()), ended.returncode


def main() -> None:
    """Make the calls, and write a line after each pair of them."""
    from .subjects.load import load

    subject, dtype, sizes = json.loads(sys.argv[1])
    adapter = load(subject).adapters["attention"]
    torch.set_num_threads(1)
    attend = adapter.namespace.functions.scaled_dot_product_attention  # type: ignore[attr-defined]
    for batch, heads, queries, keys, features in sizes:
        query = torch.zeros(batch, heads, queries, features, dtype=getattr(torch, dtype))
        key = torch.zeros(batch, heads, keys, features, dtype=query.dtype)
        for causal in (True, False):
            with contextlib.suppress(Exception):
                attend(query, key, key, is_causal=causal)
        sys.stdout.write("done\n")
        sys.stdout.flush()
