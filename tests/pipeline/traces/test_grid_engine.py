"""Tests of the reader of accounting of Grid Engine: colons, JSON lines and `qacct -j`."""

import json

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.batch_systems.grid_engine import GridEngineSettings, is_log, read

FIRST = 1_709_280_000
USUAL = {
    "qname": "all.q", "hostname": "n1", "group": "users", "owner": "ann", "job_name": "run.sh",
    "job_number": 7, "account": "sge", "priority": 0, "submission_time": FIRST,
    "start_time": FIRST + 60, "end_time": FIRST + 660, "failed": 0, "exit_status": 0,
    "ru_wallclock": 600, "usage": ":".join(["0"] * 17), "project": "NONE", "department": "d",
    "granted_pe": "smp", "slots": 4, "task_number": 0, "cpu": 1.5, "mem": 0, "io": 0,
    "category": "-u ann -l h_rt=3600,h_vmem=2G -pe smp 4", "iow": 0, "pe_taskid": "NONE",
    "maxvmem": "1e9", "arid": 0, "ar_submission_time": 0,
}  # fmt: skip


def record(**values: object) -> str:
    """Return a line of an accounting file with the given fields changed."""
    return ":".join(map(str, {**USUAL, **values}.values()))


def univa(**values: object) -> str:
    """Return a line of Univa's file: times in ms, and further fields with colons in a command."""
    times = {key: USUAL[key] * 1000 for key in ("submission_time", "start_time", "end_time")}
    deleted_by = values.pop("deleted_by", "NONE")
    return f"{record(**{**times, **values})}:NONE:{deleted_by}:1:1:sub:/home:qsub -l h_rt=1:0:0 x:9"


def json_line(**values: object) -> str:
    """Return an object of accounting.jsonl, with times in microseconds."""
    given = {**USUAL, **values}
    kept = {key: value for key, value in given.items() if value not in {"NONE", None}}
    for key in ("submission_time", "start_time", "end_time"):
        kept[key] = given[key] * 10**6
    rusage = {"ru_wallclock": kept.pop("ru_wallclock")}
    return json.dumps({**kept, "usage": {"rusage": rusage, "usage": {"cpu": 1}}})


def block(**values: object) -> str:
    """Return a block of qacct, with the names of its keys."""
    names = {
        "job_name": "jobname", "job_number": "jobnumber", "task_number": "taskid",
        "submission_time": "qsub_time",
    }  # fmt: skip
    given = {
        **USUAL, "submission_time": "Fri Mar  1 08:00:00 2024",
        "start_time": "03/01/2024 08:01:00.000", "end_time": "2024-03-01 08:11:00", **values,
    }  # fmt: skip
    lines = [f"{names.get(key, key):<13}{value}" for key, value in given.items()]
    return "\n".join(["=" * 62, *lines])


WRITERS = {"colons": record, "univa": univa, "json": json_line, "qacct": block}


