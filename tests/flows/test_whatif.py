"""Tests of `hindcast whatif`: one page from a raw log, with numbers that other commands give."""

import html
import json
import re

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.recognition import recognise

JOBS = 600
WEEK_S = 7 * 86_400


def write_log(path, *, jobs=JOBS, waits=True, weeks=20.0, partitions=0):
    """Write an SWF log of a crowded machine of 16 processors, scheduled in order of arrival."""
    rng = np.random.default_rng(5)
    submit = np.sort(rng.integers(0, int(weeks * WEEK_S), jobs))
    processors = rng.choice([1, 2, 4, 8], jobs, p=[0.4, 0.3, 0.2, 0.1])
    requested = rng.choice([3600, 14_400, 86_400, 172_800], jobs)
    run = np.maximum((requested * rng.uniform(0.05, 1.0, jobs)).astype(int) * 4, 5)
    requested = np.maximum(requested, run)
    free_at = np.zeros(16, int)  # of each processor
    last, rows = 0, []
    for i in range(jobs):
        free_at.sort()
        start = max(submit[i], free_at[processors[i] - 1], last)
        last = start
        free_at[: processors[i]] = start + run[i]
        wait = start - submit[i] if waits else -1
        partition = i % partitions + 1 if partitions else -1
        rows.append(
            f"{i + 1} {submit[i]} {wait} {run[i]} {processors[i]} -1 -1 {processors[i]} "
            f"{requested[i]} -1 1 {i % 7 + 1} 1 -1 {i % 2 + 1} {partition} -1 -1"
        )
    path.write_text("; MaxProcs: 16\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of a page, and what the command printed."""
    folder = tmp_path_factory.mktemp("whatif")
    log = write_log(folder / "cluster.swf")
    assert main(["whatif", str(log), "--out", str(folder / "out"), "--policy", "f2_easy"]) == 0
    return folder


@pytest.mark.slow
def test_the_page_is_one_file_that_loads_nothing(made):
    page = html.unescape((made / "out" / "whatif.html").read_text())
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)
    for name in ("f2_easy", "conservative", "saf_clairvoyant", "fcfs_easy"):
        assert name in page
    story = json.loads((made / "out" / "whatif.json").read_text())
    assert story["conclusion"] in page
    assert story["nearness"]["grade"] in "ABCD"
    assert f"Grade {story['nearness']['grade']}" in page
    assert len(set(re.findall(r"\[(h|min|s)\]", page))) == 1  # the unit of all waits
    listed = set(re.findall(r'id="rule-\d+">(.*?)</span>', page))
    assert set(story["policies"]["kinds"]) <= listed
    rows = re.findall(r'<th scope="row"[^>]*><a class="rule" href="#rule-\d+"[^>]*>(.*?)</a>', page)
    assert set(rows) >= set(story["policies"]["kinds"])


@pytest.mark.slow
def test_every_mean_is_that_of_evaluate(made, tmp_path):
    """The page names a recipe for each table; `hindcast evaluate` gives the same numbers."""
    table = pl.read_csv(made / "out" / "whatif.csv")
    for scope, recipe in (("run", "run.toml"), ("windows", "recipe.toml")):
        out = tmp_path / scope
        command = ["evaluate", str(made / "out" / recipe), "--policy", "lxf_easy", "conservative"]
        assert main([*command, "--out", str(out), "--direct"]) == 0
        scores = pl.read_parquet(out / "scores.parquet")
        for policy in ("lxf_easy", "conservative"):
            for metric in ("mean_bounded_slowdown", "max_wait_s", "user_fairness"):
                ours = table.filter(scope=scope, policy=policy, metric=metric)["mean"][0]
                theirs = scores.filter(policy=policy, metric=metric)["value"].mean()
                assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.slow
def test_groups_add_up_to_the_mean_of_the_run(made):
    """Every group of a kind, weighted by its jobs, gives the mean over all jobs of the run."""
    table = pl.read_csv(made / "out" / "whatif.csv").filter(scope="run", metric="mean_wait_s")
    groups = pl.read_csv(made / "out" / "groups.csv")
    assert set(groups["kind"]) == {"queue", "user", "size", "request"}
    for kind, policy in (("queue", "sjf_easy"), ("user", "f2_easy"), ("size", "fcfs_easy")):
        of = groups.filter(kind=kind, policy=policy)
        assert of["work_share"].sum() == pytest.approx(1.0)
        mean = (of["jobs"] * of["mean_wait_s"]).sum() / of["jobs"].sum()
        expected = table.filter(policy=policy)["mean"][0]
        assert mean == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_a_second_call_plays_nothing_and_writes_the_same_page(made, capsys):
    page = made / "out" / "whatif.html"
    before = page.read_bytes()
    command = ["whatif", str(made / "cluster.swf"), "--out", str(made / "out")]
    assert main([*command, "--policy", "f2_easy"]) == 0
    assert capsys.readouterr().err.count("finished before") == 3
    assert page.read_bytes() == before


