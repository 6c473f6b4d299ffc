"""The releases of torch that are supported, and what each needs: data."""

import sys
from dataclasses import dataclass

OLDEST_PYTHON = (3, 10)
NEWEST_PYTHON = (3, 99)


@dataclass(frozen=True)
class Release:
    """One release of torch.

    Attributes:
        version: its number.
        python: the newest Python that it is built for; the oldest that the suite runs on is 3.10, for each.
        numpy: what numpy it works with, as a requirement.
    """

    version: str
    python: tuple[int, int] = NEWEST_PYTHON
    numpy: str = "numpy"

    @property
    def factor(self) -> str:
        """Its name in tox: torch20 is 2.0.1."""
        return "torch" + "".join(self.version.split(".")[:2])

    def complaint(self, python: tuple[int, int] = sys.version_info[:2]) -> str | None:
        """Why a Python is the wrong one, or None."""
        if python <= self.python:
            return None
        wanted, got = (".".join(map(str, version)) for version in (self.python, python))
        return f"torch {self.version}: expected Python 3.10 … {wanted}, got {got}"


RELEASES = (
    Release("1.13.1", (3, 11), "numpy<2"),
    Release("2.0.1", (3, 11), "numpy<2"),
    Release("2.1.2", (3, 11), "numpy<2"),
    Release("2.2.2", (3, 12), "numpy<2"),
    Release("2.3.1", (3, 12)),
    Release("2.4.1", (3, 12)),
    Release("2.5.1", (3, 13)),
    Release("2.6.0", (3, 13)),
    Release("2.7.1", (3, 13)),
    Release("2.8.0", (3, 13)),
    Release("2.9.1"),
    Release("2.10.0"),
    Release("2.11.0"),
    Release("2.12.1"),
    Release("2.13.0"),
    Release("2.14.1"),
    Release("2.15.0"),
)


def find(version: str) -> Release:
    """The release of a version, "2.5.1" or "2.5".

    Raises:
        ValueError: none is supported that is so called.
    """
    for release in RELEASES:
        if version in (release.version, release.version.rpartition(".")[0]):
            return release
    raise ValueError(f"torch: expected one of {', '.join(one.version for one in RELEASES)}, got {version!r}")
