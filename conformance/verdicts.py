"""The verdicts, their effect on the exit code, and the two exceptions that carry one."""

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


class Difference(AssertionError):
    """The subject does not do what the clause says."""


class Unsupported(Exception):
    """The subject declares that it does not do this: counted and shown, never a failure."""
