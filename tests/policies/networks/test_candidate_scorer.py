"""Tests that a score depends only on its row, its context and the feasible rows beside it."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast.pipeline.errors import DatasetError, HindcastError, RecipeError
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.spec import Feature
from hindcast.policies.networks.candidate_scorer import FILL, CandidateScorer, expand_moment
from hindcast.policies.networks.features import expanded_size, fit_map, unscaled_map
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.rules import find_rules
from hindcast.policies.networks.settings import (
    Network,
    NetworkSettings,
    candidate_map,
    read_columns,
)

CONTEXT = (
    Feature("load", "jobs", 0, np.inf, "", heavy_tailed=True),
    Feature("hour", "h", 0, 24, ""),
)
CANDIDATES = (
    Feature("place", "1", 0, np.inf, "", identifier=True),
    Feature("cores", "cores", 0, 64, ""),
    Feature("duration_s", "s", 0, np.inf, "", heavy_tailed=True),
)
PIXELS = 12
SHAPES = [
    NetworkSettings(hidden=(), quadratic=True, context=False),
    NetworkSettings(hidden=(8,), quadratic=False, context=True),
    NetworkSettings(hidden=(8, 8), activation="tanh", quadratic=True, context=True),
    NetworkSettings(hidden=(8, 6), kind="deepsets", quadratic=False, context=True),
    NetworkSettings(hidden=(8, 5, 4), kind="deepsets", activation="tanh"),
    NetworkSettings(hidden=(8, 6), context=True, image=5),
    NetworkSettings(hidden=(8, 6), kind="deepsets", context=True, image=5),
    NetworkSettings(context=True, image=5, places=400),
]
IDS = [
    f"{s.kind}-{'-'.join(map(str, s.hidden)) or 'linear'}{'-image' if s.image else ''}"
    f"{'-places' if s.places else ''}"
    for s in SHAPES
]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=IDS)


def _rows(rng, n):
    return np.column_stack([np.arange(n), rng.uniform(0, 64, n), rng.lognormal(4, 1, n)])


def _moments(rng, n):
    context = np.column_stack([rng.lognormal(4, 1, n), rng.uniform(0, 24, n)])
    return context, rng.integers(0, 256, (n, PIXELS)).astype(np.uint8)


def _network(shape, rng, **more):
    columns = (0, 1) if shape.context else ()
    return Network(
        shape,
        candidate_map(CANDIDATES, shape, _rows(rng, 200)),
        fit_map(CONTEXT, columns, quadratic=False, rows=_moments(rng, 50)[0]),
        pixels=PIXELS if shape.image else 0,
        **more,
    )


def _scorer(shape, seed=0, size=1.0, **more):
    rng = np.random.default_rng(seed)
    network = _network(shape, rng, **more)
    scorer = CandidateScorer(network, rng)
    with torch.no_grad():
        for weight in scorer.parameters():  # a linear scorer starts at zero
            weight.add_(size * torch.from_numpy(rng.normal(size=weight.shape).astype(np.float32)))
    return network, scorer


def _policy(network, scorer):
    return LearnedPolicy("x", network, scorer.weights(), CONTEXT, CANDIDATES)


def _padded(network, scorer, moments, rows, mask):
    with torch.no_grad():
        return scorer(
            torch.from_numpy(
                network.candidates.expand(rows.reshape(-1, 3)).reshape(*rows.shape[:2], -1)
            ),
            torch.from_numpy(expand_moment(network, *moments)),
            torch.from_numpy(mask),
        ).numpy()


def _ragged(network, scorer, moments, rows, counts):
    with torch.no_grad():
        return scorer.ragged(
            torch.from_numpy(network.candidates.expand(rows)),
            torch.from_numpy(expand_moment(network, *moments)),
            torch.from_numpy(np.repeat(np.arange(len(counts)), counts)),
        ).numpy()


def test_the_quadratic_map_is_raw_then_logs_then_products():
    """Two columns, one heavy-tailed, become 2 + 1 + 3 numbers, computed by hand."""
    log = np.log1p(99.0)
    row = unscaled_map(CANDIDATES, (1, 2), quadratic=True).expand(np.array([[5.0, 2.0, 99.0]]))
    np.testing.assert_allclose(row[0], [2, 99, log, 4, 2 * log, log**2], rtol=1e-6)


def test_binpacks_six_features_make_29():
    from hindcast.pipeline.scenarios.binpack.config import BinpackConfig
    from hindcast.pipeline.scenarios.binpack.features import spec

    of = spec(BinpackConfig(), "makespan")
    assert expanded_size(of.candidates, of.learned_candidates, quadratic=True) == 29
    assert expanded_size(of.candidates, of.learned_candidates, quadratic=True, logs=False) == 27


def test_without_logs_features_are_as_they_are():
    """Products use no logarithms either, and no fitted column counts as heavy-tailed."""
    row = np.array([[5.0, 2.0, 99.0]])
    plain = unscaled_map(CANDIDATES, (1, 2), quadratic=True, logs=False)
    assert plain.expand(row)[0].tolist() == [2.0, 99.0, 4.0, 198.0, 9801.0]
    fitted = fit_map(CANDIDATES, (1, 2), quadratic=False, rows=np.eye(3), logs=False)
    assert fitted.size == 2
    assert not fitted.heavy.any()


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


@every_shape
@given(seed=st.integers(0, 2**32 - 1), counts=st.lists(st.integers(1, 7), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_padding_order_and_k_do_not_change_a_score(shape, seed, counts):
    """Padded, ragged, shuffled and compiled scores agree, and masked rows change none."""
    rng = np.random.default_rng(seed)
    network, scorer = _scorer(shape)
    context, image = _moments(rng, len(counts))
    rows = _rows(rng, sum(counts))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    policy = _policy(network, scorer)
    expected = policy.batch_scores(context, rows, offsets, image=image)
    close = {"atol": 1e-3, "rtol": 1e-4}
    np.testing.assert_allclose(
        _ragged(network, scorer, (context, image), rows, counts), expected, **close
    )

    for k in (7, 12):
        padded = np.full((len(counts), k, 3), 1e6 * rng.random())
        mask = np.zeros((len(counts), k), bool)
        places = [rng.permutation(k)[:n] for n in counts]
        for b, place in enumerate(places):
            padded[b, place] = rows[offsets[b] : offsets[b + 1]]
            mask[b, place] = True
        scores = _padded(network, scorer, (context, image), padded, mask)
        compiled = policy.batch_scores(
            context, padded.reshape(-1, 3), k * np.arange(len(counts) + 1),
            feasible=mask.ravel(), image=image,
        ).reshape(mask.shape)  # fmt: skip
        for b, place in enumerate(places):
            of = expected[offsets[b] : offsets[b + 1]]
            np.testing.assert_allclose(scores[b, place], of, **close)
            np.testing.assert_allclose(compiled[b, place], of, **close)
        assert (scores[~mask] == FILL).all()

    for b in range(len(counts)):
        part = slice(offsets[b], offsets[b + 1])
        of = Observation(
            0.0, context[b], rows[part], np.ones(counts[b], bool), image[b].reshape(3, 4)
        )
        assert np.array_equal(policy.scores(of), expected[part]), "depends on what is beside it"


@every_shape
def test_acting_agrees_with_training_to_a_hundred_thousandth(shape):
    """Compiled and torch scores agree for weights as after training and sets of up to 300."""
    rng = np.random.default_rng(4)
    network, scorer = _scorer(shape, size=0.1)
    counts = [1, 2, 31, 300]
    moments, rows = _moments(rng, 4), _rows(rng, sum(counts))
    context, image = moments
    compiled = _policy(network, scorer).batch_scores(
        context, rows, np.concatenate([[0], np.cumsum(counts)]), image=image
    )
    trained = _ragged(network, scorer, moments, rows, counts)
    np.testing.assert_allclose(compiled, trained, atol=1e-5 * max(1.0, np.abs(trained).max()))


@pytest.mark.parametrize("shape", SHAPES[:7], ids=IDS[:7])
def test_acting_agrees_with_training_if_the_network_reads_rule_columns(shape):
    """Compiled code adds rule columns after the logs and products of the other columns."""
    names = ("hold_5", "sjf_now")
    shape = dataclasses.replace(shape, rules=names)
    rng, further = np.random.default_rng(5), 2 * len(names)
    fitted = np.concatenate([_rows(rng, 200), rng.random((200, further))], axis=1)
    rules = find_rules("slots", names, CANDIDATES)
    moment = fit_map(CONTEXT, (0, 1) if shape.context else (), quadratic=False, rows=None)
    network = Network(
        shape, candidate_map(CANDIDATES, shape, fitted, rules), moment,
        pixels=PIXELS if shape.image else 0, rules=rules,
    )  # fmt: skip
    scorer = CandidateScorer(network, rng)
    with torch.no_grad():
        for weight in scorer.parameters():
            weight.add_(torch.from_numpy(rng.normal(size=weight.shape).astype(np.float32)))
    counts = [3, 1, 7]
    rows = np.concatenate([_rows(rng, 11), rng.random((11, further))], axis=1)
    moments = _moments(rng, len(counts))
    expected = _ragged(network, scorer, moments, rows, counts)
    acting = _policy(network, scorer).batch_scores(
        moments[0], rows, np.cumsum([0, *counts]), image=moments[1] if shape.image else None
    )
    np.testing.assert_allclose(acting, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s.kind != "mlp"])
def test_a_set_network_sees_the_feasible_others(shape):
    """Another feasible row changes the score of a row, and another infeasible row does not."""
    network, scorer = _scorer(shape, size=0.3)
    rng = np.random.default_rng(2)
    context, image = _moments(rng, 1)
    rows, offsets = _rows(rng, 4), np.array([0, 4])
    policy = _policy(network, scorer)

    def first(feasible):
        return policy.batch_scores(
            context, rows, offsets, feasible=np.array(feasible), image=image
        )[0]

    alone = policy.batch_scores(context, rows[:1], np.array([0, 1]), image=image)[0]
    assert first([True, False, False, False]) == alone
    assert first([True, True, False, False]) != alone
    assert set(policy.reads) == ({"feasible", "image"} if shape.image else {"feasible"})


def test_where_nothing_is_feasible_all_are_looked_at():
    """As in training, an all-false mask means "no mask"."""
    network, scorer = _scorer(SHAPES[3])
    rng = np.random.default_rng(2)
    context, _ = _moments(rng, 1)
    rows, offsets, policy = _rows(rng, 3), np.array([0, 3]), _policy(network, scorer)
    given = [
        policy.batch_scores(context, rows, offsets, feasible=np.full(3, feasible))
        for feasible in (False, True)
    ]
    assert np.array_equal(*given)


@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[1], SHAPES[3], SHAPES[4]])
def test_a_threshold_leaves_the_likely_candidates(shape):
    """A score is the value if the likelihood is at least a third of the highest, else FILL."""
    network, scorer = _scorer(shape, outputs=2, threshold=1 / 3)
    rng = np.random.default_rng(2)
    context, _ = moments = _moments(rng, 1)
    rows = _rows(rng, 6)
    value, likelihood = _ragged(network, scorer, moments, rows, [6]).T
    allowed = likelihood - likelihood.max() >= np.log(1 / 3)
    scores = _policy(network, scorer).batch_scores(context, rows, np.array([0, 6]))
    expected = np.where(allowed, value, FILL)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-3)


def test_several_outputs_are_spread_with_their_candidate():
    """Outputs have shape (B, K, Q), with FILL in every output of a forbidden row."""
    network, scorer = _scorer(SHAPES[4], outputs=3)
    rng = np.random.default_rng(2)
    rows, moments = _rows(rng, 8).reshape(2, 4, 3), _moments(rng, 2)
    mask = np.array([[True, False, True, True], [True, True, False, False]])
    scores = _padded(network, scorer, moments, rows, mask)
    assert scores.shape == (2, 4, 3)
    assert (scores[~mask] == FILL).all()
    assert (np.abs(scores[mask]) < 1e6).all()


@every_shape
def test_gradients_reach_every_weight_and_are_finite(shape):
    """The batch has an observation with one candidate and an observation with none."""
    network, scorer = _scorer(shape, size=0.1)
    rng = np.random.default_rng(2)
    context, image = _moments(rng, 3)
    mask = np.array([[True, True, False], [True, False, False], [False, False, False]])
    scores = scorer.packed(
        torch.from_numpy(network.candidates.expand(_rows(rng, 3))),
        torch.from_numpy(expand_moment(network, context, image)),
        torch.from_numpy(mask),
    )
    assert (scores[~torch.from_numpy(mask)] == FILL).all()
    scores[torch.from_numpy(mask)].square().sum().backward()
    for name, weight in scorer.named_parameters():
        assert torch.isfinite(weight.grad).all(), name
        assert weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"kind": "deepsets", "hidden": (8,)}, "two hidden layers"),
        ({"image": -1}, "image is -1"),
        ({"places": -1}, "places is -1"),
        ({"places": 3}, "which needs image above 0"),
        ({"places": 3, "image": 2, "hidden": (4,)}, "hidden empty"),
    ],
    ids=["shallow", "image", "places", "unseen", "hidden"],
)
def test_settings_that_make_no_network_are_refused(wrong, match):
    with pytest.raises(RecipeError, match=match):
        NetworkSettings(**wrong)


def test_a_score_of_a_place_is_of_nothing_else_in_the_row():
    """Rows take the scores of their places, and the content of rows without a place is not read."""
    network, scorer = _scorer(NetworkSettings(image=5, places=4))
    rng = np.random.default_rng(2)
    context, image = _moments(rng, 1)
    policy = _policy(network, scorer)
    rows, whole = _rows(rng, 4), np.array([0, 4])
    scores = policy.batch_scores(context, rows, whole, image=image)
    assert len(set(scores)) == 4
    turned = _rows(rng, 4)
    turned[:, 0] = [2, 2, 0, 4]
    found = policy.batch_scores(context, turned, whole, image=image)
    assert found.tolist() == [scores[2], scores[2], scores[0], FILL]
    assert (policy.batch_scores(context, rows, whole, image=255 - image) != scores).all()


def test_places_are_those_that_the_rows_tell():
    told = Feature("place", "1", 0, 3, "", identifier=True)
    shape = NetworkSettings(image=5, places=4)
    assert read_columns((CANDIDATES[1], told), shape) == (1,)
    with pytest.raises(RecipeError, match=r"no candidate feature is called 'place' \(cores, dur"):
        read_columns(CANDIDATES[1:], shape)
    with pytest.raises(RecipeError, match=r"places is 4, .* but this agent needs 3"):
        _network(shape, np.random.default_rng(0), outputs=3)
    with pytest.raises(RecipeError, match="places is 5, expected 4, the rows of an observation"):
        read_columns((told,), NetworkSettings(image=5, places=5))


def test_images_that_are_missing_are_named():
    network, scorer = _scorer(SHAPES[5])
    rng = np.random.default_rng(2)
    context, image = _moments(rng, 1)
    policy = _policy(network, scorer)
    assert policy.reads == ("image",)
    for wrong in (None, image[:, :-1]):
        with pytest.raises(HindcastError, match=r"expected images \(1, 12\)"):
            policy.batch_scores(context, _rows(rng, 2), np.array([0, 2]), image=wrong)
    with pytest.raises(DatasetError, match="reads an image"):
        expand_moment(network, context, None)


def test_a_mask_that_is_all_false_means_no_mask():
    for shape in SHAPES[1], SHAPES[3], SHAPES[4]:
        network, scorer = _scorer(shape)
        rows = _rows(np.random.default_rng(0), 4).reshape(2, 2, 3)
        moments = (np.ones((2, 2)), None)
        free = _padded(network, scorer, moments, rows, np.ones((2, 2), bool))
        mask = np.array([[True, True], [False, False]])
        scores = _padded(network, scorer, moments, rows, mask)
        np.testing.assert_allclose(scores, free, rtol=1e-6)


def test_weights_come_from_the_generator_alone():
    """Torch's global generator is neither read nor changed."""
    state = torch.get_rng_state()
    one, other = (_scorer(SHAPES[2], seed=3)[1].weights() for _ in range(2))
    assert all(np.array_equal(v, other[k]) for k, v in one.items())
    assert torch.equal(state, torch.get_rng_state())


def test_no_candidates_and_no_observations_score_to_nothing():
    for shape in SHAPES[1], SHAPES[3], SHAPES[4]:
        network, scorer = _scorer(shape)
        policy = _policy(network, scorer)
        assert policy.batch_scores(np.zeros((0, 2)), np.zeros((0, 3)), np.array([0])).shape == (0,)
        rows = _rows(np.random.default_rng(0), 3)
        some = policy.batch_scores(np.ones((2, 2)), rows, np.array([0, 0, 3]))
        assert some.shape == (3,)
        counts = [0, 3]
        ragged = _ragged(network, scorer, (np.ones((2, 2)), None), rows, counts)
        np.testing.assert_allclose(ragged, some, rtol=1e-4, atol=1e-3)


def test_arrays_that_are_no_observations_are_refused():
    """Compiled code would read past the end of such arrays."""
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
