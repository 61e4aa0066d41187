"""Tests of the Gymnasium adaptor: Gymnasium's checker, masks, invalid actions."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pipeline.errors import InfeasibleChoice
from pipeline.gymnasium_env import INVALID_LIMIT, SchedulingEnv


def test_gymnasium_accepts_it(tiny_recipe):
    check_env(SchedulingEnv(tiny_recipe, candidates=16), skip_render_check=True)


def test_an_episode_ends_with_its_outcome(tiny_recipe):
    env = SchedulingEnv(tiny_recipe, candidates=64)
    observation, info = env.reset(seed=3, options={"window": 2})
    rng = np.random.default_rng(0)
    total, over = 0.0, False
    while not over:
        np.testing.assert_array_equal(observation["mask"].astype(bool), env.action_masks())
        np.testing.assert_array_equal(info["action_mask"], env.action_masks())
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, reward, over, truncated, info = env.step(action)
        total += float(reward)
        assert not truncated
    assert total == -info["outcome"]["makespan_s"]


def test_infeasible_actions_do_nothing_and_are_told(tiny_recipe):
    env = SchedulingEnv(tiny_recipe, candidates=64)
    before, _ = env.reset(seed=0)
    wrong = int(np.flatnonzero(~env.action_masks())[0])
    for count in range(INVALID_LIMIT):
        after, reward, over, truncated, info = env.step(wrong)
        assert info["invalid_action"]
        assert (reward, over) == (0.0, False)
        assert truncated == (count == INVALID_LIMIT - 1)
    for name, values in before.items():
        np.testing.assert_array_equal(values, after[name])


def test_strict_raises(tiny_recipe):
    env = SchedulingEnv(tiny_recipe, candidates=64, strict=True)
    env.reset(seed=0)
    with pytest.raises(InfeasibleChoice):
        env.step(int(np.flatnonzero(~env.action_masks())[0]))


def test_candidates_beyond_k_are_counted_and_choices_still_fit(tiny_recipe):
    """Cut to one candidate, every decision is forced and the episode still ends."""
    env = SchedulingEnv(tiny_recipe, candidates=1)
    _, info = env.reset(seed=0)
    cut, over = 0, False
    while not over:
        cut += info["cut_candidates"]
        _, _, over, _, info = env.step(0)
    assert cut > 0


def test_the_same_seed_gives_the_same_window(tiny_recipe):
    windows = [SchedulingEnv(tiny_recipe).reset(seed=s)[1]["window"] for s in (1, 1, 2, 3, 4)]
    assert windows[0] == windows[1]
    assert len(set(windows)) > 1
    assert isinstance(SchedulingEnv(tiny_recipe), gymnasium.Env)
