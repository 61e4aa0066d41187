"""Tests that decisions moved to a device give the same minibatches as those gathered on a CPU."""

import dataclasses

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import DatasetError
from hindcast.policies.networks.candidate_scorer import fit_network
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.training import minibatches
from hindcast.policies.training.minibatches import Batches, draw_rows, spaced_rows
from tests.policies.trainings import train_agent

CPU = torch.device("cpu")
PLACES = [CPU, torch.device("cuda")] if torch.cuda.is_available() else [CPU]


def _pair(decisions, spec, settings, place):
    network = fit_network(decisions, spec, settings)
    return Batches(decisions, network, CPU), Batches(decisions, network, place, resident=True)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("quadratic", [False, True])
def test_resident_decisions_give_the_same_transitions(noisy_episodes, spec, quadratic, place):
    decisions = noisy_episodes.build()
    settings = NetworkSettings((4,), quadratic=quadratic, context=True)
    gathered, resident = _pair(decisions, spec, settings, place)
    last = int(np.flatnonzero(decisions.terminated)[0])
    rows = np.array([5, 0, last, 5, len(decisions) - 1])
    one, other = gathered.transitions(rows), resident.transitions(rows)
    for name in ("reward", "elapsed_s", "terminal"):
        assert torch.equal(getattr(one, name), getattr(other, name).cpu())
    for name in ("mask", "choice", "drawn"):
        assert torch.equal(getattr(one.now, name), getattr(other.now, name).cpu())
    for seen, found in ((one.now, other.now), (one.after, other.after)):
        torch.testing.assert_close(seen.candidates, found.candidates.cpu())
        torch.testing.assert_close(seen.context, found.context.cpu())
    assert torch.equal(one.after.mask, other.after.mask.cpu())
    assert one.after.mask[2].sum() == 0
    assert len(one.now.candidates) == one.now.mask.sum()


def test_negative_heavy_tails_keep_their_sign_on_a_device(noisy_episodes, spec):
    decisions = noisy_episodes.build()
    turned = decisions.candidates * np.where(np.arange(len(decisions)) % 2, 1, -1)[:, None, None]
    decisions = dataclasses.replace(decisions, candidates=turned.astype(np.float32))
    gathered, resident = _pair(decisions, spec, NetworkSettings(), CPU)
    rows = np.arange(10)
    torch.testing.assert_close(gathered.at(rows).candidates, resident.at(rows).candidates)


def test_images_follow_the_context(noisy_episodes, spec):
    """Pixels are one number each, 0 to 1, and follow the features of the context."""
    decisions = noisy_episodes.build()
    image = np.random.default_rng(0).integers(0, 256, (len(decisions), 6)).astype(np.uint8)
    decisions = dataclasses.replace(decisions, image=image, next_image=image)
    shown = dataclasses.replace(spec, image_shape=(2, 3))
    settings = NetworkSettings((4,), context=True, image=3)
    gathered, resident = _pair(decisions, shown, settings, CPU)
    rows = np.array([3, 1])
    context = gathered.at(rows).context
    np.testing.assert_allclose(context[:, -6:].numpy(), image[rows] / 255.0, rtol=1e-6)
    torch.testing.assert_close(context, resident.at(rows).context)
    plain = dataclasses.replace(decisions, image=None)
    network = fit_network(decisions, shown, settings)
    with pytest.raises(DatasetError, match="have none"):
        Batches(plain, network, CPU, resident=True)


@pytest.mark.parametrize("name", ["trajectory_preference", "cql"])
def test_training_on_resident_decisions_comes_to_the_same(name, noisy_episodes, spec, monkeypatch):
    """The whole path of a device runs on a CPU, and weights agree to rounding."""
    decisions = noisy_episodes.build()
    usual = train_agent(name, decisions, spec, steps=10, seed=1)
    monkeypatch.setattr(minibatches, "_Gathered", None)
    monkeypatch.setattr(Batches.__init__, "__kwdefaults__", {"resident": True})
    moved = train_agent(name, decisions, spec, steps=10, seed=1)
    for key, value in usual.weights.items():
        np.testing.assert_allclose(value, moved.weights[key], atol=2e-4)


@pytest.mark.parametrize("name", ["trajectory_preference", "cql"])
def test_expanding_once_or_per_minibatch_is_the_same(name, noisy_episodes, spec, monkeypatch):
    """Decisions too large for memory are expanded when drawn, and weights agree bit for bit."""
    decisions = noisy_episodes.build()
    once = train_agent(name, decisions, spec, steps=5, seed=1)
    monkeypatch.setattr(minibatches, "_EXPANDED_BYTES", 0)
    drawn = train_agent(name, decisions, spec, steps=5, seed=1)
    assert all(np.array_equal(v, drawn.weights[k]) for k, v in once.weights.items())


def test_without_what_followed_there_are_no_transitions(noisy_episodes, spec):
    decisions = dataclasses.replace(noisy_episodes.build(), next_mask=None)
    network = fit_network(decisions, spec, NetworkSettings())
    with pytest.raises(DatasetError, match="without what followed"):
        Batches(decisions, network, CPU).transitions(np.array([0]))


def test_rows_are_drawn_from_the_generator_or_evenly_spaced():
    rng = np.random.default_rng(0)
    assert draw_rows(5, 100, rng).max() == 4
    assert spaced_rows(10, 4).tolist() == [0, 3, 6, 9]
    assert spaced_rows(3, 100).tolist() == [0, 1, 2]
