"""Tests of gradient estimators against enumeration, and of Fisher products against the matrix."""

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from hindcast.policies.online.advantages import advantages
from hindcast.policies.online.choices import PolicyBatch, log_softmax, policy_batch, policy_gain
from hindcast.policies.online.natural_gradient import (
    Config,
    conjugate_gradients,
    fisher,
    natural_step,
    policy_gradient,
)

CPU = torch.device("cpu")


def split_checkpoint_name(toy, way, advantage=(0.0, 0.0)) -> PolicyBatch:
    """Return the network's inputs of one way through the toy, in float64."""
    found = policy_batch(toy.looked(*way), np.array(advantage, np.float64), toy.network, CPU)
    return PolicyBatch(
        found.rows.double(), found.context.double(), found.row_of, found.index, found.decision,
        found.chosen, torch.tensor(advantage, dtype=torch.float64),
    )  # fmt: skip


def chance(toy, way):
    """Return the probability of one way through the problem."""
    asked = split_checkpoint_name(toy, way)
    return log_softmax(toy.scorer, asked)[asked.chosen].sum().exp()


def flat(parts):
    return torch.cat([p.reshape(-1) for p in parts])


def gain_gradient(toy, way, advantage):
    """Return the estimate from one trajectory: a SUM over its decisions."""
    return policy_gradient(toy.scorer, [split_checkpoint_name(toy, way, advantage)], 1)


@pytest.fixture
def exact(toy):
    """Return the gradient of the exact expected return, and the probability of every way."""
    expected = sum(chance(toy, way) * toy.rewards(*way).sum() for way in toy.ways)
    slope = flat(torch.autograd.grad(expected, list(toy.scorer.parameters())))
    return slope, [float(chance(toy, way).detach()) for way in toy.ways]


def test_ways_are_all_there_are(toy, exact):
    assert sum(exact[1]) == pytest.approx(1.0, abs=1e-12)
    assert exact[0].norm() > 0.1


def test_the_expectation_of_reinforce_is_the_gradient_of_the_expected_return(toy, exact):
    """Weighted by probability, all trajectories give the gradient up to rounding."""
    slope, chances = exact
    estimate = torch.zeros_like(slope)
    for way, p in zip(toy.ways, chances, strict=True):
        (worth,) = advantages([toy.rewards(*way)], [np.arange(2.0)], "none")
        estimate += p * gain_gradient(toy, way, worth)
    assert torch.allclose(estimate, slope, atol=1e-12)


@pytest.mark.parametrize("baseline", ["decision", "time"])
def test_a_baseline_over_two_trajectories_keeps_the_direction_and_half_the_length(
    toy, exact, baseline
):
    """A trajectory is half of its pair's baseline; the other half is independent of it."""
    slope, chances = exact
    estimate = torch.zeros_like(slope)
    times = [np.arange(2.0)] * 2
    for one, p in zip(toy.ways, chances, strict=True):
        for other, q in zip(toy.ways, chances, strict=True):
            worth = advantages([toy.rewards(*one), toy.rewards(*other)], times, baseline)
            pair = sum(
                gain_gradient(toy, way, w) for way, w in zip((one, other), worth, strict=True)
            )
            estimate += p * q * pair / 2
    assert torch.allclose(estimate, slope / 2, atol=1e-12)


@pytest.mark.slow
def test_a_baseline_lowers_the_variance(toy, exact):
    """Over pairs of drawn trajectories, the variance is lower with the baseline."""
    chances = exact[1]
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(toy.ways), size=(60, 12), p=np.array(chances) / sum(chances))
    spread = {}
    for baseline, length in (("none", 1.0), ("decision", 11 / 12)):
        found = []
        for numbers in drawn:
            ways = [toy.ways[n] for n in numbers]
            gains = [toy.rewards(*way) + 5.0 for way in ways]
            worth = advantages(gains, [np.arange(2.0)] * len(ways), baseline)
            total = sum(gain_gradient(toy, w, a) for w, a in zip(ways, worth, strict=True))
            found.append(total / len(ways) / length)
        spread[baseline] = float(torch.stack(found).var(dim=0).sum())
    assert spread["decision"] < 0.25 * spread["none"]


