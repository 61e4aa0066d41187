"""Tests of pictures and text: every scenario has both, and they show the observation."""

import numpy as np
import pytest

from hindcast.pipeline.errors import InfeasibleChoice, InputError
from hindcast.pipeline.gymnasium_env.rendering import View, picture
from hindcast.pipeline.gymnasium_env.single import SchedulingEnv
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.spec import Feature, Spec


def test_text_shows_the_candidates(make):
    env = make(render_mode="ansi").unwrapped
    _, info = env.reset(seed=0)
    shown = env.render()
    assert f"window {info['window']}" in shown
    for feature in env.scenario_spec.candidates:
        assert feature.name in shown
    feasible = info["action_mask"][:20].sum()
    assert sum(line.startswith("* ") for line in shown.splitlines()) == feasible + 1  # and the key


@pytest.mark.slow
def test_pictures_change_with_the_state(make):
    env = make(render_mode="rgb_array")
    _, info = env.reset(seed=0)
    before = env.render()
    assert (before.dtype, before.shape) == (np.uint8, (480, 1120, 3))
    assert len(np.unique(before)) > 20
    np.testing.assert_array_equal(before, env.render())
    for _ in range(5):
        _, _, _, _, info = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
    assert (env.render() != before).any()


@pytest.mark.slow
def test_a_scenario_without_a_drawing_shows_the_features_of_the_moment():
    feature = Feature("load", "1", 0, 1, "a load")
    spec = Spec("toy", "speed", (feature,), (feature,), (), ())
    pictures = [
        picture(View(spec, Observation(0.0, np.full(1, x), np.ones((2, 1)), np.ones(2, bool)), "t"))
        for x in (0.2, 0.9)
    ]
    assert (pictures[0] != pictures[1]).any()


def test_nothing_is_rendered_without_a_mode_or_an_episode():
    env = SchedulingEnv("slots-deeprm-v1", render_mode="ansi")
    with pytest.raises(InfeasibleChoice, match="call reset"):
        env.render()
    with pytest.raises(InputError, match="did you mean 'rgb_array'"):
        SchedulingEnv("slots-deeprm-v1", render_mode="rgb_aray")
    assert SchedulingEnv("slots-deeprm-v1").render() is None
