"""Tests of generalised advantages and the clipped objective against their definitions."""

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.statistics.returns import returns_to_go, step_discounts
from hindcast.policies.online.advantages import gae
from hindcast.policies.online.ppo import clipped_gain, divergence


def direct(reward, value, discount, lam, last_value):
    """Return every advantage as a sum over later temporal differences."""
    values = np.append(value, last_value)
    count = len(reward)
    delta = [reward[t] + discount[t] * values[t + 1] - values[t] for t in range(count)]
    return [
        sum(delta[k] * np.prod(lam * discount[t:k]) for k in range(t, count)) for t in range(count)
    ]


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("per_second", [False, True], ids=["decision", "second"])
def test_advantages_are_the_double_sum(lam, per_second):
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 40))
    discount = step_discounts(rng.exponential(size=40), 0.9, per_second=per_second)
    found = gae(reward, value, discount, lam, 0.6)
    assert found == pytest.approx(direct(reward, value, discount, lam, 0.6), abs=1e-12)


def test_a_number_is_the_discount_of_every_step():
    rng = np.random.default_rng(1)
    reward, value = rng.normal(size=(2, 9))
    assert (
        gae(reward, value, 0.8, 0.5, 0.0) == gae(reward, value, np.full(9, 0.8), 0.5, 0.0)
    ).all()


def test_lambda_one_is_the_return_less_the_value_and_lambda_zero_the_difference():
    reward, value = np.array([1.0, -2.0, 4.0]), np.array([0.5, 0.25, 1.0])
    to_go = returns_to_go(np.append(reward, 3.0), 0.5)[:3]  # 3 is the value of the next observation
    assert gae(reward, value, 0.5, 1.0, 3.0) == pytest.approx(to_go - value)
    expected = [1.0 + 0.125 - 0.5, -2.0 + 0.5 - 0.25, 4.0 + 1.5 - 1.0]
    assert gae(reward, value, 0.5, 0.0, 3.0) == pytest.approx(expected)


def test_values_that_are_the_discounted_future_leave_no_advantage():
    """The advantage is zero for any lambda and any duration of the steps."""
    rng = np.random.default_rng(2)
    reward = rng.normal(size=30)
    discount = step_discounts(rng.exponential(size=30), 0.95, per_second=True)
    value = np.empty(31)
    value[30] = 2.0
    for t in range(29, -1, -1):
        value[t] = reward[t] + discount[t] * value[t + 1]
    for lam in (0.0, 0.5, 1.0):
        assert gae(reward, value[:30], discount, lam, 2.0) == pytest.approx(0.0, abs=1e-12)


def test_lengths_that_differ_are_refused():
    with pytest.raises(HindcastError, match="not of one trajectory"):
        gae(np.zeros(3), np.zeros(2), 1.0, 1.0, 0.0)
    with pytest.raises(HindcastError, match="not of one trajectory"):
        gae(np.zeros(3), np.zeros(3), np.ones(4), 1.0, 0.0)


def test_at_the_old_policy_the_gradient_is_the_policy_gradient():
    """At ratio 1 the derivative by log pi is the advantage itself."""
    old = torch.tensor([-0.3, -2.0, -1.1], dtype=torch.float64)
    now = old.clone().requires_grad_()
    advantage = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    gain = clipped_gain(now, old, advantage, 0.2)
    assert torch.equal(gain.detach(), advantage)
    gain.sum().backward()
    assert torch.equal(now.grad, advantage)


@pytest.mark.parametrize(
    ("ratio", "advantage", "gain", "slope"),
    [
        (1.1, 2.0, 2.2, 2.2),  # inside: ratio * advantage, and its derivative by log pi
        (1.5, 2.0, 2.4, 0.0),  # beyond the clip for a good choice
        (0.5, -2.0, -1.6, 0.0),  # and beyond it for a bad one
        (1.5, -2.0, -3.0, -3.0),  # the wrong direction: to be undone in full
        (0.5, 2.0, 1.0, 1.0),
    ],
    ids=["inside", "good and likelier", "bad and rarer", "bad and likelier", "good and rarer"],
)
def test_the_clip_stops_gradients_outside(ratio, advantage, gain, slope):
    """Gradients stop only where the step went in the direction of the advantage."""
    old = torch.tensor([-1.0], dtype=torch.float64)
    now = (old + np.log(ratio)).requires_grad_()
    found = clipped_gain(now, old, torch.tensor([advantage], dtype=torch.float64), 0.2)
    found.sum().backward()
    assert float(found.detach()) == pytest.approx(gain)
    assert float(now.grad) == pytest.approx(slope)


def test_the_divergence_of_draws_is_never_negative_and_in_the_mean_that_of_the_policies():
    """Weighted by the old probabilities, the divergence is the sum p log(p / q)."""
    old = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    now = torch.tensor([0.2, 0.35, 0.45], dtype=torch.float64)
    found = divergence(now.log(), old.log())
    assert (found >= 0.0).all()
    assert float(old @ found) == pytest.approx(float((old * (old / now).log()).sum()))
