"""Tests of the Gymnasium adaptor: Gymnasium's checker, masks, invalid actions, windows."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from hindcast.pipeline.errors import InfeasibleChoice, InputError
from hindcast.pipeline.gymnasium_env.problem import INVALID_LIMIT
from hindcast.pipeline.gymnasium_env.single import SchedulingEnv


@pytest.mark.filterwarnings(
    "ignore:.*infinity. This is probably too"
)  # some features are unbounded
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


def test_the_seed_gives_the_order_of_the_windows(tiny_recipe):
    """A chosen window takes the place of a drawn one, and those after it stay the same."""
    env = SchedulingEnv(tiny_recipe)
    assert isinstance(env, gymnasium.Env)
    drawn = [env.reset(seed=7)[1]["window"], *(env.reset()[1]["window"] for _ in range(20))]
    again = [env.reset(seed=7)[1]["window"], *(env.reset()[1]["window"] for _ in range(20))]
    assert drawn == again
    assert set(drawn) == set(range(6))
    assert env.reset(seed=7, options={"window": 5})[1]["window"] == 5
    assert [env.reset()[1]["window"] for _ in range(20)] == drawn[1:]


def test_options_that_do_not_exist_are_refused(tiny_recipe):
    env = SchedulingEnv(tiny_recipe)
    with pytest.raises(InputError, match=r"window'\] is 6, expected one of the 6 windows .* 0..5"):
        env.reset(options={"window": 6})  # a window of the validation split
    with pytest.raises(InputError, match="did you mean 'window'"):
        env.reset(options={"windows": 2})


def test_actions_that_do_not_exist_are_refused(tiny_recipe):
    env = SchedulingEnv(tiny_recipe, candidates=4)
    with pytest.raises(InfeasibleChoice, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    for action in (-1, 4):
        with pytest.raises(InfeasibleChoice, match=r"actions are 0\.\.3"):
            env.step(action)
    over = False
    while not over:
        _, _, over, _, _ = env.step(int(env.action_masks().argmax()))
    with pytest.raises(InfeasibleChoice, match="call reset"):
        env.step(0)
