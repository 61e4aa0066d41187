"""Tests of the reader of LSF: lsb.acct of several versions, and CSV files with its fields."""

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.batch_systems.lsf import LsfSettings, is_log, read

FIRST = 1_709_280_000
USUAL = {
    "job": 7, "submit": FIRST, "begin": 0, "term": 0, "start": FIRST + 60, "end": FIRST + 660,
    "asked": 4, "user": "ann", "queue": "normal", "need": "", "hosts": ["n1"] * 4, "status": 64,
    "name": "run", "command": "sleep 1", "project": "default", "idx": 0, "exit_info": 0,
    "limited_to": [],
}  # fmt: skip


def quoted(text: object) -> str:
    return '"' + str(text).replace('"', '""') + '"'


def old(**values: object) -> str:
    """Return a JOB_FINISH record with the fields up to exceptMask, as of version 6."""
    g = {**USUAL, **values}
    hosts, limited = g["hosts"], g["limited_to"]
    parts = [
        '"JOB_FINISH" "10.1"', g["end"], g["job"], 1001, 33816602, g["asked"], g["submit"],
        g["begin"], g["term"], g["start"],
        *map(quoted, (g["user"], g["queue"], g["need"], "", "", "sub", "/home", "", "", "", "f")),
        len(limited), *map(quoted, limited), len(hosts), *map(quoted, hosts), g["status"], "60.0",
        quoted(g["name"]), quoted(g["command"]), *["0.0"] * 18, "-1", '""', quoted(g["project"]), 0,
        g["asked"], '""', '""', g["idx"], 1000, 2000, '""', '""', '""', '""', 0,
    ]  # fmt: skip
    return " ".join(map(str, parts))


def new(limit: int = -1, effective: str = "", slots: int = 0, pending: int = 0, **v: object) -> str:
    """Return a record with the fields of version 10.1, up to the time pending ineligibly."""
    info = v.get("exit_info", 0)
    return (
        f'{old(**v)} "" {info} "" -1 "" "" "" "" -1 "" "" 1049 "" 0 "" "" 1 "k" "v" '
        f'2 "n1" 1 2 3 4 "n2" 1 2 3 4 0 {limit} 900 {quoted(effective)} "" 0 "" 0 0 -1 0 0 "" 600 '
        f'"/home" 0 "" 0.0 0.0 0.0 0.0 0.0 {slots}'
        + "".join(f' "h{i}"' for i in range(slots))
        + f" {pending} 0"
    )


def of_file(limit: int, options: int, hosts: int, **values: object) -> str:
    """Return a record as files of 10.1 have it: host-based usage of six fields, then the limit."""
    usage = "".join(f" n{k} 1306 0 1287 242 0" for k in range(hosts))
    return (
        f'{old(**values)} "" 0 "" -1 "/a/b" "" "" "" -1 "" "" 6160 "" {FIRST} "" "" 1 1032 "0" '
        f'{hosts}{usage} {limit} {options} 8688640 "rusage[mem=10]" "" -1 "" -1 0 "" 0 0 "" 600 '
        '"/s" 1 "18338657682652659712" 1 "" 0.0 0.00 0.00 0.00 0.00 1 "6*n0" -1 0 0'
    )


