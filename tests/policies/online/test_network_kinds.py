"""Tests that every form of candidate scorer can be trained by playing, also by natural gradient."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.networks.candidate_scorer import CandidateScorer, pool
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online import natural_gradient, problem, reinforce
from hindcast.policies.online.natural_gradient import fisher, policy_gradient
from hindcast.policies.online.problem import Sampling, fit_network, make_scorer
from tests.policies.online.test_gradients import explicit_fisher, pieces_of
from tests.policies.play import CPU, SPEC, looked, network_of, ways

IMAGES = {
    "rows": NetworkSettings((8,), quadratic=False, image=5),
    "places": NetworkSettings(image=5, places=11),  # as in the report
}
IMAGE = IMAGES["rows"]
AGENTS = {"reinforce": reinforce, "natural_gradient": natural_gradient}


def test_fisher_vector_products_of_networks_that_see_other_candidates():
    """Second derivatives pass through pooling."""
    settings = NetworkSettings((4, 3), "tanh", quadratic=False, kind="deepsets")
    network = network_of(SPEC, settings)
    scorer = CandidateScorer(network, np.random.default_rng(3)).double()
    toy = SimpleNamespace(network=network, scorer=scorer, ways=ways(), looked=looked)
    pieces = pieces_of(toy)
    matrix, times = explicit_fisher(toy, pieces), fisher(scorer, pieces, damping=0.01)
    vector = torch.from_numpy(np.random.default_rng(1).normal(size=len(matrix)))
    assert torch.allclose(times(vector), matrix @ vector + 0.01 * vector, atol=1e-12)


def test_what_is_pooled_has_the_gradient_of_segment_reduce():
    """Without second derivatives gradients agree bit for bit, also for segments without rows."""
    rng = np.random.default_rng(0)
    row = torch.from_numpy(np.sort(rng.integers(0, 20, 90)))
    rows = torch.from_numpy(rng.normal(size=(90, 5)).astype(np.float32)).requires_grad_()
    weight = torch.from_numpy(rng.normal(size=(22, 10)).astype(np.float32))
    size = torch.bincount(row, minlength=22)
    total, highest = (
        torch.segment_reduce(rows, what, lengths=size, axis=0, unsafe=True)
        for what in ("sum", "max")
    )
    some = (size > 0)[:, None]
    plain = torch.cat([total / size.clamp(min=1)[:, None], highest.where(some, 0.0)], dim=1)
    pooled = pool(rows, row, 22)
    assert torch.equal(pooled, plain)
    slopes = [torch.autograd.grad((x * weight).sin().sum(), rows)[0] for x in (pooled, plain)]
    assert torch.equal(*slopes)
    exact = rows.detach()[:9, :2].double().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: pool(x, row[:9], 4), (exact,))


@pytest.fixture(scope="module")
def picture(play_problem):
    """Return short episodes of slots with images."""
    return play_problem(
        load_recipe("slots-deeprm-online", ["config.steps=8", "config.observation=image"])
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_learns_from_images(agent, kind, picture):
    """The image layer's weights change, with memory for only a few decisions."""
    module = AGENTS[agent]
    config = module.Config(network=IMAGES[kind], sampling=Sampling(3, 2, 1, "time"))
    network = fit_network(picture, IMAGES[kind])
    learner = module.learner(picture, config, network, None, CPU)
    before = learner.weights()
    told = learner.step(1)
    after = learner.weights()
    assert float(told["gradient_norm"]) > 0.0
    assert before["image.weight"].shape == (5, 20 * 224)
    assert not np.array_equal(before["image.weight"], after["image.weight"])
    assert picture.validate(network, after).keys() == learner.validate().keys()


def test_the_gradient_of_images_does_not_depend_on_how_many_are_in_memory(picture, monkeypatch):
    """Images are expanded to numbers a few at a time, or all at once."""
    network = fit_network(picture, IMAGE)
    scorer = make_scorer(network, None, np.random.default_rng(2), CPU)
    config = Sampling(2, 2, 1, "time")
    drawn = picture.draw(picture.acting(network, scorer.weights()), 1, config)
    count = sum(len(one.advantage) for one in drawn)
    whole = list(picture.policy_batches(drawn, network, CPU))
    monkeypatch.setattr(problem, "_PIXELS", 10 * network.pixels)
    pieces = list(picture.policy_batches(drawn, network, CPU))
    assert len(whole) < len(pieces)
    assert max(len(one.context) for one in pieces) <= 50
    assert sum(map(len, pieces)) == count
    one, other = (policy_gradient(scorer, parts, count) for parts in (whole, pieces))
    assert torch.allclose(one, other, atol=1e-5)
