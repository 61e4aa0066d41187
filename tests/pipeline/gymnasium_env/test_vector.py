"""Tests of the vector environment: it equals single environments, step for step."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from hindcast.pipeline.errors import InfeasibleChoice, InputError
from hindcast.pipeline.gymnasium_env.problem import INVALID_LIMIT
from hindcast.pipeline.gymnasium_env.registration import register_envs
from hindcast.pipeline.gymnasium_env.single import SchedulingEnv
from hindcast.pipeline.gymnasium_env.vector import SchedulingVectorEnv


def assert_same_infos(ours, theirs):
    """Assert that each info is given for the same environments, with the same values there."""
    assert ours.keys() == theirs.keys()
    for name in (name for name in ours if not name.startswith("_")):
        given = ours[f"_{name}"]
        np.testing.assert_array_equal(given, theirs[f"_{name}"], name)
        if isinstance(ours[name], dict):
            assert_same_infos(ours[name], theirs[name])
        else:
            np.testing.assert_array_equal(ours[name][given], theirs[name][given], name)


def play(ours, theirs, steps, seed=5):
    """Step both with the same actions, one in ten of them without the mask; count episodes."""
    rng = np.random.default_rng(0)
    pair = ours.reset(seed=seed), theirs.reset(seed=seed)
    ends = np.zeros(ours.num_envs, int)
    for _ in range(steps):
        (seen, *results, info), (expected, *expected_results, expected_info) = pair
        assert seen.keys() == expected.keys()
        for name, values in seen.items():
            assert values.dtype == expected[name].dtype
            np.testing.assert_array_equal(values, expected[name], name)
        for values, others in zip(results, expected_results, strict=True):
            np.testing.assert_array_equal(values, others)
        assert_same_infos(info, expected_info)
        mask = info["action_mask"] | (rng.random(ours.num_envs) < 0.1)[:, None]
        actions = (rng.random(mask.shape) * (mask + 1e-9)).argmax(axis=1)
        pair = ours.step(actions), theirs.step(actions)
        ends += pair[0][2] | pair[0][3]
    return ends


@pytest.mark.slow
def test_it_equals_single_environments(small):
    """Also with fewer rows than candidates, across resets and for infeasible actions."""
    name, arguments = small
    ours = gymnasium.make_vec(name, num_envs=3, **arguments)
    assert isinstance(ours.unwrapped, SchedulingVectorEnv)
    theirs = SyncVectorEnv([lambda: gymnasium.make(name, **arguments).unwrapped] * 3)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    ends = play(ours, theirs, 250)
    assert ends.min() >= 1


@pytest.mark.parametrize(
    ("recipe", "arguments"),
    [
        ("slots-deeprm-v1", {"overrides": ("config.steps=6", "config.observation='image'")}),
        ("binpack-synthetic-v1", {"overrides": ("config.jobs_per_window=3",), "candidates": 5}),
    ],
    ids=["image", "cut candidates"],
)
def test_it_equals_single_environments_with(recipe, arguments):
    ours = SchedulingVectorEnv(2, recipe, **arguments)
    theirs = SyncVectorEnv([lambda: SchedulingEnv(recipe, **arguments)] * 2)
    play(ours, theirs, 60)


@pytest.fixture
def slots():
    """Return four small environments of slots."""
    return SchedulingVectorEnv(4, "slots-deeprm-v1", overrides=["config.steps=6"], candidates=11)


def test_gymnasium_makes_it_and_says_how_it_resets():
    register_envs()
    envs = gymnasium.make_vec(
        "hindcast/Slots-v0", num_envs=2, vectorization_mode="vector_entry_point"
    )
    if hasattr(gymnasium.vector, "AutoresetMode"):
        assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
    observation, _ = envs.reset(seed=0)
    assert envs.observation_space.contains(observation)
    assert envs.unwrapped.action_masks().shape == (2, 11)


def test_a_seed_gives_the_same_windows_and_others_follow(slots):
    first = slots.reset(seed=3)[1]["window"]
    second = slots.reset()[1]["window"]
    assert (slots.reset(seed=[3, 4, 5, 6])[1]["window"] == first).all()
    assert (slots.reset()[1]["window"] == second).all()
    assert (first != second).any()


def test_windows_can_be_chosen(slots):
    assert (slots.reset(options={"window": 7})[1]["window"] == 7).all()
    assert slots.reset(options={"window": [1, 2, 3, 4]})[1]["window"].tolist() == [1, 2, 3, 4]


def test_arguments_that_do_not_fit_are_named(slots):
    with pytest.raises(InfeasibleChoice, match="call reset"):
        slots.step(np.zeros(4, int))
    with pytest.raises(InputError, match="2 windows, expected 4"):
        slots.reset(options={"window": [1, 2]})
    with pytest.raises(InputError, match="2 seeds, expected 4"):
        slots.reset(seed=[1, 2])
    slots.reset(seed=0)
    with pytest.raises(InfeasibleChoice, match=r"expected 0\.\.10"):
        slots.step(np.array([0, 0, 0, -1]))
    with pytest.raises(InfeasibleChoice, match=r"expected \(4,\)"):
        slots.step(np.zeros(3, int))
    with pytest.raises(InputError, match="num_envs is 0"):
        SchedulingVectorEnv(0, "slots-deeprm-v1")


def test_strict_names_the_environment():
    envs = SchedulingVectorEnv(2, "slots-deeprm-v1", strict=True)
    _, info = envs.reset(seed=0)
    actions = info["action_mask"].argmax(axis=1)
    actions[1] = info["action_mask"][1].argmin()
    with pytest.raises(InfeasibleChoice, match="of environment 1 is not feasible"):
        envs.step(actions)


@pytest.mark.parametrize("masked", [False, True])
def test_a_refused_call_draws_no_window(masked):
    """Windows are the same if a call is refused while one of two episodes is over."""
    windows = []
    for tries in (False, True):
        envs = SchedulingVectorEnv(2, "slots-deeprm-v1", overrides=["config.steps=3"], strict=True)
        _, info = envs.reset(seed=0)
        over, tried, begun = np.zeros(2, bool), 0, []
        for _ in range(150):
            actions = info["action_mask"].argmax(axis=1)
            goes_on = int(np.argmin(over))
            if tries and over.sum() == 1:
                refused = actions.copy()
                refused[goes_on] = info["action_mask"][goes_on].argmin() if masked else 99
                with pytest.raises(InfeasibleChoice):
                    envs.step(refused)
                tried += 1
            _, _, terminated, truncated, info = envs.step(actions)
            over = terminated | truncated
            if "window" in info:
                begun.append(np.where(info["_window"], info["window"], -1).tolist())
        windows.append(begun)
    assert tried > 0
    assert windows[0] == windows[1]


def test_infeasible_actions_truncate_an_episode_that_then_begins_again(slots):
    _, info = slots.reset(seed=0)
    wrong = info["action_mask"].argmin(axis=1)
    for count in range(INVALID_LIMIT):
        _, _, _, truncated, info = slots.step(wrong)
        assert (truncated == (count == INVALID_LIMIT - 1)).all()
    assert info["_outcome"].all()
    assert slots.step(wrong)[-1]["_window"].all()


def test_views_change_with_the_next_step_and_copies_do_not():
    for copy in (True, False):
        envs = SchedulingVectorEnv(2, "slots-deeprm-v1", copy=copy)
        seen, _ = envs.reset(seed=0)
        before = seen["candidates"].copy()
        envs.step(np.full(2, 10))  # time passes
        assert np.array_equal(before, seen["candidates"]) == copy


def test_every_environment_is_rendered():
    envs = SchedulingVectorEnv(2, "slots-deeprm-v1", render_mode="ansi")
    with pytest.raises(InfeasibleChoice, match="call reset"):
        envs.render()
    envs.reset(options={"window": [4, 9]})
    assert ["window 4" in envs.render()[0], "window 9" in envs.render()[1]] == [True, True]
