"""Mappings that `init` proposes for tables of sites and data sets, and jobs read by them."""

import shlex
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import table
from hindcast.pipeline.traces.tables.draft import Proposal
from hindcast.pipeline.traces.tables.proposal import propose
from hindcast.pipeline.traces.tables.toml import toml_of
from tests.pipeline.traces.dialects import FIRST, clock


def made(rows: int = 120, seed: int = 0) -> pl.DataFrame:
    """Return jobs with seconds since 1970, limits in s that most jobs keep, and memory in MB."""
    rng = np.random.default_rng(seed)
    submit = FIRST + np.cumsum(rng.integers(30, 900, rows))
    wait = rng.choice([0, 5, 400, 4000], rows) + rng.integers(0, 60, rows)
    limit = rng.choice([1800, 3600, 7200, 14_400], rows)
    run = np.minimum(rng.integers(40, 9000, rows), limit)
    cores = rng.choice([1, 2, 8, 16], rows)
    return pl.DataFrame({
        "job": np.arange(rows) + 1000, "user": [f"u{k % 7}" for k in range(rows)],
        "submit": submit, "start": submit + wait, "end": submit + wait + run, "run": run,
        "limit": limit, "cores": cores, "memory": cores * 2048,
        "state": rng.choice(["COMPLETED", "FAILED", "CANCELLED by 12", "TIMEOUT"], rows),
    })  # fmt: skip