def pieces_of(toy):
    """Return a few decisions, in two pieces, with advantages."""
    return [split_checkpoint_name(toy, way, (1.0, -0.5)) for way in toy.ways[:3]]


def explicit_fisher(toy, pieces):
    """Return the mean over decisions of sum over candidates of p * grad log p (grad log p)'."""
    parameters = list(toy.scorer.parameters())
    size = len(parameters_to_vector(parameters))
    matrix, decisions = torch.zeros(size, size, dtype=torch.float64), sum(map(len, pieces))
    for asked in pieces:
        chances = log_softmax(toy.scorer, asked)
        for log_p in chances:
            slope = flat(torch.autograd.grad(log_p, parameters, retain_graph=True))
            matrix += log_p.exp().detach() * torch.outer(slope, slope) / decisions
    return matrix


def test_fisher_vector_products_are_those_of_the_explicit_matrix(toy):
    pieces = pieces_of(toy)
    matrix = explicit_fisher(toy, pieces)
    times = fisher(toy.scorer, pieces, damping=0.01)
    rng = np.random.default_rng(1)
    for _ in range(3):
        vector = torch.from_numpy(rng.normal(size=len(matrix)))
        assert torch.allclose(times(vector), matrix @ vector + 0.01 * vector, atol=1e-12)


def test_conjugate_gradients_solve_the_system_of_the_explicit_matrix(toy):
    """The solution of F x = g uses damping, without which F has no inverse."""
    pieces = pieces_of(toy)
    gradient = policy_gradient(toy.scorer, pieces, 6)
    matrix = explicit_fisher(toy, pieces)
    damped = matrix + 0.01 * torch.eye(len(matrix), dtype=torch.float64)
    solution = conjugate_gradients(fisher(toy.scorer, pieces, 0.01), gradient, 100)
    assert torch.allclose(solution, torch.linalg.solve(damped, gradient), rtol=1e-4, atol=1e-8)


def test_a_natural_step_gains_within_its_size(toy):
    """KL is at most max_kl and near it, and the probability of better choices rises."""
    pieces = pieces_of(toy)

    def gain():
        return sum(float(policy_gain(log_softmax(toy.scorer, a), a).detach()) for a in pieces)

    before = gain()
    gradient = policy_gradient(toy.scorer, pieces, 6)
    moved = natural_step(toy.scorer, gradient, pieces, Config(max_kl=0.01))
    assert 0.001 < float(moved["kl"]) <= 0.01
    assert gain() > before


def test_a_step_that_cannot_gain_is_not_taken(toy):
    """Without advantages the gradient is zero, and a step against the gradient gains nothing."""
    start = parameters_to_vector(toy.scorer.parameters()).detach().clone()
    pieces = pieces_of(toy)
    gradient = policy_gradient(toy.scorer, pieces, 6)
    for wrong in (torch.zeros_like(gradient), -gradient):
        moved = natural_step(toy.scorer, wrong, pieces, Config())
        assert float(moved["step_share"]) == 0.0
        assert torch.equal(parameters_to_vector(toy.scorer.parameters()), start)


def test_a_natural_step_does_not_depend_on_the_scale_of_rewards(toy):
    pieces = pieces_of(toy)
    gradient = policy_gradient(toy.scorer, pieces, 6)
    start = parameters_to_vector(toy.scorer.parameters()).detach().clone()
    reached = []
    for scale in (1.0, 1e4):
        torch.nn.utils.vector_to_parameters(start, toy.scorer.parameters())
        natural_step(toy.scorer, scale * gradient, pieces, Config())
        reached.append(parameters_to_vector(toy.scorer.parameters()).detach().clone())
    assert torch.allclose(*reached, rtol=1e-9)
    assert not torch.equal(reached[0], start)
