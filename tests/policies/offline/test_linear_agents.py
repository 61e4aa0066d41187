"""The closed form of episode regression, and the averages of the preference ensemble."""

import numpy as np
import pytest

from pipeline.errors import RecipeError
from policies.networks.candidate_scorer import fit_network
from policies.offline import read_config
from policies.offline.fit import train_agent
from policies.offline.preference.preference_ensemble import resampled
from policies.offline.preference.trajectory_preference import rank
from policies.offline.regression.episode_regression import leanings


def _naive(decisions, network, ranking, drawn=None):
    """Mean over an episode of phi(choice) - mean phi, centred in its window, one by one."""
    x = []
    for e in ranking.episode:
        differences = []
        for d in np.flatnonzero(decisions.episode == e):
            phi = network.candidates.expand(decisions.candidates[d]).astype(float)
            others = [phi[k] for k in np.flatnonzero(decisions.mask[d]) if k != decisions.choice[d]]
            n = int(decisions.drawn[d])
            stands_for = (n - 1) / max(len(others), 1)
            total = phi[decisions.choice[d]] + stands_for * np.sum(others, axis=0)
            differences.append(phi[decisions.choice[d]] - total / n)
        x.append(np.mean(differences, axis=0))
    x = np.array(x)
    for start, size in zip(ranking.start, ranking.size, strict=True):
        x[start : start + size] -= x[start : start + size].mean(axis=0)
    return x


@pytest.mark.parametrize("drawn", [0, 40])
def test_leanings_are_mean_chosen_minus_mean_features(noisy_episodes, spec, drawn):
    """Where candidates were cut, the ones that are there stand for all that were not chosen."""
    decisions = noisy_episodes.build(drawn=drawn)
    network = fit_network(decisions, spec, read_config("episode_regression").network)
    ranking = rank(decisions, spec, "")
    expected = _naive(decisions, network, ranking)
    np.testing.assert_allclose(
        leanings(decisions, network.candidates, ranking), expected, atol=1e-6
    )


def test_weights_are_those_of_the_ridge_regression(noisy_episodes, spec):
    decisions = noisy_episodes.build()
    trained = train_agent("episode_regression", decisions, spec, steps=500, seed=0,
                          settings={"ridge": 0.5})  # fmt: skip
    ranking = rank(decisions, spec, "")
    x, z = _naive(decisions, trained.network, ranking), ranking.z
    penalty = 0.5 * len(x) * np.mean(x**2)
    w = np.linalg.lstsq(
        np.vstack([x, np.sqrt(penalty) * np.eye(x.shape[1])]),
        np.concatenate([z, np.zeros(x.shape[1])]), rcond=None,
    )[0]  # fmt: skip
    np.testing.assert_allclose(trained.weights["layer0.weight"][0], w, atol=1e-5)
    assert trained.steps == 1
    assert {m.step for m in trained.metrics} == {1}


@pytest.mark.parametrize("name", ["episode_regression", "preference_ensemble"])
def test_linear_agents_find_what_made_episodes_better(name, noisy_episodes, spec, share_of_best):
    trained = train_agent(name, noisy_episodes.build(), spec, steps=150, seed=0)
    assert share_of_best(trained.policy()) > 0.9


def _ensemble(log, spec, **settings):
    kept = []
    trained = train_agent(
        "preference_ensemble", log.build(), spec, steps=10, seed=0, settings=settings,
        checkpoint_every=1, keep=kept.append,
    )  # fmt: skip
    return trained.weights["layer0.weight"], [c.weights["layer0.weight"] for c in kept]


def test_the_average_is_over_the_last_share_of_the_steps(noisy_episodes, spec):
    """Half of ten steps are the last five; what is averaged does not change the steps."""
    last, way = _ensemble(noisy_episodes, spec, members=1, average=0.0)
    assert np.array_equal(last, way[-1])
    averaged, averaging = _ensemble(noisy_episodes, spec, members=1, average=0.5)
    np.testing.assert_allclose(averaged, np.mean(way[5:], axis=0), rtol=1e-4, atol=1e-7)
    assert np.array_equal(averaging[4], way[4])


def test_members_see_other_windows_and_are_averaged(noisy_episodes, spec):
    ranking = rank(noisy_episodes.build(), spec, "")
    drawn = resampled(ranking, np.random.default_rng(0))
    assert len(drawn.size) == len(ranking.size)
    assert set(drawn.start) < set(ranking.start)
    one, _ = _ensemble(noisy_episodes, spec, members=1)
    three, _ = _ensemble(noisy_episodes, spec, members=3)
    assert not np.allclose(one, three)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("preference_ensemble", {"network.hidden": [4]}, "no mean of their scores"),
        ("preference_ensemble", {"members": 0}, "at least 1"),
        ("preference_ensemble", {"average": 1.5}, "from 0 to 1"),
        ("episode_regression", {"network.hidden": [4]}, "linear"),
        ("episode_regression", {"ridge": 0.0}, "more than 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, settings, said, noisy_episodes, spec):
    with pytest.raises(RecipeError, match=said):
        train_agent(name, noisy_episodes.build(), spec, steps=1, seed=0, settings=settings)
