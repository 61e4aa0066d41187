"""Tests of the reader of Slurm's accounting log: a made log with every trap, and Eagle's sample."""

import csv
import gzip
import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS, slurm
from hindcast.pipeline.traces.slurm import SlurmSettings, read
from hindcast.pipeline.whatif.record import read_record
from hindcast.pipeline.workloads.log_caveats import log_caveats
from hindcast.pipeline.workloads.log_names import names_of
from tests.conftest import require_traces
from tests.pipeline.traces import test_swf

COLUMNS = (
    "JobID", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End",
    "ElapsedRaw", "TimelimitRaw", "ReqCPUS", "AllocCPUS", "ReqNodes", "ReqMem", "ReqTRES",
    "AllocTRES",
)  # fmt: skip
FIRST = 1_709_280_000  # 2024-03-01 08:00:00 UTC
USUAL = {
    "User": "ann", "Account": "physics", "Partition": "batch", "QOS": "normal",
    "State": "COMPLETED", "Submit": FIRST, "Eligible": FIRST, "Start": FIRST + 60,
    "End": FIRST + 660, "ElapsedRaw": 600, "TimelimitRaw": 20, "ReqCPUS": 4, "AllocCPUS": 8,
    "ReqNodes": 1, "ReqMem": "", "ReqTRES": "billing=4,cpu=4,mem=16G,node=1",
    "AllocTRES": "billing=8,cpu=8,mem=32G,node=1",
}  # fmt: skip


def row(job: str, **values: object) -> str:
    """Return one row of a job that ran for ten minutes, with some values replaced."""
    return "|".join(str({"JobID": job, **USUAL, **values}[name]) for name in COLUMNS)


def log(tmp_path, *rows: str, header: str = "|".join(COLUMNS), name: str = "jobs.txt"):
    """Write a file of the header and the rows."""
    path = tmp_path / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def only(tmp_path, **values: object) -> dict[str, object]:
    """Return the task of a log whose only job has these values."""
    return read(log(tmp_path, row("1", **values)))[0].tasks.row(0, named=True)


@pytest.mark.slow
def test_the_reader_passes_the_checks(tmp_path):
    check_trace_format(FORMATS["slurm"], log(tmp_path, row("1"), row("2"), "3|4"))


@pytest.mark.slow
def test_a_job_becomes_a_task_with_the_columns_of_swf_logs(tmp_path):
    load, quarantine = read(log(tmp_path, row("9", Submit=FIRST + 5), row("7")))
    first, second = load.tasks.rows(named=True)
    assert (first["job_id"], second["job_id"]) == ("7", "9")
    assert (first["submit_s"], first["wait_s"], first["duration_s"]) == (0, 60, 600)
    assert (first["cores"], first["requested_cores"], first["allocated_cores"]) == (8, 4, 8)
    assert first["requested_s"] == 1200
    assert first["memory_kb"] == 16 * 1024**2 / 8
    assert (first["status"], first["user"], first["group"]) == (1, 1, 1)
    assert (first["queue"], first["partition"], first["executable"]) == (1, 1, None)
    assert f"UnixStartTime: {FIRST}" in load.provenance.notes
    assert quarantine.is_empty()
    columns = set(FORMATS["swf"].read(test_swf.log(tmp_path, test_swf.row(1)))[0].tasks.columns)
    assert columns - set(load.tasks.columns) == {"preceding_job", "think_s"}


def test_unknown_columns_and_another_order_are_no_fault(tmp_path):
    names = ["AdminComment", *reversed(COLUMNS), "WorkDir"]
    values = dict(zip(COLUMNS, row("1").split("|"), strict=True))
    line = "|".join(values.get(name, "something") for name in names)
    load, quarantine = read(log(tmp_path, line, header="|".join(names)))
    assert load.tasks["cores"].to_list() == [8]
    assert "columns that are not read: 2 (AdminComment, WorkDir)" in load.provenance.notes
    assert quarantine.is_empty()


def test_a_bar_at_the_end_of_lines_is_no_column(tmp_path):
    """`sacct -p` ends every line with the separator, `sacct -P` does not."""
    path = log(tmp_path, row("1") + "|", header="|".join(COLUMNS) + "|")
    assert read(path)[0].tasks.height == 1


