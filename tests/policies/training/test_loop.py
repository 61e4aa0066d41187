"""Tests of the training loop: callbacks and interruptions leave the weights equal bit for bit."""

import dataclasses

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from hindcast.pipeline.errors import DatasetError, InputError, UnknownName
from hindcast.policies.offline import agent, anywhere, read_config
from hindcast.policies.training.devices import DEVICES, find_device, repeatable
from tests.policies.trainings import train_agent, train_decisions
from tests.representatives import nightly_but

STEPS = 12
OFTEN = {"target_update_interval": 3}  # so that targets differ from the learning network


class Killed(Exception):
    """Exception raised in the middle of a training."""


def _config(name):
    known = {f.name for f in dataclasses.fields(read_config(name))}
    return read_config(name, OFTEN if "target_update_interval" in known else {})


def _train(name, log, spec, **more):
    return train_decisions(
        agent(name), log.build(), spec, _config(name), steps=STEPS, seed=3,
        validation=log.build(), **more,
    )  # fmt: skip


def _same(one, other):
    assert one.weights.keys() == other.weights.keys()
    return all(np.array_equal(v, other.weights[k]) for k, v in one.weights.items())


def _kill_after(step):
    def progress(done, _steps):
        if done == step:
            raise Killed

    return progress


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but({"cql", "iql", "behaviour_cloning"}, anywhere()))
def test_a_killed_run_ends_in_the_same_weights_and_curves(name, noisy_episodes, spec, tmp_path):
    """Kills after steps 1, 5 and 11 show that all state of an agent is kept."""
    whole = _train(name, noisy_episodes, spec)
    for step in (1, 5, 11):
        try:
            _train(
                name, noisy_episodes, spec, resume=(tmp_path, "key"), resume_s=0.0,
                progress=_kill_after(step),
            )  # fmt: skip
        except Killed:
            continue
        assert len(whole.metrics) < 20, "only an agent that is done at once survives"
    seen = []
    gone_on = _train(
        name, noisy_episodes, spec, resume=(tmp_path, "key"), resume_s=0.0,
        progress=lambda done, of: seen.append(done),
    )  # fmt: skip
    assert len(seen) < STEPS
    assert _same(whole, gone_on)
    assert whole.metrics == gone_on.metrics
    assert (whole.best is None) == (gone_on.best is None)
    if whole.best is not None:
        assert whole.best.step == gone_on.best.step
        assert _same(whole.best, gone_on.best)


@pytest.mark.slow
def test_a_state_older_than_the_kill_is_as_good(noisy_episodes, spec, tmp_path):
    """States are saved at intervals, and steps since the last state are repeated."""
    whole = _train("cql", noisy_episodes, spec)
    asked = iter(range(1, 10_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "hindcast.policies.training.resume.ResumeFile.due", lambda self: next(asked) % 4 == 0
        )
        with pytest.raises(Killed):
            _train("cql", noisy_episodes, spec, resume=(tmp_path, "k"), progress=_kill_after(7))
    again = []
    gone_on = _train("cql", noisy_episodes, spec, resume=(tmp_path, "k"),
                     progress=lambda done, of: again.append(done))  # fmt: skip
    assert again[0] == 5
    assert _same(whole, gone_on)


@pytest.mark.slow
def test_the_state_of_another_training_is_not_gone_on_with(noisy_episodes, spec, tmp_path):
    with pytest.raises(Killed):
        _train("behaviour_cloning", noisy_episodes, spec, resume=(tmp_path, "one"), resume_s=0.0,
               progress=_kill_after(5))  # fmt: skip
    seen = []
    _train("behaviour_cloning", noisy_episodes, spec, resume=(tmp_path, "other"),
           progress=lambda done, of: seen.append(done))  # fmt: skip
    assert seen[0] == 1


@pytest.mark.slow
def test_a_damaged_state_is_named(noisy_episodes, spec, tmp_path):
    """Any truncation or changed byte causes one clear error or a state of another training."""
    folder = tmp_path / "x"
    folder.mkdir()
    with pytest.raises(Killed):
        _train("behaviour_cloning", noisy_episodes, spec, resume=(folder, "k"), resume_s=0.0,
               progress=_kill_after(5))  # fmt: skip
    path = folder / "training.safetensors"
    content = path.read_bytes()
    for damaged in (b"", content[:7], content[:200], content[:-4], b"\xff" * 1000):
        path.write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"training\.safetensors.*start again"):
            _train("behaviour_cloning", noisy_episodes, spec, resume=(folder, "k"))


