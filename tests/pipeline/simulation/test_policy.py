"""Tests of choosing: masks, ties, exploration and propensities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation.policy import choose, choose_with, fill_probabilities


def probabilities(scores, feasible, temperature, epsilon):
    """Return the probability of every candidate."""
    out = np.empty(len(scores))
    fill_probabilities(np.array(scores, float), np.array(feasible, bool), temperature, epsilon, out)
    return out


def test_the_first_of_the_best_feasible_is_chosen():
    rng = np.random.default_rng(0)
    scores, feasible = np.array([9.0, 5.0, 5.0, 1.0]), np.array([False, True, True, True])
    assert choose(scores, feasible, rng) == (1, 1.0)


def test_epsilon_is_shared_by_the_feasible():
    """Three feasible rows share 0.3, and the best row gets the rest."""
    found = probabilities([1, 3, 2, 9], [True, True, True, False], 0.0, 0.3)
    assert found == pytest.approx([0.1, 0.8, 0.1, 0.0])


def test_temperature_is_a_softmax():
    found = probabilities([0.0, np.log(3.0)], [True, True], 1.0, 0.0)
    assert found == pytest.approx([0.25, 0.75])
    found = probabilities([0.0, np.log(3.0)], [True, True], 1.0, 0.2)
    assert found == pytest.approx([0.3, 0.7])


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(-50, 50), st.booleans()), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_probabilities_sum_to_one_over_the_feasible(rows, temperature, epsilon):
    scores, feasible = (list(x) for x in zip(*rows, strict=True))
    found = probabilities(scores, feasible, temperature, epsilon)
    assert (found[~np.array(feasible)] == 0).all()
    assert found.sum() == pytest.approx(1.0 if any(feasible) else 0.0)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([0.0, 0.25, 1.0]),
)
def test_choices_come_with_their_probabilities(rows, temperature, epsilon):
    """Over a grid of uniform numbers, each candidate is chosen in proportion to its probability."""
    scores = np.array([s for s, _ in rows])
    feasible = np.array([f for _, f in rows])
    if not feasible.any():
        return
    buffer = np.empty(len(rows))
    n = 4000
    counts = np.zeros(len(rows))
    for u in (np.arange(n) + 0.5) / n:
        counts[choose_with(scores, feasible, temperature, epsilon, u, buffer)] += 1
    expected = probabilities(scores, feasible, temperature, epsilon)
    assert np.abs(counts / n - expected).max() < 2 * len(rows) / n


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([-np.inf, -np.inf], [0.5, 0.5]),
        ([-np.inf], [1.0]),
        ([np.inf, 1.0], [1.0, 0.0]),
        ([np.inf, 0.0, np.inf], [0.5, 0.0, 0.5]),
        ([-np.inf, 1.0], [0.0, 1.0]),
    ],
)
def test_infinite_scores_have_a_softmax(scores, expected):
    """It is the limit of that of large scores: equal rows share, and lower rows get nothing."""
    feasible = np.ones(len(scores), bool)
    assert probabilities(scores, feasible, 1.0, 0.0).tolist() == expected
    row, propensity = choose(np.array(scores), feasible, np.random.default_rng(0), temperature=1.0)
    assert propensity == expected[row] > 0


def test_nothing_feasible_and_scores_that_are_not_numbers_are_errors():
    rng = np.random.default_rng(0)
    with pytest.raises(HindcastError, match="no candidate is feasible"):
        choose(np.zeros(2), np.zeros(2, bool), rng)
    with pytest.raises(HindcastError, match="not a number"):
        choose(np.array([np.nan, 1.0]), np.ones(2, bool), rng)
    assert choose(np.array([np.nan, 1.0]), np.array([False, True]), rng) == (1, 1.0)
