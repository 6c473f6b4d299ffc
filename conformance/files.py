"""Files that are whole or not there, and files that one process has to itself."""

from pathlib import Path
from typing import TextIO

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place, then into it, so that there is never half of one."""
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def claim(path: Path) -> TextIO | None:
    """Open a file that is this process's until it is closed, as far as the system can say (not on Windows).

    Returns:
        The file, or None where another process has it.
    """
    file = path.open("w", encoding="utf-8")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
    return file