@pytest.mark.slow
def test_other_separators_are_recognised(tmp_path):
    """Of a job that is there twice, the second row is a repetition, whatever the separator."""
    for sign in ";\t":
        rows = [row("1").replace("|", sign), row("1").replace("|", sign)]
        load, quarantine = read(log(tmp_path, *rows, header=sign.join(COLUMNS)))
        assert load.tasks["job_id"].to_list() == ["1"]
        assert quarantine.height == 1


def test_the_guide_and_the_reader_give_the_same_command():
    page = Path(__file__).parents[3] / "docs" / "how-to" / "use-your-own-log.md"
    for text in (page.read_text(encoding="utf-8"), str(slurm.__doc__)):
        found = re.search(r"sacct -a -X -P .*--format=(\S+)", text)
        assert found is not None
        assert tuple(found[1].split(",")) == COLUMNS


def test_every_task_of_an_array_and_part_of_a_het_job_is_a_job(tmp_path):
    load, _ = read(log(tmp_path, row("5_1"), row("5_2"), row("6+0"), row("6+1")))
    assert load.tasks["job_id"].to_list() == ["5_1", "5_2", "6+0", "6+1"]


def test_rows_that_are_no_job_that_ran_are_left_out_and_counted(tmp_path):
    """A job that was cancelled while it ran is one that ran."""
    load, quarantine = read(
        log(
            tmp_path,
            row("1"),
            row("2", State="CANCELLED by 1000"),
            row("1.batch"),
            row("1.0", Submit="", AllocCPUS=""),
            row("3", State="PENDING", Start="Unknown", End="Unknown"),
            row("4_[4-9%2]", State="PENDING", Start="Unknown", ElapsedRaw=0),
            row("5", State="RUNNING", End="Unknown"),
            row("6", State="CANCELLED by 1000", Start="None"),
            row("7", State="CANCELLED+", ElapsedRaw=0, AllocCPUS=0),
            row("8", State="DEADLINE", Start="Unknown", AllocCPUS="x"),
            row("9", State="REQUEUED"),
        )
    )
    assert load.tasks.select("job_id", "status").rows() == [("1", 1), ("2", 5)]
    assert load.provenance.left_out == {
        "a step of a job that has a row of its own": 2,
        "not started when the log was written": 2,
        "still running when the log was written": 1,
        "ended before it ran": 3,
        "a run that ended in a requeue; the next run of the job has a row of its own": 1,
    }
    assert quarantine.is_empty()


@pytest.mark.slow
def test_of_a_job_that_was_requeued_the_last_run_counts(tmp_path):
    """Times of submission tell a requeue from a number that is used again."""
    load, quarantine = read(
        log(
            tmp_path,
            row("1", State="NODE_FAIL"),
            row("1", Submit=FIRST + 660, Start=FIRST + 700, End=FIRST + 1300),
            row("2", State="PREEMPTED", Start=FIRST + 70, End=FIRST + 100, ElapsedRaw=30),
            row("2", Start=FIRST + 200),
            row("3"),
            row("3", Submit=FIRST + 10**6, Start=FIRST + 10**6),
            row("4"),
            row("4"),
        )
    )
    tasks = dict(load.tasks.select("job_id", "submit_s").iter_rows())
    assert tasks == {"1": 660, "2": 0, "3": 0, "3#2": 10**6, "4": 0}
    assert load.provenance.left_out["an earlier run of a job that ran again"] == 2
    (repetition,) = quarantine["reason"]
    assert repetition.startswith("a repetition: job_id 4")


def test_eligible_is_kept_apart_from_submit(tmp_path):
    """A wait before the job was eligible is not the scheduler's; it is counted."""
    load, _ = read(log(tmp_path, row("1", Eligible=FIRST + 50), row("2", Eligible="Unknown")))
    assert load.tasks["eligible_s"].to_list() == [50, None]
    assert load.tasks["submit_s"].to_list() == [0, 0]
    assert load.provenance.counts["eligible later than submitted"] == 1


def test_a_job_without_limit_has_the_largest_limit_of_its_partition(tmp_path):
    """UNLIMITED is no wish for the run time, which nobody knew when the job was submitted."""
    load, _ = read(
        log(
            tmp_path,
            row("1", Partition="a", TimelimitRaw=100),
            row("2", Partition="b", TimelimitRaw=300),
            row("3", Partition="a", TimelimitRaw="UNLIMITED"),
            row("4", Partition="c", TimelimitRaw="Partition_Limit"),
            row("5", Partition="a", TimelimitRaw="Partition_Limit", ElapsedRaw=9999),
            row("6", Partition="a", TimelimitRaw=""),
        )
    )
    assert load.tasks["requested_s"].to_list() == [6000, 18000, 6000, 18000, 9999, 600]
    counts = load.provenance.counts
    assert counts["requested_s of a job without limit, the largest limit"] == 3
    assert counts["requested_s from duration_s"] == 1


