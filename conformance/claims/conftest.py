"""The claim that a test executes."""

import pytest

from .claim import Claim, load_claims


@pytest.fixture
def claim(request: pytest.FixtureRequest) -> Claim:
    """The claim of the requesting test."""
    theme = request.path.stem.removeprefix("test_")
    (found,) = (c for c in load_claims() if (c.theme, c.test) == (theme, request.function.__name__))
    return found
