"""Tests of the logs as RLScheduler's program reads them."""

import pytest

from hindcast.flows.papers.rlscheduler.logs import read
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS

HEADER = "; Version: 2.2\n; MaxNodes: 64\n"


def row(job, submit, run=100, alloc=8, asked=8, limit=600, user=3):
    return f"{job} {submit} -1 {run} {alloc} -1 -1 {asked} {limit} -1 1 {user} 1 -1 0 -1 -1 -1"


def log(tmp_path, *rows, header=HEADER, name="lublin_256.swf"):
    path = tmp_path / name
    path.write_text(header + "\n".join(rows) + "\n")
    return path


def test_the_reader_passes_the_checks(tmp_path):
    check_trace_format(FORMATS["rlscheduler"], log(tmp_path, row(1, 10), row(2, 20)))


def test_jobs_are_read_as_the_program_reads_them(tmp_path):
    """By job number; run < 0 is 10 s, run 0 is left out, -1 can stay as the request."""
    path = log(
        tmp_path,
        row(3, 30, run=-1, limit=-1),
        row(1, 10, alloc=4, asked=9),
        row(2, 10, run=0),
        row(4, 30, limit=-1, alloc=5, asked=-1),
    )
    load, quarantine = read(path)
    columns = ("job_id", "log", "number", "submit_s", "duration_s", "cores", "requested_s", "user")
    assert load.tasks.select(columns).rows() == [
        ("lublin_256 1", "lublin_256", 0, 10, 100, 9, 600, 3),
        ("lublin_256 3", "lublin_256", 1, 30, 10, 8, -1, 3),
        ("lublin_256 4", "lublin_256", 2, 30, 100, 5, 100, 3),
    ]
    assert load.provenance.left_out == {"a run time of 0": 1}
    assert quarantine.is_empty()


def test_a_folder_holds_several_logs_each_with_its_machine(tmp_path):
    log(tmp_path, row(1, 10), row(2, 40))
    log(tmp_path, row(1, 20), name="HPC2N-2002-2.2-cln.swf", header=HEADER + "; MaxProcs: 240\n")
    log(tmp_path, row(1, 20), name="another.swf")
    load, _ = read(tmp_path)
    assert load.tasks["log"].to_list() == ["lublin_256", "HPC2N", "lublin_256"]
    assert load.machines is not None
    assert load.machines.select("machine_id", "cores").rows() == [
        ("lublin_256", 64),
        ("HPC2N", 240),
    ]


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ((row(1, 20), row(2, 10)), HEADER, "line 4: this job was submitted before a job of a low"),
        ((row(1, 20), row(2, 30, asked=65)), HEADER, "line 4: the job has 65 processors, expected"),
        ((row(1, 20), "7"), HEADER, "line 4: 1 field, expected 18"),
        ((row(1, 20), row(2, 30, run="x")), HEADER, "line 4: run is 'x', expected a number"),
        ((row(1, 20, run=0),), HEADER, "none of its 1 rows is a job that ran"),
        ((row(1, 20),), "; MaxNodes: 338 (batch)\n", "no header line names the processors"),
    ],
)
def test_a_log_that_the_program_would_not_read_is_refused(tmp_path, rows, header, message):
    with pytest.raises(TraceError, match=message):
        read(log(tmp_path, *rows, header=header))


def test_a_place_without_any_of_the_logs_is_refused(tmp_path):
    other = log(tmp_path, row(1, 10), name="another.swf")
    for path in (tmp_path, other):
        with pytest.raises(TraceError, match="none of the logs of RLScheduler; expected a folder"):
            read(path)
    with pytest.raises(TraceError, match="no such file"):
        read(tmp_path / "lublin.swf")
