"""Tests of the reader of Batsim's workloads and results."""

import json

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.batch_systems.batsim import is_log, read
from hindcast.pipeline.traces.job_logs import JobLogSettings

PROFILES = {
    "d": {"type": "delay", "delay": 20.5},
    "bad": {"type": "delay", "delay": 5, "ret": 1},
    "twice": {"type": "composed", "repeat": 2, "seq": ["d", "bad"]},
    "flops": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
    "mixed": {"type": "composed", "seq": ["d", "flops"]},
    "loop": {"type": "composed", "seq": ["loop"]},
}
JOBS = [
    {"id": 1, "subtime": 10, "walltime": 100, "res": 4, "profile": "d"},
    {"id": "w0!2", "subtime": 12.5, "walltime": 15, "res": 1, "profile": "d"},
    {"id": "3", "subtime": 13, "res": 2, "profile": "twice"},
    {"id": "4", "subtime": 14, "walltime": 100, "res": 1, "profile": "flops"},
    {"id": "5", "subtime": 14, "walltime": 100, "res": 1, "profile": "mixed"},
    {"id": "6", "subtime": 14, "walltime": 100, "res": 1, "profile": "loop"},
    {"id": "7", "subtime": 14, "walltime": 100, "res": 9, "profile": "d"},
    {"id": "8", "subtime": 14, "walltime": 100, "res": 1, "profile": "none"},
    {"id": "9", "subtime": "x", "walltime": 100, "res": 1, "profile": "d"},
    {"id": "10", "walltime": 100, "res": 1, "profile": "d"},
    7,
]
HEADER = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,"
    "success,final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,"
    "stretch,allocated_resources,consumed_energy,metadata"
)
RESULT = [
    '1,w0,d,10,4,100.0,1,COMPLETED_SUCCESSFULLY,15.0,20.0,35.0,5,25,1.2,0-3,-1,""',
    '2,w0,d,10,1,15.0,0,COMPLETED_WALLTIME_REACHED,35.0,15.0,50.0,5,25,1.2,2,-1,"a, b"',
    '3,w0,d,10,2,-1,0,COMPLETED_KILLED,35.0,15.0,50.0,5,25,1.2,2 4-5,-1,""',
    '4,w0,d,10,9,-1,0,REJECTED,-1,-1,-1,-1,-1,-1,,-1,""',
    '5,w0,d,10,1,inf,1,COMPLETED_SUCCESSFULLY,35.0,0.0,35.0,5,25,1.2,1,-1,""',
    "6,w0,d,10",
]


@pytest.mark.slow
@pytest.mark.parametrize("indent", [None, 4])
def test_jobs_of_a_workload_whose_run_time_is_known_are_read(tmp_path, indent):
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"nb_res": 4, "jobs": JOBS, "profiles": PROFILES}, indent=indent))
    assert is_log([line for line in path.read_text().splitlines() if line.strip()])
    load, quarantine = read(path)
    columns = ["job_id", "submit_s", "duration_s", "requested_s", "cores", "status", "executable"]
    assert load.tasks.select(columns).rows() == [
        ("1", 10, 20.5, 100, 4, None, 1), ("w0!2", 12.5, 15, 15, 1, 0, 1),
        ("3", 13, 51, 100, 2, 0, 2),
    ]  # fmt: skip
    assert load.tasks["wait_s"].null_count() == 3
    assert load.machines["cores"].to_list() == [4]
    assert load.provenance.left_out == {
        "a job whose profile 'loop' cannot be read": 1,
        "a job with a profile of type parallel_homogeneous, whose run time is not known": 2,
        "quarantined": 5,
    }
    assert quarantine.select("line", "reason").rows() == [
        (7, "9 processors, but the cluster has 4"), (8, "there is no profile 'none'"),
        (9, "subtime is 'x', expected seconds"), (10, "subtime is missing, expected seconds"),
        (11, "the job is no JSON object"),
    ]  # fmt: skip
    assert read(path, JobLogSettings(processors=16))[0].machines["cores"].to_list() == [16]
    check_trace_format(FORMATS["batsim"], path)


def test_jobs_of_a_result_have_their_starts(tmp_path):
    path = tmp_path / "out_jobs.csv"
    path.write_text("\n".join([HEADER, *RESULT, HEADER]) + "\n")
    assert is_log([HEADER])
    load, quarantine = read(path)
    columns = [
        "job_id",
        "wait_s",
        "duration_s",
        "requested_s",
        "requested_cores",
        "cores",
        "status",
    ]
    assert load.tasks.select(columns).rows() == [
        ("1", 5, 20, 100, 4, 4, 1), ("2", 25, 15, 15, 1, 1, 0), ("3", 25, 15, 100, 2, 3, 5),
        ("5", 25, 1, 100, 1, 1, 1),
    ]  # fmt: skip
    assert load.provenance.left_out == {
        "rejected by the scheduler": 1, "quarantined": 1, "the header again": 1}  # fmt: skip
    assert quarantine["reason"].to_list() == ["4 columns, expected 17"]
    check_trace_format(FORMATS["batsim"], path)


def test_jobs_of_several_workloads_keep_their_names(tmp_path):
    path = tmp_path / "out_jobs.csv"
    path.write_text("\n".join([HEADER, RESULT[0], RESULT[0].replace("w0", "w1")]) + "\n")
    assert read(path)[0].tasks["job_id"].to_list() == ["w0!1", "w1!1"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a line\n", "has no column id"),
        ('{"jobs": 5, "profiles": {}}', "the object has no jobs"),
        ('{"jobs": [], "profiles": {}}', "has no rows"),
        ('{"jobs": [{"id": 1', "this is no JSON"),
    ],
)
def test_a_file_that_is_no_such_log_is_refused(tmp_path, content, message):
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(TraceError, match=message):
        read(path)
