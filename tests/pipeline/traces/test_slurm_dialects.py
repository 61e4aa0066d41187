"""Outputs of Slurm as sites have them: each gives its jobs, or is refused with the reason."""

import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.slurm import SlurmSettings, read
from hindcast.pipeline.workloads.folder import load_workload
from tests.pipeline.traces.test_slurm import COLUMNS, FIRST, log, only, row

DOCUMENTED = ",".join(COLUMNS)
GIBIBYTE_MIB = 1024


# Without header, printed otherwise, or with other columns.


@pytest.mark.slow
def test_columns_may_be_a_list_with_columns_that_are_not_read(tmp_path):
    names = [name if name not in {"User", "Account"} else "-" for name in COLUMNS]
    path = log(tmp_path, row("2"), header=row("1"))
    tasks = read(path, SlurmSettings(columns=tuple(names)))[0].tasks
    assert (tasks.height, tasks["user"].null_count(), tasks["cores"].to_list()) == (2, 2, [8, 8])
    with_header = log(tmp_path, row("1"), name="with.txt")
    load, _ = read(with_header, SlurmSettings(columns=DOCUMENTED))
    assert load.tasks.height == 1
    with pytest.raises(TraceError, match="columns names 3 columns, but line 1 has 18"):
        read(path, SlurmSettings(columns="JobID|State|Submit"))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("7|COMPLETED|2024-03-01T08:00:00|2024-03-01T08:01:00|2024-03-01T09:01:00|01:00:00|4",
         "JobID,State,Submit,Start,End,Elapsed,-"),
        ("ann;CANCELLED by 7;7_3;1709280000;1709280060;1709280660;cpu=4,mem=8G",
         "-,State,JobID,Submit,Start,End,AllocTRES"),
    ],
)  # fmt: skip
def test_other_output_without_header_has_a_proposal_too(line, names, tmp_path):
    path = tmp_path / "jobs.txt"
    path.write_text(f"{line}\n{line}\n")
    with pytest.raises(TraceError, match="as with `sacct -n`") as error:
        read(path)
    assert str(error.value).endswith(f"--set columns={names}")


@pytest.mark.parametrize(
    "text",
    [
        (
            "JobID    Partition  State     Submit               Start\n"
            "-------- ---------- --------- -------------------- -------------------\n"
            "1000     cpu        COMPLETED 2024-03-04T08:00:00  2024-03-04T08:00:01\n"
        ),
        (
            "1000     cpu        COMPLETED 2024-03-04T08:00:00  2024-03-04T08:00:01\n"
            "1001     cpu        CANCELLED+ 2024-03-04T08:00:00 2024-03-04T08:00:01\n"
        ),
    ],
)
def test_columns_cut_to_a_width_are_named_as_such(text, tmp_path):
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match="printed without -P"):
        read(path)


@pytest.mark.slow
def test_a_delimiter_of_ones_own_is_recognised(tmp_path):
    for sign in ("~~", "^"):
        path = log(tmp_path, row("1").replace("|", sign), header=sign.join(COLUMNS))
        assert read(path)[0].tasks["cores"].to_list() == [8]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "texts"),
    [("%d.%m.%Y %H:%M:%S", ("01.03.2024 09:00:00", "01.03.2024 09:01:00")),
     ("%m/%d/%Y %I:%M:%S %p", ("03/01/2024 09:00:00 AM", "03/01/2024 09:01:00 AM")),
     ("%d.%m.%Y %H:%M:%S %z", ("01.03.2024 08:00:00 +0000", "01.03.2024 09:01:00 +0100"))],
)  # fmt: skip
def test_times_have_the_format_that_is_set(form, texts, tmp_path):
    submit, start = texts
    times = {"Submit": submit, "Eligible": submit, "Start": start, "End": "Unknown"}
    settings = SlurmSettings(time_format=form, time_zone="Europe/Berlin")
    load, _ = read(log(tmp_path, row("1", **times)), settings)
    assert load.tasks["wait_s"].to_list() == [60]
    assert f"UnixStartTime: {FIRST}" in load.provenance.notes
    with pytest.raises(TraceError, match="expected a time as %Y"):
        read(log(tmp_path, row("1", **times)), SlurmSettings(time_format="%Y"))


# CSV of other programs.


