"""`python -m conformance.versions.jobs`: what a pipeline runs, a job for each release, as JSON on one line; needs no torch."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

from .releases import RELEASES, Release, find

# What torch.compile and the like can do depends on the Python too, and the stored results were made on this one.
PYTHON = (3, 11)


def job(release: Release) -> dict[str, str]:
    """What a release is checked with: its version, a Python that it is built for, its numpy as a requirement."""
    major, minor = min(PYTHON, release.python)
    return {"torch": release.version, "python": f"{major}.{minor}", "numpy": release.numpy}


def jobs(versions: Iterable[str]) -> list[dict[str, str]]:
    """The jobs of some versions, or of all releases where none is named.

    Raises:
        ValueError: no such release is supported.
    """
    chosen = dict.fromkeys(find(version) for version in versions)
    return [job(release) for release in chosen or RELEASES]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the jobs; returns the exit code, 2 for a version that is not supported."""
    parser = argparse.ArgumentParser(prog="python -m conformance.versions.jobs", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="such as 2.5.1 (default: all)")
    try:
        found = jobs(parser.parse_args(arguments).versions)
    except ValueError as error:
        sys.stderr.write(f"jobs: {error}\n")
        return 2
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
