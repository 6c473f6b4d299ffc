"""A claim of one of the documents, and what executing it says."""

import enum
import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent

# The files of claims, in the order of the page; beside each stands the file of its tests.
THEMES = {
    "embedding": "Embeddings",
    "position": "Position codes",
    "attention": "Attention",
    "heads": "Several heads",
    "mask": "Masks",
    "residual": "Residual connections",
    "norm": "Norms",
    "feed_forward": "Feed-forward networks",
    "cross": "Cross-attention",
    "decoding": "Targets, training, decoding",
    "torch_modules": "torch's modules",
    "published": "The hand-written model of the walk-through",
}


class Said(enum.Enum):
    """What executing a claim says of it."""

    TRUE = "true"
    CONDITIONAL = "true under a condition"
    FALSE = "false"
    NOT_TESTABLE = "not testable"


@dataclass(frozen=True)
class Claim:
    """One factual claim, in our own words.

    Attributes:
        id: theme and number.
        theme: the file that it stands in, of `THEMES`.
        says: what is claimed.
        verdict: what executing it says.
        note: the condition, the counterexample, the figures, or why it cannot be tested.
        tutorial: the section of the tutorial that makes it; empty if it does not.
        walkthrough: the section of the walk-through that makes it; empty if it does not.
        test: the test function; empty where nothing can be tested.
        picture: the name of a picture, of `figures.FIGURES`; empty for none.
    """

    id: str
    theme: str
    says: str
    verdict: Said
    note: str = ""
    tutorial: str = ""
    walkthrough: str = ""
    test: str = ""
    picture: str = ""

    def states(self, phrase: str, *figures: float) -> None:
        """The note has this phrase with these figures in it, so that what the page says is what was measured.

        Args:
            phrase: a format, "{:.1f} against {:.2f}".
            figures: what was measured.

        Raises:
            AssertionError: the note says something else.
        """
        measured = phrase.format(*figures)
        if measured not in self.note:
            raise AssertionError(f"{self.id}: measured {measured!r}, and the note says {self.note!r}")


@functools.cache
def load_claims() -> tuple[Claim, ...]:
    """All claims, by theme and in the order of their files.

    Raises:
        TypeError: a claim with a field that there is none of.
        ValueError: an unknown verdict.
    """
    return tuple(_claim(theme, entry) for theme in THEMES for entry in _entries(FOLDER / f"{theme}.toml"))


def _entries(path: Path) -> list[Mapping[str, Any]]:
    with path.open("rb") as file:
        return tomllib.load(file)["claim"]


def _claim(theme: str, entry: Mapping[str, Any]) -> Claim:
    return Claim(**{**entry, "theme": theme, "verdict": Said(entry["verdict"])})