def test_limits_and_spans_are_read_as_sacct_prints_them(tmp_path):
    header = "JobID|State|Submit|Start|End|Elapsed|Timelimit|AllocTRES"
    line = f"1|COMPLETED|{FIRST}|{FIRST}|{FIRST + 5}|1-02:03:04|2-00:00:00|cpu=6,mem=12000M"
    task = read(log(tmp_path, line, header=header))[0].tasks.row(0, named=True)
    assert (task["duration_s"], task["requested_s"]) == (93784, 172800)
    assert (task["cores"], task["allocated_cores"], task["requested_cores"]) == (6, 6, None)
    assert task["memory_kb"] == 2000 * 1024


@pytest.mark.parametrize(
    ("text", "kb"), [("2Gc", 4 * 2 * 1024**2), ("8Gn", 2 * 8 * 1024**2), ("16000M", 16000 * 1024)]
)
def test_requested_memory_is_per_core_per_node_or_of_the_job(text, kb, tmp_path):
    task = only(tmp_path, ReqTRES="cpu=4,node=2", ReqMem=text, ReqNodes=2)
    assert task["memory_kb"] == kb / 8


@pytest.mark.slow
def test_missing_numbers_of_processors_come_from_the_lists_of_resources(tmp_path):
    task = only(tmp_path, ReqCPUS="", AllocCPUS="")
    assert (task["requested_cores"], task["allocated_cores"], task["cores"]) == (4, 8, 8)
    assert only(tmp_path, AllocCPUS="", AllocTRES="")["cores"] == 4


@pytest.mark.slow
def test_local_times_need_the_zone_of_the_cluster(tmp_path):
    """From 01:30 to 03:30 is one hour if clocks go forward, and 02:30 is no time."""
    times = {"Eligible": "", "ElapsedRaw": ""}
    path = log(
        tmp_path,
        row("1", Submit="2024-03-31T01:30:00", Start="2024-03-31T03:30:00",
            End="2024-03-31T04:30:00", **times),
        row("2", Submit="2024-03-31T02:30:00", Start="2024-03-31T03:30:00",
            End="2024-03-31T04:30:00", **times),
        row("3", Submit="2024-10-27T02:30:00", Start="2024-10-27T03:30:00",
            End="2024-10-27T04:30:00", **times),
    )  # fmt: skip
    naive, _ = read(path)
    assert naive.tasks["wait_s"].to_list() == [7200, 3600, 3600]
    assert any("are read as UTC" in note for note in naive.provenance.notes)
    load, quarantine = read(path, SlurmSettings(time_zone="Europe/Berlin"))
    assert load.tasks["wait_s"].to_list() == [3600, 7200]
    assert "UnixStartTime: 1711845000" in load.provenance.notes
    assert quarantine["reason"].to_list() == ["Submit is '2024-03-31T02:30:00', expected a time"]
    assert (
        load.provenance.counts["a time in the hour that clocks repeat, taken as the earlier one"]
        == 1
    )
    with pytest.raises(TraceError, match="did you mean 'Europe/Berlin'"):
        read(path, SlurmSettings(time_zone="Europe/Berln"))


@pytest.mark.slow
def test_times_with_an_offset_and_times_since_1970_need_no_zone(tmp_path):
    path = log(
        tmp_path,
        row("1", Submit="2024-03-01T09:00:00+0100", Start="2024-03-01T08:01:00Z"),
        row("2", Submit=FIRST, Start=FIRST + 60),
    )
    for settings in (SlurmSettings(), SlurmSettings(time_zone="Asia/Tokyo")):
        tasks = read(path, settings)[0].tasks
        assert tasks["submit_s"].to_list() == [0, 0]
        assert tasks["wait_s"].to_list() == [60, 60]


def test_a_start_before_the_submission_and_a_run_of_0_s_cost_no_job(tmp_path):
    load, _ = read(log(tmp_path, row("1", Start=FIRST - 9), row("2", ElapsedRaw=0)))
    assert load.tasks["wait_s"].to_list() == [None, 60]
    assert load.tasks["duration_s"].to_list() == [600, 1]


