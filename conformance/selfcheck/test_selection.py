"""What a run was told to leave out is known, so that a part is not stored as the whole."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conformance.report.selection import OPTIONS, selection
from conformance.selfcheck.commands import ROOT


def chosen(*args: str, ignore: tuple[str, ...] = (), pyargs: bool = False, here: Path = ROOT, **options: Any) -> str:
    """Of a run with these arguments."""
    given = {"ignore": list(ignore), "pyargs": pyargs}
    config = SimpleNamespace(
        option=SimpleNamespace(**(dict.fromkeys(OPTIONS.values()) | options)),
        args=list(args),
        invocation_params=SimpleNamespace(dir=here),
        getoption=given.__getitem__,
    )
    return selection(cast(pytest.Config, config))


def test_the_whole() -> None:
    """All clauses, whether or not the suite's own tests are asked as well, and wherever pytest is started."""
    own = ("conformance/selfcheck", "conformance/claims")
    assert chosen("conformance") == chosen(".") == chosen(str(ROOT)) == chosen("conformance", ignore=own) == ""
    assert chosen(".", here=ROOT / "conformance") == ""
    assert chosen("conformance", pyargs=True, here=Path("/")) == ""
    assert chosen("conformance", "conformance/test_rms.py") == ""


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("conformance",), {"keyword": "RMS"}),
        (("conformance",), {"markexpr": "slow"}),
        (("conformance",), {"deselect": ["conformance/test_rms.py"]}),
        (("conformance",), {"lf": True}),
        (("conformance/test_rms.py",), {}),
        (("conformance/test_rms.py::test_scale",), {}),
        (("conformance/selfcheck",), {}),
        (("conformance",), {"ignore": ("conformance/test_rms.py",)}),
    ],
)
def test_a_part(args: tuple[str, ...], options: dict[str, Any]) -> None:
    assert chosen(*args, **options)