def dates(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(
        pl.from_epoch(name).dt.strftime("%Y-%m-%d %H:%M:%S") for name in ("submit", "start", "end")
    )


def read(path: Path, found: Proposal | None = None) -> pl.DataFrame:
    """Return the tasks of a table by the mapping that is proposed for it."""
    mapping = path.with_suffix(".toml")
    mapping.write_text(toml_of(found or propose(path), path.name))
    return table.read(mapping)[0].tasks


def same_jobs(tasks: pl.DataFrame, frame: pl.DataFrame, *, limits: bool = True) -> None:
    """Check that tasks are the jobs of `made`, in order of submission."""
    assert tasks.height == frame.height
    assert tasks["duration_s"].to_list() == frame["run"].to_list()
    assert tasks["wait_s"].to_list() == (frame["start"] - frame["submit"]).to_list()
    assert tasks["cores"].to_list() == frame["cores"].to_list()
    if limits:
        assert tasks["requested_s"].to_list() == frame["limit"].to_list()


def test_the_next_command_can_be_given_as_it_is_printed(tmp_path, capsys):
    folder = tmp_path / "two words"
    folder.mkdir()
    made().write_csv(folder / "jobs.csv")
    assert main(["init", str(folder / "jobs.csv")]) == 0
    command = capsys.readouterr().out.splitlines()[-1]
    given = ["hindcast", "ingest", "table", str(folder / "jobs.toml"), "--out", "workload"]
    assert shlex.split(command) == given


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ({"COMPLETED": 3, "FAILED": 11, "CANCELLED by 12": 4, "TIMEOUT": 6}, None),
        ({"COMPLETED": 1, "FAILED": 0, "CANCELLED by 12": 5, "TIMEOUT": 0}, "SWF"),
        ({"COMPLETED": 3, "FAILED": 5, "CANCELLED by 12": 4, "TIMEOUT": 5}, "Slurm"),
        ({"COMPLETED": 32771, "FAILED": 7, "CANCELLED by 12": 4, "TIMEOUT": 10}, "Slurm"),
    ],
)
def test_states_by_number(states, status, tmp_path):
    frame = made()
    expected = {"COMPLETED": 1, "FAILED": 0, "CANCELLED by 12": 5, "TIMEOUT": 0}
    numbered = frame.with_columns(pl.col("state").replace_strict(states))
    numbered.write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert not status or any(status in text for text in found.unsure)
    tasks = read(tmp_path / "t.csv", found)
    assert tasks["status"].to_list() == [expected[state] for state in frame["state"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values", "status"),
    [
        ("success", {True: "True", False: "False"}, (1, 0)),
        ("exit_code", {True: 0, False: 137}, (1, 0)),
    ],
)
def test_flags_and_exit_codes_are_states(name, values, status, tmp_path):
    frame = made()
    good = frame["state"] == "COMPLETED"
    flags = pl.Series(name, [values[bool(flag)] for flag in good])
    frame.drop("state").with_columns(flags).write_csv(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv")["status"].to_list() == [status[0 if g else 1] for g in good]


def pandas_span(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    return f"{days} days {timedelta(seconds=rest)!s:0>8}"


FORMS = {
    "min": lambda s: s / 60, "h": lambda s: s / 3600, "ms": lambda s: s * 1000,
    "us": lambda s: s * 1_000_000, "s": lambda s: s, "pandas": pandas_span, "slurm": clock,
    "iso": lambda s: f"PT{s // 3600}H{s % 3600 // 60}M{s % 60}S",
    "python": lambda s: str(timedelta(0, s)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["timelimit", "walltime", "Resource_List.walltime"])
def test_units_of_limits_follow_from_run_times(form, name, tmp_path):
    frame = made()
    limits = pl.Series(name, [FORMS[form](int(limit)) for limit in frame["limit"]])
    dates(frame).drop("limit", "run").with_columns(limits).write_csv(tmp_path / "t.csv")
    tasks = read(tmp_path / "t.csv")
    assert tasks["requested_s"].to_list() == pytest.approx(frame["limit"].to_list())


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["elapsed", "ElapsedRaw", "execution_time", "runtime_s"])
def test_units_of_run_times_follow_from_starts_and_ends(form, name, tmp_path):
    frame = made()
    runs = pl.Series(name, [FORMS[form](int(run)) for run in frame["run"]])
    dates(frame).drop("run").with_columns(runs).write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert found.columns["duration"] == name
    tasks = read(tmp_path / "t.csv", found)
    assert tasks["duration_s"].to_list() == pytest.approx(frame["run"].to_list())


def test_times_without_an_origin_have_the_unit_in_which_runs_fit(tmp_path):
    frame = made().with_columns(pl.col("submit", "start", "end") - FIRST)
    spans = pl.Series("elapsed", [clock(int(run)) for run in frame["run"]])
    in_ms = frame.with_columns(pl.col("submit", "start", "end") * 1000)
    in_ms.drop("run").with_columns(spans).write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert {found.units[name] for name in ("submit", "start", "end")} == {"ms"}
    same_jobs(read(tmp_path / "t.csv", found), frame)


def test_runs_longer_than_the_log_are_in_a_smaller_unit(tmp_path):
    frame = made().with_columns(pl.col("run") * 1000)
    frame.select("submit", "run", "cores").write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert found.units["duration"] == "ms"
    assert any("in s most runs would be longer than the log" in text for text in found.unsure)


@pytest.mark.slow
def test_a_run_time_that_exceeds_ends_is_a_limit_and_a_limit_that_does_not_is_a_run(tmp_path):
    frame = dates(made()).rename({"limit": "wallclock"}).drop("run")
    frame.write_csv(tmp_path / "a.csv")
    same_jobs(read(tmp_path / "a.csv"), made())
    frame = dates(made()).drop("limit").rename({"run": "walltime"})
    frame.write_csv(tmp_path / "b.csv")
    found = propose(tmp_path / "b.csv")
    assert found.columns["duration"] == "walltime"
    assert "time_limit" not in found.columns


def test_a_duration_since_the_submission_is_not_read(tmp_path):
    frame = made().with_columns(run=pl.col("end") - pl.col("submit"))
    frame.rename({"run": "duration"}).write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert "duration: 'duration' is end - submit, and is not read" in found.unsure
    same_jobs(read(tmp_path / "t.csv", found), made())


NAMES = {
    "slurmdb": ("id_job", "id_user", "time_submit", "time_start", "time_end", "cpus_req"),
    "results": ("job_id", "usr", "submission_time", "starting_time", "finish_time", "num_cores"),
    "simulated": ("sim_job_id", "sim_user", "sim_submit_time", "sim_start_time", "sim_end_time",
                  "num_cores_alloc"),
    "pods": ("pod", "namespace", "creation_time", "scheduled_time", "deletion_time", "cpu_num"),
    "camels": ("JobID", "User", "SubmitTime", "StartTime", "EndTime", "AllocCPUS"),
    "words": ("Job Number", "User Name", "Submission-Date", "Start Date", "End Date", "nProcs"),
    "facility": ("COBALT_JOBID", "USERNAME_GENID", "QUEUED_TIMESTAMP", "START_TIMESTAMP",
                 "END_TIMESTAMP", "CORES_USED"),
    "fresco": ("jid", "username", "submit_time", "start_time", "end_time", "ncores"),
    "joblog": ("JOB_ID", "LOGIN_NAME", "QUEUE_DATE", "START_DATE", "END_DATE", "PROCS"),
    "used": ("job_id", "user", "submit_time", "start_time", "end_time", "processors_used"),
    "units": ("jobid", "uid", "submit_ts", "start_epoch", "end_timestamp", "ncpus"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("names", NAMES)
def test_names_of_real_tables_are_found(names, tmp_path):
    ours = ("job", "user", "submit", "start", "end", "cores")
    frame = made().rename(dict(zip(ours, NAMES[names], strict=True)))
    frame.drop("run").write_csv(tmp_path / "t.csv")
    same_jobs(read(tmp_path / "t.csv"), made())


@pytest.mark.slow
def test_the_next_column_is_tried_where_the_first_cannot_be_read(tmp_path):
    frame = made().with_columns(cpus=pl.lit("many"), queue_time=pl.col("start") - pl.col("submit"))
    frame = frame.rename({"submit": "timestamp"}).select("queue_time", "cpus", pl.all().exclude(
        "queue_time", "cpus"))  # fmt: skip
    frame.write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert (found.columns["submit"], found.columns["cores"]) == ("timestamp", "cores")
    assert any("'queue_time' looks like submit" in text for text in found.unsure)
    same_jobs(read(tmp_path / "t.csv", found), made())


@pytest.mark.parametrize("name", ["queue", "partition"])
@pytest.mark.parametrize("form", ["s", "slurm"])
def test_what_equals_start_less_submission_is_no_name(name, form, tmp_path):
    frame = made(600)
    waits = [FORMS[form](int(wait)) for wait in frame["start"] - frame["submit"]]
    frame.with_columns(pl.Series(name, waits)).write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert not {"queue", "partition"} & found.columns.keys()
    assert any("equals start - submit: the time that a job waited" in text for text in found.unsure)


@pytest.mark.parametrize("repeated", [False, True])
def test_a_name_that_repeats_is_that_of_a_program(repeated, tmp_path):
    names = pl.Series("name", [f"n{k % 9 if repeated else k}" for k in range(120)])
    made().drop("job").with_columns(names).write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert found.columns.get("executable" if repeated else "job_id") == "name"


def test_nodes_are_never_silently_processors(tmp_path):
    frame = made().rename({"cores": "node_count", "limit": "wallclock_limit", "job": "job_ID"})
    frame.drop("run").write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert found.columns["time_limit"] == "wallclock_limit"
    assert not {"cores", "requested_cores"} & found.columns.keys()
    assert any('write cores = "node_count" into [columns]' in text for text in found.unsure)


@pytest.mark.slow
def test_fields_inside_a_list_of_resources_are_read(tmp_path):
    frame = made()
    gpus = [k % 3 for k in range(120)]
    held = [f",gres/gpu={g},gres/gpu:a100={g}" if g else "" for g in gpus]
    tres = [
        f"billing={c},cpu={c},mem={c * 2}G,node=1{g}"
        for c, g in zip(frame["cores"], held, strict=True)
    ]
    numbers = [
        f"1={c},2={c * 2048},4=1" + (f",1001={g}" if g else "")
        for c, g in zip(frame["cores"], gpus, strict=True)
    ]
    for name, values in (("AllocTRES", tres), ("tres_alloc", numbers)):
        listed = frame.drop("cores", "memory").with_columns(pl.Series(name, values))
        listed.write_csv(tmp_path / f"{name}.csv")
        tasks = read(tmp_path / f"{name}.csv")
        same_jobs(tasks, frame)
        assert tasks["gpus"].to_list() == gpus
        assert tasks["memory_mib"].to_list() == frame["memory"].to_list()
    assert read(tmp_path / "AllocTRES.csv")["gpus:a100"].to_list() == gpus


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "factor", "of"),
    [("memory_mib", 1, "job"), ("req_mem", 1, "job"), ("mem_gb", 1 / 1024, "job"),
     ("mem_per_cpu", 1, "core"), ("mem_req", 1024 * 1024, "job"), ("ram", 1 / 1024, "job")],
)  # fmt: skip
def test_units_of_memory_are_those_of_a_usual_machine(name, factor, of, tmp_path):
    frame = made()
    amounts = frame["memory"] * factor / (frame["cores"] if of == "core" else 1)
    frame.drop("memory").with_columns(amounts.alias(name)).write_csv(tmp_path / "t.csv")
    found = propose(tmp_path / "t.csv")
    assert found.memory_of == of
    tasks = read(tmp_path / "t.csv", found)
    assert tasks["memory_mib"].to_list() == pytest.approx(frame["memory"].to_list())


def test_a_header_among_the_rows_makes_no_time_local(tmp_path, capsys):
    frame = dates(made().drop("state", "memory"))
    frame = frame.with_columns(pl.col("submit", "start", "end") + "Z")
    header, *rows = frame.write_csv().splitlines()
    for zone in ("Z", ""):
        text = "\n".join([*rows[:40], header, *rows[40:]]).replace("Z,", f"{zone},")
        (tmp_path / "t.csv").write_text(text)
        assert (
            main(["init", str(tmp_path / "t.csv"), "--out", str(tmp_path / f"t{zone}.toml")]) == 0
        )
        assert ("times have no offset" in capsys.readouterr().out) == (not zone)


def test_a_table_without_header_is_proposed_by_its_times(tmp_path, capsys):
    frame = made().select("job", "user", "start", "submit", "end", "cores")
    frame.write_csv(tmp_path / "t.csv", include_header=False)
    assert main(["init", str(tmp_path / "t.csv")]) == 0
    printed = capsys.readouterr().out
    assert "the table has no header: `names` is to be filled in" in printed
    text = (tmp_path / "t.toml").read_text()
    assert 'names = ["column_1", "column_2", ' in text
    named = text.replace("[columns]", '[columns]\njob_id = "column_1"\ncores = "column_6"')
    (tmp_path / "t.toml").write_text(named)
    tasks = table.read(tmp_path / "t.toml")[0].tasks
    same_jobs(tasks, made(), limits=False)
    assert tasks["job_id"].to_list() == [str(job) for job in frame["job"]]


def test_a_start_is_the_end_less_the_run_time(tmp_path):
    made().drop("start").write_csv(tmp_path / "t.csv")
    same_jobs(read(tmp_path / "t.csv"), made())


@pytest.mark.parametrize(
    ("limits", "unit"), [((600, 1200, 3600), "s"), ((10, 30, 1440), "min"), ((45, 90, 720), "min")]
)
def test_limits_of_short_runs_are_told_by_their_sizes(limits, unit, tmp_path):
    """Nobody asks for less than a minute."""
    frame = made().with_columns(limit=pl.Series([limits[k % 3] for k in range(120)]))
    frame = frame.with_columns(run=pl.lit(7), end=pl.col("start") + 7)
    frame.write_csv(tmp_path / "t.csv")
    assert propose(tmp_path / "t.csv").units["time_limit"] == unit


@pytest.mark.slow
def test_a_list_of_json_objects_is_a_table(tmp_path):
    frame = made().rename({"cores": "cpus"})
    (tmp_path / "lines.json").write_text(frame.write_ndjson())
    (tmp_path / "list.json").write_text(f'{{"meta": 1, "jobs": {frame.write_json()}}}')
    for name in ("lines.json", "list.json"):
        same_jobs(read(tmp_path / name), made())


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [3, pytest.param(2000, marks=pytest.mark.nightly)], ids=["few", "many"]
)
def test_damaged_tables_give_a_proposal_or_a_message(count, tmp_path):
    """Every row that is read is a job, quarantined, or left out for a reason."""
    rng = np.random.default_rng(5)
    sound = dates(made(30)).write_csv().encode()
    messages = []
    parts = (b",", b"\n", b'"', b"|", b"\0", b"\xff", b"1e400", b"nan", b"4294967295", b"[", b"=")
    for _ in range(count):
        content = bytearray(sound)
        for _ in range(rng.integers(1, 9)):
            at = int(rng.integers(len(content)))
            kind = rng.integers(3)
            if kind == 0:
                content[at:at] = parts[rng.integers(len(parts))]
            elif kind == 1:
                del content[at : at + int(rng.integers(1, 40))]
            else:
                content[at:at] = content[: int(rng.integers(1, 60))]
        path = tmp_path / "t.csv"
        path.write_bytes(bytes(content))
        try:
            path.with_suffix(".toml").write_text(toml_of(propose(path), path.name))
            provenance = table.read(path.with_suffix(".toml"))[0].provenance
        except TraceError as error:
            messages.append(str(error))
            continue
        counts = provenance.counts
        assert counts["rows_read"] == counts["tasks"] + sum(provenance.left_out.values())
    assert all(str(tmp_path) in message for message in messages)
