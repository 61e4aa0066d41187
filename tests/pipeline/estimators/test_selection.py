"""Tests of selection metrics on numbers small enough to check by hand."""

import math

import numpy as np
import pytest

from hindcast.pipeline.estimators import selection

TRUE = [10.0, 8.0, 6.0, 4.0]


def test_ranks_share_ties():
    assert selection.ranks([5.0, 1.0, 5.0, 9.0]).tolist() == [2.5, 1.0, 2.5, 4.0]


def test_rank_correlation():
    """It is 1 in order and -1 reversed; one swap of neighbours among four gives 1 - 6 * 2 / 60."""
    assert selection.rank_correlation([4, 3, 2, 1], TRUE) == pytest.approx(1.0)
    assert selection.rank_correlation([1, 2, 3, 4], TRUE) == pytest.approx(-1.0)
    assert selection.rank_correlation([3, 4, 2, 1], TRUE) == pytest.approx(0.8)
    assert math.isnan(selection.rank_correlation([1, 1, 1, 1], TRUE))


def test_rank_correlation_with_ties():
    """Ranks 1.5, 1.5, 3 against 1, 2, 3 give 1.5 / sqrt(1.5 * 2)."""
    assert selection.rank_correlation([0, 0, 5], [1, 2, 3]) == pytest.approx(math.sqrt(0.75))


def test_best_of_the_first_policies():
    """Ties of the truth go to the policy that is tried first."""
    order, best = selection.best_of_first([1, 4, 3, 2], [10.0, 4.0, 8.0, 8.0])
    assert order.tolist() == [1, 2, 3, 0]
    assert best.tolist() == [1, 2, 2, 0]


def test_regret():
    """Picking the third and then the second best loses 4, then 2."""
    estimated = [1.0, 2.0, 3.0, 0.0]
    assert selection.regret_at(estimated, TRUE, 1) == 4.0
    assert selection.regret_at(estimated, TRUE, 2) == 2.0
    assert selection.regret_at(estimated, TRUE, 3) == 0.0
    with pytest.raises(ValueError, match="k is 5"):
        selection.regret_at(estimated, TRUE, 5)


def test_sharpe_ratio():
    """Picks of 6 and 8 against a behaviour of 5 give (8 - 5) / 1."""
    assert selection.sharpe_ratio_at([1.0, 2.0, 3.0, 0.0], TRUE, 2, 5.0) == pytest.approx(3.0)
    assert selection.sharpe_ratio_at([1.0, 2.0, 3.0, 0.0], TRUE, 1, 5.0) == math.inf
    assert selection.sharpe_ratio_at([1.0, 2.0, 3.0, 0.0], TRUE, 1, 7.0) == -math.inf


def test_error_rates():
    """The first two are better than 7; the second and third are estimated to be better than 7."""
    first, second = selection.error_rates(
        [5.0, 9.0, 8.0, 1.0], TRUE, estimated_reference=7.0, true_reference=7.0
    )
    assert (first, second) == (0.5, 0.5)
    first, second = selection.error_rates([5.0], [1.0], estimated_reference=7.0, true_reference=7.0)
    assert first == 0.0
    assert math.isnan(second)


def test_assess_gathers_them_and_ranks_unknown_estimates_last():
    found = selection.assess(
        [3.0, np.nan, 2.0, 1.0], TRUE, behaviour=5.0, reference=2, ks=(1, 3, 9)
    )
    assert found.policies == 4
    assert found.rank_correlation == pytest.approx(0.4)
    assert found.regret == {1: 0.0, 3: 0.0}
    assert found.type_1 == 0.0
    assert found.type_2 == 0.5


def test_a_reference_that_is_the_only_policy_has_no_error_rates():
    found = selection.assess([3.0], [2.0], behaviour=1.0, reference=0)
    assert found.regret == {1: 0.0}
    assert math.isnan(found.type_1)
    assert math.isnan(found.type_2)


def test_arrays_must_fit():
    with pytest.raises(ValueError, match="one length"):
        selection.rank_correlation([1.0], [1.0, 2.0])
