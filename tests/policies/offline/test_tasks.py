"""Tests that agents of one seed share one sample, which is read once and never changed."""

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.policies.offline import AGENTS, anywhere, read_config
from hindcast.policies.offline import tasks as sampled
from tests.policies.trainings import train
from tests.representatives import nightly_but

MEMORY = 64 << 20


def drawn(tiny_dataset, name, seed):
    agent, opened = AGENTS[name], ds.open(tiny_dataset)
    return sampled.sample(opened, agent, read_config(name, None), seed, "train", MEMORY, None)


def test_the_next_agent_is_given_the_sample_of_the_one_before(tiny_dataset):
    first = drawn(tiny_dataset, "cql", 3)
    assert drawn(tiny_dataset, "double_dqn", 3) is first
    assert drawn(tiny_dataset, "double_dqn", 4) is not first


def test_one_sample_is_held_and_another_want_is_another_sample(tiny_dataset):
    first = drawn(tiny_dataset, "cql", 3)
    other = drawn(tiny_dataset, "behaviour_cloning", 3)
    assert first.next_mask is not None
    assert other.next_mask is None
    assert drawn(tiny_dataset, "cql", 3) is not first
    assert (drawn(tiny_dataset, "cql", 3).choice == first.choice).all()


def test_trajectory_preference_reads_as_many_decisions_of_an_episode_as_asked(tiny_dataset):
    opened, agent = ds.open(tiny_dataset), AGENTS["trajectory_preference"]
    steps = opened.episodes("train")["steps"].to_numpy()
    assert (steps > 3).any()
    for asked in (3, 10**6):
        config = read_config(agent.name, {"per_episode": asked})
        found = sampled.sample(opened, agent, config, 3, "train", MEMORY, None)
        counts = np.bincount(found.episode, minlength=len(steps))
        assert (counts == np.minimum(steps, asked)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but({"cql", "trajectory_preference"}, sorted(anywhere())))
def test_no_agent_changes_what_it_learns_from(name, tiny_dataset, tmp_path):
    sampled._HELD.clear()
    train(tiny_dataset, name, steps=3, seed=5, out=tmp_path / "a")
    (_key, held), (_other, validation) = sampled._HELD["train"], sampled._HELD["validation"]
    sampled._HELD.clear()
    train(tiny_dataset, name, steps=1, seed=5, out=tmp_path / "b")
    for before, split in ((held, "train"), (validation, "validation")):
        fresh = sampled._HELD[split][1]
        assert fresh is not before
        for column in ("context", "candidates", "mask", "choice", "reward", "episode", "to_go"):
            assert np.array_equal(getattr(before, column), getattr(fresh, column)), column