def csv_of(*lines, tmp_path, name="jobs.csv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_r_writes_names_of_rows_quotes_and_na(tmp_path):
    header = ",".join(f'"{name}"' for name in COLUMNS)
    values = row("1", TimelimitRaw="NA", ReqCPUS="1e+05", User="NA").split("|")
    line = ",".join(["7", *(f'"{value}"' if value != "NA" else value for value in values)])
    for first in (f'"",{header}', header):  # write.csv, and write.table, whose header is shorter
        load, quarantine = read(csv_of(first, line, tmp_path=tmp_path))
        task = load.tasks.row(0, named=True)
        assert (task["requested_cores"], task["user"], task["nodes"]) == (100_000, None, 1)
        assert load.provenance.counts["requested_s from duration_s"] == 1
        assert quarantine.is_empty()


def test_pandas_writes_floats_nan_and_spans_of_days(tmp_path):
    header = "JobID,State,Submit,Start,End,Elapsed,TimelimitRaw,AllocCPUS,JobName,AllocTRES"
    lines = [
        (
            "1000.0,COMPLETED,2024-03-01 08:00:00,2024-03-01 08:01:00,2024-03-02 09:01:02,"
            '1 days 01:00:02,1500.0,8.0,"a, ""b""","cpu=8,mem=16G"'
        ),
        (
            "1001.0,COMPLETED,2024-03-01 08:00:00,2024-03-01 08:01:00,NaT,0 days 00:10:00,,8.0,"
            '"two\nlines","cpu=8,mem=16G"'
        ),
    ]
    load, quarantine = read(csv_of(header, *lines, tmp_path=tmp_path))
    assert quarantine.is_empty()
    assert load.tasks["job_id"].to_list() == ["1000", "1001"]
    assert load.tasks["duration_s"].to_list() == [90_002, 600]
    assert load.tasks["requested_s"].to_list() == [90_000, 600]
    assert load.tasks["memory_mib"].to_list() == [16 * GIBIBYTE_MIB] * 2
    assert load.tasks["executable"].to_list() == [1, 2]


def test_names_may_have_other_signs_and_capitals(tmp_path):
    renamed = [name.replace("Raw", "_raw").replace("Alloc", "ALLOC ") for name in COLUMNS]
    load, _ = read(log(tmp_path, row("1"), header="|".join(renamed)))
    assert load.tasks.select("cores", "requested_s").row(0) == (8, 1200)


# Filters.


@pytest.mark.slow
def test_clusters_and_partitions_are_filters(tmp_path):
    rows = [row(str(n), Partition=name) for n, name in enumerate(("a", "b", "c", "a"))]
    path = log(tmp_path, *rows)
    for chosen, jobs in (("a", ["0", "3"]), (("b", "c"), ["1", "2"])):
        load, _ = read(path, SlurmSettings(partition=chosen))
        assert load.tasks["job_id"].to_list() == jobs
        assert load.provenance.left_out == {"a job of another partition": 4 - len(jobs)}
    with pytest.raises(TraceError, match="partition is 'd', which no row has; known: a, b, c"):
        read(path, SlurmSettings(partition=("a", "d")))
    with pytest.raises(TraceError, match="the log does not say the cluster of its jobs"):
        read(path, SlurmSettings(cluster="a"))


@pytest.mark.slow
def test_a_filter_may_be_a_list_on_the_command_line(tmp_path):
    path = log(tmp_path, *(row(str(n), Partition=name) for n, name in enumerate("abc")))
    words = ["ingest", "slurm", str(path), "--out", str(tmp_path / "w"), "--direct"]
    assert main([*words, "--set", 'partition=["a", "c"]', "--set", "tres.1001=gres/gpu"]) == 0
    assert load_workload(tmp_path / "w").tasks["job_id"].to_list() == ["0", "2"]


# Resources.


@pytest.mark.parametrize(
    ("lists", "gpus", "types"),
    [
        # What was asked for by name, of what was allocated.
        (("gres/gpu=4", "gres/gpu=4,gres/gpu:a100=4"), 4, (0, 0)),
        (("gres/gpu:a100=3", "gres/gpu=4,gres/gpu:a100=3,gres/gpu:v100=1"), 4, (3, 0)),
        (("cpu=4", "gres/gpu:a100=2,gres/gpu:v100=1"), 3, (2, 1)),
        (("cpu=4", "cpu=8"), 0, (0, 0)),
        (("", ""), None, (None, None)),
        # A list that names more GPUs than the job has.
        (("gres/gpu:a100=9", "gres/gpu=4"), 4, (0, 0)),
    ],
)
def test_gpus_are_counted_by_the_types_that_a_job_asked_for(lists, gpus, types, tmp_path):
    requested, allocated = lists
    other = row("2", ReqTRES="gres/gpu:a100=1,gres/gpu:v100=1", AllocTRES="gres/gpu=2")
    tasks = read(log(tmp_path, row("1", ReqTRES=requested, AllocTRES=allocated), other))[0].tasks
    assert tasks.select("gpus", "gpus:a100", "gpus:v100").row(0) == (gpus, *types)
    assert tasks.columns[-2:] == ["gpus:a100", "gpus:v100"]
    assert tasks.schema["gpus:a100"] == pl.Float64


@pytest.mark.parametrize(
    ("gres", "gpus", "a100"),
    [
        ("gpu:a100:2(S:0-1)", 2, 2), ("gpu:a100:2,gpu:v100:1", 3, 2), ("gpu:4", 4, 0), ("", 0, 0),
        ("gpu", 1, 0), ("gpu:a100,gpu:v100:2,craynetwork", 3, 1), ("gpu:a100(IDX:0)", 1, 1),
    ],
)  # fmt: skip
def test_older_logs_list_generic_resources(gres, gpus, a100, tmp_path):
    header = "JobID|State|Submit|Start|End|AllocCPUS|AllocGRES"
    line = f"COMPLETED|{FIRST}|{FIRST}|{FIRST + 5}|4"
    tasks = read(log(tmp_path, f"1|{line}|{gres}", f"2|{line}|gpu:a100:1", header=header))[0].tasks
    assert tasks.select("gpus", "gpus:a100").row(0) == (gpus, a100)


@pytest.mark.slow
def test_resources_by_number_take_the_names_that_are_set(tmp_path):
    tres = {"ReqTRES": "1=4,2=8192,4=2,1001=2,1002=2", "AllocTRES": "1=8,2=16384,4=2,1001=2"}
    path = log(tmp_path, row("1", ReqCPUS="", AllocCPUS="", ReqNodes="", ReqMem="", **tres))
    load, _ = read(path)
    task = load.tasks.row(0, named=True)
    assert (task["requested_cores"], task["allocated_cores"], task["nodes"]) == (4, 8, 2)
    assert (task["memory_kb"], task["memory_mib"]) == (1024**2, 16 * GIBIBYTE_MIB)
    assert "gpus" not in task
    (note,) = (note for note in load.provenance.notes if "generic resources" in note)
    assert note.startswith("caution: generic resources by number (1001) are in the lists")
    named = SlurmSettings(tres={"1001": "gres/gpu", "1002": "gres/gpu:a100"})
    load, _ = read(path, named)
    assert load.tasks.select("gpus", "gpus:a100").row(0) == (2, 2)
    assert not any("generic resources" in note for note in load.provenance.notes)


@pytest.mark.parametrize(
    ("values", "per_core_kb", "mib"),
    [
        ({"ReqMem": "2Gc"}, 1024**2, 16 * GIBIBYTE_MIB),  # allocated cores hold it
        ({"ReqMem": "3Gn", "ReqNodes": 2}, 6 * 1024**2 / 8, 6 * GIBIBYTE_MIB),
        ({"ReqMem": "64Mc"}, 4 * 64 * 1024 / 8, 512),
        ({"ReqMem": "1G", "AllocTRES": "mem=4G"}, 1024**2 / 8, 4 * GIBIBYTE_MIB),
        ({"ReqMem": "0n"}, None, None),  # all memory of the nodes
        ({"ReqMem": "0", "AllocTRES": "cpu=8,mem=64G"}, None, 64 * GIBIBYTE_MIB),
        ({"ReqMem": "500Mn", "ReqNodes": 1}, 500 * 1024 / 8, 500),
    ],
)
def test_memory_is_of_the_job_and_held(values, per_core_kb, mib, tmp_path):
    usual = {"ReqTRES": "cpu=4", "AllocTRES": "cpu=8"}
    other = row("2", AllocTRES="mem=1G")
    tasks = read(log(tmp_path, row("1", **{**usual, **values}), other))[0].tasks
    assert tasks.select("memory_kb", "memory_mib").row(0) == (per_core_kb, mib)


# States, limits and times as numbers.


@pytest.mark.parametrize(
    ("state", "status"),
    [("3", 1), ("4", 5), ("5", 0), ("6", 0), ("11", 0), ("3.0", 1), (str(0x2000 + 3), 1)],
)
def test_states_may_be_numbers_of_the_database(state, status, tmp_path):
    assert only(tmp_path, State=state)["status"] == status


@pytest.mark.slow
def test_states_of_jobs_that_did_not_end_may_be_numbers(tmp_path):
    rows = (row("1"), row("2", State=0), row("3", State=1), row("4", State=12))
    load, quarantine = read(log(tmp_path, *rows))
    assert load.tasks.height == 1
    assert sum(load.provenance.left_out.values()) == 3
    assert quarantine["reason"].to_list() == [
        "State is '12', expected a state of Slurm such as COMPLETED"
    ]


def test_numbers_of_the_database_for_no_value_are_no_values(tmp_path):
    """4294967295 is no limit, 4294967294 is not set."""
    load, _ = read(
        log(tmp_path, row("1", TimelimitRaw=100), row("2", TimelimitRaw=2**32 - 1),
            row("3", TimelimitRaw=2**32 - 2, ReqNodes=2**32 - 2, Eligible=2**32 - 2),
            row("4", State=4, Start=2**32 - 1, ElapsedRaw=0))
    )  # fmt: skip
    assert load.tasks["requested_s"].to_list() == [6000] * 3
    assert load.tasks["eligible_s"].to_list() == [0, 0, None]
    assert load.provenance.left_out == {"ended before it ran": 1}


def test_the_job_table_of_the_database_is_read(tmp_path):
    header = (
        "job_db_inx,id_job,id_user,account,partition,id_qos,state,time_submit,time_eligible,"
        "time_start,time_end,timelimit,cpus_req,mem_req,nodes_alloc,tres_alloc,tres_req"
    )
    line = (
        f"9,77,1000,physics,cpu,1,3,{FIRST},{FIRST},{FIRST + 60},{FIRST + 660},20,4,"
        f'{2**63 + 2048},1,"1=8,2=32768,4=1",\\N'
    )
    other = f"10,78,1000,physics,cpu,1,3,{FIRST},{FIRST},{FIRST},{FIRST + 9},4294967295,4,100,1,,"
    task, without = read(csv_of(header, line, other, tmp_path=tmp_path))[0].tasks.rows(named=True)
    assert (task["job_id"], task["requested_s"], task["cores"]) == ("77", 1200, 8)
    assert (task["memory_kb"], task["memory_mib"]) == (1024**2, 32 * GIBIBYTE_MIB)
    assert (without["requested_s"], without["memory_mib"]) == (1200, 100)


# Repeated hours: clocks of Berlin go back from 03:00 to 02:00 on 27 October 2024.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("submit", "start", "end", "elapsed", "wait_s", "run_s"),
    [
        ("01:30", "02:50", "02:10", "", 4800, 1200),
        ("02:58", "02:02", "02:40", "", 240, 2280),
        ("02:10", "02:20", "02:30", "", 600, 600),  # all before the change, as well as after it
        ("01:00", "02:50", "03:10", 1200, 10_200, 1200),  # the run time tells
        ("02:50", "02:10", "04:00", 6600, 1200, 6600),
        ("02:30", "01:00", "04:00", "", None, 14_400),  # no meaning is in order
    ],
)
def test_repeated_times_are_in_order_and_fit_the_run(
    submit, start, end, elapsed, wait_s, run_s, tmp_path
):
    day = "2024-10-27T{}:00"
    times = {"Submit": day.format(submit), "Start": day.format(start), "End": day.format(end)}
    path = log(tmp_path, row("1", Eligible="", ElapsedRaw=elapsed, **times))
    load, quarantine = read(path, SlurmSettings(time_zone="Europe/Berlin"))
    assert quarantine.is_empty()
    assert load.tasks.select("wait_s", "duration_s").row(0) == (wait_s, run_s)


