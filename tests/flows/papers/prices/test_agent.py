"""Tests of learned prices: the knapsack's choices at given prices, and repeatable training."""

import dataclasses

import numpy as np
import pytest

from hindcast.flows.papers.prices.agent import Config, as_weights, fit, learner, play
from hindcast.flows.papers.prices.network import PricesPolicy, PricesSettings, prices_network
from hindcast.pipeline.errors import DatasetError, HindcastError, RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.policies.heuristics.deferrable import HEURISTICS
from hindcast.policies.heuristics.prices import AHEAD, DEAREST, fill_prices
from hindcast.policies.networks.checkpoint import load_policy
from tests.folders import content
from tests.policies.trainings import train_online

SMALL = ("config.horizon=20", 'split.train="200..207"', 'split.validation="80..83"')
SAMPLING = {"trajectories": 6, "windows": 4}
FREE = np.array([-40.0, 0, 0, 0, 0, 0])  # a sigmoid of 0


@pytest.fixture(scope="module")
def problem(play_problem):
    return play_problem(load_recipe("deferrable-online", SMALL))


@pytest.fixture(scope="module")
def network(problem):
    return fit(problem, PricesSettings())


def policy_of(problem, network, flat):
    spec = problem.spec
    weights = as_weights(network, np.asarray(flat, np.float64))
    return PricesPolicy("p", network, weights, spec.context, spec.candidates)


def test_free_slots_and_no_later_are_the_knapsack(problem, network):
    """With prices and share of zero, jobs keep their revenue, and `knapsack` chooses alike."""
    flat = np.concatenate([FREE, FREE])
    own = play(problem, network, flat, problem.train)
    for window, episode in zip(problem.train, own, strict=True):
        instance, rng = problem.instance_of(window), np.random.default_rng(0)
        rule = Behaviour("k", HEURISTICS["knapsack"])
        other = run_episode(problem.scenario, problem.spec, instance, rule, rng)
        assert episode.total == other.total
        np.testing.assert_array_equal(episode.outcomes, other.outcomes)


def test_the_policy_plays_what_the_training_played(problem, network):
    flat = np.random.default_rng(0).normal(size=12)
    own = play(problem, network, flat, problem.train)
    policy = policy_of(problem, network, flat)
    instances = [problem.instance_of(w) for w in problem.train]
    rngs = [np.random.default_rng(0) for _ in instances]
    found = run_batched(problem.scenario, problem.spec, instances, Behaviour("p", policy), rngs)
    assert [e.total for e in found] == [e.total for e in own]
    assert {e.total for e in own} != {e.total for e in play(problem, network, -flat, problem.train)}


def row(kind, cores, until_earliest, until_latest):
    flags = [float(kind == k) for k in ("running", "startable", "future", "close")]
    return [cores, 2.0, until_earliest, until_latest, 0.0, 2.0, *flags, 0.0]


def test_prices_by_hand(problem, network):
    """Slot 1 has demand for 6 cores, 5 still running and capacity 8, down 10 in five slots."""
    spec = problem.spec
    context = np.zeros(len(spec.context))
    names = [f.name for f in spec.context]
    for name, value in (
        ("capacity", 8.0), ("capacity_5_ago", 18.0), ("running_cores", 7.0), ("freed_in_1", 2.0),
        ("slots_left", 3.0),
    ):  # fmt: skip
        context[names.index(name)] = value
    candidates = np.array(
        [row("startable", 3.0, -1.0, 2.0), row("startable", 5.0, 0.0, 0.0),
         row("future", 6.0, 1.0, 1.0), row("future", 9.0, AHEAD + 1, 30.0),
         row("close", 0.0, 0.0, 0.0)]
    )  # fmt: skip
    flat = np.array([0.1, 0.5, -0.3, 0.2, 0.7, 0.4, *np.zeros(6)])
    parameters = network.parameters(as_weights(network, flat))
    level = parameters[0]
    demand, price = np.empty(AHEAD + 1), np.empty(AHEAD + 1)
    waiting = fill_prices(context, candidates, parameters, demand, price)
    assert waiting == 3.0
    assert demand.tolist() == [0.0, 6.0, *[0.0] * (AHEAD - 1)]
    for ahead, known, running in ((1, 6.0, 5.0), (2, 0.0, 5.0)):
        x = [
            (known + running - 8.0) / level, -2.0 * ahead / level, (ahead - 2) / 4,
            8.0 / level - 1.0, 3.0 / level,
        ]  # fmt: skip
        score = 0.1 + np.dot([0.5, -0.3, 0.2, 0.7, 0.4], x)
        assert price[ahead] == pytest.approx(DEAREST / (1 + np.exp(-score)), rel=1e-6)
    assert not price[3:].any()  # after the end no revenue is missed
    assert not price[0]


def test_the_level_is_the_mean_capacity(problem, network):
    assert network.context.mean[0] == pytest.approx(26.0, rel=0.2)
    assert network.parameters(as_weights(network, np.zeros(12)))[0] == network.context.mean[0]


@pytest.mark.slow
def test_generations_earn_more(problem):
    """Training starts at prices so high that no job of two slots is started."""
    config = Config(
        sampling=dataclasses.replace(Config().sampling, trajectories=8, windows=8), step=0.8
    )
    network = fit(problem, config.network)
    start = as_weights(network, np.array([4.0, *np.zeros(11)]))
    run = learner(problem, config, network, start, None)
    before = run.validate()["validation_return"]
    for iteration in range(1, 13):
        run.step(iteration)
    assert run.validate()["validation_return"] > before + 5.0


class Interrupted(Exception):
    """Exception that stands for a kill."""


@pytest.mark.slow
def test_an_interrupted_training_ends_in_the_same_bytes(tmp_path):
    """The bytes are the same on any number of threads."""
    recipe = load_recipe("deferrable-online", SMALL)
    online = OnlineRecipe("price_evolution", 4, {"sampling": SAMPLING})
    recipe = dataclasses.replace(recipe, online=online)
    whole = train_online(recipe, out=tmp_path / "a")

    def stop(done, _all):
        if done == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_online(recipe, out=tmp_path / "b", progress=stop, resume_s=0.0, workers=2)
    again = train_online(recipe, out=tmp_path / "b", workers=3)
    assert content(again) == content(whole)
    assert isinstance(load_policy(again), PricesPolicy)
    assert load_policy(again / "best").network.settings == PricesSettings()


def test_what_is_no_observation_of_deferrable_is_refused(problem, network):
    policy = policy_of(problem, network, np.zeros(12))
    with pytest.raises(HindcastError, match="not observations of deferrable"):
        policy.batch_scores(np.zeros((1, 24)), np.zeros((3, 11)), np.array([0, 3]))
    with pytest.raises(DatasetError, match="not the features of deferrable"):
        prices_network(PricesSettings(), problem.spec.candidates, problem.spec.context)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"step": 0.0}, "above 0"), ({"sampling": {"trajectories": 3}}, "at least 4")],
    ids=["step", "individuals"],
)
def test_settings_that_make_no_agent_are_refused(settings, said, tmp_path):
    recipe = load_recipe("deferrable-online", SMALL)
    recipe = dataclasses.replace(recipe, online=OnlineRecipe("price_evolution", 1, settings))
    with pytest.raises(RecipeError, match=said):
        train_online(recipe, out=tmp_path)
