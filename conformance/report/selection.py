"""Whether a run asks every clause, or what it was told to leave out."""

import inspect
from collections.abc import Iterable
from pathlib import Path

import pytest

from ..clauses import load_all

# pytest's options that choose among tests.
OPTIONS = {"-k": "keyword", "-m": "markexpr", "--deselect": "deselect", "--lf": "lf", "--sw": "stepwise"}


def selection(config: pytest.Config) -> str:
    """The arguments that leave clauses out, or nothing where all are asked."""
    chosen = [f"{name} {value}" for name, option in OPTIONS.items() if (value := getattr(config.option, option, None))]
    here = config.invocation_params.dir
    files = {Path(inspect.getfile(clause.check)) for clause in load_all().values()}
    named = [Path(here, arg) for arg in config.args if "::" not in arg]
    if config.getoption("pyargs") and any(arg.split(".")[0] == __name__.split(".")[0] for arg in config.args):
        named = list(files)
    ignored = config.getoption("ignore") or ()
    left_out = [Path(here, path) for path in ignored]
    if any(not _within(file, named) or _within(file, left_out) for file in files):
        chosen.append(" ".join([*config.args, *(f"--ignore {path}" for path in ignored)]))
    return " ".join(chosen)


def _within(file: Path, places: Iterable[Path]) -> bool:
    return any(file.is_relative_to(place.resolve()) for place in places)
