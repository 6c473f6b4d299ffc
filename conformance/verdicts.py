"""The verdicts, their effect on the exit code, the kinds of difference, and the two exceptions that carry a verdict."""

import enum


class Verdict(enum.Enum):
    """What is said of one clause on one case.

    `BOTH_DIFFER` fails like `DIFFERS`: the subject is wrong whatever torch does. `TORCH_DIFFERS` never fails the
    subject: it agrees with the oracle and torch does not.
    """

    CONFORMS = "conforms"
    DIFFERS = "differs"
    TORCH_DIFFERS = "torch differs"
    BOTH_DIFFER = "both differ"
    POLICY = "policy"
    NOT_SUPPORTED = "not supported"
    CRASHED = "crashed"
    BLOCKED = "blocked"
    SKIPPED = "skipped"

    @property
    def fails(self) -> bool:
        """Whether it makes the run exit with 1."""
        return self in (Verdict.DIFFERS, Verdict.BOTH_DIFFER, Verdict.CRASHED)


class Kind(enum.Enum):
    """What a difference is like; a known one that becomes another kind has changed."""

    NAN = "nan"
    VALUE = "value"
    NAN_GRADIENT = "nan gradient"
    GRADIENT = "gradient"
    RAISES = "raises"
    OTHER = "other"

    @classmethod
    def of(cls, gradient: bool, finite: bool) -> "Kind":
        """The kind of a difference in a tensor's values."""
        if gradient:
            return cls.GRADIENT if finite else cls.NAN_GRADIENT
        return cls.VALUE if finite else cls.NAN


class Difference(AssertionError):
    """The subject does not do what the clause says."""

    def __init__(self, message: str, kind: Kind = Kind.OTHER) -> None:
        super().__init__(message)
        self.kind = kind


class Unsupported(Exception):
    """The subject declares that it does not do this: counted and shown, never a failure."""
