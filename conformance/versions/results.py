"""What the suite said of one version of torch: a small file for each, read strictly."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ..files import write_whole
from ..verdicts import Verdict
from .speed_figures import Speed, lines, parse

SCHEMA = 2
FOLDER = Path(__file__).parent / "results"
# Whose results a version's file holds, in the order in which they are shown.
HANDMADE = "handmade"
SUBJECTS = (HANDMADE, "torch", "torch-fast", "torch-math", "torch-flash")
# Where these are not the same, figures were made on different machines; what is unknown contradicts nothing.
MACHINE = ("system", "machine", "cpu", "cpu_capability", "device")
WRONG = frozenset({Verdict.TORCH_DIFFERS.value, *(verdict.value for verdict in Verdict if verdict.fails)})
SAID = frozenset({Verdict.CONFORMS.value, Verdict.POLICY.value, *WRONG})


class UnusableResults(ValueError):
    """The stored results cannot be read, made or compared; the message is one line."""


@dataclass(frozen=True)
class Counts:
    """What was said of some checks.

    Attributes:
        verdicts: how often each.
        kinds: of what differs, how often each kind.
        ratio, largest: median and largest error as a multiple of torch's; None where no tensor was compared.
        policies: those found, how often each.
        differs: ids of the cases that differ or crash, at most 20.
        rest: digests of the others that do.
        lacking: digests of the cases that are not supported, where others are.
        message: the first message of a case that differs, on one line.
    """

    verdicts: dict[str, int]
    kinds: dict[str, int] = field(default_factory=dict)
    ratio: float | None = None
    largest: float | None = None
    policies: dict[str, int] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    message: str = ""

    @property
    def asked(self) -> int:
        """How many checks could be asked."""
        return sum(number for verdict, number in self.verdicts.items() if verdict in SAID)

    @property
    def wrong(self) -> int:
        """How many checks differ or crash."""
        return sum(number for verdict, number in self.verdicts.items() if verdict in WRONG)

    @property
    def state(self) -> str:
        """One word for all: "differs" where any does, "conforms" where any was asked, else "not supported"."""
        if self.wrong:
            return "differs"
        return "conforms" if self.asked else Verdict.NOT_SUPPORTED.value

    @property
    def wrong_cases(self) -> frozenset[str]:
        """Digests of all cases that differ or crash."""
        return frozenset((*map(digest, self.differs), *self.rest))

    @property
    def lacking_cases(self) -> frozenset[str]:
        """Digests of the cases that are not supported, where others are."""
        return frozenset(self.lacking)


@dataclass(frozen=True)
class SubjectResults:
    """One subject on one version: by clause, and by the name of the behaviours that are followed from version to version."""

    complete: bool
    clauses: dict[str, Counts]
    behaviours: dict[str, Counts] = field(default_factory=dict)


@dataclass(frozen=True)
class VersionResults:
    """All that is stored of one version of torch."""

    torch: str
    environment: dict[str, Any]
    capabilities: dict[str, Any]
    subjects: dict[str, SubjectResults]
    speed: Speed | None = None

    @property
    def sample(self) -> int:
        """Of the shared cases one in so many was asked."""
        return int(self.environment.get("sample", 1))

    @property
    def machine(self) -> dict[str, str]:
        """What is known of the machine."""
        given = {name: str(self.environment.get(name, "unknown")) for name in MACHINE}
        return {name: value for name, value in given.items() if value != "unknown"}


def digest(case: str) -> str:
    """A short name of a case's id, for where only its identity matters."""
    return hashlib.sha256(case.encode()).hexdigest()[:8]


def release(version: str) -> str:
    """A version of torch without the name of its build: "2.13.0+cpu" is 2.13.0.

    Raises:
        UnusableResults: it is no version.
    """
    try:
        return Version(version).public
    except InvalidVersion:
        raise UnusableResults(f"torch: expected a version such as 2.13.0, got {version!r}") from None


