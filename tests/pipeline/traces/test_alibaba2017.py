"""Tests of the Alibaba 2017 reader on hand-made files: rows counted, left out or refused."""

import gzip
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.alibaba2017 import read
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, TASK_COLUMNS

HEADER = ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n"
OFFICIAL = "create_timestamp,modify_timestamp,job_id,task_id,instance_num,status,plan_cpu,plan_mem"
SPACED = "task_create_time, task_end_time, job_id, task_id,n, status, cpu, memory"
TASK = "10,30,1,1,4,Terminated,50,0.01\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def jobs(folder: Path, *rows: str) -> Path:
    return written(folder, "jobs.csv", HEADER + "".join(f"{row}\n" for row in rows))


def test_the_reader_passes_the_checks(tmp_path: Path) -> None:
    path = jobs(tmp_path, "0,539,116.38,1.0,0.0054,7,3,283,0", "1,540,bad,1.0,0.0054,8,1,1,0")
    check_trace_format(FORMATS["alibaba2017"], path)


def test_a_jobs_row_becomes_a_task(tmp_path: Path) -> None:
    workload, quarantine = read(jobs(tmp_path, "0,539,116.38,1.0,0.0054,7,3,283,0"))
    assert workload.tasks.schema == TASK_COLUMNS
    assert workload.tasks.rows() == [(0, 0, "7", "3", 539.0, 116.38, 1.0, 0.0054, 283)]
    assert quarantine.is_empty()
    assert workload.machines is None


def test_jobs_go_by_the_submission_of_their_last_row_and_ties_keep_the_order_of_the_file(
    tmp_path: Path,
) -> None:
    path = jobs(
        tmp_path,
        "0,20,1,1,0,b,1,1,0",
        "1,10,1,1,0,a,1,1,0",
        "2,15,1,1,0,b,2,1,0",
        "3,10,1,1,0,c,1,1,0",
        "4,99,1,1,0,a,2,1,0",
        "5,10,1,1,0,a,3,1,0",
    )
    table = read(path)[0].tasks
    assert table.select("job", "task", "job_id", "task_id", "submit_s").rows() == [
        (0, 0, "a", "1", 10.0),
        (0, 1, "a", "2", 10.0),
        (0, 2, "a", "3", 10.0),
        (1, 0, "c", "1", 10.0),
        (2, 0, "b", "1", 15.0),
        (2, 1, "b", "2", 15.0),
    ]


def test_each_defect_of_a_jobs_row_is_quarantined_with_its_line_and_reason(tmp_path: Path) -> None:
    path = jobs(
        tmp_path,
        "0,1,1,1,0,a,1,1,0",
        "1,1,1,1,abc,a,2,1,0",
        "2,1,0,1,0,a,3,1,0",
        "3,1,-5,1,0,a,4,1,0",
        "4,1,1,0,0,a,5,1,0",
        "5,1,1,1,nan,a,6,1,0",
        "6,1,1,1,0,a,7,0,0",
        "7,1,1,1,0,,8,1,0",
        "8,1,1,1,0,a,9,1",
        "9,inf,1,1,0,a,10,1,0",
        "10,1,1,1,-0.1,a,11,1,0",
        "11,1,1,1,0,a,1,5,0",
    )
    workload, quarantine = read(path)
    assert workload.tasks.height == 1
    assert quarantine.select("line", "reason").rows() == [
        (3, "memory is 'abc', expected a number"),
        (4, "duration is 0, expected more than 0"),
        (5, "duration is -5, expected more than 0"),
        (6, "cpu is 0, expected more than 0"),
        (7, "memory is 'nan', expected a number"),
        (8, "instances_num is 0, expected a whole number of at least 1"),
        (9, "job_id is missing"),
        (10, "8 columns, expected 9"),
        (11, "submit_time is 'inf', expected a number"),
        (12, "memory is -0.1, expected at least 0"),
        (13, "a repetition: job_id a, task_id 1 is already in line 2"),
    ]
    assert workload.provenance.left_out == {"quarantined": 11}
    assert workload.provenance.counts["rows_read"] == 12
    assert set(quarantine["file"]) == {"jobs.csv"}


def test_columns_of_jobs_are_found_by_name(tmp_path: Path) -> None:
    text = "task_id,job_id,memory,cpu,duration,submit_time,instances_num\n1,7,.5,2,3,4,5\n"
    assert read(written(tmp_path, "x.csv", text))[0].tasks.rows() == [
        (0, 0, "7", "1", 4.0, 3.0, 2.0, 0.5, 5)
    ]


@pytest.mark.parametrize("header", ["", f"{OFFICIAL}\n", f"{SPACED}\r\n", f"\n{SPACED}\n"])
def test_batch_task_reads_alike_with_and_without_a_header(tmp_path: Path, header: str) -> None:
    workload, quarantine = read(written(tmp_path, "batch_task.csv", header + TASK))
    assert workload.tasks.rows() == [(0, 0, "1", "1", 10.0, 20.0, 0.5, 0.01, 4)]
    assert quarantine.is_empty()


