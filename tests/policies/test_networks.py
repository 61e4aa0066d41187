"""A candidate's score depends on its own row; features are what the spec says they are."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.environment import Observation
from pipeline.errors import HindcastError
from pipeline.schema import Feature
from policies.features import expanded_names, fit_map, unscaled_map
from policies.learned import LearnedPolicy, Network, NetworkSettings
from policies.networks import FILL, CandidateScorer

CONTEXT = (
    Feature("load", "jobs", 0, np.inf, "", heavy_tailed=True),
    Feature("hour", "h", 0, 24, ""),
)
CANDIDATES = (
    Feature("row", "index", 0, 9, "", identifier=True),
    Feature("cores", "cores", 0, 64, ""),
    Feature("duration_s", "s", 0, np.inf, "", heavy_tailed=True),
)
SHAPES = [
    NetworkSettings(hidden=(), quadratic=True, context=False),
    NetworkSettings(hidden=(8,), quadratic=False, context=True),
    NetworkSettings(hidden=(8, 8), activation="tanh", quadratic=True, context=True),
]


def _rows(rng, n):
    return np.column_stack([np.arange(n), rng.uniform(0, 64, n), rng.lognormal(4, 1, n)])


def _network(shape, rng):
    context = np.column_stack([rng.lognormal(4, 1, 50), rng.uniform(0, 24, 50)])
    columns = (0, 1) if shape.context else ()
    return Network(
        shape,
        fit_map(CANDIDATES, (1, 2), shape.quadratic, _rows(rng, 200)),
        fit_map(CONTEXT, columns, quadratic=False, rows=context),
    )


def _scorer(shape, seed=0):
    rng = np.random.default_rng(seed)
    network = _network(shape, rng)
    scorer = CandidateScorer(network, rng)
    with torch.no_grad():
        for weight in scorer.parameters():  # a linear scorer starts at zero
            weight.add_(torch.from_numpy(rng.normal(size=weight.shape).astype(np.float32)))
    return network, scorer


def _padded(network, scorer, context, rows, mask):
    with torch.no_grad():
        return scorer(
            torch.from_numpy(
                network.candidates.expand(rows.reshape(-1, 3)).reshape(*rows.shape[:2], -1)
            ),
            torch.from_numpy(network.context.expand(context)),
            torch.from_numpy(mask),
        ).numpy()


def test_the_quadratic_map_is_raw_then_logs_then_products():
    """Two columns, one heavy-tailed: 2 + 1 + 3 numbers, by hand."""
    names = expanded_names(CANDIDATES, (1, 2), quadratic=True)
    assert names == (
        "cores", "duration_s", "log duration_s",
        "cores * cores", "cores * log duration_s", "log duration_s * log duration_s",
    )  # fmt: skip
    log = np.log1p(99.0)
    row = unscaled_map(CANDIDATES, (1, 2), quadratic=True).expand(np.array([[5.0, 2.0, 99.0]]))
    np.testing.assert_allclose(row[0], [2, 99, log, 4, 2 * log, log**2], rtol=1e-6)


def test_binpacks_six_features_make_29():
    from pipeline.scenarios.binpack import BinpackConfig, spec

    of = spec(BinpackConfig(), "makespan")
    assert len(expanded_names(of.candidates, of.learned_candidates, quadratic=True)) == 29


def test_fitted_inputs_are_standardised_and_constants_are_silenced():
    rows = _rows(np.random.default_rng(1), 500)
    rows[:, 1] = 16.0
    inputs = fit_map(CANDIDATES, (1, 2), quadratic=False, rows=rows).expand(rows)
    np.testing.assert_allclose(inputs[:, 1:].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(inputs[:, 1:].std(axis=0), 1, atol=1e-5)
    assert (inputs[:, 0] == 0).all()


def test_float32_and_float64_rows_give_the_same_inputs():
    rows = _rows(np.random.default_rng(1), 50).astype(np.float32)
    fitted = fit_map(CANDIDATES, (1, 2), quadratic=True, rows=rows)
    assert np.array_equal(fitted.expand(rows), fitted.expand(rows.astype(np.float64)))


@pytest.mark.parametrize("shape", SHAPES)
@given(seed=st.integers(0, 2**32 - 1), counts=st.lists(st.integers(1, 7), min_size=1, max_size=5))
@settings(max_examples=25, deadline=None)
def test_padding_order_and_k_do_not_change_a_score(shape, seed, counts):
    """Padded, ragged, shuffled, and numpy forward agree row by row."""
    rng = np.random.default_rng(seed)
    network, scorer = _scorer(shape)
    context = np.column_stack([rng.lognormal(4, 1, len(counts)), rng.uniform(0, 24, len(counts))])
    rows = _rows(rng, sum(counts))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    policy = LearnedPolicy("x", network, scorer.weights(), CONTEXT, CANDIDATES)
    expected = policy.batch_scores(context, rows, offsets)

    with torch.no_grad():
        ragged = scorer.ragged(
            torch.from_numpy(network.candidates.expand(rows)),
            torch.from_numpy(network.context.expand(context)),
            torch.from_numpy(np.repeat(np.arange(len(counts)), counts)),
        ).numpy()
    np.testing.assert_allclose(ragged, expected, atol=1e-3, rtol=1e-4)

    for k in (7, 12):
        padded = np.full((len(counts), k, 3), 1e6 * rng.random())
        mask = np.zeros((len(counts), k), bool)
        places = [rng.permutation(k)[:n] for n in counts]
        for b, place in enumerate(places):
            padded[b, place] = rows[offsets[b] : offsets[b + 1]]
            mask[b, place] = True
        scores = _padded(network, scorer, context, padded, mask)
        for b, place in enumerate(places):
            of = expected[offsets[b] : offsets[b + 1]]
            np.testing.assert_allclose(scores[b, place], of, atol=1e-3, rtol=1e-4)
        assert (scores[~mask] == FILL).all()

    for b in range(len(counts)):
        part = slice(offsets[b], offsets[b + 1])
        one = Observation(0.0, context[b], rows[part], np.ones(counts[b], bool))
        np.testing.assert_allclose(policy.scores(one), expected[part], atol=1e-3, rtol=1e-4)


def test_a_mask_that_is_all_false_means_no_mask():
    network, scorer = _scorer(SHAPES[1])
    rows = _rows(np.random.default_rng(0), 4).reshape(2, 2, 3)
    context = np.ones((2, 2))
    free = _padded(network, scorer, context, rows, np.ones((2, 2), bool))
    mask = np.array([[True, False], [False, False]])
    scores = _padded(network, scorer, context, rows, mask)
    np.testing.assert_allclose(scores, [[free[0, 0], FILL], free[1]], rtol=1e-6)


def test_weights_come_from_the_generator_alone():
    """Torch's own generator is neither read nor moved."""
    state = torch.get_rng_state()
    one, other = (_scorer(SHAPES[2], seed=3)[1].weights() for _ in range(2))
    assert all(np.array_equal(v, other[k]) for k, v in one.items())
    assert torch.equal(state, torch.get_rng_state())


def test_no_candidates_and_no_observations_score_to_nothing():
    network, scorer = _scorer(SHAPES[1])
    policy = LearnedPolicy("x", network, scorer.weights(), CONTEXT, CANDIDATES)
    assert policy.batch_scores(np.zeros((0, 2)), np.zeros((0, 3)), np.array([0])).shape == (0,)
    some = policy.batch_scores(
        np.ones((2, 2)), _rows(np.random.default_rng(0), 3), np.array([0, 0, 3])
    )
    assert some.shape == (3,)


def test_arrays_that_are_no_observations_are_refused():
    """Compiled code would read past their end."""
    network, scorer = _scorer(SHAPES[1])
    policy = LearnedPolicy("x", network, scorer.weights(), CONTEXT, CANDIDATES)
    context, rows, offsets = np.ones((1, 2)), np.ones((4, 3)), np.array([0, 4])
    for arrays in (
        (context[:, :1], rows, offsets),
        (context, rows[:, :2], offsets),
        (context, rows, np.array([0, 5])),
        (context, rows, np.array([0, 2, 4])),
    ):
        with pytest.raises(HindcastError, match="not observations of 2 and 3 features"):
            policy.batch_scores(*arrays)
