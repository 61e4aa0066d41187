"""Tests of response_surface: the surface, the weights it yields, and a log around a rule."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset.building.build import build
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.policies.heuristics import find_rule
from hindcast.policies.heuristics.linear import draw_weights
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.offline.regression import response_surface as rs
from hindcast.policies.offline.regression.surface import explained, fit_surface
from hindcast.policies.registry import behaviours
from tests.policies.trainings import train

SMALL = (
    "config.applications=40", "config.clusters=[300,500]", 'split.train="0..5"',
    'split.validation="6..8"', 'split.test="9..9"',
)  # fmt: skip
RULE = {"network.rules": ["urgent_first"], "network.quadratic": False}


@pytest.fixture(scope="module")
def spec():
    recipe = load_recipe("multicluster-around-v1", SMALL)
    return load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return a small log, most of its episodes around a rule."""
    recipe = load_recipe("multicluster-around-v1", SMALL)
    kept = [
        dataclasses.replace(b, episodes=14 if b.policy.startswith("around") else 1)
        for b in recipe.behaviours
        if b.policy in {"around_urgent_first", "urgent_first", "random"}
    ]
    folder = tmp_path_factory.mktemp("log") / "dataset"
    build(dataclasses.replace(recipe, behaviours=tuple(kept)), behaviours(recipe), folder)
    return folder


def test_the_surface_and_its_maximum_are_those_of_a_quadratic():
    """Y = b + g w + h (w^2 - 1) has its maximum at -g / 2h in every column."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((400, 3))
    slope, curvature = np.array([1.0, -0.5, 0.0]), np.array([-0.5, -0.25, -0.1])
    y = 2.0 + w @ slope + (w**2 - 1.0) @ curvature
    surface = fit_surface(rs.design(w), y, 1e-6)
    np.testing.assert_allclose(surface, [2.0, *slope, *curvature], atol=1e-6)
    assert explained(surface, rs.design(w), y) == pytest.approx(1.0)
    best = np.array([1.0, -1.0, 0.0]) / np.sqrt(2.0)
    np.testing.assert_allclose(rs.optimum(surface, 2.0), 2.0 * best, atol=1e-5)


def test_a_column_that_curves_upwards_is_not_divided_by_its_curvature():
    surface = np.array([0.0, 1.0, 1.0, -1.0, +3.0])
    np.testing.assert_allclose(rs.optimum(surface, 1.0), [0.8, 0.6], atol=0.2)
    assert rs.optimum(np.zeros(5), 3.0).tolist() == [0.0, 0.0]


def test_values_that_are_all_equal_are_explained_by_nothing():
    w = np.random.default_rng(0).standard_normal((20, 2))
    assert (
        explained(fit_surface(rs.design(w), np.zeros(20), 1.0), rs.design(w), np.zeros(20)) == 0.0
    )


def table(spec, values, windows, rule="urgent_first"):
    rng = np.random.default_rng(3)
    drawn = [draw_weights(spec, rng).tolist() for _ in values]
    return pl.DataFrame({
        "behaviour": [f"around_{rule}+eps0.02"] * len(values), "window": windows,
        spec.outcomes[0].name: values, "behaviour_parameters": drawn,
    })  # fmt: skip


def test_observations_are_compared_within_their_window(spec):
    """A lower cost is better, and an episode far behind the others has a limited value."""
    count = 2 * len(spec.learned_candidates)
    cost = np.tile([5.0, 3.0, 4.0, 900.0], count)
    episodes = table(spec, cost, np.repeat(np.arange(count), 4))
    w, y = rs.observations(episodes, "urgent_first", spec)
    assert y[:4].tolist() == [-0.5, 1.5, 0.5, -1.5]
    assert w.shape == (len(cost), len(spec.learned_candidates))
    assert abs(w.std() - 1.0) < 0.05  # in units of the draws, whatever the scale of a column


def test_few_episodes_and_none_of_the_rule_are_refused(spec):
    few = table(spec, [1.0, 2.0], [0, 0])
    with pytest.raises(DatasetError, match=r"has 2 episodes of around_urgent_first, expected at l"):
        rs.observations(few, "urgent_first", spec)
    with pytest.raises(DatasetError, match='policy = "around_sf_p" to the recipe'):
        rs.observations(few, "sf_p", spec)
    assert len(rs.observations(few, "sf_p", spec, required=False)[1]) == 0


@pytest.mark.slow
def test_a_training_plays_the_rule_with_the_fitted_priority(log, tmp_path):
    """Its scores are those of the behaviour, with the fitted weights in place of drawn ones."""
    out = train(log, "response_surface", steps=5, seed=0, out=tmp_path / "run", settings=RULE)
    opened, policy = ds.open(log), load_policy(out)
    spec = opened.spec
    assert policy.network.settings.rules == ("urgent_first",)
    w, y = rs.observations(opened.episodes("train"), "urgent_first", spec)
    best = rs.optimum(fit_surface(rs.design(w), y, 1.0), 6.0)
    near = find_rule(spec.scenario, "around_urgent_first")
    parameters = draw_weights(spec, np.random.default_rng(0)).reshape(-1, 3)
    parameters[:, 2] = best / rs._units(spec)
    t = next(iter(opened.iter_episodes("validation")))
    context, candidates = t.context.astype(float), t.candidates.astype(float)
    found = policy.batch_scores(
        context, candidates, t.offsets, feasible=t.feasible[: t.offsets[-1]]
    )
    expected = np.empty(len(found))
    for d in range(len(t)):
        rows = slice(t.offsets[d], t.offsets[d + 1])
        near.score(
            context[d], candidates[rows], t.feasible[rows], parameters.ravel(), expected[rows]
        )
    able = t.feasible[: t.offsets[-1]]
    np.testing.assert_allclose(found[able], expected[able], rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_it_needs_one_rule_that_the_log_is_around(log, tmp_path):
    def fit(**settings):
        out = tmp_path / "run"
        return train(log, "response_surface", steps=1, seed=0, out=out, settings=settings)

    with pytest.raises(RecipeError, match=r"rules is \[\].*the log has around_urgent_first"):
        fit()
    with pytest.raises(DatasetError, match="0 episodes of around_sf_p"):
        fit(**{"network.rules": ["sf_p"]})
    with pytest.raises(RecipeError, match="expected a linear score"):
        fit(**{"network.rules": ["urgent_first"], "network.hidden": [8]})


def test_all_agents_of_a_recipe_do_not_include_it():
    """It learns from a log around a rule alone, and its settings name the rule."""
    from hindcast.policies.offline import agents_for

    assert "response_surface" not in agents_for(("all",), "multicluster")
    assert agents_for(("response_surface",), "multicluster") == ("response_surface",)
