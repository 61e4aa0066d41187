"""Tests of tables of jobs that a mapping describes."""

import gzip
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.table import raw_files, read
from hindcast.pipeline.workloads.caveats import NO_ZONE
from hindcast.pipeline.workloads.log_names import names_of

CSV = """id,asked,began,over,cpus,mem,what,who
a,2024-03-01 08:00:00,2024-03-01 08:01:00,2024-03-01 08:11:00,4,2,DONE,ann
b,2024-03-01 08:00:30,2024-03-01 08:02:00,2024-03-01 08:02:30,1,,Err,bob
"""
MAPPING = """
file = "jobs.csv"
[columns]
job_id = "id"
submit = "asked"
start = "began"
end = "over"
cores = "cpus"
memory = "mem"
state = "what"
user = "who"
[units]
memory = "GB"
[states]
completed = ["done"]
failed = ["err"]
running = ["RUN"]
"""
START = datetime(2024, 3, 1, 8, tzinfo=UTC)


def mapped(tmp_path, csv: str = CSV, mapping: str = MAPPING, name: str = "jobs.csv"):
    """Write a table and its mapping; return the mapping's path."""
    (tmp_path / name).write_text(csv)
    path = tmp_path / "jobs.toml"
    path.write_text(mapping)
    return path


@pytest.mark.slow
def test_the_reader_passes_the_checks(tmp_path):
    check_trace_format(FORMATS["table"], mapped(tmp_path))


def test_a_row_becomes_a_task_with_the_columns_of_the_other_logs(tmp_path):
    path = mapped(tmp_path)
    load, quarantine = read(path)
    first, second = load.tasks.rows(named=True)
    assert (first["job_id"], first["submit_s"], first["wait_s"]) == ("a", 0, 60)
    assert (first["duration_s"], first["cores"], first["allocated_cores"]) == (600, 4, 4)
    assert (first["memory_kb"], first["status"], first["user"]) == (2 * 1024**2 / 4, 1, 1)
    assert (second["submit_s"], second["duration_s"], second["status"]) == (30, 30, 0)
    assert (second["memory_kb"], second["memory"], second["user"]) == (None, 0, 2)
    assert load.machines["cores"].to_list() == [5]
    assert [file.name for file in load.provenance.files] == ["jobs.toml", "jobs.csv"]
    assert raw_files(path) == (path, tmp_path / "jobs.csv")
    assert quarantine.is_empty()


def test_due_ends_are_counted_as_submissions_are(tmp_path):
    """A due end that is missing or no time is unknown; a table without any has no such column."""
    rows = [CSV.splitlines()[0] + ",due", *(row + ",{}" for row in CSV.splitlines()[1:])]
    mapping = MAPPING.replace('state = "what"', 'state = "what"\ndeadline = "due"')
    csv = "\n".join(rows).format("2024-03-01 10:00:00", "soon") + "\n"
    load, quarantine = read(mapped(tmp_path, csv, mapping))
    assert load.tasks["deadline_s"].to_list() == [7200.0, None]
    assert load.provenance.counts["deadline not usable, taken as unknown"] == 1
    assert quarantine.is_empty()
    none, _ = read(mapped(tmp_path, "\n".join(rows).format("", "") + "\n", mapping))
    assert "deadline_s" not in none.tasks.columns


