"""Cases: configurations and calls as data."""

from .case import Case

__all__ = ["Case"]