@pytest.mark.slow
def test_who_looks_on_changes_nothing(noisy_episodes, spec):
    """Checkpoints, points, validation and a selection leave the weights unchanged."""
    bare = train_agent("double_dqn", noisy_episodes.build(), spec, steps=STEPS, seed=3)
    kept, points = [], []
    probes = train_agent(
        "double_dqn", noisy_episodes.build(), spec, steps=STEPS, seed=3,
        validation=noisy_episodes.build(), checkpoint_every=5, keep=kept.append,
        point=lambda step, metrics: points.append((step, metrics)),
        select=lambda metrics: -1.0, selected_by="first",
    )  # fmt: skip
    assert _same(bare, probes)
    assert [c.steps for c in kept] == [5, 10, 12]
    assert _same(kept[-1], probes)
    assert not _same(kept[0], probes)
    assert [step for step, _ in points] == list(range(1, STEPS + 1))
    assert {"td_error", "mean_q", "log_agreement", "validation_preference"} <= set(points[0][1])
    assert (probes.best.step, probes.best.metric) == (1, "first")


def test_a_selection_chooses_the_best_checkpoint(noisy_episodes, spec):
    """The selection gets the metrics of every point. None and nan mean no opinion."""
    opinions = {1: None, 2: float("nan"), 3: 1.0, 7: 2.0, 9: 2.0}
    calls = iter(range(1, 100))
    trained = train_agent(
        "behaviour_cloning", noisy_episodes.build(), spec, steps=STEPS, seed=3,
        select=lambda metrics: opinions.get(next(calls)), selected_by="mine",
    )  # fmt: skip
    assert (trained.best.step, trained.best.score) == (7, 2.0)
    assert not _same(trained.best, trained)


def test_the_default_selection_is_the_agents_criterion(noisy_episodes, spec):
    trained = _train("behaviour_cloning", noisy_episodes, spec)
    losses = {m.step: m.value for m in trained.metrics if m.metric == "validation_loss"}
    assert trained.best.metric == "validation_loss"
    assert trained.best.step == min(losses, key=losses.get)
    assert trained.best.score == -min(losses.values())
    without = train_agent("behaviour_cloning", noisy_episodes.build(), spec, steps=3, seed=3)
    assert without.best is None


def test_the_step_size_falls_to_zero_for_agents_that_ask_for_it(noisy_episodes, spec, monkeypatch):
    """Step sizes of agents with that setting fall linearly from the full size of the first step."""
    from hindcast.policies.training import learner

    sizes = []
    descend = learner.descend

    def spy(optimiser, loss):
        sizes.append(optimiser.param_groups[0]["lr"])
        descend(optimiser, loss)

    monkeypatch.setattr(learner, "descend", spy)
    train_agent("behaviour_cloning", noisy_episodes.build(), spec, steps=4, seed=3,
                settings={"learning_rate": 0.1})  # fmt: skip
    np.testing.assert_allclose(sizes, [0.1, 0.075, 0.05, 0.025])


def test_a_device_is_found_or_named():
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type in DEVICES
    with pytest.raises(UnknownName, match="did you mean 'cuda'"):
        find_device("cudaa")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="no CUDA device"):
            find_device("cuda")


def test_a_training_uses_one_thread_of_blas_and_gives_the_others_back():
    """Large products and decompositions round differently on other numbers of threads."""

    def threads():
        found = threadpool_info()
        return {one["num_threads"] for one in found if one["user_api"] == "blas"}

    with threadpool_limits(limits=2, user_api="blas"):
        with repeatable(torch.device("cpu")):
            assert threads() == {1}
        assert threads() == {2}
