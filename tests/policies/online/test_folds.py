"""Tests of online trainings that are repeated without a part of their windows."""

import dataclasses

import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.notes import telling
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.storage.run_files import FOLDS
from hindcast.policies.networks.checkpoint import Trained, read_description
from hindcast.policies.online import training
from hindcast.policies.online.gates import decide_by
from hindcast.policies.online.guard import GuardEpisodes
from hindcast.policies.online.imitation import Imitation
from hindcast.policies.online.problem import fit_network
from hindcast.policies.online.training import problem_of
from hindcast.policies.registry import behaviours
from hindcast.policies.training.delivery.verdict import LAST, rule_policy
from tests.folders import content
from tests.policies.trainings import train_online

SPLITS = (
    'split.train="0..3"', 'split.validation="4..9"', 'split.test="10..10"', "config.steps=25",
)  # fmt: skip
WHOLE = ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9])
LEFT_OUT = [[0, 4, 5], [1, 6, 7], [2, 8], [3, 9]]


@pytest.fixture(scope="module")
def recipe():
    """Return job sets of `slots` with four train windows and six for validation."""
    sampling = ("trajectories=2", "windows=2", "stay=1")
    small = [f"online.settings.sampling.{one}" for one in sampling]
    return load_recipe("slots-deeprm-online", (*SPLITS, *small))


@pytest.fixture
def trainings(monkeypatch):
    """Return the windows of every training, in order: those of train and of validation."""
    seen = []

    def recorded(problem, settings):
        seen.append((list(problem.train), list(problem.validation)))
        return fit_network(problem, settings)

    monkeypatch.setattr(training, "fit_network", recorded)
    return seen


def left_out_of(seen):
    return [
        [w for whole, rest in zip(WHOLE, one, strict=True) for w in whole if w not in rest]
        for one in seen
    ]


@pytest.mark.slow
def test_a_training_is_repeated_without_each_fold(recipe, tmp_path, trainings):
    lines = []
    with telling(lines.append):
        out = train_online(recipe, out=tmp_path / "run", iterations=2, gate="folds")
    assert [line for line in lines if "fold" in line] == [
        f"fold {k + 1} of 4: trained without {len(one)} windows" for k, one in enumerate(LEFT_OUT)
    ]
    assert left_out_of(trainings) == [[], *LEFT_OUT]
    told = read_description(out / "delivered")["training"]["delivered"]
    assert (told["metric"], told["windows"]) == ("mean_slowdown", 10)
    assert not (out / FOLDS).exists()
    plain = train_online(recipe, out=tmp_path / "plain", iterations=2)
    for name in ("weights.safetensors", "best/weights.safetensors"):
        assert (out / name).read_bytes() == (plain / name).read_bytes()
    train_online(recipe, out=out, iterations=2, gate="folds")
    assert len(trainings) == 6
    train_online(recipe, out=plain, iterations=2, gate="folds")
    assert left_out_of(trainings[6:]) == LEFT_OUT
    assert content(plain) == content(out)


@pytest.mark.slow
def test_a_finished_training_stays_whole_until_another_gate_has_decided(
    recipe, tmp_path, trainings, monkeypatch
):
    recorded = training.fit_network

    def interrupted(problem, settings):
        if 2 not in problem.train:
            raise KeyboardInterrupt
        return recorded(problem, settings)

    out = train_online(recipe, out=tmp_path / "run", iterations=2)
    before = content(out)
    monkeypatch.setattr(training, "fit_network", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_online(recipe, out=out, iterations=2, gate="folds")
    assert before.items() <= content(out).items()
    monkeypatch.setattr(training, "fit_network", recorded)
    train_online(recipe, out=out, iterations=2, gate="folds")
    assert left_out_of(trainings) == [[], *LEFT_OUT]
    told = read_description(out / "delivered")["training"]["delivered"]
    assert told["windows"] == 10


@pytest.mark.slow
def test_finished_folds_are_not_trained_again(recipe, tmp_path, trainings, monkeypatch):
    recorded = training.fit_network

    def interrupted(problem, settings):
        if 2 not in problem.train:
            raise KeyboardInterrupt
        return recorded(problem, settings)

    monkeypatch.setattr(training, "fit_network", interrupted)
    given = {"iterations": 2, "gate": "folds"}
    with pytest.raises(KeyboardInterrupt):
        train_online(recipe, out=tmp_path / "run", **given)
    assert not (tmp_path / "run" / "checkpoint.json").exists()
    assert left_out_of(trainings) == [[], *LEFT_OUT[:2]]
    monkeypatch.setattr(training, "fit_network", recorded)
    train_online(recipe, out=tmp_path / "run", **given)
    assert left_out_of(trainings[3:]) == [[], *LEFT_OUT[2:]]
    whole = train_online(recipe, out=tmp_path / "whole", workers=2, **given)
    assert content(tmp_path / "run") == content(whole)


@pytest.mark.slow
def test_a_fold_imitates_no_episode_of_its_windows(recipe, tmp_path, monkeypatch):
    log = load_recipe("slots-deeprm-v1", SPLITS)
    some = tuple(b for b in log.behaviours if b.policy in ("sjf_now", "hold_5"))
    log = dataclasses.replace(log, behaviours=some)
    build(log, behaviours(log), tmp_path / "log")
    imitated = []
    without = ds.Dataset.without

    def recorded(self, windows):
        imitated.append(list(windows))
        return without(self, windows)

    monkeypatch.setattr(ds.Dataset, "without", recorded)
    train_online(
        recipe, out=tmp_path / "run", iterations=1, gate="folds",
        imitation=Imitation(tmp_path / "log", steps=2),
    )  # fmt: skip
    assert imitated == [[], *LEFT_OUT]


@pytest.mark.slow
def test_what_a_guard_refuses_in_a_fold_is_not_delivered(recipe):
    """Without a guard, the last checkpoint is compared; with one, only a selected one."""
    problem = problem_of(recipe, 0, 1)
    agent = rule_policy(problem.spec, "hold_5")
    trained = Trained("agent", problem.spec, agent.network, agent.weights, {}, 1, 0)

    def decided(guard):
        guarded = dataclasses.replace(problem, guard=guard)
        decide = decide_by(guarded, "folds", lambda *_: {LAST: agent})
        chosen, verdict = decide({LAST: trained})
        assert chosen is trained
        return verdict

    assert decided(None).difference is not None
    guard = GuardEpisodes(
        problem.scenario, problem.spec, (problem.instance_of(0),), ("sjf_now",), 1e9, {}, 0, 1
    )
    found = decided(guard)
    assert (found.delivered, found.difference) == ("rule", None)


def test_trainings_that_cannot_be_repeated_are_refused(recipe, tmp_path):
    with pytest.raises(InputError, match=r"--gate folds .* give one of the two"):
        train_online(recipe, out=tmp_path / "a", start=[tmp_path], gate="folds")
    one = load_recipe("slots-deeprm-online", (*SPLITS, 'split.train="0..0"'))
    with pytest.raises(RecipeError, match="--gate folds leaves out train windows"):
        train_online(one, out=tmp_path / "a", gate="folds")
    assert not (tmp_path / "a").exists()
