"""The examples run as they stand, outside the packages: in processes, without installing them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline.testing import NOTHING, check_scenario

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = "examples/toy_scenario.py,examples/own_agent.py"
SMALL = [
    'split.train="0..3"', 'split.validation="4..5"', 'split.test="6..9"', "config.jobs=5",
    'train.agents=["weighted_cloning"]', "train.steps=20",
]  # fmt: skip


@pytest.fixture(scope="module")
def toy():
    """The module of the toy scenario, which is forgotten again."""
    from pipeline.plugins import _import_file
    from pipeline.scenarios import SCENARIOS

    known = dict(SCENARIOS._known)
    _import_file(str(ROOT / "examples" / "toy_scenario.py"))
    yield sys.modules["toy_scenario"]
    SCENARIOS._known = known
    del sys.modules["toy_scenario"]


def hindcast(*argv: str, plugins: str = PLUGINS) -> subprocess.CompletedProcess[str]:
    """The command, run in the repository's root."""
    environment = {**os.environ, "HINDCAST_PLUGINS": plugins, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", *argv],
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

    from pipeline.simulation.policy import Behaviour
    from pipeline.simulation.rollout import run_episode

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
    assert without.stderr.startswith("hindcast: unknown scenario 'toy'; known: binpack, ")


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


def test_the_agent_runs_as_a_script(tiny_dataset, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "examples/own_agent.py", str(tiny_dataset), str(tmp_path / "agent")],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "agent")
