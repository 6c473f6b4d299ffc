"""The oracle: torch.nn's Transformer pieces in float64 NumPy, with hand-derived gradients.

It imports numpy and the standard library only and shares no code with the subject or its
torch counterpart, so it can tell which of the two is wrong where they disagree.
"""

from .embedding import sinusoidal_positions
from .evaluate import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate", "sinusoidal_positions"]
