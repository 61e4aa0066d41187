"""Tests of verdicts on estimates: thresholds, and the direction of a mean weight."""

import numpy as np
import pytest

from hindcast.pipeline.estimators import ESTIMATORS, LoggedEpisodes, estimate
from hindcast.pipeline.estimators.verdicts import (
    ANSWERS,
    BESIDE,
    CANNOT,
    ROUGHLY,
    Held,
    holds,
    of_mean_weight,
    off_one,
)
from hindcast.policies.ope.left_out import verdict_of


def choices(n, propensity=0.5, shown=0.5, seed=0):
    """Return n episodes of one choice: `shown` is logged, `propensity` is true."""
    rng = np.random.default_rng(seed)
    taken = rng.random(n) < propensity
    return LoggedEpisodes(
        offsets=np.arange(n + 1), behaviour=np.where(taken, shown, 1.0 - shown),
        evaluation=np.where(taken, 0.6, 0.4), reward=taken + rng.random(n),
        covered=np.ones(n),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policies", "held", "shown", "refuted"),
    [(0, 0, False, False), (10, 10, False, False), (28, 28, False, False), (29, 29, True, False),
     (45, 44, False, False), (46, 45, True, False), (6, 4, False, False), (6, 3, False, True),
     (2, 0, False, True), (1, 0, False, False)],
)  # fmt: skip
def test_coverage_is_shown_or_refuted_by_enough_policies(policies, held, shown, refuted):
    """.9 ** 28 is above 5 % and .9 ** 29 below; of six, three or fewer held has 1.6 %."""
    found = Held(policies, held)
    assert (found.shown, found.refuted) == (shown, refuted)


def test_a_bias_is_beside_unless_coverage_was_shown():
    e = estimate("snis", choices(200))
    assert e.verdict == ANSWERS
    assert verdict_of(e, Held()) == ANSWERS
    assert verdict_of(e, Held(6, 3)) == BESIDE
    assert {name for name, kind in ESTIMATORS.items() if kind.bias} == {
        "gp", "tempered", "mwl", "dm",
    }  # fmt: skip
    values = choices(200)
    fitted = LoggedEpisodes(
        values.offsets, values.behaviour, values.evaluation, values.reward,
        q=values.reward, v=values.reward + np.linspace(0.0, 0.1, 200),
    )  # fmt: skip
    dm = estimate("dm", fitted)
    assert dm.verdict == ANSWERS
    assert verdict_of(dm, Held(10, 10)) == BESIDE
    assert verdict_of(dm, Held(29, 29)) == ANSWERS


def test_few_effective_episodes_cannot_answer():
    """Five effective episodes are the fewest; an uncovered policy has no answer either."""
    assert estimate("is", choices(4)).verdict == CANNOT
    assert estimate("is", choices(200)).verdict == ANSWERS
    e = choices(200)
    uncovered = LoggedEpisodes(
        e.offsets, e.behaviour, e.evaluation, e.reward, covered=np.full(200, 0.9)
    )
    assert estimate("is", uncovered).verdict == CANNOT


@pytest.mark.parametrize(
    ("shown", "said"), [(0.3, "propensities are too small"), (0.75, "propensities are too large")]
)
def test_wrong_propensities_are_told_with_their_direction(shown, said):
    """Choices that are taken in 70 % and logged as 30 % have weights of a mean far above 1."""
    e = choices(2000, propensity=0.7, shown=shown)
    if shown > 0.7:  # the policy likes what is logged as more likely than it is
        e = LoggedEpisodes(e.offsets, np.full(2000, 0.8), np.full(2000, 0.5), e.reward)
    found = estimate("snis", e)
    assert found.verdict == ROUGHLY
    [told] = [w for w in found.warnings if w.startswith("a mean weight of")]
    assert said in told


def test_a_mean_weight_names_the_side_and_its_error():
    assert of_mean_weight(1.4, 0.05).startswith("a mean weight of 1.4 (se 0.05), expected 1: the")
    assert "too small" in of_mean_weight(1.4, 0.05)
    assert "too large" in of_mean_weight(0.6, 0.05)


def test_an_error_of_rounding_is_no_deviation():
    assert not off_one(1.0 + 1e-7, 0.0)
    assert off_one(1.0005, 0.0)
    assert not off_one(1.0005, 0.0, 1e-3)
    assert off_one(1.3, 1.0)


def test_an_interval_without_width_holds_its_value_up_to_rounding():
    assert holds(-361.0, -361.0, -361.0 * (1.0 + 1e-12))
    assert not holds(-361.0, -361.0, -361.1)
    assert not holds(np.nan, np.nan, 0.0)