def test_a_damaged_first_row_is_not_taken_for_a_header(tmp_path: Path) -> None:
    path = written(tmp_path, "batch_task.csv", "x,30,1,1,4,Terminated,50,0.01\n" + TASK)
    _, quarantine = read(path)
    assert quarantine["reason"].to_list() == ["create_timestamp is 'x', expected a number"]


def test_rows_of_batch_task_that_are_no_finished_task_are_counted_by_reason(
    tmp_path: Path,
) -> None:
    rows = [
        TASK,
        "10,30,1,2,4,Waiting,,\n",
        "10,5,1,3,4,Running,50,.1\n",
        "10,30,1,4,4,Failed,50,.1\n",
        "10,30,1,5,4,Terminated,,.1\n",
        "10,30,1,6,4,Terminated,50,\n",
        "10,10,1,7,4,Terminated,50,.1\n",
        "10,5,1,8,4,Terminated,50,.1\n",
        "10,30,1,9,4,Asleep,50,.1\n",
        "-9,30,2,1,4,Terminated,50,.1\n",
    ]
    workload, quarantine = read(written(tmp_path, "batch_task.csv", "".join(rows)))
    assert workload.tasks.select("job_id", "submit_s").rows() == [("2", -9.0), ("1", 10.0)]
    assert workload.provenance.left_out == {
        "lasted 0 s": 1,
        "plan_cpu missing": 1,
        "plan_mem missing": 1,
        "quarantined": 2,
        "status Failed": 1,
        "status Running": 1,
        "status Waiting": 1,
    }
    assert quarantine.select("line", "reason").rows() == [
        (8, "modify_timestamp 5 is before create_timestamp 10"),
        (
            9,
            "status is 'Asleep', expected Ready, Waiting, Running, Terminated, Failed, Cancelled",
        ),
    ]
    counts = workload.provenance.counts
    assert counts["rows_read"] == counts["tasks"] + sum(workload.provenance.left_out.values())


def test_a_task_lasts_for_the_mean_of_its_terminated_attempts_else_for_its_own_span(
    tmp_path: Path,
) -> None:
    written(tmp_path, "batch_task.csv", TASK + "10,25,1,2,1,Terminated,50,.1\n")
    instance = "{},{},{},1,5,{},1,1,.1,.1,.1,.1\n"
    attempts = [
        (100, 107, 1, "Terminated"),
        (100, 104, 1, "Terminated"),
        (100, 0, 1, "Failed"),
        (100, 100, 1, "Terminated"),
        (100, 900, "", "Terminated"),
        ("x", 900, 1, "Terminated"),
    ]
    text = "".join(instance.format(*attempt) for attempt in attempts)
    written(tmp_path, "batch_instance.csv", text)
    workload, quarantine = read(tmp_path)
    assert workload.tasks["duration_s"].to_list() == [5.5, 15.0]
    counts = workload.provenance.counts
    assert counts["batch_instance_rows_read"] == 6
    assert counts["batch_instance_rows_left_out: status Failed"] == 1
    assert counts["batch_instance_rows_left_out: end not after start"] == 1
    assert counts["batch_instance_rows_left_out: job_id or task_id missing"] == 1
    assert quarantine.select("file", "line", "reason").rows() == [
        ("batch_instance.csv", 6, "start is 'x', expected a number")
    ]
    assert workload.provenance.left_out == {}


def test_attempts_rescue_a_task_whose_own_clock_runs_backwards(tmp_path: Path) -> None:
    written(tmp_path, "batch_task.csv", "30,10,1,1,4,Terminated,50,0.01\n")
    written(tmp_path, "batch_instance.csv", "5,9,1,1,5,Terminated,1,1,.1,.1,.1,.1\n")
    assert read(tmp_path)[0].tasks["duration_s"].to_list() == [4.0]


def test_machines_keep_their_capacities_through_errors(tmp_path: Path) -> None:
    jobs(tmp_path, "0,1,1,1,0,a,1,1,0")
    events = [
        "0,9,add,,64,0.69,1",
        "0,2,add,,64,1.0,1",
        "50,9,softerror,agent_check,0,0,0",
        "60,2,harderror,disk,,,",
        "70,9,add,,32,0.5,1",
        "80,4,add,,0,0.5,1",
        "90,4,rest,,64,0.5,1",
    ]
    written(tmp_path, "server_event.csv", "\n".join(events))
    workload, quarantine = read(tmp_path)
    assert workload.machines is not None
    assert workload.machines.schema == MACHINE_COLUMNS
    assert workload.machines.rows() == [(0, "9", 32.0, 0.5), (1, "2", 64.0, 1.0)]
    assert quarantine["reason"].to_list() == [
        "cpu is 0, expected more than 0",
        "event is 'rest', expected add, softerror, harderror",
    ]
    assert workload.provenance.counts["server_event_rows_left_out: softerror"] == 1