def path_of(version: str, folder: Path = FOLDER) -> Path:
    """Where a version's results are stored."""
    return folder / f"torch-{version}.json"


def write(results: VersionResults, path: Path) -> None:
    """Store the results: first beside the file, then in its place, a line for each clause, so that changes can be read.

    Raises:
        UnusableResults: they could not be read again.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        made = text(results)
        parsed(made)
    except (ValueError, TypeError, OverflowError) as error:
        raise UnusableResults(f"torch {results.torch}: what came cannot be stored: {error}") from None
    write_whole(path, made)


def text(results: VersionResults) -> str:
    """The file of a version's results."""
    head = {name: getattr(results, name) for name in ("torch", "environment", "capabilities")}
    fields = [f'"schema": {SCHEMA}', *(f"{_json(name)}: {_json(value)}" for name, value in head.items())]
    parts = [
        f"{_json(name)}: {{\n{_json('complete')}: {_json(subject.complete)},\n"
        f"{_json('clauses')}: {_by_line(subject.clauses)},\n{_json('behaviours')}: {_by_line(subject.behaviours)}}}"
        for name, subject in results.subjects.items()
    ]
    fields.append('"subjects": {\n' + ",\n".join(parts) + "}")
    if results.speed is not None:
        fields.append(f'"speed": {lines(results.speed)}')
    return "{" + ",\n".join(fields) + "}\n"


def _by_line(counts: Mapping[str, Counts]) -> str:
    return "{\n" + ",\n".join(f"{_json(name)}: {_json(_plain(one))}" for name, one in counts.items()) + "}"


