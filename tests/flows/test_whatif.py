"""One page from a raw log by `hindcast whatif`, with numbers that other commands give."""

import html
import itertools
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.recognition import recognise
from tests.conftest import require_traces
from tests.flows.whatif_pages import Answer

ROOT = Path(__file__).resolve().parents[2]
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
    """Return the page of the log, with one rule more than usual."""
    folder = tmp_path_factory.mktemp("whatif")
    log = write_log(folder / "cluster.swf")
    return Answer(log, folder / "out", "--policy", "f2_easy", "--shake", 4)


@pytest.mark.slow
def test_the_page_is_one_file_that_loads_nothing(made):
    markup = (made.out / "whatif.html").read_text()
    assert "default-src 'none'" in html.unescape(markup)
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', markup)
    made.is_honest()
    kinds = set(made.json["policies"]["kinds"])
    assert {"recorded", "f2_easy", "conservative", "saf_clairvoyant", "fcfs_easy"} <= kinds
    # The starts of a scheduler without backfilling are known, in the order of arrival.
    assert made.json["nearness"]["known"] == "fcfs none"
    assert made.json["nearness"]["grade"] == "A"
    assert "order of arrival without backfilling in 100 %" in made.page
    assert "no area is in it, in spite of its name" in made.page  # of steady_area_easy
    assert len(set(re.findall(r"\[(h|min|s|days)\]", made.page)) - {"s"}) == 1  # of all waits
    explained = set(re.findall(r'id="rule-\d+">(.*?)</span>', markup))
    assert kinds <= explained
    rows = re.findall(
        r'<th scope="row"[^>]*><a class="rule" href="#rule-\d+"[^>]*>(.*?)</a>', markup
    )
    assert set(rows) >= kinds


@pytest.mark.slow
def test_every_mean_is_that_of_evaluate(made, tmp_path):
    """The page names a recipe for each table; `hindcast evaluate` gives the same numbers."""
    rules = ("lxf_easy", "conservative", "aged_area_easy")
    for scope, recipe in (("run", "run.toml"), ("windows", "recipe.toml")):
        out = tmp_path / scope
        command = ["evaluate", str(made.out / recipe), "--policy", *rules]
        assert main([*command, "--out", str(out), "--direct"]) == 0
        scores = pl.read_parquet(out / "scores.parquet")
        for policy in rules:
            for metric in ("mean_bounded_slowdown", "max_wait_s", "user_fairness"):
                theirs = scores.filter(policy=policy, metric=metric)["value"].mean()
                assert made.mean(policy, metric, scope) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.slow
def test_groups_add_up_to_the_mean_of_the_run(made):
    """Every group of a kind, weighted by its jobs, gives the mean over all jobs of the run."""
    groups = made.table("groups")
    assert set(groups["kind"]) == {"queue", "user", "size", "request"}
    shown = set(groups["policy"])
    assert {"recorded", "fcfs_easy", made.json["policies"]["candidate"]} <= shown
    for kind, policy in itertools.product(("queue", "user", "size", "request"), shown):
        of = groups.filter(kind=kind, policy=policy)
        assert of["work_share"].sum() == pytest.approx(1.0)
        mean = (of["jobs"] * of["mean_wait_s"]).sum() / of["jobs"].sum()
        assert mean == pytest.approx(made.mean(policy, "mean_wait_s"), rel=1e-9)


