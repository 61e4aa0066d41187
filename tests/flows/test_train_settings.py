"""Tests of [train.settings.<agent>]: used, part of the ledger's key, and checked first."""

import json
import shlex
import shutil

import pytest

from hindcast.flows import cli, parser
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
    """Only one gate compares with a rule that looks ahead; some problems let none look ahead."""
    result = train.result_of(recipe_folder() / recipe, "agent", 10, 0, ["r"])
    told = "\n".join(train.show(result).lines)
    assert result["uncompared"] == ahead
    assert result["evaluate"] is None
    expected = f"; {ahead} looks ahead and was not compared, which --gate lookahead does)"
    assert ("--gate lookahead" in told) == (ahead is not None) == (expected in told)


@pytest.mark.parametrize(
    ("low", "told"),
    [
        (0.175, "[+0.1000 .. +0.7000] on 12 unseen windows, + is better"),
        (0.05, ("[-0.0667 .. +0.7000] on 12 unseen windows, + is better; the gate's own interval, "
                "which is narrower, excludes 0")),
    ],
)  # fmt: skip
def test_the_interval_of_a_gate_is_told_widened(low, told):
    """Of twelve windows, both arms become longer by a third."""
    verdict = {"delivered": "agent", "rule": "sjf", "metric": "slowdown", "windows": 12,
               "difference": 0.4, "low": low, "high": 0.625}  # fmt: skip
    result = {"checkpoint": "a", "agent": "b", "steps": 1, "delivered": "a/d", "verdict": verdict}
    _, line = train.show(result).lines
    assert line == f"a/d: the agent, better than rule sjf (slowdown +0.4000 {told})"


_AHEAD = "hold_8@rollout, which looks ahead"


@pytest.mark.parametrize(
    ("ends", "unguarded", "which", "numbers"),
    [
        ((-0.3, -0.1), False, f"{_AHEAD}, is better than the delivered agent",
         ("-0.2000 [-0.3444 .. -0.0556]", "")),
        ((-0.3, 0.1), True, f"neither the delivered agent nor {_AHEAD}, is clearly better",
         ("-0.2000 [-0.3444 .. +0.2333]", "; hold_8@rollout has not played the guard's episodes")),
        ((0.1, 0.3), False, f"the delivered agent is better than {_AHEAD}",
         ("+0.2000 [+0.0556 .. +0.3444]", "")),
        ((None, None), False, f"neither the delivered agent nor {_AHEAD}, is clearly better",
         ("-0.2000", "; too few for an interval")),
    ],
)  # fmt: skip
def test_the_answer_says_whether_looking_ahead_is_better(tmp_path, ends, unguarded, which, numbers):
    """If it is, the command that scores it on test windows is printed, and can be read."""
    low, high = ends
    released = recipe_folder() / "slots-online/agents/counterfactual-seed0"
    shutil.copytree(released, tmp_path / "a b/delivered")
    file = tmp_path / "a b/delivered/checkpoint.json"
    description = json.loads(file.read_text())
    difference = 0.2 if low is not None and low > 0.0 else -0.2
    description["training"]["delivered"] |= {
        "metric": "slowdown", "delivered": "agent",
        "ahead": {"policy": "hold_8@rollout", "windows": 9, "difference": difference,
                  "low": low, "high": high, "unguarded": unguarded},
    }  # fmt: skip
    file.write_text(json.dumps(description))
    played = ["slots-online", "--set", "split.test='250..251'"]
    result = train.result_of(tmp_path / "a b", "agent", 10, 0, played)
    _, first, *rest = train.show(result).lines
    assert "was not compared" not in first
    estimate, caution = numbers
    assert rest[0] == (
        f"{which} (slowdown {estimate} on 9 validation windows, + is better for the delivered "
        f"agent{caution})"
    )
    better = high is not None and high < 0.0
    assert len(rest) == 1 + better
    if better:
        before, _, command = rest[1].partition(": ")
        assert before == "to score both on the test windows"
        asked = parser.parse(shlex.split(command)[1:])
        policies = ["hold_8@rollout", str(tmp_path / "a b/delivered")]
        assert (asked.recipe, asked.policies, asked.overrides) == (played[0], policies, played[2:])
        assert asked.out == str(tmp_path / "a b-ahead")