def log(tmp_path, *records: str, name: str = "lsb.acct"):
    path = tmp_path / name
    path.write_text("\n".join(records) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("write", [old, new])
def test_the_reader_passes_the_checks(tmp_path, write):
    records = [write(), write(job=8), '"JOB_FINISH" "10.1" 5 6']
    assert is_log(records)
    check_trace_format(FORMATS["lsf"], log(tmp_path, *records))


def test_every_outcome_becomes_a_status_or_is_counted(tmp_path):
    load, quarantine = read(
        log(
            tmp_path,
            new(limit=3600),
            new(job=8, status=32, idx=5, limit=3600),
            new(job=9, status=32, exit_info=14, project="hpc", queue="long"),
            new(job=10, status=32, exit_info=14, start=0),
            new(job=11, status=32, exit_info=11, start=FIRST + 60, limit=3600),
            new(job=11, start=FIRST + 900, end=FIRST + 1000, limit=3600),
            '"EVENT_ADRSV_FINISH" "10.1" 1709280000 1 2 3',
        )
    )
    columns = [
        "job_id",
        "wait_s",
        "duration_s",
        "requested_s",
        "cores",
        "nodes",
        "status",
        "account",
    ]
    assert load.tasks.select(columns).rows() == [
        ("7", 60, 600, 3600, 4, 1, 1, 1), ("8[5]", 60, 600, 3600, 4, 1, 0, 1),
        ("9", 60, 600, 3600, 4, 1, 5, 2), ("11", 900, 100, 3600, 4, 1, 1, 1),
    ]  # fmt: skip
    assert load.provenance.left_out == {
        "a record of type EVENT_ADRSV_FINISH, not JOB_FINISH": 1,
        "an earlier run of a job that ran again": 1, "ended before it ran": 1,
    }  # fmt: skip
    assert quarantine.is_empty()


def test_strings_may_have_quotes_blanks_and_line_breaks(tmp_path):
    command = '#!/bin/bash\n#BSUB -J "x y"\n"JOB" 5\n\nsrun a'
    load, quarantine = read(
        log(tmp_path, new(name='a "b" 7', command=command), old(job=8), new(job=9, name="run"))
    )
    assert load.tasks["job_id"].to_list() == ["7", "8", "9"]
    assert load.tasks["executable"].to_list() == [1, 2, 2]
    assert quarantine.is_empty()


def test_processors_are_slots_and_not_hosts(tmp_path):
    """A list of fewer entries than numProcessors names hosts; `4*n1` are 4 slots of one."""
    load, _ = read(
        log(
            tmp_path,
            old(hosts=["4*n1", "4*n2"], asked=8),
            old(job=8, hosts=["n1", "n1", "n2"], asked=2),
            old(job=9, hosts=["n1"], asked=16),
            new(job=10, hosts=["n1"], asked=4, slots=6),
            old(job=11, hosts=["n1"], asked=1, limited_to=["n1", "n2"]),
        )
    )
    columns = ["cores", "requested_cores", "allocated_cores", "nodes"]
    assert load.tasks.select(columns).rows() == [
        (8, 8, 8, 2), (3, 2, 3, 2), (16, 16, None, 1), (6, 4, 6, 1), (1, 1, 1, 1),
    ]  # fmt: skip


@pytest.mark.slow
def test_memory_and_gpus_are_those_of_the_requirement(tmp_path):
    """Both are for a host unless they say otherwise, or the site does."""
    two = {"hosts": ["4*n1", "4*n2"], "asked": 8}
    records = [
        new(
            job=7,
            **two,
            effective="select[a] rusage[mem=4000:ngpus_physical=2.00:gmodel=TeslaV100]",
        ),
        new(job=8, **two, effective="rusage[ngpus_excl_p=1/task,mem=1GB/task]"),
        new(job=9, **two, effective="rusage[mem=512M/job:duration=1h]"),
        old(job=10, **two, need="rusage[mem=100]"),
        new(job=11, **two, effective="1*{rusage[mem=5]} + 4*{rusage[mem=6]}"),
        old(job=12, **two),
    ]
    tasks = read(log(tmp_path, *records))[0].tasks
    assert tasks.select("memory_mib", "gpus", "gpus:TeslaV100").rows() == [
        (8000, 4, 4), (8192, 8, 0), (512, 0, 0), (200, 0, 0), (None, 0, 0), (None, 0, 0),
    ]  # fmt: skip
    path = log(tmp_path, *records)
    tasks = read(path, LsfSettings(memory_of="slot", gpus_of="slot"))[0].tasks
    assert tasks.select("memory_mib", "gpus").rows()[:4] == [
        (32000, 16), (8192, 8), (512, 0), (800, 0)]  # fmt: skip


def test_limits_and_times_of_eligibility(tmp_path):
    load, _ = read(
        log(
            tmp_path,
            new(limit=7200, begin=FIRST + 30),
            old(job=8, term=FIRST + 60 + 900),
            new(job=9, limit=-1, pending=50),
            new(job=10, begin=FIRST - 99),
        )
    )
    assert load.tasks["requested_s"].to_list() == [7200, 900, 7200, 7200]
    assert load.tasks["eligible_s"].to_list() == [30, None, 50, 0]


def test_a_csv_file_with_the_fields_gives_the_same_jobs(tmp_path):
    header = "jobId,idx,userName,queue,jobName,numProcessors,submitTime,startTime,end_time,jStatus,"
    rows = [
        f'7,0,ann,normal,"a, b",4,{FIRST},{FIRST + 60},{FIRST + 660},64,3600,n1:n1:n1:n1,',
        f"8,2,ann,normal,run,2,{FIRST},{FIRST + 60},{FIRST + 660},EXIT,3600,2*n1,rusage[mem=10]",
        f"9,0,ann,normal,run,1,{FIRST},0,{FIRST + 660},32,3600,,",
        f"10,0,ann,normal,run,1,{FIRST},,,PEND,3600,,",
        "11,0",
    ]
    path = log(tmp_path, header + "runLimit,exec_hosts,resReq", *rows, name="jobs.csv")
    assert is_log(path.read_text().splitlines())
    load, quarantine = read(path)
    columns = ["job_id", "wait_s", "duration_s", "requested_s", "cores", "nodes", "status"]
    assert load.tasks.select(columns).rows() == [
        ("7", 60, 600, 3600, 4, 1, 1), ("8[2]", 60, 600, 3600, 2, 1, 0)]  # fmt: skip
    assert load.tasks["memory_mib"].to_list() == [None, 10]
    assert load.provenance.left_out == {
        "ended before it ran": 1, "not started when the log was written": 1, "quarantined": 1,
    }  # fmt: skip
    assert quarantine["reason"].to_list() == ["2 columns, expected 13"]


def test_damaged_records_are_quarantined_with_their_lines(tmp_path):
    whole = new()
    bad = [
        (whole[:70], "the record breaks off or has another field in place 12"),
        (whole[: whole.index("60.0")], "the record breaks off"),
        (whole.replace('"normal"', "normal", 1), "has another field in place 13"),
        ("some words", "the line does not begin as a record"),
        (new(submit="x"), "submittime is 'x', expected a time"),
    ]
    load, quarantine = read(log(tmp_path, *(text for text, _ in bad), new(job=8)))
    assert load.tasks["job_id"].to_list() == ["8"]
    for reason, (_, words) in zip(quarantine["reason"], bad, strict=True):
        assert words in reason


@pytest.mark.parametrize("content", ["a line\n", "a,b\n1,2\n", old(start=0, status=32) + "\n"])
def test_a_file_that_is_no_such_log_is_refused(tmp_path, content):
    path = tmp_path / "log"
    path.write_text(content)
    with pytest.raises(TraceError, match=r"expected|is a job that ran"):
        read(path)


def test_fields_before_the_average_memory_are_read_as_files_and_as_the_manual_have_them(tmp_path):
    load, quarantine = read(
        log(
            tmp_path,
            of_file(43200, 0, 8),
            of_file(-1, 4194304, 0, job=8),
            of_file(3600, 4194304, 1, job=9),
            of_file(0, 4194304, 2, job=10),
            new(limit=1800, job=11),
            new(limit=-1, job=12),
        )
    )
    assert load.tasks["requested_s"].to_list() == [43200, 43200, 3600, 43200, 1800, 43200]
    assert load.tasks["memory_mib"].to_list() == [10, 10, 10, 10, None, None]
    assert load.tasks["allocated_cores"].to_list() == [6, 6, 6, 6, 4, 4]
    assert load.tasks["eligible_s"].null_count() == 6
    assert quarantine.is_empty()
