"""Tests of the gates of an offline training: the simulator where it is at hand, else the log."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.storage.provenance import PROVENANCE
from hindcast.policies.heuristics import heuristics
from hindcast.policies.networks.checkpoint import read_description
from hindcast.policies.offline import training
from hindcast.policies.training.delivery import played
from hindcast.policies.training.delivery.gates import gate_of
from hindcast.policies.training.delivery.verdict import Verdict, judge_each, rule_policy
from tests.folders import content
from tests.policies.trainings import train


def mean_slowdown(windows, name, of):
    """Return the mean headline outcome of a rule, one episode after the other."""
    rule = Behaviour(name, heuristics("slots")[name])
    rng = np.random.default_rng(0)
    return np.mean([
        run_episode(windows.scenario, windows.spec, windows.instance_of(w), rule, rng).outcomes[0]
        for w in of
    ])  # fmt: skip


def test_rules_of_the_log_play_train_and_validation_windows(log):
    """A rule that the log does not contain is not delivered, even if it is better."""
    opened = ds.open(log)
    windows = played.windows_of(opened.recipe, load_source(opened.recipe), 0)
    assert (len(windows.train), len(windows.validation)) == (4, 6)
    both = [*windows.train, *windows.validation]
    means = {n: mean_slowdown(windows, n, both) for n in ("sjf_now", "packer_now", "hold_5")}
    best = min(means, key=means.get)
    verdict = gate_of(opened, 0, "simulator")(rule_policy(opened.spec, best))
    assert (verdict.rule, verdict.delivered, verdict.metric) == (best, "rule", "mean_slowdown")
    assert (verdict.windows, verdict.difference) == (6, 0.0)


def test_the_difference_is_that_of_the_validation_windows(log):
    opened = ds.open(log)
    windows = played.windows_of(opened.recipe, load_source(opened.recipe), 0)
    verdict = gate_of(opened, 0, "simulator")(rule_policy(opened.spec, "packer_now"))
    expected = mean_slowdown(windows, verdict.rule, windows.validation) - mean_slowdown(
        windows, "packer_now", windows.validation
    )
    assert verdict.difference == pytest.approx(expected, rel=1e-12)
    assert verdict.low <= verdict.difference <= verdict.high


@pytest.mark.slow
def test_an_agent_better_than_every_logged_rule_is_delivered(log, monkeypatch):
    from hindcast.policies.training.delivery import agreement

    monkeypatch.setattr(agreement, "logged_rules", lambda _dataset: {"x": "fcfs_now"})
    opened = ds.open(log)
    verdict = gate_of(opened, 0, "simulator")(rule_policy(opened.spec, "sjf_now"))
    assert (verdict.rule, verdict.delivered) == ("fcfs_now", "agent")
    assert verdict.low > 0.0


def test_without_its_workload_a_log_is_judged_by_itself(log, monkeypatch):
    def missing(*_):
        raise TraceError("no such file")

    monkeypatch.setattr(played, "windows_of", missing)
    opened = ds.open(log)
    assert (
        gate_of(opened, 0, "simulator")(rule_policy(opened.spec, "sjf_now")).metric == "agreement"
    )


@pytest.mark.slow
def test_a_training_is_judged_as_asked(log, tmp_path, monkeypatch):
    """With another gate, a finished training is not repeated, but what it delivers is decided."""
    metrics, contents, trained = {}, {}, []
    task_of = training.task_of
    monkeypatch.setattr(training, "task_of", lambda *a: (trained.append(1), task_of(*a))[1])
    of_log = train(log, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "other", gate="log")
    for gate in ("simulator", "log", "simulator"):
        out = train(log, "behaviour_cloning", steps=1, seed=0, out=tmp_path / "run", gate=gate)
        told = read_description(out / "delivered")["training"]["delivered"]
        metrics[gate] = told["metric"]
        assert contents.setdefault(gate, content(out)) == content(out)
    assert metrics == {"simulator": "mean_slowdown", "log": "agreement"}
    assert checkpoints(contents["log"]) == checkpoints(content(of_log))
    assert len(trained) == 2
    shutil.rmtree(out / "best")
    train(log, "behaviour_cloning", steps=1, seed=0, out=out, gate="log")
    assert len(trained) == 3
    assert checkpoints(content(out)) == checkpoints(contents["log"])


@pytest.mark.slow
def test_an_agent_that_stops_early_is_judged_again_as_if_from_the_start(log, tmp_path):
    """Its checkpoints name the steps that were asked for, not those that it took."""
    for out, gates in (("a", ("log", "simulator")), ("b", ("simulator",))):
        for gate in gates:
            train(log, "advantage_regression", steps=10, seed=0, out=tmp_path / out, gate=gate)
    assert read_description(tmp_path / "a" / "best")["training"]["of_steps"] == 10
    again, fresh = (checkpoints(content(tmp_path / out)) for out in "ab")
    assert again == fresh


def checkpoints(files):
    """Return the files of a training but for the record of when it began."""
    return {name: data for name, data in files.items() if name != PROVENANCE}


def test_of_two_checkpoints_the_better_one_is_judged():
    """The first of equals is taken, and a verdict without a difference is the worst."""
    verdicts = {
        "a": Verdict("rule", "r", "m", 5, 0.1, -0.1, 0.3),
        "b": Verdict("agent", "r", "m", 5, 0.2, 0.1, 0.3),
        "c": Verdict("agent", "r", "m", 5, 0.2, 0.1, 0.3),
    }

    def of(*names):
        trained = [SimpleNamespace(policy=lambda name=name: name) for name in names]
        found = judge_each(trained, verdicts.get)
        return None if found is None else (trained.index(found[0]), found[1].delivered)

    assert of("a", "b", "c") == (1, "agent")
    assert of("a", "unknown") == (0, "rule")
    assert of("unknown") is None
    assert of() is None
