"""Tests of the similarity of two scorers on known scores."""

import dataclasses
import json

import numpy as np
import pytest

from hindcast.flows import cli
from hindcast.flows.papers.deepjs.fitness_correlation import alike, compare, pearson, scores
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import NetworkSettings, make_network
from hindcast.policies.rollouts.trajectories import network_inputs, sample_trajectory
from tests.policies.play import some_weights
from tests.policies.trainings import train_online

SAMPLING = {"trajectories": 2, "windows": 1, "stay": 1}


@pytest.fixture(scope="module")
def agents(tiny_recipe, tmp_path_factory):
    """Return folders of two agents of the tiny recipe with different seeds."""
    online = OnlineRecipe("reinforce", 1, {"sampling": SAMPLING})
    recipe = dataclasses.replace(tiny_recipe, online=online)
    folder = tmp_path_factory.mktemp("agents")
    return [train_online(recipe, out=folder / f"seed{seed}", seed=seed) for seed in (0, 1)]


def scaled(policy, factor):
    """Return the policy with its last layer multiplied: a positive factor keeps the order."""
    last = list(policy.weights)[-2:]
    weights = {k: np.float32(factor) * v if k in last else v for k, v in policy.weights.items()}
    return LearnedPolicy(
        "scaled", policy.network, weights, policy.features_context, policy.features_candidates
    )


def test_pearson_is_that_of_numpy_and_undefined_where_nothing_varies():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    y = x + rng.normal(size=50)
    assert pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert np.isnan(pearson(x, np.ones(50)))
    assert np.isnan(pearson(x[:1], y[:1]))


def test_within_a_decision_levels_do_not_count():
    """The scores agree inside both decisions and contradict each other between them."""
    x = np.array([1.0, 2.0, 3.0, 11.0, 12.0])
    y = np.array([11.0, 12.0, 13.0, 1.0, 2.0])
    found = alike(x, y, np.array([0, 3, 5]))
    assert found.within == pytest.approx(1.0)
    assert found.agreement == 1.0
    assert found.pearson < -0.9
    assert (found.candidates, found.decisions) == (5, 2)


def test_ranks_see_an_increasing_function_as_the_same():
    x = np.linspace(-2, 2, 9)
    found = alike(x, np.exp(5 * x), np.array([0, 9]))
    assert found.spearman == pytest.approx(1.0)
    assert found.pearson < 0.8


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "sign"), [(3.0, 1.0), (-3.0, -1.0)], ids=["same", "opposite"])
def test_a_scorer_and_its_multiple(agents, tiny_recipe, factor, sign):
    policy = load_policy(agents[0])
    found = compare(policy, scaled(policy, factor), tiny_recipe, [8, 9], decisions=20)
    assert found.pearson == pytest.approx(sign, abs=1e-5)
    assert found.within == pytest.approx(sign, abs=1e-5)
    assert (found.agreement == 1.0) == (sign > 0)
    assert 20 <= found.decisions <= 80


@pytest.mark.slow
def test_the_command_compares_agents_and_refuses_what_is_none(agents, tmp_path, capsys):
    """It also works on a recipe with other machines, and the windows are evenly spaced."""
    first, second = map(str, agents)
    changed = ("trace.settings.n_jobs=60", "trace.settings.instances_scale=0.05",
               "config.jobs_per_window=5", "config.machines=3", 'split.train="0..1"',
               'split.validation="2..2"', 'split.test="3..5"')  # fmt: skip
    overrides = [part for one in changed for part in ("--set", one)]
    arguments = ["--recipe", "binpack-synthetic-v1", *overrides]
    command = ["calibrate", "fitness-correlation", first]
    assert cli.main([*command, second, *arguments, "--windows", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["windows"] == [3, 5]
    assert -1.0 <= found["pearson"] <= 1.0
    assert cli.main([*command, str(tmp_path), *arguments]) == 2
    assert "not a checkpoint" in capsys.readouterr().err
    assert cli.main([*command, second, *arguments, "--windows", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err


@pytest.mark.slow
def test_scores_that_need_an_image_or_others_are_refused(agents, tiny_recipe):
    policy = load_policy(agents[0])

    class Looking(LearnedPolicy):
        @property
        def reads(self):
            return ("feasible",)

    looking = Looking(
        "looking", policy.network, policy.weights, policy.features_context,
        policy.features_candidates,
    )  # fmt: skip
    with pytest.raises(InputError, match="looking reads feasible"):
        compare(policy, looking, tiny_recipe, [8])
    extended = dataclasses.replace(tiny_recipe.config, features="extended")
    other = dataclasses.replace(tiny_recipe, config=extended)
    with pytest.raises(DatasetError, match="was trained on"):
        compare(policy, policy, other, [8])


@pytest.mark.parametrize("columns", [("length",), ()], ids=["fewer columns", "the same columns"])
def test_each_agent_scores_the_rows_as_they_are(columns, play_problem):
    """Rows that are equal to the first agent may differ to the second."""
    recipe = load_recipe("slots-deeprm-online", ["config.steps=12"])
    problem = play_problem(recipe)
    spec = problem.spec

    def agent(**settings):
        network = make_network(
            spec.context, spec.candidates, NetworkSettings(quadratic=False, **settings)
        )
        return LearnedPolicy("x", network, some_weights(network), spec.context, spec.candidates)

    first, second = agent(columns=columns), agent()
    _, found, starts = scores(first, second, recipe, [0], decisions=10**9)
    played = sample_trajectory(
        problem.scenario, spec, problem.instance(0), first, np.random.default_rng(0), 0.0
    )
    parts = network_inputs(problem.scenario, spec, played, second.network)
    rows = np.concatenate([part.rows[part.index] for part in parts])
    context = np.zeros((len(starts) - 1, len(spec.context)))
    assert np.array_equal(found, second.batch_scores(context, rows, starts))
