"""Tests of the regression over policies, on scores and weights that can be computed by hand."""

from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.estimators import LoggedEpisodes, LoggedPolicies, Settings, estimate
from hindcast.pipeline.estimators.logged_policies import normal_scores

QUICK = Settings(resamples=200)
QUARTER = NormalDist().inv_cdf(0.75)


def logged(places, returns):
    """Return policies on a line, each with one episode in every window of returns (W, P)."""
    places = np.asarray(places, float)
    windows, policies = np.shape(returns)
    return LoggedPolicies(
        (places[:, None] - places[None]) ** 2,
        np.tile(np.arange(policies), windows),
        np.repeat(np.arange(windows), policies),
        np.ravel(returns).astype(float),
    )


def found(policies, distances):
    """Return the estimate at distances (P,) from the episodes of these policies."""
    n = len(policies.returns)
    log = LoggedEpisodes(
        np.arange(n + 1), np.full(n, 0.5), np.full(n, 0.5), policies.returns, group=policies.window,
        policies=policies, to_policies=np.asarray(distances, float),
    )  # fmt: skip
    return estimate("gp", log, QUICK)


def test_scores_compare_the_episodes_of_one_window_alone():
    """Two episodes score at the quartiles, whatever their window earns; equal ones score 0."""
    policies = logged([0.0, 1.0], [[-900.0, -800.0], [5.0, 6.0], [7.0, 7.0]])
    expected = [-QUARTER, QUARTER, -QUARTER, QUARTER, 0.0, 0.0]
    assert policies.scores == pytest.approx(expected)
    assert normal_scores(np.array([1.0, 2.0, 3.0]))[1] == pytest.approx(0.0)


def test_the_weights_are_those_of_ordinary_kriging():
    """They solve the system with a multiplier for a sum of 1, built and solved here as a whole."""
    rng = np.random.default_rng(0)
    policies = logged(np.linspace(0.0, 3.0, 5), rng.normal(size=(4, 5)))
    distance = rng.random(5)
    length, inverse = policies.fitted
    system = np.ones((6, 6))
    system[:5, :5] = np.linalg.inv(inverse)
    system[5, 5] = 0.0
    solved = np.linalg.solve(system, np.append(np.exp(-distance / length), 1.0))[:5]
    weights, nearest = policies.weights(distance)
    assert np.bincount(policies.policy, weights) == pytest.approx(solved)
    assert weights.sum() == pytest.approx(1.0)
    assert nearest == pytest.approx(np.exp(-distance.min() / length))


def test_a_policy_far_from_all_scores_the_mean_of_two_and_is_warned_of():
    """Without similarity, two policies with equally many episodes have half of the weight each."""
    policies = logged([0.0, 1.0], [[1.0, 3.0], [10.0, 30.0]])
    far = found(policies, [1e9, 1e9])
    assert far.value == pytest.approx((2.0 + 20.0) / 2.0)
    assert any("a similarity of 0.00" in warning for warning in far.warnings)
    assert any("2 different policies" in warning for warning in far.warnings)


def test_a_logged_policy_has_its_own_value_if_scores_are_smooth():
    """Twelve policies on a line earn more the further right they are, in each of 20 windows."""
    places = np.arange(12.0)
    level = np.random.default_rng(1).normal(size=(20, 1)) * 1000.0
    policies = logged(places, level + places)
    for at in (0, 5, 11):
        own = found(policies, (places - at) ** 2)
        assert own.value == pytest.approx(level.mean() + at, abs=0.2)
        assert own.bootstrap[0] <= own.value <= own.bootstrap[1]
        assert not own.warnings
    between = found(policies, (places - 5.5) ** 2)
    assert between.difference == pytest.approx(0.0, abs=0.05)  # the middle of the line


def test_two_step_policies_are_ranked_as_enumeration_ranks_them():
    """The value of two independent choices is the sum of two probabilities, for any policy.

    A policy takes choice 1 with probability a, then with probability b, and earns 1 for the first
    and 3 for the second. The log has a sample of 24 policies; 9 others are estimated.
    """
    rng = np.random.default_rng(4)

    def value(policy):
        total = 0.0
        for first, second in product((0, 1), repeat=2):
            chance = [policy[i] if taken else 1.0 - policy[i] for i, taken in
                      enumerate((first, second))]  # fmt: skip
            total += chance[0] * chance[1] * (first + 3.0 * second)
        return total

    known = rng.random((24, 2))
    windows = 30
    choices = rng.random((windows, 24, 2)) < known
    returns = choices @ np.array([1.0, 3.0]) + rng.normal(size=(windows, 1)) * 50.0
    policies = LoggedPolicies(
        ((known[:, None] - known[None]) ** 2).sum(axis=2), np.tile(np.arange(24), windows),
        np.repeat(np.arange(windows), 24), returns.ravel(),
    )  # fmt: skip
    others = [np.array(p) for p in product((0.1, 0.5, 0.9), repeat=2)]
    estimates = [found(policies, ((known - p) ** 2).sum(axis=1)).value for p in others]
    truths = [value(p) for p in others]
    assert np.corrcoef(estimates, truths)[0, 1] > 0.97
    assert np.argmax(estimates) == np.argmax(truths)
    assert np.argmin(estimates) == np.argmin(truths)


def test_better_than_all_of_the_log_is_worth_more_than_the_best():
    """Scores beyond a window's best go on with the slope between its median and its best."""
    places = np.arange(12.0)
    policies = logged(places, np.tile(places, (10, 1)))
    best = found(policies, (places - 11.0) ** 2).value
    beyond = found(policies, (places - 12.0) ** 2).value
    assert beyond > best


def test_equal_returns_have_one_value():
    policies = logged([0.0, 1.0, 2.0], np.full((4, 3), 7.0))
    assert found(policies, [0.0, 1.0, 4.0]).value == 7.0


def test_one_policy_is_the_mean_of_the_log():
    policies = logged([0.0], [[1.0], [3.0]])
    assert found(policies, [0.5]).value == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"distance": np.zeros((2, 3))}, "must be square"),
     ({"policy": np.zeros(4, np.int64)}, "every policy needs an episode"),
     ({"window": np.zeros(3, np.int64)}, "of one length")],
)  # fmt: skip
def test_wrong_arrays_are_refused(change, message):
    given = {"distance": np.zeros((2, 2)), "policy": np.array([0, 1, 0, 1]),
             "window": np.array([0, 0, 1, 1]), "returns": np.arange(4.0)}  # fmt: skip
    with pytest.raises(InputError, match=message):
        LoggedPolicies(**given | change)


def test_the_estimator_says_what_it_lacks():
    log = LoggedEpisodes(np.array([0, 1]), np.ones(1), np.ones(1), np.ones(1))
    with pytest.raises(InputError, match="needs policies, to_policies and group"):
        estimate("gp", log, QUICK)
