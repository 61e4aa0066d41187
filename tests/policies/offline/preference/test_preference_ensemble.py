"""Tests of the preference ensemble: bootstrap samples of windows, averaged weights, settings."""

import numpy as np
import pytest

from hindcast.pipeline.errors import RecipeError
from hindcast.policies.offline.preference.preference_ensemble import resampled
from hindcast.policies.offline.preference.trajectory_preference import Config, rank
from tests.policies.trainings import train_agent


@pytest.mark.slow
def test_it_finds_what_made_episodes_better(noisy_episodes, spec, share_of_best):
    trained = train_agent("preference_ensemble", noisy_episodes.build(), spec, steps=150, seed=0)
    assert share_of_best(trained.policy()) > 0.9


def _ensemble(log, spec, **settings):
    kept = []
    trained = train_agent(
        "preference_ensemble", log.build(), spec, steps=10, seed=0, settings=settings,
        checkpoint_every=1, keep=kept.append,
    )  # fmt: skip
    return trained.weights["layer0.weight"], [c.weights["layer0.weight"] for c in kept]


def test_the_average_is_over_the_last_share_of_the_steps(noisy_episodes, spec):
    """Half of ten steps are the last five. Averaging does not change the steps."""
    last, way = _ensemble(noisy_episodes, spec, members=1, average=0.0)
    assert np.array_equal(last, way[-1])
    averaged, averaging = _ensemble(noisy_episodes, spec, members=1, average=0.5)
    np.testing.assert_allclose(averaged, np.mean(way[5:], axis=0), rtol=1e-4, atol=1e-7)
    assert np.array_equal(averaging[4], way[4])


@pytest.mark.slow
def test_members_see_other_windows_and_are_averaged(noisy_episodes, spec):
    ranking = rank(noisy_episodes.build(), spec, Config())
    drawn = resampled(ranking, np.random.default_rng(0))
    assert len(drawn.size) == len(ranking.size)
    assert set(drawn.start) < set(ranking.start)
    one, _ = _ensemble(noisy_episodes, spec, members=1)
    three, _ = _ensemble(noisy_episodes, spec, members=3)
    assert not np.allclose(one, three)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"network.hidden": [4]}, "no mean of their scores"),
        ({"members": 0}, "members is 0, expected from 1"),
        ({"average": 1.5}, "from 0 to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, said, noisy_episodes, spec):
    with pytest.raises(RecipeError, match=said):
        train_agent(
            "preference_ensemble", noisy_episodes.build(), spec, steps=1, seed=0, settings=settings
        )
