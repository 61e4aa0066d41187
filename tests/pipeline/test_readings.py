"""Tests that batch policies get mask and image if they accept them, and learners images."""

import numpy as np
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.decisions import Columns
from hindcast.pipeline.dataset.sampling import sample_decisions
from hindcast.pipeline.evaluation.entrant import Entrant
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.simulation.policy import Behaviour, readings
from tests.sample_datasets import build_images


class Watcher:
    """Policy that takes the first candidate and records its arguments."""

    name = "watcher"

    def __init__(self, *reads):
        self.reads = reads
        self.given = []

    def scores(self, observation):
        return np.zeros(len(observation.feasible))

    def batch_scores(self, context, candidates, offsets, **more):
        assert set(more) == set(self.reads)
        self.given.append((len(context), len(candidates), more))
        return np.zeros(len(candidates))


class Old:
    """Policy with the oldest signature, without optional arguments."""

    name = "old"

    def scores(self, observation):
        return np.zeros(len(observation.feasible))

    def batch_scores(self, context, candidates, offsets):
        return np.zeros(len(candidates))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return ds.open(build_images(tmp_path_factory.mktemp("images")))


def test_a_policy_is_given_what_it_reads(images, tmp_path):
    watchers = [Watcher(), Watcher("feasible"), Watcher("image", "feasible"), Old()]
    policies = [Entrant(Behaviour(f"p{i}", w), "learned", "w") for i, w in enumerate(watchers)]
    evaluate(images.recipe, policies, split="test", out=tmp_path / "e")
    assert [readings(w) for w in watchers] == [(), ("feasible",), ("image", "feasible"), ()]
    pixels = int(np.prod(images.spec.image_shape))
    for moments, rows, more in watchers[2].given:
        assert more["feasible"].shape == (rows,)
        assert more["feasible"].dtype == np.bool_
        assert more["image"].shape == (moments, pixels)
        assert more["image"].dtype == np.uint8
    assert any(not more["feasible"].all() for _, _, more in watchers[2].given)
    assert any(more["image"].any() for _, _, more in watchers[2].given)


def test_images_are_sampled_where_they_are_asked_for(images):
    """A sample has the images of a decision and of its next observation."""
    rng = np.random.default_rng(0)
    plain = sample_decisions(images, "train", rng, Columns(4, transitions=True))
    assert plain.image is None
    found = sample_decisions(
        images, "train", np.random.default_rng(0), Columns(4, transitions=True, images=True)
    )
    assert found.image is not None
    assert found.next_image is not None
    assert found.image.dtype == np.uint8
    later = (found.step[1:] == found.step[:-1] + 1) & (found.episode[1:] == found.episode[:-1])
    assert later.sum() > 10
    assert np.array_equal(found.next_image[:-1][later], found.image[1:][later])
    assert np.array_equal(found.candidates, plain.candidates)
    rows = found.take(np.array([3, 1]))
    assert np.array_equal(rows.image, found.image[[3, 1]])
    assert rows.episodes is found.episodes


@pytest.mark.slow
def test_to_go_is_the_sum_of_the_rewards_that_are_left(tiny_dataset):
    """The return to go sums the remaining rewards, also if a sample leaves decisions out."""
    dataset = ds.open(tiny_dataset)
    whole = sample_decisions(dataset, "train", np.random.default_rng(0), Columns(4))
    left = np.array([
        whole.reward[(whole.episode == e) & (whole.step >= s)].sum()
        for e, s in zip(whole.episode, whole.step, strict=True)
    ])  # fmt: skip
    np.testing.assert_allclose(whole.to_go, left, rtol=1e-9, atol=1e-6)
    known = {(e, s): v for e, s, v in zip(whole.episode, whole.step, whole.to_go, strict=True)}
    some = sample_decisions(dataset, "train", np.random.default_rng(0), Columns(4), per_episode=5)
    assert some.to_go is not None
    expected = [known[e, s] for e, s in zip(some.episode, some.step, strict=True)]
    np.testing.assert_allclose(some.to_go, expected, rtol=1e-9, atol=1e-6)
