"""Tests of baselines against numbers worked out by hand."""

import numpy as np
import pytest

from hindcast.policies.online.advantages import advantages

# Two trajectories. Time stands still between the first two decisions of the second trajectory.
REWARDS = [np.array([-1.0, -2.0]), np.array([0.0, -1.0, -4.0])]
TIMES = [np.array([0.0, 1.0]), np.array([0.0, 0.0, 2.0])]


def test_a_baseline_by_decision_counts_trajectories_that_are_over_as_zero():
    """Returns are -3 -2 | -5 -5 -4, and their means are -4 -3.5 -2."""
    first, second = advantages(REWARDS, TIMES, "decision")
    assert first.tolist() == [1.0, 1.5]
    assert second.tolist() == [-1.0, -1.5, -2.0]


def test_a_baseline_by_time_compares_what_was_earned_from_the_same_time_on():
    """From 0 on: -3 and -5; from 1: -2 and -4; from 2: 0 (the episode is over) and -4."""
    first, second = advantages(REWARDS, TIMES, "time")
    assert first.tolist() == [-3.0 + 4.0, -2.0 + 3.0]
    assert second.tolist() == [-5.0 + 4.0, -5.0 + 4.0, -4.0 + 2.0]


def test_without_a_baseline_the_advantage_is_the_return_to_go():
    first, second = advantages(REWARDS, TIMES, "none")
    assert first.tolist() == [-3.0, -2.0]
    assert second.tolist() == [-5.0, -5.0, -4.0]


@pytest.mark.parametrize("baseline", ["decision", "time", "none"])
def test_normalised_advantages_have_a_deviation_of_one(baseline):
    found = advantages(REWARDS, TIMES, baseline, normalise=True)
    assert np.concatenate(found).std() == pytest.approx(1.0)


def test_advantages_that_are_all_zero_stay_zero():
    found = advantages([np.zeros(3)] * 2, [np.arange(3.0)] * 2, "decision", normalise=True)
    assert not np.concatenate(found).any()
