"""An environment of its own for a release of torch: made, used and deleted, since each takes gigabytes."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from ..files import claim
from .releases import OLDEST_PYTHON, Release

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
# Written when everything is installed: without it an environment was interrupted.
READY = "ready"


class UnusableEnvironment(Exception):
    """An environment cannot be made; the message is one line."""


def python_for(release: Release) -> str:
    """A Python that the release is built for: this one, or another that is found.

    Raises:
        UnusableEnvironment: there is none.
    """
    if release.complaint() is None:
        return sys.executable
    for name in _names(release):
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    raise UnusableEnvironment(f"{release.complaint()}, and found none of {', '.join(_names(release))}")


def _names(release: Release) -> list[str]:
    newest = min(release.python, sys.version_info[:2])
    return [f"python3.{minor}" for minor in range(newest[1], OLDEST_PYTHON[1] - 1, -1)]


def requirements(release: Release) -> list[str]:
    """What is installed: the release, and what the suite needs besides.

    Raises:
        UnusableEnvironment: there is no checkout to read it from.
    """
    try:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError):
        raise UnusableEnvironment(f"{ROOT}: expected a checkout of the project, with pyproject.toml") from None
    others = [text for text in project["dependencies"] if Requirement(text).name not in ("torch", "numpy")]
    return [f"torch=={release.version}", release.numpy, *others]


def python_of(folder: Path) -> Path:
    """The environment's Python."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make(release: Release, folder: Path) -> Path:
    """Make an environment for a release, or take the one that is there and whole.

    Returns:
        Its Python.

    Raises:
        UnusableEnvironment: no Python, no such release for this machine, no network.
    """
    python = python_of(folder)
    if (folder / READY).exists() and (folder / READY).read_text(encoding="utf-8") == release.version:
        return python
    delete(folder)
    needed = requirements(release)
    try:
        _run([python_for(release), "-m", "venv", str(folder)])
        # The caches would keep gigabytes that are wanted once; of thousands of modules, hundreds are imported and compiled.
        _run([str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-compile", *needed])
    except UnusableEnvironment:
        delete(folder)
        raise
    (folder / READY).write_text(release.version, encoding="utf-8")
    return python


def delete(folder: Path) -> None:
    """Delete an environment, if there is one.

    Raises:
        UnusableEnvironment: it cannot be deleted.
    """
    if folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise UnusableEnvironment(f"{error.filename} cannot be deleted: {error.strerror}") from error


@contextlib.contextmanager
def alone(work: Path) -> Iterator[None]:
    """Let no other process make environments in a folder, as far as the system can say (not on Windows).

    Raises:
        UnusableEnvironment: one does.
        OSError: the folder cannot be written.
    """
    work.mkdir(parents=True, exist_ok=True)
    file = claim(work / "lock")
    if file is None:
        raise UnusableEnvironment(f"--work: expected a folder that no other run works in, got {work}")
    with file:
        yield


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise UnusableEnvironment(next(_complaints(done.stderr), f"{command[0]} failed with {done.returncode}"))


def _complaints(text: str) -> Iterator[str]:
    """The last line that says that something is wrong, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    yield from reversed([line for line in lines if line.startswith("ERROR")])
    yield from reversed(lines)
