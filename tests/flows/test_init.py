"""Tests of `hindcast init`: what it proposes for a table, and what it is unsure of."""

import re
import tomllib

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import trace_path
from hindcast.pipeline.traces import slurm, table
from hindcast.pipeline.traces.tables.proposal import propose
from hindcast.pipeline.traces.tables.toml import toml_of
from tests import made_logs
from tests.conftest import require_traces

CSV = """JobNr;Submitted;StartTime;End;Runtime_min;CPUs;Mem [GB];Status;Remark
7;01/02/2024 08:00:00;01/02/2024 08:10:00;01/02/2024 09:10:00;60;4;8;Finished;
8;13/02/2024 08:00:00;13/02/2024 08:10:00;13/02/2024 08:40:00;30;2;;timeout;"a; b"
9;13/02/2024 09:00:00;;;;2;1;queued;
10;13/02/2024 09:00:00;13/02/2024 09:00:00;13/02/2024 10:00:00;60;2;1;gremlins;
"""


@pytest.mark.slow
def test_the_proposal_can_be_ingested_as_it_is(tmp_path, capsys):
    path = tmp_path / "jobs.csv"
    path.write_text(CSV)
    assert main(["init", str(path)]) == 0
    printed = capsys.readouterr().out
    mapping = tomllib.loads((tmp_path / "jobs.toml").read_text())
    assert mapping["columns"] == {
        "job_id": "JobNr", "submit": "Submitted", "start": "StartTime", "end": "End",
        "duration": "Runtime_min", "cores": "CPUs", "memory": "Mem [GB]", "state": "Status",
    }  # fmt: skip
    time = "%d/%m/%Y %H:%M:%S"
    assert mapping["units"] == {
        "submit": time, "start": time, "end": time, "duration": "min", "memory": "GB"}  # fmt: skip
    assert mapping["states"] == {
        "completed": ["Finished"], "failed": ["timeout"], "waiting": ["queued"]}  # fmt: skip
    assert mapping["separator"] == ";"
    assert "'gremlins' is not known" in printed
    assert "not read         Remark" in printed
    command = printed.splitlines()[-1].split()
    assert command[:3] == ["hindcast", "ingest", "table"]
    assert main([*command[1:-1], str(tmp_path / "workload"), "--direct"]) == 0
    tasks = pl.read_parquet(tmp_path / "workload" / "tasks.parquet")
    assert tasks.select("job_id", "duration_s", "cores", "wait_s").rows() == [
        ("7", 3600, 4, 600), ("8", 1800, 2, 600)]  # fmt: skip


@pytest.mark.slow
def test_a_file_is_never_overwritten(tmp_path, capsys):
    (tmp_path / "jobs.csv").write_text(CSV)
    (tmp_path / "jobs.toml").write_text("mine")
    assert main(["init", str(tmp_path / "jobs.csv")]) == 2
    assert "is not overwritten; choose another --out" in capsys.readouterr().err
    assert (tmp_path / "jobs.toml").read_text() == "mine"
    elsewhere = tmp_path / "other" / "m.toml"
    elsewhere.parent.mkdir()
    assert main(["init", str(tmp_path / "jobs.csv"), "--out", str(elsewhere)]) == 0
    assert table.read(elsewhere)[0].tasks.height == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("JobID|State|Submit\n1|COMPLETED|5\n", "hindcast ingest slurm"),
        ("; MaxProcs: 5\n", "hindcast ingest swf"),
        ("04/01/2024 00:00:12;E;1.s;user=a\n", "hindcast ingest pbs"),
        ("a line of prose\n", "line 1 has one name"),
        ('{"now": 5, "processors": 8}\n', "this is JSON, expected a table of jobs"),
        ('[{"id": "A"}]\n', "this is JSON, expected a table of jobs"),
        ("a,b\n1,2\n", "cores, which are needed; the columns are a, b"),
        ("", "this file is empty"),
    ],
)
def test_what_is_no_table_is_refused_with_the_command_for_it(content, message, tmp_path, capsys):
    path = tmp_path / "jobs.txt"
    path.write_text(content)
    assert main(["init", str(path)]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_settings_of_a_table_are_keys_of_its_mapping(tmp_path, capsys):
    path = tmp_path / "jobs.toml"
    path.touch()
    given = ("--set", "processors=10", "--set", "time_zone=Europe/Berlin")
    assert main(["ingest", "table", str(path), "--out", str(tmp_path / "w"), *given]) == 2
    keys = 'write processors = 10, time_zone = "Europe/Berlin" into'
    assert f"the format table has no settings; {keys} {path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "way"),
    [
        ("partition", "`hindcast whatif --where partition=NAME` plays one"),
        ("cluster", "give the rows of one cluster as a table of their own"),
        ("procesors", "did you mean 'processors'"),
    ],
)
def test_what_is_no_key_of_a_mapping_is_not_to_be_written_into_one(key, way, tmp_path, capsys):
    path = tmp_path / "jobs.toml"
    path.touch()
    given = ["ingest", "table", str(path), "--out", str(tmp_path / "w")]
    assert main([*given, "--set", f"{key}=10"]) == 2
    assert f"its mapping no key {key!r}; {way}" in capsys.readouterr().err


