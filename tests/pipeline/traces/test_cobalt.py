"""Tests of the reader of Argonne's table DIM_JOB_COMPOSITE."""

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.batch_systems.cobalt import is_log, read
from hindcast.pipeline.traces.job_logs import JobLogSettings
from hindcast.pipeline.workloads.log_names import names_of

USUAL = {
    "JOB_NAME": "307001.theta", "COBALT_JOBID": 307001, "MACHINE_NAME": "theta",
    "QUEUED_TIMESTAMP": "2024-03-01 08:00:00", "QUEUED_DATE_ID": 20240301,
    "START_TIMESTAMP": "2024-03-01 09:00:00", "END_TIMESTAMP": "2024-03-01 10:00:00",
    "USERNAME_GENID": 11, "PROJECT_NAME_GENID": 22, "QUEUE_NAME": "default",
    "WALLTIME_SECONDS": "7200.0", "RUNTIME_SECONDS": "3600.0", "NODES_USED": "128.0",
    "NODES_REQUESTED": "128.0", "CORES_USED": "8192.0", "CORES_REQUESTED": "8192.0",
    "LOCATION": "0-63,64", "EXIT_STATUS": 0, "ELIGIBLE_WAIT_SECONDS": 600, "GPUS_REQUESTED": 0,
}  # fmt: skip
HEADER = ",".join(f'"{name}"' for name in USUAL)


def row(**values: object) -> str:
    return ",".join(f'"{value}"' for value in {**USUAL, **values}.values())


def log(tmp_path, *rows: str):
    path = tmp_path / "ANL-ALCF-DJC-THETA_20240101_20241231.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


@pytest.mark.slow
def test_the_reader_passes_the_checks(tmp_path):
    assert is_log([HEADER, row()])
    check_trace_format(FORMATS["cobalt"], log(tmp_path, row(), row(COBALT_JOBID=2)))


@pytest.mark.slow
def test_every_outcome_becomes_a_status_or_is_counted(tmp_path):
    path = log(
        tmp_path,
        row(),
        row(COBALT_JOBID=2, EXIT_STATUS=143, GPUS_REQUESTED=4, NODES_USED=""),
        row(COBALT_JOBID="", START_TIMESTAMP="2024-03-01 08:00:00", ELIGIBLE_WAIT_SECONDS=""),
        row(COBALT_JOBID=4, EXIT_STATUS=1, START_TIMESTAMP="", END_TIMESTAMP=""),
        row(COBALT_JOBID=5, END_TIMESTAMP="", RUNTIME_SECONDS="", EXIT_STATUS=""),
        "1,2",
    )
    load, quarantine = read(path, JobLogSettings(processors=281_088))
    columns = ["job_id", "wait_s", "eligible_s", "duration_s", "requested_s", "cores", "status"]
    assert load.tasks.select(columns).rows() == [
        ("307001", 3600, 3000, 3600, 7200, 8192, 1), ("2", 3600, 3000, 3600, 7200, 8192, 0),
        ("307001.theta", 0, None, 7200, 7200, 8192, 1),
    ]  # fmt: skip
    assert load.tasks.select("nodes", "gpus", "account", "queue").rows() == [
        (128, 0, 1, 1), (128, 4, 1, 1), (128, 0, 1, 1)]  # fmt: skip
    assert names_of(load, "cluster") == {1: "theta"}
    assert load.provenance.left_out == {"ended before it ran": 1, "quarantined": 2}
    assert quarantine["reason"].to_list() == [
        "END_TIMESTAMP is missing, expected a time", "2 columns, expected 20"]  # fmt: skip


def test_a_table_without_its_columns_is_refused(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("JOB_NAME,QUEUED_TIMESTAMP\n1,2\n")
    with pytest.raises(TraceError, match="has no column START_TIMESTAMP"):
        read(path)
    assert not is_log(["JOB_NAME,QUEUED_TIMESTAMP"])
