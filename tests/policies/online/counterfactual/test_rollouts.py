"""Tests of outcomes of every candidate against the environment, and of the memory of them."""

import numpy as np
import pytest
import torch

from hindcast.pipeline.errors import HindcastError, RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import choose
from hindcast.policies.heuristics import heuristics
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.player import Decider, NetworkRunner, keep
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online.choices import join, log_softmax, policy_batch
from hindcast.policies.online.counterfactual.recent_buffer import RecentBuffer
from hindcast.policies.online.counterfactual.rollouts import (
    Rollouts,
    ask_episode,
    ask_episodes,
)
from hindcast.policies.online.decision_batches import places, subset
from hindcast.policies.online.problem import Sampling
from tests.policies.play import CPU

NETWORKS = {
    "rows": NetworkSettings(hidden=(6, 4), quadratic=False),
    "linear": NetworkSettings(),
    "context": NetworkSettings(hidden=(6,), context=True, activation="tanh"),
    "deepsets": NetworkSettings(hidden=(6, 4), kind="deepsets"),
}
RECIPES = {
    "binpack": ("binpack-synthetic-v1", (
        "trace.settings.n_jobs=60", "trace.settings.instances_scale=0.05",
        "config.jobs_per_window=5", "config.machines=2", 'split.train="0..5"',
        'split.validation="6..7"', 'split.test="8..11"',
    )),
    "slots": ("slots-deeprm-online", ["config.steps=20"]),
    "thermal": ("thermal-online", ["config.jobs=40", "config.steps=60"]),
    "deferrable": ("deferrable-online", ["config.horizon=6"]),
    "multicluster": ("multicluster-online", ["config.applications=15"]),
}  # fmt: skip
RULES = {
    "binpack": "tetris", "slots": "hold_5", "thermal": "greedy", "deferrable": "tetris",
    "multicluster": "urgent_first",
}  # fmt: skip


class ByHand:
    """Episodes of the Python environment with given choices, then greedy ones."""

    def __init__(self, recipe, problem, decider):
        scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
        self.window = problem.train[0]
        self.environment = CompiledEnvironment(
            scenario, recipe.config, recipe.objective, workload, self.window
        )
        self.instance = problem.instance_of(self.window)
        self.decider = decider

    def greedy(self, seen):
        scores = (self.decider.rule or self.decider.policy).scores(seen)
        return choose(scores, seen.feasible, np.random.default_rng(0))[0]

    def reach(self, choices):
        """Return the observation after these choices."""
        seen = self.environment.begin(self.instance)
        for choice in choices:
            seen = self.environment.step(int(choice)).observation
        return seen

    def value(self, choices, horizon_s=np.inf):
        """Return the rewards from the last choice on, with greedy choices within the horizon."""
        start = self.reach(choices[:-1]).time_s
        step = self.environment.step(int(choices[-1]))
        total = step.reward
        while not (step.terminated or step.truncated):
            if step.observation.time_s >= start + horizon_s:
                break
            step = self.environment.step(self.greedy(step.observation))
            total += step.reward
        return total


def compare(recipe, problem, decider, rollouts):
    """Ask an episode, try every candidate of its decisions by hand, and return their number."""
    by_hand = ByHand(recipe, problem, decider)
    given = (problem.scenario, problem.spec, by_hand.instance, decider)
    found = ask_episode(*given, rollouts, np.random.default_rng(4))
    rng = np.random.default_rng(4)
    runner = NetworkRunner(decider, *given[:3], 0.0, rollouts.epsilon, rng)
    kept, episode = runner.to_the_end(rng, keep(1))
    choices = kept.choices
    assert (found.episode.total, found.episode.steps) == (episode.total, episode.steps)
    looked, columns = found.inputs, decider.policy.network.candidates.columns
    for t, number in enumerate(looked.decision):
        before = list(choices[:number])
        seen = by_hand.reach(before)
        at = slice(looked.starts[t], looked.starts[t + 1])
        feasible = np.flatnonzero(seen.feasible)
        shown = looked.rows[looked.index[at]]
        assert np.array_equal(shown[:, columns], seen.candidates[feasible][:, columns])
        assert feasible[looked.chosen[t] - looked.starts[t]] == by_hand.greedy(seen)
        assert found.advantage[looked.chosen[t]] == 0.0
        one, of = np.unique(looked.index[at], return_index=True)  # equal rows are tried once
        assert len(one) == len(np.unique(shown[:, columns], axis=0)) > 1
        values = [by_hand.value([*before, c], rollouts.horizon_s or np.inf) for c in feasible[of]]
        assert found.value[at][of] == pytest.approx(values, abs=1e-9)
    return len(looked.decision)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", RECIPES)
