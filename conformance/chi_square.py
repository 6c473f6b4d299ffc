"""Whether things happen as often as their probabilities say."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .trial import Trial

# What a chi-square statistic exceeds with a chance of 1/1000, by degrees of freedom from 1 on: NIST/SEMATECH e-Handbook
# of Statistical Methods, section 1.3.6.7.4. Seeds are fixed, so what passes once passes always.
CRITICAL = (
    *(10.828, 13.816, 16.266, 18.467, 20.515, 22.458, 24.322, 26.124, 27.877, 29.588, 31.264, 32.909, 34.528),
    *(36.123, 37.697, 39.252, 40.790, 42.312, 43.820, 45.315, 46.797, 48.268, 49.728, 51.179, 52.620, 54.052),
)
# Below so many expected occurrences the statistic does not follow the distribution: rare things count as one.
FEWEST = 5.0


def require_frequencies(trial: Trial, what: str, drawn: Iterable[Any], chances: Mapping[Any, float]) -> None:
    """What was drawn has these chances, and nothing without a chance was drawn.

    Raises:
        Difference: something impossible was drawn, or the statistic is beyond chance.
    """
    counts = Counter(drawn)
    total = sum(counts.values())
    impossible = [one for one in counts if chances.get(one, 0.0) == 0.0]
    trial.require(not impossible, f"{what}: drew {impossible[:3]}, which cannot come")
    found, freedom = statistic([counts[one] for one in chances], [total * chance for chance in chances.values()])
    limit = CRITICAL[freedom - 1] if freedom else 0.0
    trial.require(found <= limit, f"{what}: expected a chi-square of at most {limit} in {total} draws, got {found:.1f}")


def statistic(counts: list[int], expected: list[float]) -> tuple[float, int]:
    """Pearson's statistic, and its degrees of freedom: one less than the cells, of which the rarest may count as one."""
    cells = sorted((e, c) for c, e in zip(counts, expected, strict=True) if e > 0)
    while len(cells) > 1 and (cells[0][0] < FEWEST or len(cells) > len(CRITICAL) + 1):
        (e, c), (also_e, also_c), *rest = cells
        cells = sorted([(e + also_e, c + also_c), *rest])
    return sum((c - e) ** 2 / e for e, c in cells), len(cells) - 1