def _plain(counts: Counts) -> dict[str, Any]:
    """The fields that say something."""
    return {name: value for name, value in vars(counts).items() if value not in (None, {}, (), "")}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read(path: Path) -> VersionResults:
    """The stored results of a version.

    Raises:
        UnusableResults: no such file, not JSON, another schema, a field that is missing or of another kind.
    """
    try:
        return parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnusableResults(f"{path}: {error.strerror}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise UnusableResults(f"{path}: {(str(error).splitlines() or [type(error).__name__])[0]}") from None


def parsed(text: str) -> VersionResults:
    """The results in the text of a file.

    Raises:
        ValueError, OverflowError, RecursionError: it holds none that can be used.
    """
    data = json.loads(text, parse_constant=_no_number)
    # Half of a surrogate pair can be read and not be written.
    _json(data).encode()
    found = data.get("schema") if isinstance(data, dict) else None
    if type(found) is not int or found != SCHEMA:
        raise UnusableResults(f"expected stored results of schema {SCHEMA}, got schema {found!r}")
    version = release(_typed(data, "torch", str))
    subjects = {
        name: SubjectResults(
            _typed(one, "complete", bool, name),
            _all_counts(_typed(one, "clauses", dict, name), f"{name}.clauses"),
            _all_counts(one.get("behaviours", {}), f"{name}.behaviours"),
        )
        for name, one in _typed(data, "subjects", dict).items()
    }
    for name in subjects:
        if name not in SUBJECTS:
            raise UnusableResults(f"subjects: expected some of {list(SUBJECTS)}, got {name!r}")
    environment, capabilities = _typed(data, "environment", dict), _typed(data, "capabilities", dict)
    sample = environment.get("sample", 1)
    if type(sample) is not int or sample < 1:
        raise UnusableResults(f"environment.sample: expected an integer of at least 1, got {sample!r:.80}")
    return VersionResults(
        version, environment, capabilities, subjects, parse(data["speed"]) if "speed" in data else None
    )


def _no_number(name: str) -> None:
    raise UnusableResults(f"expected finite numbers, got {name}")


def _typed(data: Any, name: str, wanted: type, within: str = "") -> Any:
    place = f"{within}.{name}" if within else name
    if not isinstance(data, dict) or name not in data:
        raise UnusableResults(f"{place}: missing")
    if type(data[name]) is not wanted:
        raise UnusableResults(f"{place}: expected {wanted.__name__}, got {type(data[name]).__name__}")
    return data[name]


def _all_counts(data: Any, place: str) -> dict[str, Counts]:
    if not isinstance(data, dict):
        raise UnusableResults(f"{place}: expected dict, got {type(data).__name__}")
    return {name: _read_counts(value, f"{place}.{name}") for name, value in data.items()}


def _read_counts(data: Any, place: str) -> Counts:
    known = {one.name: one for one in dataclasses.fields(Counts)}
    if not isinstance(data, dict) or not set(data) <= set(known) or "verdicts" not in data:
        raise UnusableResults(f"{place}: expected some of {list(known)}, verdicts among them, got {data!r:.80}")
    values = {name: value for name, value in data.items() if value is not None or name == "verdicts"}
    for name in ("verdicts", "kinds", "policies"):
        numbers = values.get(name, {})
        positive = isinstance(numbers, dict) and all(type(number) is int and number > 0 for number in numbers.values())
        if not positive or (name == "verdicts" and not numbers):
            raise UnusableResults(f"{place}.{name}: expected positive numbers by name, got {numbers!r:.80}")
    unknown = set(values["verdicts"]) - {verdict.value for verdict in Verdict}
    if unknown:
        raise UnusableResults(f"{place}.verdicts: expected some of {[v.value for v in Verdict]}, got {min(unknown)!r}")
    for name in ("ratio", "largest"):
        value = values.get(name, 0.0)
        if type(value) not in (int, float) or not 0 <= value < math.inf or ("ratio" in values) != ("largest" in values):
            raise UnusableResults(f"{place}.{name}: expected a ratio, of both or neither, got {value!r:.80}")
    lists = {name: values.get(name, []) for name in ("differs", "rest", "lacking")}
    for name, cases in lists.items():
        if not isinstance(cases, list) or not all(isinstance(case, str) for case in cases):
            raise UnusableResults(f"{place}.{name}: expected a list of texts, got {cases!r:.80}")
    if not isinstance(values.get("message", ""), str):
        raise UnusableResults(f"{place}.message: expected a text, got {values['message']!r:.80}")
    counts = Counts(**{**values, **{name: tuple(cases) for name, cases in lists.items()}})
    named, lacking = len(counts.differs) + len(counts.rest), counts.verdicts.get(Verdict.NOT_SUPPORTED.value, 0)
    if named != counts.wrong:
        raise UnusableResults(
            f"{place}: expected as many cases in differs and rest as differ, {counts.wrong}, got {named}"
        )
    if counts.asked and len(counts.lacking) != lacking:
        raise UnusableResults(f"{place}.lacking: expected {lacking} cases, got {len(counts.lacking)}")
    return counts


def check_name(results: VersionResults, path: Path) -> None:
    """Refuse a stored file whose name says another version than it holds.

    Raises:
        UnusableResults: it does.
    """
    if path.name != path_of(results.torch).name:
        raise UnusableResults(f"{path}: expected results of the version in its name, got torch {results.torch}")


def read_all(folder: Path = FOLDER) -> list[VersionResults]:
    """Every version's results in a folder, the oldest version first.

    Raises:
        UnusableResults: see `read`; a file of another version than its name says.
    """
    found = []
    for path in sorted(folder.glob("torch-*.json")):
        one = read(path)
        check_name(one, path)
        found.append(one)
    return sorted(found, key=lambda one: Version(one.torch))


def machines(results: Iterable[VersionResults]) -> list[tuple[dict[str, str], list[str]]]:
    """The machines on which versions were measured, each with its versions; more than one are not to be compared."""
    made: list[tuple[dict[str, str], list[str]]] = []
    for one in results:
        for machine, versions in made:
            if all(machine.get(name, value) == value for name, value in one.machine.items()):
                machine.update(one.machine)
                versions.append(one.torch)
                break
        else:
            made.append((dict(one.machine), [one.torch]))
    return made
