"""The task of the demo: write a string of digits backwards."""

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

PAD, START, END, FIRST_DIGIT = 0, 1, 2, 3
VOCABULARY = FIRST_DIGIT + 10
SHORTEST, LONGEST = 4, 8


def draw(rng: np.random.Generator, count: int, without: Collection[str] = ()) -> list[str]:
    """Random strings of SHORTEST to LONGEST digits, each length as often; none of those in `without`."""
    strings: list[str] = []
    while len(strings) < count:
        digits = rng.integers(10, size=rng.integers(SHORTEST, LONGEST + 1))
        string = "".join(map(str, digits))
        if string not in without:
            strings.append(string)
    return strings


def encode(strings: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Sources and targets as ids (batch, length), both with END and filled up with PAD."""
    return _ids(strings), _ids([string[::-1] for string in strings])


def symbols(ids: Sequence[int]) -> list[str]:
    """What ids stand for, to be shown."""
    special = {PAD: "·", START: "start", END: "end"}
    return [special.get(i, str(i - FIRST_DIGIT)) for i in ids]


def _ids(strings: Sequence[str]) -> Tensor:
    width = max(map(len, strings)) + 1
    rows = [[FIRST_DIGIT + int(digit) for digit in string] + [END] for string in strings]
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