@pytest.mark.slow
def test_times_with_and_without_an_offset_are_told_apart(tmp_path):
    zoned = {name: f"2024-10-27T02:30:00+0{hours}:00" for name, hours in
             (("Submit", 2), ("Eligible", 2), ("Start", 1), ("End", 1))}  # fmt: skip
    load, _ = read(log(tmp_path, row("1", **zoned)), SlurmSettings(time_zone="Europe/Berlin"))
    assert load.tasks["wait_s"].to_list() == [3600]
    note = "times without an offset from UTC are read as UTC"
    local = dict.fromkeys(("Submit", "Eligible", "Start", "End"), "2024-03-01T08:00:00")
    mixed, _ = read(log(tmp_path, row("1", **zoned), row("2", **local)))
    assert any(note in each for each in mixed.provenance.notes)


# Numbers that Slurm used again.


def test_a_number_that_is_used_again_is_another_job(tmp_path):
    """A run that was interrupted is run again at once; months later the number is a new one."""
    later = FIRST + 90 * 86_400
    load, quarantine = read(
        log(
            tmp_path,
            row("1", State="NODE_FAIL"),
            row("1", Submit=later, Start=later, End=later + 600),
            row("2", State="PREEMPTED"),
            row("2", Submit=FIRST + 700, Start=FIRST + 800),
            row("3", Start=later),
            row("3", Submit=later, Start=later),
        )
    )
    assert sorted(load.tasks["job_id"]) == ["1", "1#2", "2", "3", "3#2"]
    assert load.provenance.left_out == {"an earlier run of a job that ran again": 1}
    assert quarantine.is_empty()


