"""Subjects: implementations under test, behind one protocol."""

from ..verdicts import Unsupported
from .adapter import Adapter
from .call import Call

__all__ = ["Adapter", "Call", "Unsupported"]
