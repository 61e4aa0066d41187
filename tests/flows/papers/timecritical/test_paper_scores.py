"""Tests of Eval and Score-A to Score-D of `multicluster` on numbers that can be checked by hand."""

import numpy as np
import pytest

from hindcast.flows.papers.timecritical.paper_scores import (
    evaluation,
    score_a,
    score_b,
    score_c,
    score_d,
)

# four episodes:     both better | TMDL only | AJDR only | neither (a tie and a loss)
TMDL = np.array([10.0, 10.0, 30.0, 20.0])
AJDR = np.array([1.0, 3.0, 1.0, 2.5])
BASE_TMDL = np.array([20.0, 20.0, 20.0, 20.0])
BASE_AJDR = np.array([2.0, 2.0, 2.0, 2.0])
PAIR = (TMDL, AJDR, BASE_TMDL, BASE_AJDR)


def test_eval_is_the_reciprocal_of_weighted_misses_and_delay():
    assert evaluation(np.array([50.0, 0.0]), np.array([1.0, 4.0])).tolist() == [0.5, 0.25]
    assert evaluation(np.array([0.0]), np.array([0.0])).tolist() == [np.inf]


def test_the_papers_means_have_its_eval():
    """Bernoulli in Table II has 1 / (.02 * 35.04 + 3.24)."""
    assert evaluation(np.array([35.04]), np.array([3.24])) == pytest.approx([1 / 3.9408])


def test_score_a_wants_both():
    assert score_a(*PAIR) == 25


def test_score_b_gives_half_for_one():
    assert score_b(*PAIR) == 25 + 12.5 + 12.5


def test_score_c_compares_eval():
    """Costs are 1.2, 3.2, 1.6, 2.9 against 2.4."""
    assert score_c(*PAIR) == 50


def test_score_d_adds_percent_changes():
    """The sums are -100, 0 (-50 + 50, which is not below), 0 (+50 - 50) and +25."""
    assert score_d(*PAIR) == 25


def test_score_d_of_changes_from_zero():
    """From 0 to 0 is no change, and from 0 to 1 outweighs everything else."""
    zero, one = np.zeros(2), np.ones(2)
    assert score_d(np.array([0.0, 1.0]), one, zero, 2 * one) == 50


def test_the_policy_and_the_baseline_share_a_hundred_without_ties():
    assert score_b(*PAIR[:2], *PAIR[2:]) + score_b(*PAIR[2:], *PAIR[:2]) == 100 - 12.5
    assert score_c(*PAIR[:2], *PAIR[2:]) + score_c(*PAIR[2:], *PAIR[:2]) == 100
