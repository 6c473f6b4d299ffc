"""The report: read back as written, kept when a run is cut off, refused when it is another version."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from conformance.report.model import (
    Report,
    Result,
    UnreadableReport,
    Writer,
    encode,
    read_report,
    read_results,
    write_report,
)

RESULT = Result(
    test="conformance/test_norm.py::test_post_norm[encoder_layer]",
    clause="NORM-02",
    level="MUST",
    case="encoder_layer",
    verdict="conforms",
    seconds=0.01,
    tensors=[{"tensor": "output", "error": 1e-16, "torch_error": "nan", "ratio": 1.0}],
)


def test_round_trip(tmp_path: Path) -> None:
    writer = Writer(tmp_path, {"torch": "2.13.0"})
    for _ in range(3):
        writer.add(encode(RESULT))
    writer.finish(complete=True)
    assert read_report(tmp_path / "report.json") == Report({"torch": "2.13.0"}, [RESULT] * 3, complete=True)


def test_a_run_that_was_cut_off(tmp_path: Path) -> None:
    """Without report.json the results so far are read, less a last line that is not whole."""
    writer = Writer(tmp_path, {})
    writer.add(encode(RESULT))
    writer.add(encode(RESULT)[:-20])
    assert read_report(tmp_path).results == [RESULT]
    assert not read_report(tmp_path).complete


def test_an_old_report_stays_until_there_is_a_new_result(tmp_path: Path) -> None:
    """A run that selects nothing destroys nothing; one that is cut off leaves no old report.json in its place."""
    write_report(Report({}, [RESULT] * 2, complete=True), tmp_path / "report.json")
    writer = Writer(tmp_path, {})
    assert len(read_report(tmp_path).results) == 2
    writer.add(encode(RESULT))
    assert len(read_report(tmp_path).results) == 1
    assert not read_report(tmp_path).complete


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    writer = Writer(tmp_path, {})
    with pytest.raises(OSError, match="another run is writing there"):
        Writer(tmp_path, {})
    writer.finish(complete=False)
    Writer(tmp_path, {}).finish(complete=False)


@pytest.mark.parametrize(
    ("field", "value"),
    [("clause", 3), ("case", None), ("message", None), ("verdict", ["differs"]), ("seconds", "1"), ("tensors", None),
     ("tensors", [1]), ("kind", {})],
)  # fmt: skip
def test_a_result_of_other_kinds_is_refused(field: str, value: Any, tmp_path: Path) -> None:
    data = {"schema": 2, "environment": {}, "results": [{**dataclasses.asdict(RESULT), field: value}]}
    (tmp_path / "report.json").write_text(json.dumps(data))
    with pytest.raises(UnreadableReport, match=f"a result that does not fit schema 2: {field}"):
        read_report(tmp_path)


@pytest.mark.parametrize("change", [{"environment": None}, {"environment": []}, {"results": None}, {"complete": "yes"}])
def test_a_report_of_other_kinds_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"schema": 2, "environment": {}, "results": []} | change))
    with pytest.raises(UnreadableReport, match="expected a"):
        read_report(tmp_path)


def test_half_a_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"schema": 2, "environment": {}}\n{"test": \n' + encode(RESULT) + "\n")
    with pytest.raises(UnreadableReport, match=r"results.jsonl:2: "):
        read_results(path)


@pytest.mark.parametrize("content", ['{"schema": 0, "environment": {}}', "[]", "{}", '{"schema": 2}', "", "not json"])
def test_another_version_is_refused(tmp_path: Path, content: str) -> None:
    for name in ("report.json", "results.jsonl"):
        (tmp_path / name).write_text(content)
        with pytest.raises(UnreadableReport, match=name):
            read_report(tmp_path / name)


def test_a_result_of_other_fields_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"schema": 2, "environment": {}, "results": [{"colour": "red"}]}))
    with pytest.raises(UnreadableReport, match="does not fit schema 2"):
        read_report(tmp_path / "report.json")
