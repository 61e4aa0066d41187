"""Tests of the reader of the history of HTCondor: classads, JSON arrays and JSON lines."""

import json

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.batch_systems.condor import is_log, read

FIRST = 1_709_280_000
USUAL = {
    "ClusterId": 7, "ProcId": 0, "QDate": FIRST, "JobStartDate": FIRST + 60,
    "JobCurrentStartDate": FIRST + 60, "CompletionDate": FIRST + 660,
    "EnteredCurrentStatus": FIRST + 661, "JobStatus": 4, "LastJobStatus": 2,
    "RemoteWallClockTime": 601.5, "NumJobStarts": 1, "ExitCode": 0, "ExitBySignal": False,
    "RequestCpus": 4, "RequestMemory": 2048, "Owner": "ann", "Cmd": "/bin/sleep",
    "JobUniverse": 5, "Args": 'a = "b"', "RemoveReason": None, "GlobalJobId": "s#7.0#1",
}  # fmt: skip
EXPRESSION = "ifthenelse(MemoryUsage =!= undefined,MemoryUsage,( ImageSize + 1023 ) / 1024)"
JOBS = [
    {},
    {"ClusterId": 8, "ProcId": 2, "ExitCode": 3, "AcctGroup": "hpc", "AllowedJobDuration": 3600},
    {"ClusterId": 9, "ExitBySignal": True, "ExitCode": None, "RequestMemory": EXPRESSION},
    {"ClusterId": 10, "JobStatus": 3, "CompletionDate": 0, "NumJobStarts": 2,
     "JobCurrentStartDate": FIRST + 300, "EnteredCurrentStatus": FIRST + 500},
    {"ClusterId": 11, "JobStatus": 3, "CompletionDate": 0, "LastJobStatus": 1,
     "JobStartDate": None, "JobCurrentStartDate": None},
    {"ClusterId": 12, "JobStatus": 3, "CompletionDate": 0, "LastJobStatus": 5},
    {"ClusterId": 13, "JobStatus": 2, "CompletionDate": 0},
    {"ClusterId": 14, "JobStatus": 5, "CompletionDate": 0},
    {"ClusterId": 15, "JobUniverse": 7},
    {"ClusterId": 16, "JobUniverse": 11, "MaxHosts": 3, "CpusProvisioned": 8,
     "MemoryProvisioned": 4096, "GPUsProvisioned": 1},
    {"ClusterId": 17, "RequestGPUs": 2, "MaxWallTimeMins": 60,
     "RequireGPUs": 'Capability >= 8 && DeviceName == "NVIDIA A100"'},
    {"ClusterId": 18, "JobStatus": "x"},
    {"ClusterId": 19, "QDate": None},
]  # fmt: skip


def job(values: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in {**USUAL, **values}.items() if value is not None}


def attribute(key: str, value: object) -> str:
    if isinstance(value, str) and value != EXPRESSION:
        return f'{key} = "' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{key} = {str(value).lower() if isinstance(value, bool) else value}"


def history(jobs: list[dict[str, object]]) -> str:
    ads = ["\n".join(attribute(*pair) for pair in job(v).items()) for v in jobs]
    return "".join(f'{ad}\n*** Offset = 0 ClusterId = 1 Owner = "ann"\n' for ad in ads)


def long(jobs: list[dict[str, object]]) -> str:
    return "\n\n".join("\n".join(attribute(*p) for p in job(v).items()) for v in jobs) + "\n\n"


def array(jobs: list[dict[str, object]]) -> str:
    return json.dumps([job(values) for values in jobs], indent=2)


def one_line(jobs: list[dict[str, object]]) -> str:
    return json.dumps([job(values) for values in jobs])


def json_lines(jobs: list[dict[str, object]]) -> str:
    return "\n".join(json.dumps(job(values)) for values in jobs) + "\n"


WRITERS = [history, long, array, one_line, json_lines]


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS)
def test_every_form_gives_the_same_jobs(tmp_path, write):
    path = tmp_path / "history"
    path.write_text(write(JOBS))
    assert is_log([line for line in path.read_text().splitlines() if line.strip()])
    load, quarantine = read(path)
    columns = ["job_id", "wait_s", "duration_s", "requested_s", "cores", "nodes", "status"]
    assert load.tasks.select(columns).rows() == [
        ("7.0", 60, 600, 600, 4, None, 1), ("8.2", 60, 600, 3600, 4, None, 0),
        ("9.0", 60, 600, 600, 4, None, 0), ("10.0", 300, 200, 200, 4, None, 5),
        ("12.0", 60, 601.5, 601.5, 4, None, 5), ("16.0", 60, 600, 600, 24, 3, 1),
        ("17.0", 60, 600, 3600, 4, None, 1),
    ]  # fmt: skip
    columns = ["memory_mib", "gpus", "gpus:NVIDIA A100", "account", "user", "executable"]
    assert load.tasks.select(columns).rows() == [
        (2048, 0, 0, None, 1, 1), (2048, 0, 0, 1, 1, 1), (None, 0, 0, None, 1, 1),
        (2048, 0, 0, None, 1, 1), (2048, 0, 0, None, 1, 1), (12288, 3, 0, None, 1, 1),
        (2048, 2, 2, None, 1, 1),
    ]  # fmt: skip
    assert load.provenance.left_out == {
        "a job of the scheduler or local universe, which takes no slot": 1,
        "ended before it ran": 1, "not started when the log was written": 1, "quarantined": 2,
        "still running when the log was written": 1,
    }  # fmt: skip
    assert quarantine["reason"].to_list() == [
        "JobStatus is 'x', expected 1 to 7", "QDate is missing, expected seconds since 1970",
    ]  # fmt: skip
    assert "started more than once, the last run counts: 1 rows" in load.provenance.notes
    check_trace_format(FORMATS["condor"], path)


def test_a_damaged_ad_is_quarantined_and_the_others_are_read(tmp_path):
    """Without the line between two ads, an attribute that comes again begins the next one."""
    ads = history([{"ClusterId": n} for n in range(4)]).splitlines(keepends=True)
    size = len(ads) // 4
    ads[size + 3] = "JobSta\n"
    del ads[3 * size - 1]
    path = tmp_path / "history"
    path.write_text("".join(ads))
    load, quarantine = read(path)
    assert load.tasks["job_id"].to_list() == ["0.0", "2.0", "3.0"]
    assert quarantine.select("line", "reason").rows() == [
        (size + 1, f"line {size + 4} is 'JobSta': expected an attribute = a value")]  # fmt: skip


@pytest.mark.parametrize("write", [array, one_line, json_lines])
def test_a_damaged_object_is_quarantined_and_the_others_are_read(tmp_path, write):
    text = write([{"ClusterId": n} for n in range(4)])
    place = text.index('"QDate"', text.index('"ClusterId": 1')) + 3
    path = tmp_path / "history.json"
    path.write_text(text[:place] + "\x07" + text[place:])
    load, quarantine = read(path)
    assert load.tasks["job_id"].to_list() == ["0.0", "2.0", "3.0"]
    assert quarantine["reason"].str.starts_with("no JSON").to_list() == [True]


@pytest.mark.parametrize("content", ["a line\n", "[]\n", "[1, 2]\n", history([{"JobStatus": 1}])])
def test_a_file_that_is_no_such_log_is_refused(tmp_path, content):
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(TraceError, match=r"expected|is a job that ran"):
        read(path)
