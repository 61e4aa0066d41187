"""Tests that two networks side by side equal each network alone, and act with a threshold."""

import dataclasses

import numpy as np
import pytest
import torch

from hindcast.policies.networks.candidate_scorer import FILL, CandidateScorer
from hindcast.policies.networks.checkpoint import load_policy, save
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Network, NetworkSettings
from hindcast.policies.offline.actor_critic.side_by_side_networks import (
    merge,
    side_by_side,
)
from tests.policies.logs import SPEC, some_candidates
from tests.policies.trainings import train_agent

PIXELS = 6
SHAPES = {
    "linear": NetworkSettings(hidden=()),
    "mlp": NetworkSettings(hidden=(5, 3), context=True),
    "deepsets": NetworkSettings(hidden=(5, 3), context=True, kind="deepsets", quadratic=False),
    "image": NetworkSettings(hidden=(4,), context=True, quadratic=False, image=3),
}


@pytest.mark.parametrize("settings", SHAPES.values(), ids=SHAPES)
def test_each_output_is_what_its_scorer_gives_alone(settings):
    rng = np.random.default_rng(0)
    network = Network(
        settings,
        unscaled_map(SPEC.candidates, SPEC.learned_candidates, settings.quadratic),
        unscaled_map(SPEC.context, (0, 1) if settings.context else (), quadratic=False),
        pixels=PIXELS if settings.image else 0,
    )
    scorers = [CandidateScorer(network, rng) for _ in range(2)]
    with torch.no_grad():
        for scorer in scorers:  # a linear scorer starts at zero
            for weight in scorer.parameters():
                weight.add_(0.1 * torch.from_numpy(rng.normal(size=weight.shape)).float())
    one, other = (scorer.weights() for scorer in scorers)
    both = CandidateScorer(side_by_side(network), rng)
    merged = merge(network, one, other)
    assert {k: v.shape for k, v in merged.items()} == side_by_side(network).shapes
    with torch.no_grad():
        for name, parameter in both.named_parameters():
            parameter.copy_(torch.from_numpy(merged[name.replace("_", ".")]))
        rows = torch.from_numpy(rng.normal(size=(7, network.candidates.size)).astype(np.float32))
        moment = network.context.size + network.pixels
        context = torch.from_numpy(rng.random((2, moment)).astype(np.float32))
        row = torch.tensor([0, 0, 0, 1, 1, 1, 1])
        apart = [scorer.ragged(rows, context, row) for scorer in scorers]
        torch.testing.assert_close(both.ragged(rows, context, row), torch.stack(apart, dim=1))


def _imitated():
    from tests.policies.logs import Log, some_context

    rng = np.random.default_rng(6)
    log = Log()
    for window in range(300):
        candidates = some_candidates(rng)
        best = int(candidates[:, 1].argmax())
        choice = best if rng.random() < 0.9 else int(rng.integers(len(candidates)))
        log.episode(
            window,
            [{"context": some_context(rng), "candidates": candidates, "choice": choice,
              "reward": -candidates[choice, 1]}],
        )  # fmt: skip
    return log


def _train_bcq(log, **settings):
    network = {"hidden": (16,), "quadratic": False, "context": True}
    given = {"learning_rate": 1e-2, "network": network, **settings}
    return train_agent("bcq", log.build(), SPEC, steps=200, seed=1, settings=given)


@pytest.mark.slow
def test_bcq_only_chooses_what_the_behaviour_might(tmp_path):
    """The behaviour takes the largest gain, the reward is minus it, and the threshold decides."""
    rng = np.random.default_rng(3)
    sets = [some_candidates(rng, 5) for _ in range(40)]
    rows, offsets = np.concatenate(sets), 5 * np.arange(41)
    context = np.tile([0.0, 20.0], (40, 1))
    gains = rows[:, 1].reshape(40, 5)
    chosen = {}
    for threshold in (1.0, 1e-6):
        trained = _train_bcq(_imitated(), threshold=threshold)
        scores = trained.policy().batch_scores(context, rows, offsets).reshape(40, 5)
        assert (threshold < 1.0) or ((scores == FILL).sum(axis=1) == 4).all()
        chosen[threshold] = np.take_along_axis(gains, scores.argmax(axis=1)[:, None], 1).mean()
    assert chosen[1.0] > 0.8  # imitation: the mean largest of five normal numbers is 1.16
    assert chosen[1e-6] < -0.4  # the choice that pays
    loaded = load_policy(save(trained, tmp_path / "bcq"))
    again = loaded.batch_scores(context, rows, offsets).reshape(40, 5)
    assert np.array_equal(again, scores)
    assert loaded.network == dataclasses.replace(loaded.network, threshold=1e-6, outputs=2)
    assert isinstance(loaded, LearnedPolicy)
    assert loaded.reads == ("feasible",)
