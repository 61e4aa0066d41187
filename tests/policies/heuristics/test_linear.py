"""Tests of `random_linear`: a priority drawn per episode that depends on the spec only."""

import numpy as np

from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.spec import Feature, Spec
from hindcast.policies.heuristics.linear import RANDOM_LINEAR, draw_weights

SPEC = Spec(
    scenario="toy",
    objective="gain",
    context=(),
    candidates=(
        Feature("machine", "index", 0, 9, "", identifier=True),
        Feature("cores", "cores", 0, 64, "", scale=4.0),
        Feature("duration_s", "s", 0, np.inf, "", heavy_tailed=True, scale=60.0),
    ),
    reward_terms=(),
    outcomes=(),
)


def test_weights_are_normal_over_scale_and_leave_identifiers_out():
    """Terms are (column, log, weight); over many draws their deviations are 1 / scale and 1."""
    rng = np.random.default_rng(0)
    drawn = np.array([draw_weights(SPEC, rng).reshape(-1, 3) for _ in range(4000)])
    assert (drawn[:, :, 0] == [1, 2]).all()
    assert (drawn[:, :, 1] == [0, 1]).all()
    np.testing.assert_allclose(drawn[:, :, 2].std(axis=0), [0.25, 1.0], rtol=0.05)


def test_scores_by_hand_in_buffers_that_are_longer():
    candidates = np.array([[7, 2.0, 0.0], [8, 1.0, np.e - 1], [9, 5.0, -(np.e - 1)], [0, 9, 9]])
    parameters = np.array([1, 0, 0.5, 2, 1, 10.0])
    scores = np.full(3, np.nan)
    RANDOM_LINEAR.score(np.zeros(0), candidates, np.ones(4, bool), parameters, scores)
    np.testing.assert_allclose(scores, [1.0, 10.5, -7.5])


def test_an_episode_keeps_its_priority():
    """The same parameters rank the same rows alike, whatever other rows there are."""
    rng = np.random.default_rng(3)
    parameters = RANDOM_LINEAR.parameters(SPEC, rng)
    rows = rng.lognormal(size=(6, 3))
    whole = RANDOM_LINEAR.scores(Observation(0.0, np.zeros(0), rows, np.ones(6, bool)), parameters)
    part = RANDOM_LINEAR.scores(
        Observation(0.0, np.zeros(0), rows[3:], np.ones(3, bool)), parameters
    )
    assert np.array_equal(whole[3:], part)
    assert not np.array_equal(parameters, RANDOM_LINEAR.parameters(SPEC, rng))
