"""The commands about schedules: `schedule`, `compare`, `why`, and options of others."""

import json

import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.flows.runs.schedules import is_recipe
from hindcast.pipeline.schedules.schedule import read_schedule
from tests.flows.test_whatif import write_log
from tests.held_amounts import exceeded

RECIPE = "queue-lublin1-v1"
SMALL = ("--set", "config.jobs=64", "--set", "config.follow=20")


@pytest.fixture(scope="module")
def saf(tmp_path_factory):
    """Return the schedule of a small window."""
    path = tmp_path_factory.mktemp("schedule") / "saf.parquet"
    options = (*SMALL, "--window", "9", "--policy", "saf_easy", "--out", str(path))
    assert main(["schedule", RECIPE, *options]) == 0
    return path


def test_a_window_of_a_recipe_is_written(saf):
    schedule = read_schedule(saf)
    assert schedule.facts["window"] == 9
    assert schedule.jobs["counted"].sum() == 64
    assert schedule.jobs.height == 64 + 20
    assert not exceeded(schedule)


def test_the_first_test_window_is_the_default(tmp_path, capsys):
    path = tmp_path / "a.parquet"
    command = ["schedule", "thermal-default-v1", "--policy", "random", "--play", "1"]
    assert main([*command, "--set", "config.jobs=40", "--out", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["facts"]["window"] == 60
    assert told["facts"]["seed"] == 1
    assert told["rows"] == 40


@pytest.mark.slow
def test_an_evaluation_writes_the_schedules_of_one_window(tmp_path, capsys):
    out = tmp_path / "scores"
    command = ["evaluate", RECIPE, *SMALL, "--jobs", "50"]
    command += ["--policy", "fcfs_easy", "saf_easy", "--out", str(out)]
    assert main(command) == 0
    assert main(command) == 0  # the folder is that of an evaluation still
    scores = pl.read_parquet(out / "scores.parquet").filter(
        (pl.col("window") == 50) & (pl.col("metric") == "mean_wait_s")
    )
    for policy, mean in scores.select("policy", "value").iter_rows():
        jobs = read_schedule(out / "jobs" / f"{policy}.parquet").jobs
        assert jobs.filter("counted")["wait_s"].mean() == pytest.approx(mean, rel=1e-12)
    capsys.readouterr()
    command[command.index("50")] = "99999"
    assert main([*command[:-1], str(tmp_path / "other")]) == 2
    assert "--jobs 99999: expected 0 to " in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a log with recorded starts."""
    path = tmp_path_factory.mktemp("log") / "jobs.swf"
    write_log(path)
    return path


@pytest.mark.slow
def test_the_run_of_a_log_is_that_of_whatif(log, tmp_path):
    out = tmp_path / "page"
    few = ("--only-rule", "saf_easy", "--policy", "fcfs", "--shake", "0")
    assert main(["whatif", str(log), "--out", str(out), *few]) == 0
    for policy in ("recorded", "saf_easy", "fcfs"):
        path = tmp_path / f"{policy}.parquet"
        assert main(["schedule", str(log), "--policy", policy, "--out", str(path)]) == 0
        found, there = read_schedule(path), read_schedule(out / "jobs" / path.name)
        assert found.jobs.equals(there.jobs, null_equal=True)
        assert found.facts == there.facts
        assert found.facts["source"]["log"] == "jobs.swf"
        assert not exceeded(found)
        assert not found.jobs["counted"].all()  # some ran when the run began


@pytest.mark.slow
def test_a_comparison_tells_the_first_difference_and_the_costly_ones(capsys):
    command = ["compare", RECIPE, "fcfs_easy", "saf_easy", *SMALL, "--window", "30", "--most", "2"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fcfs_easy and saf_easy on window 30: ")
    assert lines[1] == "the first that differs:"
    assert lines[2].startswith("  Decision ")
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["first"]["sentence"] == lines[2].strip()
    assert len(told["costliest"]) <= 2
    assert told["first"]["count"] == len(told["first"]["candidates"])
    assert main([*command[:2], "fcfs_easy", "fcfs_easy", *SMALL, "--window", "30"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "they never differ"


def test_why_names_the_policy_and_the_job(saf, capsys):
    waited = read_schedule(saf).jobs.sort("wait_s", descending=True, nulls_last=True)
    name = waited["name"][0]
    assert main(["why", str(saf), name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "under saf_easy:"
    assert lines[1].startswith(f"  Job {name} (")


STATE = {
    "now": 1000, "processors": 8,
    "running": [{"id": "A", "started": 999, "processors": 4, "requested": 100}],
    "waiting": [
        {"id": "B", "submitted": 1000, "processors": 6, "requested": 50},
        {"id": "C", "submitted": 1000, "processors": 2, "requested": 500},
        {"id": "D", "submitted": 1000, "processors": 1, "requested": 500},
        {"id": "E", "submitted": 1000, "processors": 2, "requested": 99},
        {"id": "F", "submitted": 1000, "processors": 1, "requested": 900},
    ],
}  # fmt: skip


def test_a_state_says_why_a_job_starts_and_why_another_does_not(tmp_path, capsys):
    """E, the smallest, starts. B reserves its 6 of 8: 2 are spare, and D and F take them."""
    path = tmp_path / "state.json"
    path.write_text(json.dumps(STATE))
    command = ["decide", "saf_easy", str(path), "--json"]
    assert main([*command, "--why", "B", "C", "E", "F", "--rows", "1"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[0])
    reasons = {one["id"]: one for one in answer["why"]}
    assert {name: one["starts"] for name, one in reasons.items()} == {
        name: name in answer["start"] for name in ("B", "C", "E", "F")
    }
    assert answer["start"] == ["E", "D", "F"]
    assert (reasons["B"]["rank"], reasons["B"]["of"], reasons["B"]["free"]) == (2, 5, 4)
    assert reasons["B"]["sentences"][-1] == (
        "It does not fit, and the machine is kept free for it until 1099."
    )
    assert reasons["C"]["sentences"][-1] == (
        "Left beside the jobs that run and start now: 0 processors."
    )
    assert reasons["E"]["sentences"][-1] == "It starts now."
    assert all(len(one["rows"]) == 1 for one in answer["decisions"])
    assert main([*command, "--rows", "1"]) == 0
    plain = json.loads(capsys.readouterr().out.splitlines()[0])
    del answer["why"]
    assert plain == answer


def test_a_job_that_fits_waits_for_the_reservation(tmp_path, capsys):
    """B reserves 6 of 8 from 1099 on. G asks for 3 of the 4 free ones, past 1099: 2 are spare."""
    path = tmp_path / "state.json"
    waiting = [STATE["waiting"][0], {"id": "G", "submitted": 1001, "processors": 3,
                                     "requested": 500}]  # fmt: skip
    path.write_text(json.dumps({**STATE, "now": 1001, "waiting": waiting}))
    assert main(["decide", "fcfs_easy", str(path), "--why", "G", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[0])
    assert answer["start"] == []
    assert answer["why"][0]["sentences"][-1] == (
        "It fits, but it requests 0:08 h, past the start of job B that is planned for 1099; spare "
        "beside that job: 2 processors."
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["schedule", RECIPE, "--policy", "saf_easy", "--out", "a.csv"], "ends in .parquet"),
        (["schedule", RECIPE, "--policy", "saf_eas", "--out", "a.parquet"], "did you mean 'saf"),
        (["schedule", RECIPE, "--policy", "saf_easy", "--window", "9999", "--out", "a.parquet"],
         "--window 9999: expected 0 to "),
        (["schedule", "LOG", "--policy", "tetris", "--out", "a.parquet"], "`hindcast whatif LOG"),
        (["schedule", "LOG", "--policy", "fcfs", "--window", "1", "--out", "a.parquet"],
         "--window is for a recipe"),
        (["schedule", "no.swf", "--policy", "fcfs", "--out", "a.parquet"], "no.swf"),
        (["schedule", "rlscheduler-lublin1-v1", "--policy", "fcfs", "--out", "a.parquet"],
         "has no schedules"),
        (["compare", RECIPE, "behaviour", "saf_easy"], "behaviour: stands for"),
        (["why", "LOG", "1"], "cannot be read as Parquet"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused(words, says, log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(log) if word == "LOG" else word for word in words]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_recipe_is_told_from_a_log(tmp_path):
    (tmp_path / "recipe.toml").write_text('scenario = "queue"\n')
    (tmp_path / "table.toml").write_text('path = "jobs.csv"\n')
    (tmp_path / "jobs.swf").write_text("; \n")
    assert is_recipe(RECIPE)
    assert is_recipe(str(tmp_path))
    assert is_recipe(str(tmp_path / "recipe.toml"))
    assert not is_recipe(str(tmp_path / "table.toml"))
    assert not is_recipe(str(tmp_path / "jobs.swf"))
    assert not is_recipe(str(tmp_path / "none.swf"))
