"""Running the suite in a process of its own, as a user would."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, the project importable and no parallel plugin's settings inherited."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    path = os.pathsep.join([str(ROOT), inherited.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**inherited, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


def pytest(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with these arguments, without its cache."""
    return run("-m", "pytest", "-p", "no:cacheprovider", *arguments, cwd=cwd, **environment)


def listing(heading: str, language: str) -> list[str]:
    """The code blocks of a language below a heading of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    found = next(part for part in section if part.startswith(heading))
    return re.findall(rf"^```{language}\n(.*?)^```$", found, flags=re.MULTILINE | re.DOTALL)