@pytest.mark.slow
def test_the_size_of_the_cluster_is_a_setting_or_the_most_in_use(tmp_path):
    path = log(
        tmp_path,
        row("1", AllocCPUS=8, Start=FIRST, ElapsedRaw=100),
        row("2", AllocCPUS=4, Start=FIRST + 50, ElapsedRaw=100),
        row("3", AllocCPUS=7, Start=FIRST + 100, ElapsedRaw=10),
    )
    load, _ = read(path)
    assert load.machines["cores"].to_list() == [12]
    assert any(note.startswith("caution: the log does not say") for note in load.provenance.notes)
    load, quarantine = read(path, SlurmSettings(processors=7))
    assert load.machines["cores"].to_list() == [7]
    assert quarantine["reason"].to_list() == ["8 processors, but the cluster has 7"]
    assert not any(note.startswith("caution") for note in load.provenance.notes)


def test_names_become_numbers_and_are_not_kept(tmp_path):
    load, _ = read(log(tmp_path, row("1", User="zoe"), row("2", User="ann"), row("3", User="zoe")))
    assert load.tasks["user"].to_list() == [1, 2, 1]
    assert not any("zoe" in str(value) for value in (load.tasks.to_dicts(), load.provenance))


BAD = (
    ({"Submit": "yesterday"}, "Submit is 'yesterday', expected a time"),
    ({"Submit": ""}, "Submit is missing, expected a time"),
    ({"Submit": "1e99"}, "Submit is '1e99', expected a time"),
    ({"Submit": "nan0"}, "Submit is 'nan0', expected a time"),
    ({"Start": ""}, "Start is missing, expected a time"),
    ({"ElapsedRaw": "", "End": ""}, "End is missing, expected a time"),
    ({"ElapsedRaw": "", "End": FIRST}, "End is before Start"),
    ({"ElapsedRaw": "-5", "End": "x"}, "ElapsedRaw is '-5', expected a time span"),
    ({"AllocCPUS": "4.5", "ReqCPUS": "x", "AllocTRES": "", "ReqTRES": ""},
     "AllocCPUS is '4.5', expected a number of processors"),
    ({"State": "DONE"}, "State is 'DONE', expected a state of Slurm such as COMPLETED"),
    ({"JobID": ""}, "the name of the job is missing"),
    ({"User": "a|b"}, "19 columns, expected 18"),
)  # fmt: skip


@pytest.mark.slow
def test_a_bad_row_is_quarantined_with_its_line_and_reason(tmp_path):
    rows = [row(**{"job": str(place), **values}) for place, (values, _) in enumerate(BAD)]
    load, quarantine = read(log(tmp_path, row("a"), *rows, row("b")))
    assert load.tasks["job_id"].to_list() == ["a", "b"]
    expected = [(line, reason) for line, (_, reason) in enumerate(BAD, 3)]
    assert quarantine.select("line", "reason").rows() == expected


