"""Tests of price_surface: the surface, its maximum in a ball, and a log of random_prices."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.flows.papers.prices import surface as ps
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.heuristics.prices import STEP, WEIGHTS
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.offline import agents_for
from hindcast.policies.offline.regression.surface import explained, fit_surface
from hindcast.policies.registry import behaviours
from tests.policies.trainings import train

SMALL = (
    "config.horizon=12", "config.jobs_per_slot=4.0", "config.capacity=12.0", 'split.train="0..7"',
    'split.validation="8..9"', 'split.test="10..10"',
)  # fmt: skip
PAIRS = list(zip(*np.triu_indices(WEIGHTS), strict=True))


def quadratic(slope, hessian):
    """Return the coefficients of g . w + w H w / 2, with a constant that the surface adds."""
    h = np.array([hessian[i, j] / (2.0 if i == j else 1.0) for i, j in PAIRS])
    return np.concatenate([[0.0], slope, h])


def value(surface, w):
    return float((ps.design(w[None]) @ surface)[0])


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a small log, most of its episodes at drawn prices."""
    recipe = load_recipe("deferrable-prices-v1", SMALL)
    kept = [
        dataclasses.replace(b, episodes=24 if b.policy == "random_prices" else 1)
        for b in recipe.behaviours
    ]
    folder = tmp_path_factory.mktemp("log") / "dataset"
    build(dataclasses.replace(recipe, behaviours=tuple(kept)), behaviours(recipe), folder)
    return folder


def test_the_surface_is_that_of_a_quadratic():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((400, WEIGHTS))
    known = rng.standard_normal(ps._COEFFICIENTS)
    y = ps.design(w) @ known
    found = fit_surface(ps.design(w), y, 1e-9)
    np.testing.assert_allclose(found, known, atol=1e-6)
    assert explained(found, ps.design(w), y) == pytest.approx(1.0)
    assert explained(fit_surface(ps.design(w), 0.0 * y, 1.0), ps.design(w), 0.0 * y) == 0.0


def test_a_maximum_inside_the_ball_is_found():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((WEIGHTS, WEIGHTS))
    hessian = -root @ root.T - np.eye(WEIGHTS)
    best = rng.standard_normal(WEIGHTS)
    best /= np.linalg.norm(best)
    found = ps.optimum(quadratic(-hessian @ best, hessian), 1.5)
    np.testing.assert_allclose(found, best, atol=1e-9)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_no_point_of_the_ball_is_higher_than_the_maximum(sign):
    """The surface rises beyond the ball, or curves upwards in some directions."""
    rng = np.random.default_rng(2)
    hessian = np.diag(sign * rng.uniform(0.01, 0.1, WEIGHTS))
    surface = quadratic(rng.standard_normal(WEIGHTS), hessian)
    found = ps.optimum(surface, 2.0)
    assert np.linalg.norm(found) == pytest.approx(2.0)
    others = rng.standard_normal((2000, WEIGHTS))
    others *= 2.0 / np.linalg.norm(others, axis=1, keepdims=True)
    near = found + 0.1 * rng.standard_normal((2000, WEIGHTS))
    near *= 2.0 / np.linalg.norm(near, axis=1, keepdims=True)
    assert value(surface, found) >= max(value(surface, w) for w in (*others, *near)) - 1e-9


def test_a_flat_surface_leaves_the_weights_at_zero():
    assert ps.optimum(np.zeros(ps._COEFFICIENTS), 4.0).tolist() == [0.0] * WEIGHTS


@pytest.mark.slow
def test_every_episode_of_random_prices_draws_its_weights(log):
    episodes = ds.open(log).episodes("train").sort("episode")
    drawn = [p for b, p in episodes.select("behaviour", "behaviour_parameters").iter_rows()
             if b == "random_prices"]  # fmt: skip
    assert len({tuple(p) for p in drawn}) == len(drawn) == 8 * 24
    assert {p[0] for p in drawn} == {12.0}  # the mean capacity
    assert np.std([p[1:] for p in drawn]) == pytest.approx(STEP, rel=0.05)
    checks = dict(verify(log, behaviours(ds.open(log).recipe)).checks)
    assert {"behaviours", "draws"} <= set(checks)


@pytest.mark.slow
def test_a_training_plays_at_the_fitted_prices(log, tmp_path):
    out = train(log, "price_surface", steps=3, seed=0, out=tmp_path / "run")
    found = ds.open(log).episodes("train").filter(pl.col("behaviour") == "random_prices")
    w = np.array(found["behaviour_parameters"].to_list())[:, 1:] / STEP
    total = found["return"].to_numpy()
    y = total - np.array([total[(found["window"] == one).to_numpy()].mean()
                          for one in found["window"]])  # fmt: skip
    best = ps.optimum(fit_surface(ps.design(w), y, 1000.0), 4.0)
    np.testing.assert_allclose(
        load_policy(out).parameters, [12.0, *STEP * best], rtol=1e-5, atol=1e-6
    )
    again = train(log, "price_surface", steps=3, seed=1, out=tmp_path / "other")
    np.testing.assert_array_equal(load_policy(again).parameters, load_policy(out).parameters)


@pytest.mark.slow
def test_a_log_without_drawn_prices_is_refused(tmp_path):
    recipe = load_recipe(
        "deferrable-prices-v1",
        (*SMALL, 'behaviours=[{policy="random_prices"},{policy="knapsack"}]'),
    )
    build(recipe, behaviours(recipe), tmp_path / "log")
    with pytest.raises(DatasetError, match=r"has 8 episodes of random_prices, expected at least"):
        train(tmp_path / "log", "price_surface", steps=1, seed=0, out=tmp_path / "run")


def test_all_agents_of_a_recipe_do_not_include_it():
    """It learns from a log of random_prices alone."""
    assert "price_surface" not in agents_for(("all",), "deferrable")
    assert agents_for(("price_surface",), "deferrable") == ("price_surface",)
