"""The examples run as they stand, outside the packages, without installing them.

Those that are plug-ins run in processes of their own, the others as scripts in this process.
"""

import html
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.testing import NOTHING, check_export, check_scenario, check_trace_format
from tests.conftest import TINY
from tests.flows.test_whatif import JOBS, write_log

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = "examples/toy_scenario.py,examples/own_agent.py"
SMALL = [
    'split.train="0..3"', 'split.validation="4..5"', 'split.test="6..9"', "config.jobs=5",
    'train.agents=["weighted_cloning"]', "train.steps=20",
]  # fmt: skip


def imported(name: str, registry):
    """The module of an example that registers something, which is forgotten again."""
    from hindcast.pipeline.plugins import _import_file

    known = dict(registry._known)
    _import_file(str(ROOT / "examples" / f"{name}.py"))
    yield sys.modules[name]
    registry._known = known
    del sys.modules[name]


@pytest.fixture(scope="module")
def toy():
    from hindcast.pipeline.scenarios import SCENARIOS

    yield from imported("toy_scenario", SCENARIOS)


@pytest.fixture
def own_format():
    from hindcast.pipeline.traces import FORMATS

    yield from imported("own_format", FORMATS)


@pytest.fixture
def own_export():
    from hindcast.pipeline.exports import EXPORTS

    yield from imported("own_export", EXPORTS)


