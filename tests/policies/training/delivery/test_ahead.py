"""Tests of the gate `lookahead`: what is delivered beside a policy that looks ahead."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.errors import InputError, TraceError
from hindcast.pipeline.notes import telling
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import SCENARIOS, load_scenario
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.policies.heuristics import rankable
from hindcast.policies.networks.checkpoint import Trained, read_description
from hindcast.policies.offline.stacked_training import Member, train_stacked
from hindcast.policies.registry import resolve
from hindcast.policies.training.delivery import agreement, ahead, played
from hindcast.policies.training.delivery.gates import decide_once
from hindcast.policies.training.delivery.verdict import rule_policy
from hindcast.policies.training.job import Options
from tests.folders import content
from tests.policies.training.delivery.test_gates_of_offline_trainings import checkpoints
from tests.policies.trainings import train


def headline(windows, name, some):
    """Return less the mean slowdown of a policy, by its name, one window after the other."""
    behaviour, rng = resolve(name, "slots", windows.spec), np.random.default_rng(0)
    return -np.mean([
        run_episode(windows.scenario, windows.spec, windows.instance_of(w), behaviour, rng)
        .outcomes[0] for w in some
    ])  # fmt: skip


def windows_of(log):
    recipe = ds.open(log).recipe
    return played.windows_of(recipe, load_source(recipe), 0)


def delivered(out: Path):
    return read_description(out / "delivered")["training"]["delivered"]


@pytest.mark.slow
def test_a_delivered_rule_is_compared_with_itself_looking_ahead(log, tmp_path):
    """The comparison changes neither what is delivered nor a weight."""
    out = train(log, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "a", gate="lookahead")
    plain = train(log, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "b")
    told = delivered(out)
    found = told.pop("ahead")
    assert told == delivered(plain)
    assert told["delivered"] == "rule"
    weights = "delivered/weights.safetensors"
    assert (out / weights).read_bytes() == (plain / weights).read_bytes()
    windows, name = windows_of(log), f"{told['rule']}@rollout"
    expected = headline(windows, told["rule"], windows.validation) - headline(
        windows, name, windows.validation
    )
    assert (found["policy"], found["windows"], found["unguarded"]) == (name, 6, False)
    assert expected != 0.0
    assert found["difference"] == pytest.approx(expected, rel=1e-12)
    assert found["low"] <= found["difference"] <= found["high"]


@pytest.mark.slow
def test_a_finished_training_is_judged_again_and_not_repeated(log, tmp_path):
    fresh = train(log, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "a", gate="lookahead")
    for gate in ("simulator", "lookahead"):
        lines = []
        with telling(lines.append):
            out = train(log, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "b", gate=gate)
    assert "the training is finished; another gate judges its checkpoints" in lines[0]
    assert lines[1].endswith("@rollout, which looks ahead, plays 6 validation windows")
    assert "ms of the delivered rule" in lines[2]
    assert checkpoints(content(out)) == checkpoints(content(fresh))


@pytest.mark.slow
def test_a_delivered_agent_is_compared_itself(log, monkeypatch):
    """Here it is a rule that is better than the only logged one. Three windows are played."""
    monkeypatch.setattr(agreement, "logged_rules", lambda _dataset: {"x": "fcfs_now"})
    monkeypatch.setattr(ahead, "MOST_WINDOWS", 3)
    opened, windows = ds.open(log), windows_of(log)
    policy = rule_policy(opened.spec, "sjf_now")
    trained = Trained("agent", opened.spec, policy.network, policy.weights, {}, 1, 0)
    _, verdict = decide_once(opened, 0, "lookahead")({"last": trained})
    assert (verdict.delivered, verdict.rule) == ("agent", "fcfs_now")
    some = [windows.validation[i] for i in (0, 2, 5)]  # evenly spaced
    expected = headline(windows, "sjf_now", some) - headline(windows, "fcfs_now@rollout", some)
    found = verdict.ahead
    assert (found.policy, found.windows) == ("fcfs_now@rollout", 3)
    assert found.difference == pytest.approx(expected, rel=1e-12)
    assert (found.low, found.high) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "rule"),
    [
        ("binpack-synthetic-v1", "longest_spread"), ("slots-online", "hold_8"),
        ("multicluster-online", "urgent_shortest"), ("queue-kth-v1", "sjf_easy"),
        ("queue-kth-v1", "aged_expected_easy"),
    ],
)  # fmt: skip
def test_it_is_the_policy_that_an_evaluation_plays(recipe, rule):
    """Name, rules, columns, futures and standard errors are those of the name that is printed."""
    loaded = load_recipe(recipe)
    scenario = load_scenario(loaded.scenario)
    windows = played.Windows(
        scenario, scenario.spec(loaded.config, loaded.objective), pytest.fail, (), ()
    )
    if scenario.added:
        config = replace(loaded.config, **dict.fromkeys(scenario.added.values(), True))
        wider = replace(windows, spec=scenario.spec(config, loaded.objective))
        windows = replace(windows, wider=wider)
    heuristic = rankable(loaded.scenario)[rule]
    spec = windows.shown_to(heuristic.needs).spec
    found, name = ahead.policy_of(windows, heuristic), ahead.name_of(scenario, rule)
    expected = resolve(name, loaded.scenario, spec).policy
    assert type(found) is type(expected)
    assert described(found) == described(expected)


def described(policy):
    members = getattr(policy, "members", None) or (policy.base,)
    numbers = {k: v for k, v in vars(policy).items() if k not in ("members", "base")}
    return numbers, policy.features_candidates, [one.rule.name for one in members]


@pytest.mark.slow
def test_names_of_policies_that_look_ahead():
    assert {name: ahead.name_of(load_scenario(name), "a") for name in SCENARIOS} == {
        "binpack": "rollout", "slots": "a@rollout", "multicluster": "a@rollout",
        "queue": "a@rollout", "thermal": None, "deferrable": None, "gpupack": None,
        "rlscheduler": None,
    }  # fmt: skip


def test_where_nothing_looks_ahead_the_gate_is_refused(log, monkeypatch, tmp_path):
    """A stack of trainings is refused before it trains."""
    opened = ds.open(log)
    windows = windows_of(log)
    with pytest.raises(InputError, match=r"thermal can look ahead here.* expected --gate simul"):
        ahead.check(replace(windows, scenario=load_scenario("thermal")))
    bare = replace(windows.instance_of(windows.validation[0]), futures=None)
    with pytest.raises(InputError, match=r"slots can look ahead here.*not drawn from its settings"):
        ahead.check(replace(windows, instance=lambda _: bare, _made={}))

    def missing(*_):
        raise TraceError("no such file")

    monkeypatch.setattr(played, "windows_of", missing)
    decide_once(opened, 0, "simulator")
    members, options = [Member({}, 0, tmp_path / "a")], Options(1, gate="lookahead")
    with pytest.raises(InputError, match=r"workload cannot be played here; expected --gate log"):
        train_stacked(log, "double_dqn", members, options)
    assert not (tmp_path / "a").exists()