@pytest.mark.parametrize("guided", [False, True], ids=["network", "rule"])
def test_values_are_those_of_the_environment(scenario, guided, play_problem, policy_of):
    """Each candidate of each asked decision is forced, and the episode then played greedily."""
    name, sets = RECIPES[scenario]
    recipe = load_recipe(name, sets)
    problem = play_problem(recipe)
    policy = policy_of(problem, NETWORKS["rows"], size=0.3)
    rule = heuristics(scenario)[RULES[scenario]] if guided else None
    asked = compare(recipe, problem, Decider(policy, rule), Rollouts(0.5, 5, epsilon=0.3))
    assert asked >= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("horizon_s", [0.0, 6.0])
def test_every_kind_of_network_plays_on_to_the_end_or_to_the_horizon(
    kind, horizon_s, play_problem, policy_of
):
    recipe = load_recipe(*RECIPES["slots"])
    problem = play_problem(recipe)
    policy = policy_of(problem, NETWORKS[kind], size=0.3)
    rollouts = Rollouts(1.0, 4, horizon_s=horizon_s)
    assert compare(recipe, problem, Decider(policy), rollouts) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETWORKS)
def test_what_is_learned_from_is_what_the_network_saw(kind, play_problem, policy_of):
    """Inputs agree in any order of the decisions, however many candidates other decisions have.

    Torch and compiled code agree on the best, also where equal rows are many and seen by others.
    """
    name, sets = RECIPES["binpack"]
    problem = play_problem(load_recipe(name, [*sets, "config.machines=6"]))
    policy = policy_of(problem, NETWORKS[kind], size=0.3)
    found = ask_episode(
        problem.scenario, problem.spec, problem.instance_of(problem.train[0]), Decider(policy),
        Rollouts(1.0, 30), np.random.default_rng(0),
    )  # fmt: skip
    looked = found.inputs
    assert len(looked.rows) < len(looked.index)
    scorer = CandidateScorer(policy.network, np.random.default_rng(0))
    scorer.load_state_dict(
        {k.replace(".", "_"): torch.from_numpy(v) for k, v in policy.weights.items()}
    )

    def chances(which):
        gain = found.advantage[places(looked, which)]
        asked = policy_batch(subset(looked, which), gain, policy.network, CPU)
        with torch.no_grad():
            return asked, log_softmax(scorer, asked).numpy()

    turned = np.random.default_rng(1).permutation(len(looked.chosen))
    asked, scores = chances(turned)
    for t, which in enumerate(turned):
        own = scores[asked.decision.numpy() == t]
        assert scores[asked.chosen[t]] == pytest.approx(own.max(), rel=1e-5)
        assert asked.advantage[asked.chosen[t]] == 0.0
        alone, other = chances(np.array([which]))
        assert other == pytest.approx(own, rel=1e-4)
        assert torch.equal(alone.advantage, asked.advantage[asked.decision == t])


def test_episodes_do_not_depend_on_the_number_of_threads(play_problem, policy_of):
    recipe = load_recipe(*RECIPES["slots"])
    sampling = Sampling(trajectories=2, windows=3, stay=1, baseline="none")
    problems = [play_problem(recipe, workers=n) for n in (1, 2)]
    decider = Decider(policy_of(problems[0], NETWORKS["rows"]))
    one, two = (ask_episodes(p, decider, 3, sampling, Rollouts()) for p in problems)
    assert len(one) == 6
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.value, b.value)
        assert np.array_equal(a.inputs.decision, b.inputs.decision)
        assert a.episode.total == b.episode.total
    assert not np.array_equal(one[0].inputs.decision, one[1].inputs.decision)


@pytest.mark.slow
def test_as_many_decisions_are_asked_as_was_said(play_problem, policy_of):
    """The number is a maximum; asked decisions have a choice and come from the whole episode."""
    problem = play_problem(load_recipe("slots-deeprm-online"))
    decider = Decider(policy_of(problem, NETWORKS["rows"]))
    instance = problem.instance_of(problem.train[0])

    def asked(**how):
        found = ask_episode(problem.scenario, problem.spec, instance, decider, Rollouts(**how),
                            np.random.default_rng(2))  # fmt: skip
        return found.episode.steps, found.inputs.decision

    steps, everything = asked(share=1.0, most=10_000)
    assert 0.3 * steps < len(everything) <= steps
    _, some = asked(share=0.25, most=10_000)
    assert len(some) == pytest.approx(0.25 * len(everything), rel=0.6)
    _, few = asked(share=1.0, most=12)
    assert len(few) <= 12
    assert set(some) | set(few) <= set(everything)
    assert few.max() > 0.5 * steps > few.min()