def test_a_missing_table_and_a_folder_of_hindcast_are_refused(tmp_path, capsys):
    assert main(["init", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "manifest.json").write_text("{}")
    assert main(["init", str(tmp_path)]) == 2
    assert "expected a table of jobs" in capsys.readouterr().err


def test_names_that_the_values_belie_are_not_proposed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("start,submit,elapsed,cores,state\nx,5,1:00,2,0\ny,6,2:00,2,1\nz,7,3:00,2,5\n")
    found = propose(path)
    assert found.columns == {
        "submit": "submit", "duration": "elapsed", "cores": "cores", "state": "state"}  # fmt: skip
    assert found.states == {"failed": ["0"], "completed": ["1"], "cancelled": ["5"]}
    told = "\n".join(found.unsure)
    for words in ("'start' looks like start by its name", "unknown unit, taken as s", "SWF logs",
                  "no time_limit", "no job_id"):  # fmt: skip
        assert words in told


def test_a_table_without_a_needed_column_says_which(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    found = propose(path)
    assert "no column was found for submit, which is needed; the columns are a, b" in found.unsure
    (tmp_path / "t.toml").write_text(toml_of(found, "t.csv"))
    with pytest.raises(TraceError, match=r"columns\.submit is missing"):
        table.read(tmp_path / "t.toml")


def test_parquet_is_proposed_by_its_types(tmp_path):
    frame = pl.DataFrame({"submit_time": [1709280000123, 1709280001123], "run_time_s": [5.5, 6.5],
                          "ncpus": [1, 2], "tags": [["x"], ["y"]]})  # fmt: skip
    frame.write_parquet(tmp_path / "jobs.parquet")
    found = propose(tmp_path / "jobs.parquet")
    assert found.columns == {"submit": "submit_time", "duration": "run_time_s", "cores": "ncpus"}
    assert found.units == {"submit": "ms", "duration": "s"}
    (tmp_path / "m.toml").write_text(toml_of(found, "jobs.parquet"))
    assert table.read(tmp_path / "m.toml")[0].tasks["submit_s"].to_list() == [0.123, 1.123]


@pytest.mark.slow
def test_the_proposal_for_the_sample_of_eagle_gives_what_the_slurm_reader_gives(tmp_path):
    path = require_traces("slurm/eagle_sample.csv")
    (tmp_path / "m.toml").write_text(toml_of(propose(path), str(path)))
    found = table.read(tmp_path / "m.toml")[0].tasks.drop("gpus")  # of its column gpus_req
    assert found.equals(slurm.read(path)[0].tasks)


@pytest.mark.slow
def test_a_workload_becomes_a_recipe_beside_it(tmp_path, capsys):
    (tmp_path / "jobs.txt").write_text(made_logs.sacct(1200, np.random.default_rng(0)))
    out = str(tmp_path / "jobs")
    assert main(["ingest", "slurm", str(tmp_path / "jobs.txt"), "--out", out, "--direct",
                 "--set", "processors=128", "--set", "time_zone=Europe/Berlin"]) == 0  # fmt: skip
    capsys.readouterr()
    assert main(["init", out]) == 0
    printed = capsys.readouterr()
    recipe = load_recipe(tmp_path / "jobs.toml")
    assert (recipe.id, recipe.scenario) == ("jobs-queue", "queue")
    assert recipe.config.warm
    first = int((tmp_path / "jobs.txt").read_text().splitlines()[1].split("|")[6])
    after = first - int(made_logs.START.timestamp())  # Monday, 06:00 UTC, 07:00 in Berlin
    assert recipe.config.clock_s == 7 * 3600 + after
    assert trace_path(recipe) == tmp_path / "jobs"
    for row in ("train  ", "validation  ", "test  "):
        assert row in printed.out
    assert "deferrable  suits as well (--scenario deferrable)" in printed.out
    assert "left out by ingest, ended before it ran: 12 rows" in printed.out
    assert "warning: the test has" in printed.err
    assert printed.out.splitlines()[-1].split() == [
        "hindcast", "run", str(tmp_path / "jobs.toml"), "--out", "run"]  # fmt: skip
    counted = re.search(r"used: ([\d,]+) of ([\d,]+) tasks", printed.out)
    used, tasks = (int(number.replace(",", "")) for number in counted.groups())
    cut = re.findall(r"left out, .*: ([\d,]+) tasks", printed.out)
    assert used + sum(int(number.replace(",", "")) for number in cut) == tasks
    assert main(["init", out]) == 2
    assert "is not overwritten" in capsys.readouterr().err
    there = str(tmp_path / "elsewhere" / "d.toml")
    (tmp_path / "elsewhere").mkdir()
    assert main(["init", out, "--scenario", "deferrable", "--out", there]) == 0
    elsewhere = load_recipe(there)
    assert (elsewhere.scenario, trace_path(elsewhere)) == ("deferrable", tmp_path / "jobs")
    capsys.readouterr()


@pytest.mark.slow
def test_pods_are_ingested_and_become_recipes_of_binpack_and_deferrable(tmp_path, capsys):
    """500m is half a core, 128Mi is 131,072 KB, and 1500M are as many MiB."""
    (tmp_path / "pods.csv").write_text(made_logs.pods(800, np.random.default_rng(1)))
    assert main(["init", str(tmp_path / "pods.csv")]) == 0
    assert "is 'memory' that of the job" in capsys.readouterr().out
    out = str(tmp_path / "pods")
    assert main(["ingest", "table", str(tmp_path / "pods.toml"), "--out", out, "--direct"]) == 0
    tasks = pl.read_parquet(tmp_path / "pods" / "tasks.parquet")
    raw = pl.read_csv(tmp_path / "pods.csv").filter(pl.col("phase") != "Running")
    cores = {"250m": 0.25, "500m": 0.5, "1": 1.0, "1500m": 1.5, "2": 2.0, "4": 4.0}
    sizes = {"128Mi": 128, "512Mi": 512, "1Gi": 1024, "2Gi": 2048, "6Gi": 6144, "1500M": 1500}
    asked = dict(zip(raw["pod"], zip(raw["cpu"], raw["memory"], strict=True), strict=True))
    largest = tasks["memory"].max()
    most = max(sizes[memory] for _, memory in asked.values())
    assert tasks.height == 799
    for pod, cpu, share in tasks.select("job_id", "cores", "memory").rows():
        assert cpu == cores[asked[pod][0]]
        assert share / largest == pytest.approx(sizes[asked[pod][1]] / most)
    for scenario in ("binpack", "deferrable"):
        recipe = str(tmp_path / f"{scenario}.toml")
        assert main(["init", out, "--scenario", scenario, "--out", recipe]) == 0
        first = load_recipe(recipe).windows("test")[0]
        scores = tmp_path / f"{scenario}-scores"
        assert main(["evaluate", recipe, "--policy", "random", "--direct",
                     "--out", str(scores), "--set", f'split.test="{first}..{first + 1}"',
                     "--set", "evaluate.references=[]",
                     "--set", "evaluate.seeds=1"]) == 0  # fmt: skip
        assert (scores / "evaluation.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--scenario", "slots"], "unknown scenario for a log 'slots'"),
        (["--time-zone", "Europe/Atlantis"], "there is no such time zone"),
    ],
)
def test_options_that_a_workload_cannot_have_are_refused(given, message, tmp_path, capsys):
    (tmp_path / "pods.csv").write_text(made_logs.pods(300, np.random.default_rng(1)))
    table = str(tmp_path / "pods.csv")
    assert main(["init", table]) == 0
    out = str(tmp_path / "pods")
    assert main(["ingest", "table", str(tmp_path / "pods.toml"), "--out", out, "--direct"]) == 0
    assert main(["init", out, *given, "--out", str(tmp_path / "r.toml")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r.toml").exists()
    assert main(["init", table, *given, "--out", str(tmp_path / "r.toml")]) == 2
    assert f"{given[0]} is for a workload" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "times", "unit", "doubt"),
    [
        ("submit_ms", [1_000_000_000, 1_200_000_000], "ms", ""),  # since the log began
        ("submit_us", [10**12, 2 * 10**12], "us", ""),
        ("submit_ms", [1709280000123, 1709280001123], "ms", ""),
        ("submit_s", [5, 6], "s", ""),
        ("submit_s", [1709280000, 1709280001], None, ""),
        ("submit_s", [1709280000123, 1709280001123], "ms", "is named s, but looks like ms"),
        ("submit", [1709280000, 1709280001], None, ""),
        ("submit", [5, 6], "s", "counts in an unknown unit, taken as s"),
    ],
)
def test_the_unit_in_the_name_of_a_time_decides(column, times, unit, doubt, tmp_path):
    rows = "".join(f"{time},60,1\n" for time in times)
    (tmp_path / "t.csv").write_text(f"{column},duration,cores\n{rows}")
    found = propose(tmp_path / "t.csv")
    assert found.units.get("submit") == unit
    assert [text for text in found.unsure if text.startswith("submit: ")] == (
        [f"submit: {column!r} {doubt}"] if doubt else []
    )


@pytest.mark.parametrize(("unit", "per_second"), [("us", 10**6), ("ns", 10**9), ("h", 1 / 3600)])
def test_durations_have_the_unit_of_their_name(unit, per_second, tmp_path):
    (tmp_path / "t.csv").write_text(
        f"submit,duration_{unit},cores\n1709280000,{7200 * per_second:.0f},1\n"
    )
    found = propose(tmp_path / "t.csv")
    assert found.units["duration"] == unit
    assert not [text for text in found.unsure if text.startswith("duration")]