@pytest.fixture
def script(tmp_path, capsys, monkeypatch):
    """Run an example as a script, with these words after the folder; return what it printed."""

    def run(name, *words):
        path = ROOT / "examples" / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path / "out"), *map(str, words)])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_an_example_whose_library_is_not_installed_says_so(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(SystemExit, match="pip install stable-baselines3 sb3-contrib"):
        script("maskable_ppo")


def numbers(text: str, *names: str) -> list[float]:
    """The numbers behind these names, which begin a line each."""
    rows = {words[0]: words[1] for words in map(str.split, text.splitlines()) if len(words) > 1}
    return [float(rows[name]) for name in names]


def hindcast(*argv: str, plugins: str = PLUGINS) -> subprocess.CompletedProcess[str]:
    """The command, run in the repository's root."""
    environment = {**os.environ, "HINDCAST_PLUGINS": plugins, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "hindcast.flows.cli", *argv],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("jobs", [1, 7])
def test_the_toy_scenario_passes_the_checks(toy, jobs):
    config = toy.Config(jobs=jobs)

    def instance(number):
        return toy.instance(config, "cost", NOTHING, number, np.random.default_rng(number))

    check_scenario(toy.SCENARIO, config, "cost", instance, toy.HEURISTICS)


def test_its_rule_is_optimal(toy):
    """Smith's rule against every order of six jobs."""
    import itertools

    from hindcast.pipeline.simulation.policy import Behaviour
    from hindcast.pipeline.simulation.rollout import run_episode

    config = toy.Config(jobs=6)
    spec = toy.spec(config, "cost")
    instance = toy.instance(config, "cost", NOTHING, 0, np.random.default_rng(3))
    rule = Behaviour("rule", toy.HEURISTICS["weight_per_second"])
    found = run_episode(toy.SCENARIO, spec, instance, rule, np.random.default_rng(0))
    lengths, weights = instance.floats[2:8], instance.floats[8:]
    costs = [
        float(weights[[*order]] @ np.cumsum(lengths[[*order]]))
        for order in itertools.permutations(range(6))
    ]
    assert found.outcomes[0] == pytest.approx(min(costs))
    assert found.total == -found.outcomes[0] == found.terms[0] * -1


@pytest.mark.nightly
def test_both_examples_run_from_a_recipe_to_a_report(tmp_path):
    """`hindcast run` with a scenario and an agent from outside; nothing is known without them."""
    out = tmp_path / "toy"
    arguments = ["run", "examples/toy/recipe.toml", "--direct", "--out", str(out)]
    arguments += [word for value in SMALL for word in ("--set", value)]
    done = hindcast(*arguments)
    assert done.returncode == 0, done.stderr
    assert "weighted_cloning" in (out / "report.html").read_text()
    card = (out / "dataset" / "README.md").read_text()
    assert 'scenario = "toy"' in card
    means = pl.read_parquet(out / "evaluation" / "scores.parquet")
    means = means.filter(metric="weighted_completion_s").group_by("policy").agg(pl.mean("value"))
    by_policy = dict(means.rows())
    assert by_policy["weight_per_second"] == min(by_policy.values())

    checked = hindcast("verify", str(out / "dataset"), "--json", plugins="examples/toy_scenario.py")
    assert checked.returncode == 0, checked.stderr
    named = {c["check"]: c["detail"] for c in json.loads(checked.stdout)["checks"]}
    assert named["behaviours"].startswith("probabilities of ")
    without = hindcast("verify", str(out / "dataset"), plugins="")
    assert without.returncode == 2
    assert "hindcast: unknown scenario 'toy'; known: binpack, " in without.stderr


@pytest.mark.nightly
def test_the_agent_is_listed_and_trained_from_the_command_line(tiny_dataset, tmp_path):
    plugins = "examples/own_agent.py"
    assert "weighted_cloning" in hindcast("train", "--help", plugins=plugins).stdout
    done = hindcast(
        "train", str(tiny_dataset), "--agent", "weighted_cloning", "--steps", "3", "--direct",
        "--set", "temperature=2.0", "--out", str(tmp_path / "agent"), plugins=plugins,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    described = json.loads((tmp_path / "agent" / "checkpoint.json").read_text())
    assert described["agent"] == "weighted_cloning"
    assert described["training"]["config"]["temperature"] == 2.0


@pytest.mark.nightly
def test_the_agent_runs_as_a_script(tiny_dataset, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "examples/own_agent.py", str(tiny_dataset), str(tmp_path / "agent")],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "agent")


def test_quickstart_prints_the_means_best_first(script):
    printed = script("quickstart", *TINY)
    assert "verified: manifest, files, " in printed
    means = [float(line.split()[1]) for line in printed.splitlines() if line.endswith(" s")]
    assert len(means) == 6
    assert means == sorted(means)


def test_the_example_log_is_what_its_script_writes(tmp_path, monkeypatch):
    written = tmp_path / "example.swf"
    monkeypatch.setattr(sys, "argv", ["example_log.py", str(written)])
    runpy.run_path(str(ROOT / "examples" / "example_log.py"), run_name="__main__")
    assert written.read_bytes() == (ROOT / "examples" / "example.swf").read_bytes()


def test_your_log_prints_the_conclusion_of_the_page(script, tmp_path):
    printed = script("your_log", write_log(tmp_path / "jobs.swf")).splitlines()
    assert printed[0] == f"{JOBS} jobs; left out: none"
    page = Path(printed[-2])
    assert printed[-3] in html.unescape(page.read_text())
    assert 'scenario = "queue"' in Path(printed[-1].rpartition(" ")[2]).read_text()


def test_own_policy_is_scored_beside_rules(script):
    printed = script("own_policy", *TINY)
    assert "duration_s    s           duration of one instance" in printed
    assert min(numbers(printed, "random", "longest_first", "largest_instance")) > 0


def test_the_loop_over_gymnasium_plays_what_is_evaluated(script):
    more = ("trace.settings.n_jobs=1600", "trace.settings.instances_scale=0.02")
    printed = script("gymnasium_loop", *more)
    by_hand, evaluated = (
        line.rpartition("makespan ")[2] for line in printed.splitlines() if "makespan" in line
    )
    assert by_hand == evaluated


def test_the_loop_over_batches_learns(script):
    printed = script("torch_batches", *TINY, "trace.settings.instances_scale=0.2")
    assert "agreement" in printed
    assert min(numbers(printed, "random", "cloned")) > 0


def test_the_estimates_of_a_rule_are_near_its_value(script, toy):
    printed = script("off_policy_evaluation", 'split.train="0..4"')
    logged, sampled, normalised, true = numbers(printed, "logged", "IS", "SNIS", "true")
    assert logged < true
    assert abs(normalised - true) < abs(logged - true)
    assert abs(sampled - true) < abs(logged - true)


def test_the_format_is_checked_and_keeps_bad_rows(own_format, tmp_path):
    from hindcast.pipeline.traces import FORMATS

    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,run_s,cores\n30,60,1\n0,120,2\na,1,1\n5,-1,2\n7,1,0\n1,2\n")
    check_trace_format(FORMATS["jobs_csv"], path)
    workload, bad = own_format.read(path)
    assert workload.tasks.select("submit_s", "duration_s", "cores").rows() == [
        (0, 120, 2), (30, 60, 1),
    ]  # fmt: skip
    assert bad["line"].to_list() == [4, 5, 6, 7]


def test_the_export_is_checked_and_holds_every_decision(own_export, tiny_dataset, tmp_path):
    from hindcast.pipeline.dataset import open as open_dataset
    from hindcast.pipeline.exports import export

    check_export("jsonl", tiny_dataset)
    result = export(tiny_dataset, "jsonl", tmp_path / "decisions.jsonl")
    rows = [json.loads(line) for line in result.path.read_text().splitlines()]
    table = open_dataset(tiny_dataset).transitions().select("choice", "reward").collect()
    assert [row["choice"] for row in rows] == table["choice"].to_list()
    assert [row["reward"] for row in rows] == table["reward"].to_list()
    assert all(0 <= row["choice"] < len(row["candidates"]) for row in rows)
