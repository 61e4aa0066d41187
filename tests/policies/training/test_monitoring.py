"""Tests of metrics common to all agents, on three episodes that can be checked by hand."""

import numpy as np
import pytest

from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.networks.checkpoint import Trained
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.training.monitoring import make_probe_set, measure


def _log(log, returns, choices):
    """Return one window with an episode per return, each one decision among gains 0, 1, 2."""
    candidates = np.array([[0, 0.0, 0, 1.0], [1, 1.0, 1, 2.0], [2, 2.0, 0, 3.0]])
    for gain, choice in zip(returns, choices, strict=True):
        log.episode(
            0,
            [{"context": np.array([0.0, 1.0]), "candidates": candidates, "choice": choice,
              "reward": gain}],
        )  # fmt: skip
    return log.build()


@pytest.fixture
def by_gain(spec):
    """Return a scorer that ranks by the gain."""

    def make(decisions):
        network = fit_network(decisions, spec, NetworkSettings(quadratic=False))
        weights = {"layer0.weight": np.array([[1.0, 0.0, 0.0, 0.0]], np.float32)}
        weights["layer0.bias"] = np.zeros(1, np.float32)
        return Trained("x", spec, network, weights, {}, 1, 0)

    return make


@pytest.mark.parametrize(
    ("returns", "choices", "agreement", "preference"),
    [
        ([0.0, 1.0, 2.0], [0, 1, 2], 1 / 3, 0.96077),
        ([2.0, 1.0, 0.0], [0, 1, 2], 1 / 3, -0.96077),
        ([0.0, 0.0, 3.0], [2, 2, 2], 1.0, None),
        ([1.0, 1.0, 1.0], [0, 1, 2], 1 / 3, None),
    ],
)
def test_preference_sides_with_the_better_episode(
    returns, choices, agreement, preference, by_gain, noisy_episodes
):
    """Reciprocal ranks are 1/3, 1/2, 1. If either side is constant, there is no number."""
    log = type(noisy_episodes)()
    decisions = _log(log, returns, choices)
    measured = measure(by_gain(decisions), make_probe_set(decisions), "validation_")
    assert measured["validation_log_agreement"] == pytest.approx(agreement)
    assert measured.get("validation_preference") == (
        None if preference is None else pytest.approx(preference, abs=1e-5)
    )


def test_windows_are_compared_with_themselves_only(by_gain, noisy_episodes):
    """Differences between windows do not count, only differences inside a window."""
    decisions = _log(type(noisy_episodes)(), [10.0, 11.0, 0.0, 1.0], [0, 1, 1, 2])
    windows = decisions.episodes["window"].to_numpy().copy()
    windows[2:] = 1
    episodes = decisions.episodes.with_columns(window=windows)
    object.__setattr__(decisions, "episodes", episodes)
    assert measure(by_gain(decisions), make_probe_set(decisions))["preference"] == pytest.approx(
        0.8**0.5
    )
