"""Tests of the gate that trains again: no policy is judged on a window that it was trained on."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.notes import telling
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.storage.run_files import FOLDS
from hindcast.policies.networks.checkpoint import read_description
from hindcast.policies.offline import training
from hindcast.policies.offline.stacked_training import train_stacked
from hindcast.policies.training.delivery import folds, played
from hindcast.policies.training.delivery import training as delivery
from hindcast.policies.training.delivery.verdict import rule_policy
from hindcast.policies.training.job import Options
from tests.policies.trainings import train

NAMES = ["packer_now", "sjf_now"]


def windows_of(train, validation, stretch_of=None):
    return played.Windows(None, None, None, train, validation, stretch_of=stretch_of)


def test_a_fold_is_a_stretch_of_each_split():
    found = folds.folds_of(windows_of(range(10), range(20, 25)))
    assert found == [[0, 1, 2, 20, 21], [3, 4, 5, 22], [6, 7, 23], [8, 9, 24]]


def test_every_fold_has_a_window_or_there_are_none():
    assert folds.folds_of(windows_of(range(3), [])) == []
    assert folds.folds_of(windows_of(range(4), [])) == [[0], [1], [2], [3]]


def test_a_fold_is_a_stretch_of_the_trace_whatever_the_numbers_of_its_windows():
    """Windows of 10 jobs begin at jobs 0, 20, 5, 25, ...: neighbours in time share five jobs."""
    starts = [0, 20, 40, 60, 5, 25, 45, 65]
    windows = windows_of(range(8), [], lambda w: (starts[w], starts[w] + 10))
    found = folds.folds_of(windows)
    assert found == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert [windows.apart(fold) for fold in found] == [[0], [1], [2], [3]]


def test_windows_that_all_share_a_job_have_no_folds(monkeypatch):
    """Every training would be left without a train window."""
    windows = windows_of(range(8), range(8, 12), lambda _window: (0, 100))
    spec = SimpleNamespace(outcomes=[SimpleNamespace(name="x", better="higher")])
    monkeypatch.setattr(folds, "best_rule", lambda *_: NAMES[0])
    assert folds.verdicts(replace(windows, spec=spec), NAMES, None) == {}


def test_a_training_leaves_out_what_shares_jobs_with_its_fold(monkeypatch):
    starts = [0, 8, 30, 48, 38, 80]  # window 3 begins where window 4 ends
    windows = windows_of(range(4), [4, 5], lambda w: (starts[w], starts[w] + 10))
    assert windows.touched([0]) == [0, 1]
    assert windows.touched([2]) == [2, 4]
    assert windows.touched([3, 5]) == [3, 5]
    asked = []
    monkeypatch.setattr(folds, "FOLDS", 2)
    monkeypatch.setattr(folds, "best_rule", lambda *_: NAMES[0])
    monkeypatch.setattr(
        folds, "values_of",
        lambda _w, policy, some, _v: np.array(some) * float(policy is None),  # a rule has 0
    )  # fmt: skip
    found = folds.verdicts(
        replace(windows, scenario=SimpleNamespace(name="slots"),
                spec=SimpleNamespace(outcomes=[SimpleNamespace(name="x", better="higher")])),
        NAMES, lambda _, left_out: asked.append(left_out) or {"last": None},
    )  # fmt: skip
    assert asked == [[0, 1, 2, 4], [2, 3, 4, 5]]
    assert found["last"].windows == 5  # of windows 0 and 1, which share jobs, the first is played


@pytest.mark.slow
def test_a_dataset_without_windows_has_their_episodes_in_no_split(log):
    opened = ds.open(log)
    rest = opened.without([1, 2]).without([5])
    assert rest.left_out == (1, 2, 5)
    assert set(rest.episodes("train")["window"]) == {0, 3}
    assert set(rest.episodes("validation")["window"]) == {4, 6, 7, 8, 9}
    assert {t.about["window"] for t in rest.iter_episodes("train")} == {0, 3}
    seen = set()
    for batch in rest.batches(64, np.random.default_rng(0), transitions=False):
        seen |= set(batch.episodes["window"].gather(batch.episode))
    assert seen == {0, 3}
    assert len(rest.episodes()) == len(opened.episodes())
    with pytest.raises(DatasetError, match="known: left out, validation"):
        opened.without(range(4)).episodes("train")


def test_the_difference_is_over_all_windows(log):
    """Each fold's windows are played by the policy that was trained without them."""
    opened = ds.open(log)
    windows = played.windows_of(opened.recipe, load_source(opened.recipe), 0)
    asked = []

    def without(number, left_out):
        asked.append(list(left_out))
        both = {"selected": rule_policy(opened.spec, "packer_now")} if number < 3 else {}
        return {**both, "last": rule_policy(opened.spec, NAMES[number % 2])}

    verdicts = folds.verdicts(windows, NAMES, without)
    assert asked == folds.folds_of(windows)
    assert list(verdicts) == ["last"]
    value = played.partial(played.headline_value, better="lower")
    of = {
        name: dict(zip(
            range(10),
            played.values_of(windows, rule_policy(opened.spec, name), range(10), value),
            strict=True,
        ))
        for name in NAMES
    }  # fmt: skip
    best = verdicts["last"].rule
    assert best == max(NAMES, key=lambda name: sum(of[name].values()))
    expected = [
        of[NAMES[number % 2]][w] - of[best][w] for number, fold in enumerate(asked) for w in fold
    ]
    assert verdicts["last"].windows == len(expected) == 10
    assert verdicts["last"].difference == pytest.approx(np.mean(expected), rel=1e-12)
    assert folds.verdicts(windows, [], without) == {}