def test_a_rule_that_makes_no_choice_is_an_error(play_problem, policy_of, monkeypatch):
    problem = play_problem(load_recipe(*RECIPES["slots"]))
    decider = Decider(policy_of(problem, NETWORKS["rows"]))
    monkeypatch.setattr(
        "hindcast.policies.online.counterfactual.rollouts.branch", lambda *_arguments: False
    )
    with pytest.raises(HindcastError, match="infeasible choice in slots"):
        ask_episode(problem.scenario, problem.spec, problem.instance_of(problem.train[0]), decider,
                    Rollouts(), np.random.default_rng(0))  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"share": 0.0}, "rollouts.share is 0.0, expected above 0, at most 1"),
        ({"most": 0}, "rollouts.most is 0, expected at least 1"),
        ({"horizon_s": -1.0}, "expected at least 0"),
        ({"epsilon": 1.1}, "expected from 0 to 1"),
        ({"certain": 0.0}, "rollouts.certain is 0.0, expected above 0, at most 1"),
        ({"of_certain": -0.1}, "rollouts.of_certain is -0.1, expected from 0 to 1"),
    ],
)
def test_settings_that_ask_nothing_are_refused(settings, said):
    with pytest.raises(RecipeError, match=said):
        Rollouts(**settings)


def test_the_last_iterations_are_kept_and_restored(toy):
    """The oldest iteration is dropped, and another module can load the state of any length."""
    recent = RecentBuffer(2)
    looks = [join([toy.looked(*way) for way in ways]) for ways in
             ([(0, 0)], [(1, 0), (1, 2)], [(2, 1), (0, 1), (1, 1)])]  # fmt: skip
    worth = [np.arange(float(len(one.index))) + 10 * i for i, one in enumerate(looks)]
    for iteration, (one, advantage) in enumerate(zip(looks, worth, strict=True), 1):
        recent.add(iteration, one, advantage)
    again = RecentBuffer(2)
    again.load_state_dict(recent.state_dict())
    for held in (recent, again):
        looked, advantage = held.all()
        assert np.array_equal(advantage, np.concatenate([worth[2], worth[1]]))
        expected = join([looks[2], looks[1]])
        for name, value in vars(expected).items():
            assert np.array_equal(getattr(looked, name), value)
            assert getattr(looked, name).dtype == value.dtype
    early = RecentBuffer(3)
    early.add(1, looks[0], worth[0])
    again = RecentBuffer(3)
    again.load_state_dict(early.state_dict())
    assert np.array_equal(again.all()[1], worth[0])


@pytest.mark.nightly
def test_what_a_network_is_sure_of_is_hardly_asked(play_problem, policy_of):
    """Decisions above the probability are left out except for a share. A rule is never sure."""
    problem = play_problem(load_recipe("slots-deeprm-online"))
    policy = policy_of(problem, NETWORKS["rows"], size=0.3)
    instance = problem.instance_of(problem.train[0])

    def asked(decider, **how):
        rollouts = Rollouts(1.0, 10_000, **how)
        return ask_episode(problem.scenario, problem.spec, instance, decider, rollouts,
                           np.random.default_rng(2))  # fmt: skip

    whole = asked(Decider(policy))
    looked = whole.inputs
    scores = policy.batch_scores(looked.context, looked.rows[looked.index], looked.starts)
    parts = np.split(scores, looked.starts[1:-1])
    chance = np.array([np.exp(s.max()) / np.exp(s).sum() for s in parts])
    limit = float(np.quantile(chance, 0.4)) + 1e-9
    unsure = asked(Decider(policy), certain=limit, of_certain=0.0)
    kept = chance <= limit
    assert 0 < kept.sum() < len(kept)
    assert unsure.inputs.decision.tolist() == looked.decision[kept].tolist()
    sizes = np.diff(looked.starts)
    assert unsure.value.tolist() == whole.value[np.repeat(kept, sizes)].tolist()
    some = asked(Decider(policy), certain=limit, of_certain=0.5).inputs.decision
    assert kept.sum() < len(some) < len(kept)
    assert set(unsure.inputs.decision) <= set(some)
    rule = Decider(policy, heuristics("slots")["hold_5"])
    everything = asked(rule).inputs.decision
    assert asked(rule, certain=1e-6, of_certain=0.0).inputs.decision.tolist() == list(everything)
