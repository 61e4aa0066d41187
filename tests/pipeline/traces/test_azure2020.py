"""Tests of the Azure packing trace 2020: a small database of its schema, and the derived table."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.ingest import ingest
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.pipeline.workloads.schema import TASK_COLUMNS
from tests.conftest import require_traces

DAY_S = 86_400.0
VM = "CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)"
VM_TYPE = "CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)"
# machine 17 hosts the types 1, 2, 3, 4; machine 16 is larger and hosts 1 and 2
TYPES = [
    (0, 1, 16, 1 / 96, 0.01, 0, 0, 0),
    (1, 1, 17, 1 / 48, 0.02, 0, 0, 0),
    (2, 2, 16, 0.5, 0.25, 0, 0, 0),
    (3, 2, 17, None, 0.5, 0, 0, 0),
    (4, 3, 17, None, 0.1, 0, 0, 0),
    (5, 4, 17, 0.25, None, 0, 0, 0),
]


def read(path: Path):
    return FORMATS["azure2020"].read(path)


def database(path: Path, *vms: tuple, types=TYPES, create=(VM, VM_TYPE)) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in create:
            connection.execute(statement)
        if VM in create:
            connection.executemany("INSERT INTO vm VALUES (?, ?, ?, ?, ?, ?)", vms)
        if VM_TYPE in create:
            connection.executemany("INSERT INTO vmType VALUES (?, ?, ?, ?, ?, ?, ?, ?)", types)
    return path


def test_the_reader_passes_the_checks(tmp_path):
    check_trace_format(FORMATS["azure2020"], database(tmp_path / "vms.sqlite", (7, 1, 2, 0, 0, 1)))


def test_a_vm_is_one_job_measured_on_one_machine(tmp_path):
    """Type 1 fits two machines and is counted once, on the machine that hosts more types."""
    workload, quarantine = read(database(tmp_path / "t.sqlite", (7, 9, 1, 1, 0.5, 0.75)))
    assert quarantine.is_empty()
    assert list(workload.tasks.columns[: len(TASK_COLUMNS)]) == list(TASK_COLUMNS)
    [row] = workload.tasks.rows(named=True)
    assert row == {
        "job": 0, "task": 0, "job_id": "7", "task_id": "0",
        "submit_s": 0.5 * DAY_S, "duration_s": 0.25 * DAY_S,
        "cores": 1.0, "memory": 0.02, "instances": 1,
        "priority": 1, "tenant": "9", "vm_type": "1", "ended": True,
    }  # fmt: skip


def test_a_machine_that_does_not_know_the_cores_is_passed_over(tmp_path):
    """Machine 17 hosts more types, but the cores of type 2 are known on machine 16 only."""
    workload, _ = read(database(tmp_path / "t.sqlite", (1, 1, 2, 0, 0.0, 1.0)))
    assert workload.tasks.select("cores", "memory").row(0) == (24.0, 0.25)


def test_missing_sizes_and_unknown_types_are_counted(tmp_path):
    path = database(
        tmp_path / "t.sqlite",
        (1, 1, 1, 0, 0.0, 1.0), (2, 1, 3, 0, 0.0, 1.0), (3, 1, 4, 0, 0.0, 1.0),
        (4, 1, 99, 0, 0.0, 1.0), (5, 1, 1, 0, 2.0, 2.0), (6, 1, 1, 0, 14.0, None),
    )  # fmt: skip
    provenance = read(path)[0].provenance
    assert provenance.left_out == {
        "core missing": 1,
        "memory missing": 1,
        "vmTypeId not in vmType": 1,
        "lasted 0 s": 1,
        "started on day 14 or later and did not end": 1,
    }
    assert provenance.counts["rows_read"] == 6 == provenance.counts["tasks"] + 5


def test_vms_older_than_the_trace_and_alive_at_its_end_are_kept(tmp_path):
    path = database(tmp_path / "t.sqlite", (1, 1, 1, 0, 1 / 3, None), (2, 1, 1, 1, -1.5, 2.0))
    tasks = read(path)[0].tasks
    assert tasks["job_id"].to_list() == ["2", "1"]
    assert tasks["submit_s"].to_list() == [-1.5 * DAY_S, 1 / 3 * DAY_S]
    assert tasks["duration_s"].to_list() == [3.5 * DAY_S, (14.0 - 1 / 3) * DAY_S]
    assert tasks["ended"].to_list() == [True, False]


def test_bad_rows_are_quarantined_with_their_rowid_and_reason(tmp_path):
    path = database(
        tmp_path / "t.sqlite",
        (1, 1, 1, 0, 0.0, 1.0), (2, 1, 1, 5, 0.0, 1.0), (3, 1, 1, 0, 3.0, 1.0),
        (4, 1, 1, 0, "soon", 1.0), (5, 1, 1, 0, None, 1.0), (6, 1, 1, 0, 0.0, 1e300),
        (None, 1, 1, 0, 0.0, 1.0), (1, 1, 1, 0, 0.0, 1.0),
    )  # fmt: skip
    workload, quarantine = read(path)
    assert quarantine.select("line", "reason").rows() == [
        (2, "priority is '5', expected 0, 1"),
        (3, "endtime 1.0 is before starttime 3.0"),
        (4, "starttime is 'soon', expected a number"),
        (5, "starttime is missing, expected a number"),
        (6, "endtime is 1.0e+300, expected days of the trace"),
        (7, "vmId is missing"),
        (8, "a repetition: job_id 1, task_id 0 is already in line 1"),
    ]
    assert workload.provenance.left_out == {"quarantined": 7}
    assert workload.tasks.height == 1


def test_priorities_stored_as_fractions_are_read(tmp_path):
    path = database(tmp_path / "t.sqlite", (1, 1, 1, 1.0, 0.0, 1.0))
    assert read(path)[0].tasks["priority"].to_list() == [1]


def test_times_keep_their_last_bit(tmp_path):
    times = (0.1 + 0.2, 5.000000000000001)
    path = database(tmp_path / "t.sqlite", (1, 1, 1, 0, *times))
    row = read(path)[0].tasks.row(0, named=True)
    assert row["submit_s"] == times[0] * DAY_S
    assert row["duration_s"] == (times[1] - times[0]) * DAY_S


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: database(p, create=(VM,)), "the table 'vmType' is missing"),
        (lambda p: database(p, create=()), "no tables|is empty"),
        (
            lambda p: database(p, create=(VM.replace("starttime", "start_time"), VM_TYPE)),
            "column 'starttime' of the table 'vm' is missing; did you mean 'start_time'",
        ),
        (database, "has no rows"),
        (
            lambda p: database(p, (1, 1, 3, 0, 0.0, 1.0)),
            "none of its 1 rows is a usable VM",
        ),
        (lambda p: p.write_bytes(b"SQLite format 3\0" + b"x" * 4000), "damaged or foreign"),
        (lambda p: p.write_bytes(b"\x00\x01\x02"), "is a binary file"),
        (lambda p: p.write_text("1,2,3\n"), "3 columns, expected 6"),
        (lambda p: p.mkdir(), "cannot be read"),
        (lambda p: None, "no such file"),
    ],
)
def test_what_is_no_such_trace_is_refused_by_name(tmp_path, make, message):
    path = tmp_path / "trace.sqlite"
    if message.startswith("column"):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(VM.replace("starttime", "start_time"))
            connection.execute(VM_TYPE)
    else:
        make(path)
    with pytest.raises(TraceError, match=message) as error:
        read(path)
    assert str(path) in str(error.value)


def test_a_truncated_database_is_refused(tmp_path):
    path = database(tmp_path / "t.sqlite", *((i, 1, 1, 0, 0.0, 1.0) for i in range(5000)))
    path.write_bytes(path.read_bytes()[:40_000])
    with pytest.raises(TraceError, match="SQLite database is damaged or foreign"):
        read(path)


def test_a_derived_table_takes_the_first_row_of_a_vm(tmp_path):
    path = tmp_path / "derived.csv.gz"
    path.write_bytes(
        gzip.compress(
            b"4,2,100,5,1500,2000\n4,3,400,5,1500,2000\n5,1,200,5,98,-1000\n6,x,1,1,1,1\n"
        )
    )
    workload, quarantine = read(path)
    assert workload.tasks.select("job_id", "submit_s", "duration_s", "cores", "memory").rows() == [
        ("5", -1.0, 0.098, 1.0, 1.0),
        ("4", 2.0, 1.5, 2.0, 0.5),
    ]
    assert workload.tasks["priority"].to_list() == [None, None]
    assert quarantine["reason"].to_list() == [
        "a repetition: job_id 4, task_id 0 is already in line 1",
        "cores is 'x', expected a number",
    ]


def test_ingestion_keeps_the_columns_that_only_this_trace_has(tmp_path):
    path = database(tmp_path / "t.sqlite", (1, 1, 1, 0, 0.0, None), (2, 1, 1, 1, 0.5, 1.0))
    folder = ingest("azure2020", path, tmp_path / "out").folder
    tasks = load_workload(folder).tasks
    assert tasks["priority"].to_list() == [0, 1]
    assert tasks.schema["ended"] == pl.Boolean


def test_the_derived_table_has_fewer_vms_than_rows():
    """The 18,739 rows are 15,825 VMs, as 487 VMs were joined with up to 8 machines."""
    workload, quarantine = read(require_traces("azure_packing2020/derived_14d_under60s.csv"))
    counts = workload.provenance.counts
    assert (counts["rows_read"], counts["tasks"]) == (18_739, 15_825)
    assert workload.provenance.left_out == {"quarantined": 2_914}
    assert quarantine.height == 2_914
    assert workload.tasks["duration_s"].max() < 60
    assert 13.9 < workload.tasks["submit_s"].max() / DAY_S < 14
