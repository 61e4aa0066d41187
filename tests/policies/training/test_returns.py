"""Tests that episodes are compared inside their window, and returns to go within the same tenth."""

import dataclasses

import numpy as np
import pytest

from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.policies.offline.cloning.filtered_cloning import best_episodes
from hindcast.policies.training.returns import standardised_to_go, undiscounted_to_go, windows_of
from tests.policies.logs import Log, some_candidates, some_context
from tests.policies.trainings import train_agent


def _log(windows, rewards):
    """Return one episode per entry, with these rewards and one candidate per decision."""
    rng = np.random.default_rng(0)
    log = Log()
    for window, of_episode in zip(windows, rewards, strict=True):
        log.episode(
            window,
            [{"context": some_context(rng), "candidates": some_candidates(rng, 2), "choice": 0,
              "reward": reward} for reward in of_episode],
        )  # fmt: skip
    return log.build()


def test_returns_to_go_by_hand():
    decisions = _log([0, 0], [[1.0, 2.0, 4.0], [0.0, 1.0]])
    assert undiscounted_to_go(decisions).tolist() == [7.0, 6.0, 4.0, 1.0, 1.0]
    given = dataclasses.replace(decisions, to_go=np.zeros(5))
    assert undiscounted_to_go(given).tolist() == [0.0] * 5
    with pytest.raises(DatasetError, match="only some decisions"):
        undiscounted_to_go(decisions.take(np.array([0, 2, 3, 4])))


def test_z_compares_the_same_part_of_episodes_of_one_window():
    """In one window returns to go are (3, 1) and (1, 1); another window has a single episode."""
    decisions = _log([0, 0, 5], [[2.0, 1.0], [0.0, 1.0], [9.0, 9.0]])
    assert standardised_to_go(decisions).tolist() == [1.0, 0.0, -1.0, 0.0, 0.0, 0.0]


def test_where_every_window_has_one_episode_all_are_compared():
    decisions = _log([3, 4], [[2.0], [1.0]])
    assert windows_of(decisions).tolist() == [0, 0]
    assert standardised_to_go(decisions).tolist() == [1.0, -1.0]


def test_a_long_episode_counts_no_more_than_a_short_one():
    """Within the first tenth, the episode of 20 has two decisions and the episode of 2 has one."""
    rewards = [[0.0] * 19 + [4.0], [1.0, 0.0]]
    z = standardised_to_go(_log([0, 0], rewards))
    assert z[[0, 1]].tolist() == [1.0, 1.0]
    assert z[20] == -1.0


def test_the_best_share_of_each_window_is_kept_and_at_least_one():
    decisions = _log([0, 0, 0, 1, 1], [[1.0], [3.0], [2.0], [0.0], [0.0]])
    assert best_episodes(decisions, 0.2).tolist() == [False, True, False, True, False]
    assert best_episodes(decisions, 0.5).tolist() == [False, True, True, True, False]
    assert best_episodes(decisions, 1.0).all()
    with pytest.raises(RecipeError, match="share is 0"):
        train_agent(
            "filtered_cloning", decisions, _spec(), steps=1, seed=0, settings={"share": 0.0}
        )


def _spec():
    from tests.policies.logs import SPEC

    return SPEC