@pytest.mark.slow
def test_an_ingested_workload_gives_the_numbers_of_its_log(made, tmp_path):
    workload = tmp_path / "workload"
    log = str(made.out.parent / "cluster.swf")
    assert main(["ingest", "swf", log, "--out", str(workload), "--direct"]) == 0
    Answer(workload, tmp_path / "out", "--policy", "f2_easy", "--shake", 4)
    for name in ("whatif.csv", "groups.csv", "shake.csv", "advice.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (made.out / name).read_bytes()


@pytest.mark.slow
def test_a_folder_of_another_log_is_refused(made, tmp_path, capsys):
    other = write_log(tmp_path / "other.swf", jobs=500)
    assert main(["whatif", str(other), "--out", str(made.out)]) == 2
    assert "is of another log" in capsys.readouterr().err


@pytest.mark.slow
def test_a_log_without_starts_has_no_row_of_its_scheduler_and_is_played_again_if_it_changes(
    tmp_path,
):
    """The recipes name the path of the log; what was played of its old content is not kept."""
    log, out = write_log(tmp_path / "model.swf", waits=False, jobs=420), tmp_path / "out"
    few = ("--only-rule", "fcfs_easy", "sjf_easy", "--shake", 2)
    page = Answer(log, out, *few).is_honest()
    assert (page.json["policies"]["recorded"], page.json["record"]) == (None, None)
    assert (page.json["badge"], page.json["nearness"]["grade"]) == ("Cannot be judged", "")
    assert any(text.startswith("Starts of jobs") for text in page.json["missing"])
    before = page.mean("sjf_easy")
    log.write_text(log.read_text().replace(" 3600 -1 1", " 200000 -1 1"))
    assert Answer(log, out, *few).mean("sjf_easy") != before


@pytest.mark.nightly
def test_trained_agents_stand_beside_the_rules_and_refused_ones_are_named_so(tmp_path):
    """A gate of one generation refuses; no sentence of the first screen has the agent."""
    log = write_log(tmp_path / "cluster.swf")
    page = Answer(log, tmp_path / "out", "--train", "--iterations", 1, "--shake", 2).is_honest()
    agents = [name for name, kind in page.json["policies"]["kinds"].items() if kind == "learned"]
    assert len(agents) == len(page.json["training"]["used"]) == 3
    assert page.json["training"]["episodes"] == 12 * 4
    refused = [name for name, of in page.json["training"]["delivered"].items() if of == "rule"]
    assert page.json["policies"]["agent"] not in refused
    for name in refused:
        assert name not in page.first
        assert name in page.page


@pytest.mark.parametrize(
    ("log", "pages"),
    [
        pytest.param("examples/example.swf", ["quickstart-engineer"], marks=pytest.mark.slow),
        pytest.param(
            "swf/KTH-SP2-1996-2.swf.gz",
            ["quickstart-engineer", "how-to/read-the-whatif-page", "tutorials/your-own-trace"],
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_documents_show_what_the_command_prints(tmp_path, capsys, log, pages):
    path = ROOT / log if (ROOT / log).exists() else require_traces(log)
    Answer(path, tmp_path / "out")
    lines = "\n".join(capsys.readouterr().out.splitlines()[-4:-1])
    for page in pages:
        assert lines in (ROOT / "docs" / f"{page}.md").read_text("utf-8"), page
    if log != "examples/example.swf":
        assert " ".join(lines.split()) in " ".join((ROOT / "README.md").read_text("utf-8").split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "sjf_esy"], "did you mean 'sjf_easy'"),
        (["--policy", "random"], "--policy random: this policy draws"),
        (["--policy", "behaviour"], "--policy behaviour: a log of jobs has no recorded policies"),
        (["--iterations", "3"], "--iterations is for --train"),
        (["--format", "sfw"], "did you mean 'swf'"),
        (["--set", "processor=4"], "did you mean 'processors'"),
    ],
)
def test_wrong_options_are_named_and_nothing_is_written(tmp_path, capsys, options, message):
    log = write_log(tmp_path / "cluster.swf", jobs=30)
    assert main(["whatif", str(log), "--out", str(tmp_path / "out"), *options]) == 2
    captured = capsys.readouterr().err
    assert message in captured
    assert len(captured.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_too_few_jobs_are_played_and_nothing_is_concluded(tmp_path):
    """A log of fewer than 400 jobs says nothing about a scheduler."""
    log = write_log(tmp_path / "cluster.swf", jobs=60)
    page = Answer(log, tmp_path / "out", "--only-rule", "fcfs_easy", "--shake", 2).is_honest()
    assert page.json["badge"] == "Cannot be judged"
    assert [caveat["code"] for caveat in page.json["disqualifiers"]] == ["few_jobs"]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.log", "; Version: 2.2\n", "swf"),
        ("a.log", "1 0 5 60 4 -1 -1 4 60 -1 1 1 1 1 1 -1 -1 -1\n", "swf"),
        ("a.txt", "JobID|User|State|Submit|Start|End\n", "slurm"),
        ("a.csv", "job_id,user,state,submit_time,processors_req\n", "slurm"),
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
        ("Number,Begin,Cores\n1,2,3\n", "a.csv` proposes a mapping"),
        ("hello\n", "the first line is 'hello'"),
        ("", "empty"),
    ],
)
def test_other_files_are_named_with_what_to_do(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(TraceError, match=re.escape(message)):
        recognise(tmp_path / "a.csv")
