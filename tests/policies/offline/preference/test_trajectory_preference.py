"""Tests of pairs, ranks and the loss of trajectory preference, small enough to check by hand."""

import dataclasses
import math

import numpy as np
import polars as pl
import pytest
import torch

from hindcast.pipeline.errors import DatasetError
from hindcast.policies.networks.candidate_scorer import (
    FILL,
    CandidateScorer,
    fit_network,
    log_probabilities,
)
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.offline.preference.trajectory_preference import (
    Config,
    draw_pairs,
    pair_loss,
    preference_loss,
    rank,
)
from hindcast.policies.training.minibatches import Batches


def _keep(decisions, keep):
    """Return only the decisions for which `keep` (D,) holds."""
    columns = {f.name: getattr(decisions, f.name) for f in dataclasses.fields(decisions)}
    kept = {k: v[keep] for k, v in columns.items() if isinstance(v, np.ndarray)}
    return dataclasses.replace(decisions, **kept)


def _with_returns(decisions, returns, windows):
    episodes = decisions.episodes.head(len(returns)).with_columns(
        pl.Series("return", returns, dtype=pl.Float64), pl.Series("window", windows)
    )
    kept = _keep(decisions, decisions.episode < len(returns))
    return dataclasses.replace(kept, episodes=episodes)


def test_outcomes_are_standardised_within_their_window(noisy_episodes, spec):
    decisions = _with_returns(noisy_episodes.build(), [1, 3, 10, 20, 30], [0, 0, 4, 4, 4])
    ranking = rank(decisions, spec, Config())
    assert ranking.size.tolist() == [2, 3]
    assert ranking.start.tolist() == [0, 2]
    np.testing.assert_allclose(ranking.z, [-1, 1, -math.sqrt(1.5), 0, math.sqrt(1.5)])


@pytest.mark.parametrize(
    ("power", "weights"), [(0.0, [1, 1]), (0.5, [3 / 5, 6 / 5]), (1.0, [1 / 3, 4 / 3])]
)
def test_windows_are_weighted_by_a_power_of_their_deviation(power, weights, noisy_episodes, spec):
    """Deviations of 1 and 4, on windows with two and four episodes; the mean weight is 1."""
    decisions = _with_returns(noisy_episodes.build(), [1, 3, 0, 8, 0, 8], [0, 0, 1, 1, 1, 1])
    ranking = rank(decisions, spec, Config(deviation_power=power))
    np.testing.assert_allclose(ranking.weight, np.repeat(weights, [2, 4]))
    assert ranking.weight.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(ranking.z, [-1, 1, -1, 1, -1, 1])


def test_the_loss_weights_a_pair_by_its_window(noisy_episodes, spec):
    """The deviations of the two windows are 1 and 4, so the weights are 2 / 5 and 8 / 5."""
    decisions = _with_returns(noisy_episodes.build(), [1, 3, 0, 8], [0, 0, 1, 1])
    network = fit_network(decisions, spec, NetworkSettings())
    scorer = CandidateScorer(network, np.random.default_rng(0))
    batches = Batches(decisions, network, torch.device("cpu"))

    def loss(power, pair):
        config = Config(deviation_power=power, decisions=200)
        ranking = rank(decisions, spec, config)
        rng = np.random.default_rng(0)
        return pair_loss(scorer, batches, ranking, config, np.array(pair), rng)[0].item()

    for pair, weight in (([[0], [1]], 2 / 5), ([[2], [3]], 8 / 5)):
        assert loss(1.0, pair) == pytest.approx(weight * loss(0.0, pair))


def test_costs_can_be_compared_by_their_logarithms(noisy_episodes, spec):
    """Costs 1, 10 and 100 are evenly spaced then; returns that change their sign have no log."""
    decisions = _with_returns(noisy_episodes.build(), [-1, -10, -100], [0, 0, 0])
    ranking = rank(decisions, spec, Config(logarithm=True))
    np.testing.assert_allclose(ranking.z, [math.sqrt(1.5), 0, -math.sqrt(1.5)], atol=1e-12)
    assert abs(rank(decisions, spec, Config()).z[1]) > 0.1
    with pytest.raises(DatasetError, match="logarithm = false"):
        rank(_with_returns(noisy_episodes.build(), [-1, 10], [0, 0]), spec, Config(logarithm=True))


def test_windows_that_cannot_be_compared_are_left_out(noisy_episodes, spec):
    """Windows with one episode or equal returns, and episodes without decisions, are left out."""
    decisions = _with_returns(noisy_episodes.build(), [1, 5, 5, 1, 2, 9], [0, 1, 1, 2, 2, 2])
    ranking = rank(_keep(decisions, decisions.episode != 5), spec, Config())
    assert ranking.episode.tolist() == [3, 4]
    np.testing.assert_allclose(ranking.z, [-1, 1])
    alone = _with_returns(noisy_episodes.build(), [1, 2], [0, 1])
    with pytest.raises(DatasetError, match="nothing to compare"):
        rank(alone, spec, Config())


def test_pairs_are_two_episodes_of_one_window(noisy_episodes, spec):
    decisions = _with_returns(noisy_episodes.build(), [1, 3, 10, 20, 30], [0, 0, 4, 4, 4])
    ranking = rank(decisions, spec, Config())
    pairs = draw_pairs(ranking, 500, np.random.default_rng(0))
    window = np.searchsorted(ranking.start, pairs, side="right")
    assert (window[0] == window[1]).all()
    assert (pairs[0] != pairs[1]).all()
    assert len({tuple(p) for p in pairs.T}) == 2 + 6


def test_loss_by_hand():
    """The loss is |dz| softplus(-beta sign(dz) dl), for one pair of each sign and one tie."""
    log_pi = torch.tensor([[-1.0, -2.0, -1.0], [-1.5, -1.0, -9.0]])
    loss, info = preference_loss(log_pi, torch.tensor([2.0, -1.0, 0.0]), beta=4.0)
    by_hand = 2 * math.log1p(math.exp(-2)) + math.log1p(math.exp(-4))
    assert float(loss) == pytest.approx(by_hand / 3)
    assert float(info["agreement"]) == 1.0


def test_a_cut_candidate_set_counts_for_the_whole():
    """Each of the n - 1 others counts (N - 1) / (n - 1) times; uncut, this is the softmax."""
    scores = torch.tensor([[1.0, 0.0, 0.5, FILL]])
    mask = torch.tensor([[True, True, True, False]])
    choice = torch.tensor([0])
    whole = log_probabilities(scores, mask, choice, torch.tensor([3]))
    assert float(whole) == pytest.approx(1 - math.log(math.e + 1 + math.exp(0.5)))
    cut = log_probabilities(scores, mask, choice, torch.tensor([21]))
    assert float(cut) == pytest.approx(1 - math.log(math.e + 10 * (1 + math.exp(0.5))))
    alone = log_probabilities(scores[:, :1], mask[:, :1], choice, torch.tensor([1]))
    assert float(alone) == 0.0
