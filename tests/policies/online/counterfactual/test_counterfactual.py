"""Tests of policy iteration from rollouts: optimum, slots, settings."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch

from hindcast.pipeline.errors import RecipeError, UnknownName
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online import counterfactual
from hindcast.policies.online.choices import join
from hindcast.policies.online.counterfactual import Config, best_gain, follow, improve, learner
from hindcast.policies.online.counterfactual.rollouts import Counterfactuals
from hindcast.policies.online.problem import Sampling, make_scorer
from tests.policies.online.test_gradients import flat, split_checkpoint_name
from tests.policies.play import (
    CPU,
    ENTERS,
    FIRST,
    PAYS,
    SECOND,
    SPEC,
    ToyProblem,
    looked,
    network_of,
    rewards,
    ways,
)
from tests.policies.trainings import train_online

NETWORK = NetworkSettings(hidden=(16,), quadratic=False)


def toy_problem():
    def acting(network, weights):
        return LearnedPolicy("toy", network, weights, SPEC.context, SPEC.candidates)

    return ToyProblem(
        spec=SimpleNamespace(scenario="slots"), seed=0, acting=acting,
        summary=lambda _played: {}, validate=lambda _network, _weights: {},
    )  # fmt: skip


def best(policy, rows):
    return int(policy.batch_scores(np.zeros((1, 1)), rows, np.array([0, len(rows)])).argmax())


def greedy(policy):
    """Return the way of the best choices."""
    first = best(policy, FIRST)
    return first, best(policy, SECOND[first])


def asked_by_hand(policy, first):
    """Return the toy's two decisions after a first choice, with each candidate's result."""
    follows = [ENTERS[a] + PAYS[a][best(policy, SECOND[a])] for a in range(len(FIRST))]
    own = best(policy, FIRST), best(policy, SECOND[first])
    one = looked(first, own[1])
    one.chosen[0] = own[0]
    return Counterfactuals(SimpleNamespace(steps=2), one, np.array([*follows, *PAYS[first]]), 0)


@pytest.mark.slow
def test_the_way_that_pays_late_is_found(monkeypatch):
    """The agent finds the way whose first step pays nothing and whose second step pays most.

    Choices are valued by the play that follows them, so a few iterations are enough.
    """

    def ask_episodes(_problem, decider, _iteration, _sampling, _rollouts):
        return [asked_by_hand(decider.policy, first) for first in range(len(FIRST))]

    monkeypatch.setattr(counterfactual, "ask_episodes", ask_episodes)
    config = Config(
        network=NETWORK, gradient_steps=150, minibatch=12, keep=1, learning_rate=1e-2,
        entropy=0.5, average=0.9,
    )  # fmt: skip
    problem, network = toy_problem(), network_of(SPEC, NETWORK)
    made = learner(problem, config, network, None, CPU)
    for iteration in (1, 2, 3):
        told = made.step(iteration)
    assert set(told) >= {"gain", "entropy", "missed", "decisions", "rolled_out"}
    way = greedy(problem.acting(network, made.weights()))
    assert way == max(ways(), key=lambda way: rewards(*way).sum()) == (1, 0)
    assert float(made.step(4)["missed"]) == 0.0


def test_the_gradient_is_that_of_what_all_actions_are_worth(toy):
    """It is the gradient of sum pi A and the entropy, over every candidate of both decisions."""
    asked = split_checkpoint_name(toy, (1, 0))
    worth = torch.tensor([0.5, 0.0, -2.0, 0.0, 1.0, -0.5], dtype=torch.float64)
    given = type(asked)(**{**vars(asked), "advantage": worth})
    scores = toy.scorer.ragged(asked.rows, asked.context, asked.row_of)
    expected = 0.0
    for at in (slice(0, 3), slice(3, 6)):
        pi = torch.softmax(scores[at], 0)
        expected = expected + (pi @ worth[at] - 0.1 * pi @ pi.log()) / 2
    slope = flat(torch.autograd.grad(expected, list(toy.scorer.parameters())))
    still = torch.optim.SGD(toy.scorer.parameters(), lr=0.0)
    told = improve(toy.scorer, still, given, 0.1)
    taken = flat([p.grad for p in toy.scorer.parameters()])
    assert torch.allclose(taken, -slope, atol=1e-12)
    assert float(told["gain"] + 0.1 * told["entropy"]) == pytest.approx(float(expected.detach()))


def test_the_average_begins_with_the_latest_and_becomes_slow():
    network = network_of(SPEC, NETWORK)
    rng = np.random.default_rng(0)
    average, scorer = (make_scorer(network, None, rng, CPU) for _ in range(2))
    before = flat(average.parameters()).detach().clone()
    follow(average, scorer, 0, 0.9)
    now = flat(scorer.parameters())
    assert torch.allclose(flat(average.parameters()), 0.2 * before + 0.8 * now, atol=1e-6)
    before = flat(average.parameters()).detach().clone()
    follow(average, scorer, 10_000, 0.9)
    assert torch.allclose(flat(average.parameters()), 0.9 * before + 0.1 * now, atol=1e-6)


def test_what_is_missed_is_the_mean_of_the_best_advantages():
    """The best advantages are 3 and 0 in the two decisions; without decisions the mean is 0."""
    one = looked(0, 0)
    value = np.array([1.0, 4.0, -2.0, 5.0, 1.0])
    assert best_gain([Counterfactuals(SimpleNamespace(), one, value, 0)] * 2) == 1.5
    assert best_gain([]) == 0.0


def recipe_of(iterations, **settings):
    recipe = load_recipe("slots-deeprm-online", ['split.validation="200..219"'])
    own = {
        "network": {"hidden": [16], "activation": "tanh", "quadratic": False},
        "sampling": {"windows": 10},
    }
    online = OnlineRecipe("counterfactual", iterations, {**own, **settings})
    return type(recipe)(**{**vars(recipe), "online": online})


@pytest.mark.nightly
def test_it_learns_slots(tmp_path):
    """From random weights the agent gets far below shortest-job-first (4.8) in a few seconds."""
    settings = {"gradient_steps": 150, "average": 0.98, "learning_rate": 5e-3, "entropy": 0.05}
    out = train_online(recipe_of(6, sampling={"windows": 40}, **settings), out=tmp_path)
    curves = pl.read_parquet(out / "metrics.parquet")
    reached = curves.filter(pl.col("metric") == "validation_mean_slowdown")["value"]
    assert reached.min() < 3.2


def test_a_guide_plays_the_first_iteration_only(play_problem, monkeypatch):
    """A network that has already learned is not guided at all."""
    seen = []
    plain = counterfactual.ask_episodes

    def ask_episodes(problem, decider, *rest):
        seen.append(None if decider.rule is None else decider.rule.name)
        return plain(problem, decider, *rest)

    monkeypatch.setattr(counterfactual, "ask_episodes", ask_episodes)
    problem = play_problem(load_recipe("slots-deeprm-online", ["config.steps=8"]))
    sampling = Sampling(trajectories=1, windows=2, stay=1, baseline="none")
    config = Config(network=NETWORK, sampling=sampling, guide="hold_5", gradient_steps=2)
    network = network_of(problem.spec, NETWORK)
    fresh = learner(problem, config, network, None, CPU)
    for iteration in (1, 2):
        fresh.step(iteration)
    learner(problem, config, network, fresh.weights(), CPU).step(1)
    assert seen == ["hold_5", None, None]


def test_a_guide_that_is_no_rule_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'hold_5'"):
        learner(toy_problem(), Config(guide="hold5"), network_of(SPEC, NETWORK), None, CPU)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"keep": 0}, "keep is 0, expected at least 1"),
        ({"clip": 0.0}, "above 0"),
        ({"entropy": -0.1}, "at least 0"),
        ({"average": 1.0}, "below 1"),
    ],
    ids=["keep", "clip", "entropy", "average"],
)
def test_settings_that_make_no_agent_are_refused(settings, said):
    with pytest.raises(RecipeError, match=said):
        Config(**settings)


def test_nothing_is_learned_where_nothing_was_asked(monkeypatch):
    """An iteration that asks no decision leaves the weights unchanged."""
    none = join([looked(0, 0)])
    empty = type(none)(**{name: value[:0] for name, value in vars(none).items()} | {
        "starts": np.zeros(1, np.int64)})  # fmt: skip
    found = Counterfactuals(SimpleNamespace(steps=2), empty, np.zeros(0), 0)
    monkeypatch.setattr(counterfactual, "ask_episodes", lambda *_given: [found])
    network = network_of(SPEC, NETWORK)
    made = learner(toy_problem(), Config(network=NETWORK), network, None, CPU)
    before = made.weights()
    assert float(made.step(1)["missed"]) == 0.0
    assert all(np.array_equal(value, before[name]) for name, value in made.weights().items())