# Free text.

NAMED = ("JobID", "JobName", *COLUMNS[1:], "Comment")


def named(job, name, comment="", **values):
    """Return a row with a job name and a comment."""
    number, rest = row(job, **values).split("|", 1)
    return f"{number}|{name}|{rest}|{comment}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a|b", "|||", "two\nlines", "a\n\nb\nc|d", "x|1\n|y", "7|8|9"])
@pytest.mark.parametrize("comment", ["", "c|d"])
def test_free_text_may_hold_separators_and_line_breaks(name, comment, tmp_path):
    rows = (named("1", "plain"), named("2", name, comment), named("3", "plain"))
    load, quarantine = read(log(tmp_path, *rows, header="|".join(NAMED)))
    assert load.tasks["job_id"].to_list() == ["1", "2", "3"]
    assert load.tasks["user"].to_list() == [1, 1, 1]
    assert load.tasks["executable"].to_list() == [1, 2, 1]
    assert quarantine.is_empty()
    assert load.provenance.counts["rows_read"] == 3


def test_free_text_at_the_end_of_a_row_may_go_on(tmp_path):
    """The row is whole without it."""
    rows = (named("1", "a", "first\nsecond\nthird | line"), named("2", "b"))
    load, quarantine = read(log(tmp_path, *rows, header="|".join(NAMED)))
    assert (load.tasks.height, quarantine.height, load.provenance.counts["rows_read"]) == (2, 0, 2)


