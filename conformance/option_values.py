"""Numbers that command lines take, read with one line for what is none."""

import argparse
import math


def at_least_one(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text!r}")
    return int(text)


def above_zero(text: str) -> float:
    """A finite number above 0."""
    return _between(text, math.inf, "expected a number above 0")


def part_of_one(text: str) -> float:
    """A number between 0 and 1."""
    return _between(text, 1.0, "expected a number between 0 and 1")


def _between(text: str, high: float, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < high:
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}")
    return value
