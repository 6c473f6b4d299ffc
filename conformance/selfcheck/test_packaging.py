"""The package: from a wheel the entry point alone registers the plugin, as conftest.py does in a checkout."""

import shutil
import zipfile
from pathlib import Path

import pytest

from conformance.selfcheck.commands import ROOT, run


def test_works_from_a_wheel(tmp_path: Path) -> None:
    """Away from the checkout the entry point alone brings the options, the fixtures and the clauses."""
    pytest.importorskip(
        "setuptools", minversion="77", reason="building a wheel without the network needs setuptools 77"
    )
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "*.egg-info", "build", "__pycache__"))
    wheel = ("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path))
    done = run(*wheel, str(source), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    site = tmp_path / "site"
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(site)
    done = run(
        "-m", "pytest", "-p", "no:cacheprovider", "--pyargs", "conformance.test_norm", "-k", "statistics", "-q",
        cwd=tmp_path, PYTHONPATH=str(site),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "1 passed" in done.stdout