def log(tmp_path, *records: str, name: str = "accounting"):
    path = tmp_path / name
    path.write_text("\n".join(records) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("form", WRITERS)
def test_the_reader_passes_the_checks(tmp_path, form):
    write = WRITERS[form]
    records = [write(), write(job_number=8)]
    assert is_log("\n".join(records).splitlines())
    check_trace_format(FORMATS["grid_engine"], log(tmp_path, *records))


@pytest.mark.parametrize("form", WRITERS)
def test_every_form_gives_the_same_jobs(tmp_path, form):
    write = WRITERS[form]
    path = log(
        tmp_path,
        write(),
        write(job_number=8, task_number=3, exit_status=1, job_name="a:b: 12:c", project="hpc"),
        write(job_number=9, failed=100, exit_status=137, slots=1, account="physics",
              category="-l h_rt=10:00:00,gpu=2,gpu_type=a100 -l m_mem_free=512m"),
        write(job_number=10, category="NONE"),
    )  # fmt: skip
    load, quarantine = read(path)
    assert quarantine.is_empty()
    columns = ["job_id", "submit_s", "wait_s", "duration_s", "requested_s", "cores", "status"]
    assert load.tasks.select(columns).rows() == [
        ("7", 0, 60, 600, 3600, 4, 1), ("8.3", 0, 60, 600, 3600, 4, 0),
        ("9", 0, 60, 600, 36000, 1, 0), ("10", 0, 60, 600, 600, 4, 1),
    ]  # fmt: skip
    columns = ["account", "executable", "queue", "user", "group", "gpus", "gpus:a100"]
    assert load.tasks.select(columns).rows() == [
        (None, 1, 1, 1, 1, 0, 0), (1, 2, 1, 1, 1, 0, 0), (2, 1, 1, 1, 1, 2, 2),
        (None, 1, 1, 1, 1, 0, 0),
    ]  # fmt: skip
    assert load.tasks["memory_mib"].to_list() == [8192, 8192, 512e6 / 2**20, None]
    assert f"UnixStartTime: {FIRST}" in load.provenance.notes


def test_requests_are_for_slots_or_jobs_as_the_complex_says(tmp_path):
    path = log(tmp_path, record(category="-l h_vmem=2G,gpu=1", slots=4))
    for settings, expected in (
        (GridEngineSettings(), (8192, 1)),
        (GridEngineSettings(memory_of="job", gpus_of="slot"), (2048, 4)),
    ):
        assert read(path, settings)[0].tasks.select("memory_mib", "gpus").row(0) == expected


def test_what_is_no_job_that_ran_is_left_out_and_counted(tmp_path):
    path = log(
        tmp_path,
        "# Version: 8.1.9",
        record(),
        record(pe_taskid="1.n2", submission_time=0),
        record(job_number=8, failed=26, start_time=0, end_time=0, ru_wallclock=0),
        record(job_number=9, failed=25, exit_status=0),
        record(job_number=9, start_time=FIRST + 900, end_time=FIRST + 1000),
        f"{FIRST}:acct:" + record(job_number=10),
        f"{FIRST}:new_job:{FIRST}:11:-1:NONE:a.sh:ann:users::dep:sge:1024",
    )
    load, quarantine = read(path)
    assert quarantine.is_empty()
    assert load.tasks["job_id"].to_list() == ["7", "9", "10"]
    assert load.tasks["wait_s"].to_list() == [60, 900, 60]
    assert load.provenance.left_out == {
        "a comment": 1,
        "a record of type new_job, not acct": 1,
        "a task of a parallel job, which has a record of its own": 1,
        "an earlier run of a job that ran again": 1,
        "ended before it ran: it could not be started": 1,
    }


@pytest.mark.slow
def test_a_job_that_was_deleted_is_cancelled_where_the_version_says_so(tmp_path):
    killed = {"failed": 100, "exit_status": 137}
    for write in (univa, block):
        path = log(tmp_path, write(**killed, deleted_by="ann@sub"), write(**killed, job_number=8))
        assert read(path)[0].tasks["status"].to_list() == [5, 0]


def test_blocks_of_qacct_have_local_times_and_totals_at_the_end(tmp_path):
    tail = "Total System Usage\n    WALLCLOCK\n" + "=" * 62 + "\n    1200"
    no_end = block(job_number=9, start_time="-/-", end_time="-/-", failed="26 : opening output")
    path = log(tmp_path, block(), no_end, "=" * 62 + "\nnothing", tail)
    load, quarantine = read(path, GridEngineSettings(time_zone="Europe/Berlin"))
    assert f"UnixStartTime: {FIRST - 3600}" in load.provenance.notes
    assert load.provenance.left_out == {
        "ended before it ran: it could not be started": 1, "quarantined": 1,
        "the totals of qacct": 1,
    }  # fmt: skip
    assert quarantine["reason"].to_list() == ["the block has no field of qacct -j"]
    assert load.provenance.counts["rows_read"] == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a line\n", "the first line is 'a line'"),
        ("a:b:c:d:e\n", "not of the form of accounting"),
        (record(failed=1, start_time=0, end_time=0, ru_wallclock=0) + "\n", "is a job that ran"),
    ],
)
def test_a_file_that_is_no_such_log_is_refused(tmp_path, content, message):
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(TraceError, match=message):
        read(path)
    assert is_log(content.splitlines()) == ("that ran" in message)


def test_bytes_that_are_no_utf8_in_commands_and_names_are_no_matter(tmp_path):
    """Univa writes such a byte for a colon in a command."""
    path = tmp_path / "accounting"
    path.write_bytes(
        univa(job_name="caf\xe9").replace("h_rt=1:0:0", "h_rt=1\xad0").encode("latin-1")
    )
    load, quarantine = read(path)
    assert load.tasks["job_id"].to_list() == ["7"]
    assert quarantine.is_empty()
