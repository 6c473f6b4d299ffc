"""One environment's side of a duel: `python -m conformance.duel.worker THREADS SEED`.

Reads a request from each line of its input and answers each with a line, JSON both. It runs in the environment that is
timed, so it imports nothing but torch, and nothing that a torch from 1.13 on lacks.
"""

import gc
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import torch

from conformance.duel.cells import TIMED, Call

T = TypeVar("T")
# Seconds that a call is tried for when a block is sized.
TRIED = 0.05
# Where a process's numbers lie in memory makes it faster or slower than its like by 3 %, for as long as they lie there. So
# each cell has several sets of them, one drawn for each block, and what a call allocates is moved by up to so many bytes.
PLACES, MOVED = 8, 2**20


class Worker:
    """Answers requests; keeps what it has prepared.

    Args:
        threads: of torch. With one the clock is the thread's processor time, with more the process's.
        seed: of the places that are drawn.
    """

    def __init__(self, threads: int, seed: str = "") -> None:
        torch.set_num_threads(threads)
        self.clock = time.thread_time if threads == 1 else time.process_time
        self.calls: dict[str, list[Call]] = {}
        self.chance = random.Random(seed)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked: "fingerprint", "prepare" a cell, or time a "block" of calls."""
        do: dict[str, Callable[..., dict[str, Any]]] = {
            "fingerprint": fingerprint, "prepare": self.prepare, "block": self.block
        }  # fmt: skip
        return do[request.pop("do")](**request)

    def prepare(self, cell: str) -> dict[str, Any]:
        """Make a cell's call and try it: the seconds that one takes, or why it is not supported."""
        try:
            self.calls[cell] = [self.move(TIMED[cell].make) for _ in range(PLACES)]
            call = self.calls[cell][0]
            call()
        except Exception as error:
            return {"unsupported": f"{type(error).__name__}: {error}".splitlines()[0]}
        tried: list[float] = []
        until = time.perf_counter() + TRIED
        while not tried or time.perf_counter() < until:
            tried.append(self.time(call)[0])
        return {"seconds": statistics.median(tried)}

    def block(self, cell: str, calls: int, slowdown: float = 0.0) -> dict[str, Any]:
        """Processor and wall seconds of each of so many calls.

        Args:
            cell: prepared before.
            calls: how many.
            slowdown: the part of a call's own processor time that it takes longer, on purpose.
        """
        call = self.chance.choice(self.calls[cell])
        gc.disable()
        spent = self.move(lambda: [self.time(call, slowdown) for _ in range(calls)])
        gc.enable()
        return {"cpu": [cpu for cpu, _ in spent], "wall": [wall for _, wall in spent]}

    def move(self, do: Callable[[], T]) -> T:
        """Do something while memory of random sizes is taken, so that its own lies elsewhere."""
        taken = [torch.empty(self.chance.randrange(MOVED), dtype=torch.uint8) for _ in range(3)]
        done = do()
        del taken
        return done

    def time(self, call: Call, slowdown: float = 0.0) -> tuple[float, float]:
        """Processor and wall seconds of one call, and of the work that makes it slower by so much."""
        wall, cpu = time.perf_counter(), self.clock()
        call()
        if slowdown:
            until = cpu + (self.clock() - cpu) * (1 + slowdown)
            while self.clock() < until:
                pass
        return self.clock() - cpu, time.perf_counter() - wall


def fingerprint() -> dict[str, Any]:
    """What times depend on: versions, machine, threads, and its load now."""
    cpu = getattr(torch.backends, "cpu", None)
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "capability": cpu.get_cpu_capability() if cpu is not None else "unknown",
        "threads": torch.get_num_threads(),
        "mkl": torch.backends.mkl.is_available(),
        "onednn": torch.backends.mkldnn.is_available(),
        "load": [round(one, 2) for one in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }


def cpu_model() -> str:
    """The processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def serve(worker: Worker, requests: TextIO, answers: TextIO) -> None:
    """Answer until the input ends."""
    for line in requests:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


def main() -> None:
    """Serve on standard input and output; what else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(Worker(int(sys.argv[1]), sys.argv[2]), sys.stdin, answers)


if __name__ == "__main__":
    main()
