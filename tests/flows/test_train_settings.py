"""Tests of [train.settings.<agent>]: used, part of the ledger's key, and checked first."""

import json

import pytest

from hindcast.flows import cli
from hindcast.flows.commands import train
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.shipped import recipe_folder
from hindcast.policies.offline import AGENTS, agents_for, anywhere
from tests.conftest import TINY

pytestmark = pytest.mark.slow

SET = [word for override in TINY for word in ("--set", override)]
RUN = [
    "run",
    "binpack-synthetic-v1",
    *SET,
    "--direct",
    "--set",
    "train.agents=['filtered_cloning']",
]
RATE = ["--set", "train.settings.filtered_cloning.learning_rate=0.02"]


def test_no_settings_leave_the_digest_of_a_recipe_as_it_was():
    plain = load_recipe("binpack-synthetic-v1", TINY)
    assert "settings" not in plain.to_dict()["train"]
    told = load_recipe("binpack-synthetic-v1", (*TINY, "train.settings.cql.alpha=0.5"))
    assert told.digest != plain.digest


def test_settings_may_be_nested_tables_or_dotted_names():
    nested = load_recipe("binpack-synthetic-v1", ("train.settings.cql.network.hidden=[8]",))
    dotted = load_recipe("binpack-synthetic-v1", ('train.settings.cql={"network.hidden" = [8]}',))
    assert nested.train.settings_of("cql") == dotted.train.settings_of("cql")
    assert nested.train.settings_of("cql") == {"network.hidden": [8]}
    assert nested.train.settings_of("dqn") == {}


def test_an_agent_may_have_steps_of_its_own():
    train = load_recipe("binpack-synthetic-v1", ("train.settings.cql.steps=7",)).train
    assert (train.steps_of("cql"), train.steps_of("dqn")) == (7, train.steps)
    assert train.settings_of("cql") == {}


def test_all_is_every_agent_that_is_for_the_scenario():
    assert agents_for(("all",), "binpack") == anywhere()
    of_any_log = {name for name, agent in AGENTS.items() if not agent.around}
    assert set(agents_for(("all",), "thermal")) == of_any_log > set(anywhere())
    assert agents_for(("cql", "dqn"), "thermal") == ("cql", "dqn")


def test_settings_reach_the_checkpoint_and_the_key_of_its_stage(tmp_path):
    """The agent's config and the ledger show the settings, and results.csv has the log."""
    out = tmp_path / "run"
    assert cli.main([*RUN, *RATE, "--out", str(out)]) == 0
    checkpoint = json.loads((out / "agents/filtered_cloning-seed0/checkpoint.json").read_text())
    assert checkpoint["training"]["config"]["learning_rate"] == 0.02
    stages = json.loads((out / "run.json").read_text())["stages"]
    inputs = stages["train filtered_cloning-seed0"]["inputs"]
    assert inputs["settings"] == {"learning_rate": 0.02}
    lines = (out / "results.csv").read_text().splitlines()
    pairs = {tuple(line.split(",")[4:6]) for line in lines[1:]}
    assert {("filtered_cloning", "behaviour"), ("filtered_cloning", "tetris")} <= pairs
    assert ("tetris", "filtered_cloning") not in pairs


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("train.settings.filtered_clonig.learning_rate=0.1", "filtered_cloning"),
        ("train.settings.filtered_cloning.learning_rat=0.1", "learning_rate"),
        ("train.settings.cql.alpha=0.1", "train.agents has no 'cql'"),
        ("train.settings.filtered_cloning.steps=0", "steps is 0"),
        ("train.settings.filtered_cloning.steps='many'", "steps is 'many'"),
    ],
)
def test_settings_that_do_not_exist_are_refused_first(tmp_path, capsys, setting, reason):
    assert cli.main([*RUN, "--set", setting, "--out", str(tmp_path / "run")]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "ahead"),
    [
        ("slots-online/agents/counterfactual-seed0", "hold_8@rollout"),
        ("binpack-online/agents/evolution-seed0", "rollout"),
        ("thermal-online/agents/ppo-seed0", None),
    ],
)
def test_the_answer_names_what_looks_ahead_and_was_not_compared(recipe, ahead):
    """No gate compares with a rule that looks ahead; some problems let none look ahead."""
    result = train.result_of(recipe_folder() / recipe, "agent", 10, 0)
    told = "\n".join(train.show(result).lines)
    assert result["uncompared"] == ahead
    assert ("was not compared" in told) == (ahead is not None)
    assert ahead is None or f"; {ahead} looks ahead and was not compared)" in told