@pytest.mark.slow
def test_an_ingested_workload_gives_the_numbers_of_its_log(made, tmp_path):
    log, workload = str(made / "cluster.swf"), str(tmp_path / "workload")
    assert main(["ingest", "swf", log, "--out", workload, "--direct"]) == 0
    out = tmp_path / "out"
    assert main(["whatif", workload, "--out", str(out), "--policy", "f2_easy"]) == 0
    for name in ("whatif.csv", "groups.csv"):
        assert (out / name).read_bytes() == (made / "out" / name).read_bytes()


@pytest.mark.slow
def test_a_folder_of_another_log_is_refused(made, tmp_path, capsys):
    other = write_log(tmp_path / "other.swf", jobs=500)
    assert main(["whatif", str(other), "--out", str(made / "out")]) == 2
    assert "is of another log" in capsys.readouterr().err


@pytest.mark.slow
def test_a_log_without_starts_has_no_row_of_its_scheduler_and_is_played_again_if_it_changes(
    tmp_path, capsys
):
    """The recipes name the path of the log; what was played of its old content is not kept."""
    log, out = write_log(tmp_path / "model.swf", waits=False, jobs=420), tmp_path / "out"
    assert main(["whatif", str(log), "--out", str(out)]) == 0
    assert "grade of the simulated machine: none" in capsys.readouterr().out
    story = json.loads((out / "whatif.json").read_text())
    assert story["policies"]["recorded"] is None
    assert any(text.startswith("Starts of jobs") for text in story["missing"])
    before = (out / "whatif.csv").read_bytes()
    log.write_text(log.read_text().replace(" 3600 -1 1", " 7200 -1 1"))
    assert main(["whatif", str(log), "--out", str(out)]) == 0
    assert capsys.readouterr().err.count("finished before") == 0
    assert (out / "whatif.csv").read_bytes() != before


@pytest.mark.slow
def test_trained_agents_stand_beside_the_rules(tmp_path, capsys):
    log = write_log(tmp_path / "cluster.swf")
    command = ["whatif", str(log), "--out", str(tmp_path / "out"), "--train", "--iterations", "1"]
    assert main(command) == 0
    story = json.loads((tmp_path / "out" / "whatif.json").read_text())
    assert story["policies"]["kinds"][story["policies"]["agent"]] == "learned"
    assert story["training"]["episodes"] == 12 * 4
    assert len(story["training"]["used"]) == 3
    assert story["policies"]["agent"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "sjf_esy"], "did you mean 'sjf_easy'"),
        (["--policy", "random"], "--policy random: this policy draws"),
        (["--policy", "behaviour"], "--policy behaviour"),
        (["--iterations", "3"], "--iterations is for --train"),
        (["--format", "sfw"], "did you mean 'swf'"),
        (["--set", "processors=4"], "the format swf has no settings"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(tmp_path, capsys, options, message):
    log = write_log(tmp_path / "cluster.swf", jobs=30)
    assert main(["whatif", str(log), "--out", str(tmp_path / "out"), *options]) == 2
    captured = capsys.readouterr().err
    assert message in captured
    assert len(captured.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_too_few_jobs_are_refused(tmp_path, capsys):
    log = write_log(tmp_path / "cluster.swf", jobs=30)
    assert main(["whatif", str(log), "--out", str(tmp_path / "out")]) == 2
    assert "30 jobs that can be used, expected at least 400" in capsys.readouterr().err
    assert not (tmp_path / "out" / "recipe.toml").exists()


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.log", "; Version: 2.2\n", "swf"),
        ("a.log", "1 0 5 60 4 -1 -1 4 60 -1 1 1 1 1 1 -1 -1 -1\n", "swf"),
        ("a.txt", "JobID|User|State|Submit|Start|End\n", "slurm"),
        ("a.csv", "job_id,user,state,submit_time\n", "slurm"),
        ("a.log", "04/01/2024 00:00:12;E;123.server;user=ann queue=work\n", "pbs"),
        ("jobs.toml", 'file = "jobs.csv"\n', "table"),
    ],
)
def test_the_format_is_recognised_by_the_first_lines(tmp_path, name, text, found):
    (tmp_path / name).write_text(text)
    assert recognise(tmp_path / name) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Number,Begin,Cores\n1,2,3\n", "`hindcast init a.csv` proposes a mapping"),
        ("hello\n", "the first line is 'hello'"),
        ("", "empty"),
    ],
)
def test_other_files_are_named_with_what_to_do(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(TraceError, match=re.escape(message)):
        recognise(tmp_path / "a.csv")