@pytest.mark.slow
def test_a_damaged_row_is_not_joined_with_the_next(tmp_path):
    """A row that ends before its state does not take the next row with it."""
    rows = (named("1", "a|b"), named("2", "name")[:12], named("3", "a|b"), "sacct: error: x")
    header = "|".join(NAMED)
    load, quarantine = read(log(tmp_path, *rows, header, named("4", "c|d"), header=header))
    assert load.tasks["job_id"].to_list() == ["1", "3", "4"]
    assert load.provenance.left_out == {"the header again": 1, "quarantined": 1}
    assert quarantine["line"].to_list() == [3]


@pytest.mark.slow
def test_surplus_separators_belong_to_free_text_alone(tmp_path):
    """A separator behind the state cannot come from the job name before it."""
    names = (*NAMED[:2], *COLUMNS[1:])
    rows = [named("1", "a|b"), named("2", "a", AllocTRES="cpu=8|mem=4G"), named("3", "a")[:30]]
    path = log(tmp_path, *(text.removesuffix("|") for text in rows), header="|".join(names))
    load, quarantine = read(path)
    assert load.tasks["job_id"].to_list() == ["1"]
    assert quarantine.select("line", "reason").rows() == [
        (3, "20 columns, expected 19"),
        (4, "7 columns, expected 19"),
    ]