@pytest.mark.slow
def test_csv_gzip_and_parquet_give_the_same_tasks(tmp_path):
    """Parquet holds times with and without a zone, whole numbers and missing values."""
    expected = read(mapped(tmp_path))[0].tasks
    (tmp_path / "jobs.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    path = mapped(tmp_path, mapping=MAPPING.replace("jobs.csv", "jobs.csv.gz"))
    assert read(path)[0].tasks.equals(expected)
    times = [START, START + timedelta(seconds=30)]
    table = pl.DataFrame({
        "id": ["a", "b"],
        "asked": pl.Series(times).dt.convert_time_zone("Asia/Tokyo"),
        "began": pl.Series([START + timedelta(seconds=60), START + timedelta(seconds=120)])
        .dt.replace_time_zone(None).cast(pl.Datetime("ms")),
        "over": pl.Series([START + timedelta(seconds=660), START + timedelta(seconds=150)]),
        "cpus": pl.Series([4, 1], dtype=pl.UInt16),
        "mem": [2.0, None],
        "what": pl.Series(["DONE", "Err"], dtype=pl.Categorical),
        "who": ["ann", "bob"],
        "unread": [[1], [2]],
    })  # fmt: skip
    table.write_parquet(tmp_path / "jobs.parquet")
    path = mapped(tmp_path, mapping=MAPPING.replace("jobs.csv", "jobs.parquet"))
    assert read(path)[0].tasks.equals(expected)


def test_units_are_those_of_the_mapping(tmp_path):
    csv = "at;run;limit;cpu;mem\n1709280000000;1.5;2:00:00;250;512\n1709280001000;2;1;50;256M\n"
    mapping = """
file = "jobs.csv"
separator = ";"
memory_of = "core"
processors = 16
columns = {submit = "at", duration = "run", time_limit = "limit", cores = "cpu", memory = "mem"}
units = {submit = "ms", duration = "min", time_limit = "h", cores = "percent", memory = "MB"}
"""
    load, quarantine = read(mapped(tmp_path, csv, mapping))
    assert load.tasks["job_id"].to_list() == ["2", "3"]
    assert load.tasks["submit_s"].to_list() == [0, 1]
    assert load.tasks["duration_s"].to_list() == [90, 120]
    assert load.tasks["requested_s"].to_list() == [7200, 3600]
    assert load.tasks["cores"].to_list() == [2.5, 0.5]
    assert load.tasks["memory_kb"].to_list() == [512 * 1024, 256 * 1024]
    assert load.tasks["wait_s"].null_count() == 2
    assert load.machines["cores"].to_list() == [16]
    assert quarantine.is_empty()


def test_times_may_have_another_form_and_begin_anywhere(tmp_path):
    csv = "at,run,n\n31/12/2023 23:59:00,60,1\n01/01/2024 00:00:00,60,1\n"
    mapping = """
file = "jobs.csv"
columns = {submit = "at", duration = "run", cores = "n"}
units = {submit = "%d/%m/%Y %H:%M:%S"}
"""
    assert read(mapped(tmp_path, csv, mapping))[0].tasks["submit_s"].to_list() == [0, 60]
    relative = mapping.replace("%d/%m/%Y %H:%M:%S", "min")
    load, _ = read(mapped(tmp_path, "at,run,n\n-5,60,1\n10,60,1\n", relative))
    assert load.tasks["submit_s"].to_list() == [-300, 600]
    assert not any(note.startswith("UnixStartTime") for note in load.provenance.notes)


def test_separators_in_quotes_do_not_separate(tmp_path):
    csv = 'who,at,run,n\n"Doe, ""J""",1,60,2\n,2,60,"3"\nx"y,3,60,4\n"a,b"c,4,60,5\n'
    columns = 'columns = {submit = "at", duration = "run", cores = "n", user = "who"}'
    load, quarantine = read(mapped(tmp_path, csv, f'file = "jobs.csv"\n{columns}\n'))
    assert load.tasks["cores"].to_list() == [2, 3, 4]
    assert load.tasks["user"].to_list() == [1, None, 2]
    assert quarantine.select("line", "reason").rows() == [(5, "5 columns, expected 4")]


def test_a_bad_row_is_quarantined_and_others_are_counted(tmp_path):
    rows = """c,2024-03-01 08:00:00,x,2024-03-01 08:11:00,4,2,DONE,ann
d,2024-03-01 08:00:00,2024-03-01 08:01:00,2024-03-01 08:00:59,4,2,DONE,ann
e,2024-03-01 08:00:00,2024-03-01 08:01:00,2024-03-01 08:11:00,4,2,GONE,ann
f,2024-03-01 08:00:00,2024-03-01 08:01:00,2024-03-01 08:11:00,-4,2,DONE,ann
g,2024-03-01 08:00:00,2024-03-01 08:01:00,,4,2,RUN,ann
h,2024-03-01 08:00:00,,,4,2,ERR,ann
a,2024-03-01 08:00:00,2024-03-01 08:01:00,2024-03-01 08:11:00,4,2,DONE,ann
i,2024-03-01 08:00:00,2024-03-01 08:01:00,2024-03-01 08:11:00,,2,DONE,ann
"""
    load, quarantine = read(mapped(tmp_path, CSV + rows))
    assert quarantine.select("line", "reason").rows() == [
        (4, "began is 'x', expected a time"),
        (5, "over is before began"),
        (6, "what is 'GONE', which [states] does not name"),
        (7, "cpus is '-4', expected a number of processors"),
    ]
    assert load.provenance.left_out == {
        "still running when the log was written": 1,
        "ended before it ran": 1,
        "no number of processors, requested or allocated": 1,
        "quarantined": 4,
    }
    assert load.tasks["job_id"].to_list() == ["a", "a#2", "b"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('file = "jobs.csv"', "", "the key 'file' is missing"),
        ('file = "jobs.csv"', "file = 3", "file is 3, expected a text"),
        ('file = "jobs.csv"', 'file = "job.csv"', "no such file"),
        ("file =", "files = 1\nfile =", "unknown key 'files'; did you mean 'file'?"),
        ("[units]", "[unit]", "unknown key 'unit'; did you mean 'units'?"),
        ('submit = "asked"', "", "columns.submit is missing"),
        ('submit = "asked"', 'submit = "ask"', "no column 'ask'; did you mean 'asked'?"),
        ('submit = "asked"', "submit = 3", "columns.submit is 3"),
        ('end = "over"', "", "columns.duration is missing, or columns.start and columns.end"),
        ('cores = "cpus"', 'core = "cpus"', "unknown key columns.core; did you mean 'cores'?"),
        ('cores = "cpus"', "", "columns.cores is missing"),
        ('memory = "GB"', 'memory = "gigs"', "units.memory is 'gigs', expected one of B, KB, MB"),
        ('memory = "GB"', 'submit = "fortnight"', "or a format of strftime"),
        ('completed = ["done"]', 'finished = ["done"]', "unknown key states.finished"),
        ('completed = ["done"]', 'completed = "done"', "states.completed is 'done'"),
        ('failed = ["err"]', 'failed = ["Done"]', "the state 'Done' is completed and failed"),
        ("[columns]", 'time_zone = "Moon"\n[columns]', "there is no time zone 'Moon'"),
        ("[columns]", "processors = 0\n[columns]", "processors is 0"),
        ("[columns]", 'processors = "9"\n[columns]', "processors is '9'"),
        ("[columns]", 'separator = ""\n[columns]', "separator is '', expected one character"),
        ("[columns]", "[columns", "this is no TOML"),
    ],
)
def test_a_wrong_mapping_is_refused_in_one_line_that_names_the_key(old, new, message, tmp_path):
    assert old in MAPPING
    with pytest.raises(TraceError, match=r"jobs\.toml: ") as error:
        read(mapped(tmp_path, mapping=MAPPING.replace(old, new, 1)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_table_in_place_of_its_mapping_is_refused(tmp_path):
    mapped(tmp_path)
    with pytest.raises(TraceError, match=r"line 1 is 'id,asked.*hindcast init TABLE"):
        read(tmp_path / "jobs.csv")


def test_a_damaged_parquet_file_is_refused(tmp_path):
    path = mapped(tmp_path)
    (tmp_path / "jobs.csv").write_bytes(b"PAR1" + b"x" * 99)
    with pytest.raises(TraceError, match="this Parquet file cannot be read"):
        read(path)
    pl.DataFrame({name: [[1]] for name in CSV.partition("\n")[0].split(",")}).write_parquet(
        tmp_path / "jobs.csv"
    )
    with pytest.raises(TraceError, match="has values of type List"):
        read(path)


def test_partition_qos_account_nodes_and_gpus_are_columns_of_a_table(tmp_path):
    csv = CSV.replace("who\n", "who,part,qos,acc,nodes,gpus\n").replace("ann\n", "ann,p,q,a,2,8\n")
    csv = csv.replace("bob\n", "bob,o,q,,1,\n")
    added = (
        'who"\npartition = "part"\nqos = "qos"\naccount = "acc"\nnodes = "nodes"\ngpus = "gpus"\n'
    )
    load, _ = read(mapped(tmp_path, csv, MAPPING.replace('who"\n', added)))
    assert load.tasks.select("partition", "qos", "account", "nodes", "gpus").rows() == [
        (1, 1, 1, 2, 8), (2, 1, None, 1, None),
    ]  # fmt: skip
    assert names_of(load, "partition") == {1: "p", 2: "o"}


@pytest.mark.parametrize(("zone", "form", "said"), [
    ("UTC", "", True), ("Etc/UTC", "", False), ("UTC", 'submit = "%Y-%m-%d %H:%M:%S"\n', True),
])  # fmt: skip
def test_times_without_a_zone_are_said(tmp_path, zone, form, said):
    mapping = f'time_zone = "{zone}"\n{MAPPING.replace("[units]", "[units]" + chr(10) + form)}'
    load, _ = read(mapped(tmp_path, mapping=mapping))
    assert any(note.startswith(NO_ZONE) for note in load.provenance.notes) == said
