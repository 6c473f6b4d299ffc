"""How far two loss curves are apart, and how far they may be."""

from dataclasses import dataclass

import numpy as np

from .. import tolerance

# Steps that count as early: rounding has not grown yet, so a wrong formula cannot pass for it.
EARLY = 50


@dataclass(frozen=True)
class Gap:
    """The distance of two curves a and b.

    Attributes:
        early: max |a − b| / b over the first steps.
        overall: max |a − b| over all steps, relative to max b.
    """

    early: float
    overall: float

    def closed(self, dtype: str) -> bool:
        """Whether the curves coincide, as far as the dtype allows."""
        early, overall = tolerance.CURVES[dtype]
        return self.early <= early and self.overall <= overall


def gap(losses: np.ndarray) -> Gap:
    """Of losses (steps, 2)."""
    mine, theirs = losses.T
    apart = np.abs(mine - theirs)
    return Gap(float((apart / theirs)[:EARLY].max()), float(apart.max() / theirs.max()))