def test_bad_values_that_no_task_needs_are_taken_as_unknown(tmp_path):
    load, quarantine = read(
        log(tmp_path, row("1", Eligible="soon", TimelimitRaw="long", ReqTRES="mem=much",
                          AllocTRES="cpu=8"))
    )  # fmt: skip
    assert load.tasks.select("eligible_s", "requested_s", "memory_kb").row(0) == (None, 600, None)
    for name in ("eligible", "limit", "memory_kb"):
        assert load.provenance.counts[f"{name} not usable, taken as unknown"] == 1
    assert quarantine.is_empty()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1|ann|COMPLETED\n", "line 1 has no column JobID"),
        (b"JobID|State|Submitted|Start|End|AllocCPUS\n", "is it the column 'submitted'?"),
        (b"JobID,State,Submit,End,AllocCPUS\n1,2,3,4,5\n", "line 1 has no column Start"),
        (b"\n\n", "this file is empty"),
        (b"\0\1\2", "this is a binary file"),
        (gzip.compress(b"JobID|State|Submit", mtime=0)[:-9], "this gzip file is damaged"),
        (b"JobID|State|Submit|Start|End|AllocCPUS\n", "this file has no rows"),
        (b"JobID|State|Submit|Start|End|AllocCPUS\n" + b"1|x|2\n" * 3, "none of its 3 rows"),
        (b"JobID|State|Submit|Start|End|AllocCPUS\n1|PENDING|1|2|3|4\n", "is a job that ran"),
    ],
)
def test_a_file_that_is_no_such_log_is_refused(content, message, tmp_path):
    path = tmp_path / "jobs.txt"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"jobs\.txt") as error:
        read(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_files_in_one_may_repeat_the_header(tmp_path):
    header = "|".join(COLUMNS)
    load, quarantine = read(log(tmp_path, row("1"), header, row("2")))
    assert load.tasks.height == 2
    assert load.provenance.left_out == {"the header again": 1}
    assert quarantine.is_empty()


def test_the_sample_of_eagle_has_as_many_jobs_as_the_csv_module_counts():
    path = require_traces("slurm/eagle_sample.csv")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    load, quarantine = read(path)
    assert load.tasks.height == load.tasks["job_id"].n_unique() == len(rows) == 1000
    assert quarantine.is_empty()
    states = Counter(row["state"] for row in rows)
    assert dict(load.tasks["status"].value_counts().iter_rows()) == {
        1: states["COMPLETED"], 0: states["TIMEOUT"]}  # fmt: skip
    for column, name in (("duration_s", "run_time"), ("requested_s", "wallclock_req")):
        assert load.tasks[column].sum() == sum(float(row[name]) for row in rows)
    assert load.tasks["cores"].sum() == sum(int(row["processors_req"]) for row in rows)
    memory = load.tasks.select(pl.col("memory_kb") * pl.col("cores") / 1024).to_series()
    assert memory.sum() == pytest.approx(sum(float(row["mem_req"]) for row in rows))
    assert load.tasks["user"].n_unique() == len({row["user"] for row in rows})


def test_partition_qos_account_and_nodes_are_columns_of_their_own(tmp_path):
    """W5: the queue of a job is its partition, and the names are kept."""
    load, _ = read(
        log(
            tmp_path,
            row("1", QOS="high", AllocTRES="cpu=8,node=2"),
            row("2", Partition="debug", Account="biology"),
            row("3", Partition="debug", QOS="high", AllocTRES="", ReqNodes=3),
        )
    )
    numbers = load.tasks.select("queue", "partition", "qos", "account", "nodes").rows()
    assert numbers == [(1, 1, 1, 1, 2), (2, 2, 2, 2, 1), (2, 2, 1, 1, 3)]
    assert names_of(load, "partition") == names_of(load, "queue") == {1: "batch", 2: "debug"}
    assert names_of(load, "qos") == {1: "high", 2: "normal"}
    assert names_of(load, "account") == {}
    record = read_record(load)
    assert record.names["partition"][record.partition[1]] == "debug"
    assert record.nodes.tolist() == [2, 1, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tres", "gpus"),
    [("cpu=8,gres/gpu=4,gres/gpu:a100=4", 4), ("cpu=8,gres/gpu:a100=2,gres/gpu:v100=1", 3),
     ("cpu=8,node=1", 0), ("", None)],
)  # fmt: skip
def test_gpus_of_a_job_are_counted(tmp_path, tres, gpus):
    """In a log that has GPUs a list without them says that the job had none."""
    rows = (row("1", AllocTRES=tres, ReqTRES=""), row("2", AllocTRES="gres/gpu=1"))
    load, _ = read(log(tmp_path, *rows))
    assert load.tasks["gpus"].to_list() == [gpus, 1]
    assert "gpus" not in read(log(tmp_path, row("1")))[0].tasks.columns


@pytest.mark.slow
def test_times_without_a_zone_are_said_if_clocks_change(tmp_path):
    """W17: one of the two submissions is after the change of clocks."""

    def times(day):
        return dict.fromkeys(("Submit", "Eligible", "Start", "End"), f"2024-{day}T12:00:00")

    path = log(tmp_path, row("1", **times("03-01")), row("2", **times("04-01")))
    codes = {c.code: c.numbers for c in log_caveats(read(path)[0])}
    assert codes["clock_change"] == {"jobs": 1}
    known = read(path, SlurmSettings(time_zone="Europe/Berlin"))[0]
    assert "clock_change" not in {c.code for c in log_caveats(known)}
    zoned = [row(str(i), **{k: f"{v}+01:00" for k, v in times(day).items()})
             for i, day in enumerate(("03-01", "04-01"))]  # fmt: skip
    offsets, _ = read(log(tmp_path, *zoned))
    assert not any("read as UTC" in note for note in offsets.provenance.notes)
