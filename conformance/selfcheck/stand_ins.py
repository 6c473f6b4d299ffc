"""Scripts that stand for the Pythons of other environments."""

import os
from pathlib import Path

import pytest

needs_posix = pytest.mark.skipif(os.name != "posix", reason="a script stands in for a Python")


def script(path: Path, text: str, interpreter: str = "/bin/sh") -> Path:
    """An executable that stands for a Python."""
    path.write_text(f"#!{interpreter}\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
