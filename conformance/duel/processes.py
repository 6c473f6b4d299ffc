"""A worker in a process of its own, seen from the coordinator."""

import contextlib
import json
import os
import queue
import random
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
# glibc's allocator gives large blocks back to the system, or keeps them, as its history has it: two processes that do the
# same differ by a tenth. Told so, it keeps all; other allocators do not read this.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**32), "MALLOC_TOP_PAD_": str(2**26)}
# Seconds for an answer: importing torch from a cold disk takes long, a block never does.
PATIENCE = 180.0


class Unusable(Exception):
    """What was given cannot be used; the message is one line."""


def python_of(environment: str) -> Path:
    """The python of a virtual environment, named by its folder or by that python itself.

    Raises:
        Unusable: there is none.
    """
    path = Path(environment)
    candidates = [path] if path.is_file() else [path / "bin" / "python", path / "Scripts" / "python.exe"]
    for found in candidates:
        if found.is_file() and os.access(found, os.X_OK):
            return found.absolute()
    raise Unusable(f"{environment}: expected a virtual environment or its python, found none there")


class Remote:
    """A worker process of an environment.

    Args:
        python: of that environment.
        threads: of torch.
        seed: of what it draws.

    Raises:
        Unusable: it does not start or ends; the message has the last line that it wrote.
    """

    def __init__(self, python: Path, threads: int, seed: str = "") -> None:
        self.python = python
        self.errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 closed in __exit__
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [str(python), "-m", "conformance.duel.worker", str(threads), seed],
            env={**os.environ, **MEMORY, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, encoding="utf-8",
        )  # fmt: skip
        self.answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> "Remote":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def send(self, **request: Any) -> None:
        """Ask for something, without waiting."""
        if self.process.stdin is None:
            raise Unusable(f"{self.python}: its input is closed")
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Unusable(self._complaint()) from error

    def receive(self) -> dict[str, Any]:
        """Wait for the answer."""
        try:
            line = self.answers.get(timeout=PATIENCE)
            return dict(json.loads(line))
        except queue.Empty as error:
            raise Unusable(f"{self.python}: its worker did not answer in {PATIENCE:.0f} s") from error
        except (ValueError, TypeError) as error:
            raise Unusable(self._complaint(line)) from error

    def ask(self, **request: Any) -> dict[str, Any]:
        """Ask and wait."""
        self.send(**request)
        return self.receive()

    def _read(self) -> None:
        if self.process.stdout is not None:
            for line in self.process.stdout:
                self.answers.put(line)
        self.answers.put("")

    def _complaint(self, line: str = "") -> str:
        if line:
            return f"{self.python}: its worker answered {line.strip()[:80]!r}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines() or [f"exit code {self.process.poll()}"]
        return f"{self.python}: its worker ended: {lines[-1]}"


class Crew:
    """Some workers of one environment, one of which is drawn for each block.

    Where its code and data lie in memory makes a process faster or slower than its like by a percent or two for as long as it
    lives. Of a few processes, that cancels in part, and what is left differs from block to block, where it can be seen.

    Args:
        remotes: the workers.
        seed: of the draws.
    """

    def __init__(self, remotes: Sequence[Remote], seed: str = "") -> None:
        self.remotes = remotes
        self.chance = random.Random(seed)

    def send(self, **request: Any) -> None:
        """Ask all for something, without waiting."""
        for remote in self.remotes:
            remote.send(**request)

    def receive(self) -> list[dict[str, Any]]:
        """Wait for the answers of all."""
        return [remote.receive() for remote in self.remotes]

    def prepare(self, cell: str) -> dict[str, Any]:
        """Have all make a cell: the typical seconds of a call, or why it is not supported."""
        self.send(do="prepare", cell=cell)
        answers = self.receive()
        refused = next((answer for answer in answers if "unsupported" in answer), None)
        return refused or {"seconds": statistics.median(answer["seconds"] for answer in answers)}

    def start(self, **request: Any) -> Remote:
        """Ask one of them for a block, without waiting: the one that will answer."""
        drawn = self.chance.choice(self.remotes)
        drawn.send(do="block", **request)
        return drawn