def test_compressed_tables_in_a_folder_are_found_and_named_in_the_provenance(
    tmp_path: Path,
) -> None:
    (tmp_path / "batch_task_full.csv.gz").write_bytes(gzip.compress(TASK.encode()))
    event = b"0,9,add,,64,0.69,1\n"
    (tmp_path / "server_event.csv.gz").write_bytes(gzip.compress(event))
    workload, _ = read(tmp_path)
    assert workload.tasks.height == 1
    assert workload.machines is not None
    names = [file.name for file in workload.provenance.files]
    assert names == ["batch_task_full.csv.gz", "server_event.csv.gz"]


def refusal(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_a_path_that_is_not_there_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    jobs(tmp_path, "0,1,1,1,0,a,1,1,0")
    message = refusal(tmp_path / "job.csv")
    assert "no such file" in message
    assert "did you mean 'jobs.csv'?" in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty, expected a jobs.csv"),
        (b"\n \n\r\n", "is empty"),
        (b"PK\x03\x04\x00\x00", "cannot be read to its end"),
        ("1,2,3,4".encode("utf-16"), "text in UTF-16, which cannot be read; convert it"),
        (b"x" * 100_000, "no line ends within the first 65536 bytes"),
        (b"\x1f\x8b\x08\x00junk", "this gzip file is damaged"),
        (gzip.compress(b"trace/\0\0\0\0ustar", mtime=0), "is a binary file"),
        (b"hello\n", "line 1 has 1 column ('hello'), expected a jobs.csv"),
        (b"M1,1,j_1,1,Terminated,5,9,100,.3\n", "cluster-trace-v2018, which is another format"),
        (b"0,9,add,,64,0.69,1\n", "this server_event table has no tasks"),
        (b"1,2,3,4,5,Terminated,1,1,,,,\n", "this batch_instance table has no tasks"),
        (HEADER.encode(), "has no rows"),
        (
            HEADER.replace("submit_time", "submit_tiem").encode() + b"0,1,1,1,0,a,1,1,0\n",
            "line 1 lacks the column 'submit_time' of jobs.csv; did you mean 'submit_tiem'?",
        ),
        (HEADER.encode() + b"x\ny\n", "none of its 2 rows can be read as jobs.csv; line 2"),
        (b"10,30,1,2,4,Waiting,,\n", "has cpu and memory (status Waiting: 1)"),
    ],
)
def test_a_file_that_is_no_such_trace_is_refused_in_one_line(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    assert words in refusal(path)


def test_a_folder_without_a_known_file_is_refused_with_what_it_has(tmp_path: Path) -> None:
    assert "the folder is empty" in refusal(tmp_path)
    written(tmp_path, "cluster.swf", "1 2 3")
    assert "no jobs.csv or batch_task.csv in this folder" in refusal(tmp_path)
    assert "cluster.swf" in refusal(tmp_path)
    written(tmp_path, "job.csv", HEADER)
    assert "did you mean the file 'job.csv'?" in refusal(tmp_path)


def test_two_equally_good_files_are_a_question_not_a_guess(tmp_path: Path) -> None:
    written(tmp_path, "batch_task_1.csv", TASK)
    written(tmp_path, "batch_task_2.csv", TASK)
    assert "batch_task_1.csv, batch_task_2.csv" in refusal(tmp_path)


def test_a_table_beside_the_tasks_that_is_another_table_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "batch_task.csv", TASK)
    written(tmp_path, "server_event.csv", TASK)
    with pytest.raises(TraceError, match=r"is a batch_task table, expected a server_event table"):
        read(tmp_path)


ROW = st.lists(
    st.sampled_from(["1", "2", "-3", "0", "", "x", "nan", "1e400", "Terminated", "0.5"]),
    min_size=1,
    max_size=9,
).map(",".join)


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(ROW, max_size=12))
def test_every_row_is_a_task_left_out_or_quarantined(tmp_path: Path, rows: list[str]) -> None:
    """For any mixture of rows, the counts add up and every task is sound."""
    text = "".join(f"{row}\n" for row in rows)
    workload, quarantine = read(written(tmp_path, "batch_task.csv", TASK + text))
    provenance = workload.provenance
    assert provenance.counts["rows_read"] == 1 + len([row for row in rows if row.strip()])
    assert provenance.counts["rows_read"] == (
        workload.tasks.height + sum(provenance.left_out.values())
    )
    assert quarantine.height == provenance.left_out.get("quarantined", 0)
    assert workload.tasks.null_count().sum_horizontal().item() == 0
    sound = (pl.col("duration_s") > 0) & (pl.col("cores") > 0) & (pl.col("instances") >= 1)
    assert workload.tasks.select(sound.all()).item()


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_trace_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError):
        read(path)
    path.write_bytes(TASK.encode() + content)
    if b"\0" not in content:
        read(path)