@pytest.fixture
def trainings(monkeypatch):
    """Return the windows of every training, in order: those of train and of validation."""
    seen = []
    task_of = training.task_of

    def recorded(*given):
        task = task_of(*given)
        seen.append([set(split.episodes["window"]) for split in (task.decisions, task.validation)])
        return task

    monkeypatch.setattr(training, "task_of", recorded)
    return seen


@pytest.mark.slow
def test_a_training_is_repeated_without_each_fold(log, tmp_path, trainings):
    lines = []
    with telling(lines.append):
        out = train(log, "behaviour_cloning", steps=20, seed=0, out=tmp_path / "run", gate="folds")
    assert lines[0] == "fold 1 of 4: trained without 3 windows"
    assert len(lines) == 4
    whole, *others = trainings
    assert whole == [{0, 1, 2, 3}, {4, 5, 6, 7, 8, 9}]
    left_out = [(whole[0] - train, whole[1] - held_out) for train, held_out in others]
    assert left_out == [({0}, {4, 5}), ({1}, {6, 7}), ({2}, {8}), ({3}, {9})]
    told = read_description(out / "delivered")["training"]["delivered"]
    assert (told["metric"], told["windows"]) == ("mean_slowdown", 10)
    assert not (out / FOLDS).exists()
    plain = train(log, "behaviour_cloning", steps=20, seed=0, out=tmp_path / "plain")
    assert (out / "weights.safetensors").read_bytes() == (
        plain / "weights.safetensors"
    ).read_bytes()
    assert train(log, "behaviour_cloning", steps=20, seed=0, out=out, gate="folds") == out
    assert len(trainings) == 6


@pytest.mark.nightly
def test_finished_folds_are_not_trained_again(log, tmp_path, trainings, monkeypatch):
    fit_in = delivery.fit_in

    def interrupted(job, *more):
        if job.identity.data.get("left_out") == [2, 8]:
            raise KeyboardInterrupt
        return fit_in(job, *more)

    monkeypatch.setattr(delivery, "fit_in", interrupted)
    given = {"steps": 5, "seed": 0, "out": tmp_path / "run", "gate": "folds"}
    with pytest.raises(KeyboardInterrupt):
        train(log, "behaviour_cloning", **given)
    assert not (tmp_path / "run" / "checkpoint.json").exists()
    assert len(trainings) == 3
    monkeypatch.setattr(delivery, "fit_in", fit_in)
    train(log, "behaviour_cloning", **given)
    again = trainings[3:]
    assert [{0, 1, 2, 3} - seen for seen, _ in again] == [set(), {2}, {3}]
    whole = train(log, "behaviour_cloning", **{**given, "out": tmp_path / "whole"})
    for name in ("weights.safetensors", "delivered/weights.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes()
    shutil.rmtree(whole)


def test_a_stacked_training_cannot_be_repeated(log):
    with pytest.raises(InputError, match="--gate folds repeats a training"):
        train_stacked(log, "double_dqn", [], Options(gate="folds"))
