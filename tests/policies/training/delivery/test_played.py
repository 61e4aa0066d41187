"""Tests of the gate that plays: the agent where it is better, otherwise the rule."""

from dataclasses import replace

import numpy as np
import pytest

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import further_windows
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.policies.heuristics import heuristics
from hindcast.policies.networks.checkpoint import load_policy, read_description
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.online import evolution, gates
from hindcast.policies.online.gates import judge_of
from hindcast.policies.online.problem import Sampling, fit_network
from hindcast.policies.training.delivery import played
from hindcast.policies.training.delivery.played import best_rule, values_of
from hindcast.policies.training.delivery.verdict import compare, rule_policy
from tests.policies.play import CPU
from tests.policies.trainings import train_online

SMALL = (
    "config.applications=60", 'split.train="1000..1007"', 'split.validation="80..89"',
)  # fmt: skip


@pytest.fixture(scope="module")
def clusters(play_problem):
    return play_problem(load_recipe("multicluster-evolution-online", SMALL))


def returns_of_rule(problem, name, windows):
    """Return the returns of a rule, one episode after the other."""
    rule = Behaviour(name, heuristics("multicluster")[name])
    rng = np.random.default_rng(0)
    return [
        run_episode(problem.scenario, problem.spec, problem.instance_of(w), rule, rng).total
        for w in windows
    ]


def test_the_best_rule_has_the_highest_mean_over_train_and_validation_windows(clusters):
    """With other windows for validation, the same rule need not be the best on them alone."""
    names = ["sf_p", "urgent_first", "least_slack", "lf_e"]
    windows = [*clusters.train, *clusters.validation]
    means = {name: np.mean(returns_of_rule(clusters, name, windows)) for name in names}
    assert best_rule(clusters, names) == max(names, key=means.get)


def test_many_train_windows_are_thinned(clusters, monkeypatch):
    """Of eight train windows three are played: 0, 3 and 7."""
    found = []
    monkeypatch.setattr(played, "MOST_WINDOWS", 3)
    monkeypatch.setattr(
        played, "values_of", lambda _p, _r, windows, _v: np.array(found.append(windows) or 0)
    )
    assert best_rule(clusters, ["sf_p"]) == "sf_p"
    assert found == [[*(clusters.train[i] for i in (0, 3, 7)), *clusters.validation]]


@pytest.mark.slow
def test_a_rule_is_not_better_than_itself(clusters):
    verdict = judge_of(clusters)(rule_policy(clusters.spec, "urgent_shortest"))
    assert (verdict.delivered, verdict.rule) == ("rule", "urgent_shortest")
    assert (verdict.difference, verdict.low, verdict.high) == (0.0, 0.0, 0.0)
    assert (verdict.metric, verdict.windows) == ("eval_cost", 10)


@pytest.mark.slow
def test_a_worse_agent_is_not_delivered(clusters):
    verdict = judge_of(clusters)(rule_policy(clusters.spec, "sf_p"))
    assert verdict.delivered == "rule"
    assert verdict.high < 0.0


def test_an_agent_is_delivered_where_it_beats_every_rule(clusters, monkeypatch):
    """The better of two rules is the agent here, the worse one the only rule of the scenario."""
    monkeypatch.setattr(gates, "eligible_rules", lambda _spec: ["sf_p"])
    verdict = judge_of(clusters)(rule_policy(clusters.spec, "urgent_first"))
    assert (verdict.delivered, verdict.rule) == ("agent", "sf_p")
    assert verdict.low > 0.0


def test_windows_that_share_jobs_count_once(clusters):
    """Of windows 80 to 89, each of which shares jobs with the next two, four are played."""
    overlapping = replace(clusters, stretch_of=lambda window: (window, window + 3))
    verdict = judge_of(overlapping)(rule_policy(clusters.spec, "sf_p"))
    alone = replace(clusters, validation=[80, 83, 86, 89])
    expected = judge_of(alone)(rule_policy(clusters.spec, "sf_p"))
    assert (verdict.windows, verdict.difference) == (4, expected.difference)


@pytest.mark.parametrize(("windows", "delivered"), [(5, "rule"), (6, "agent")])
def test_a_few_windows_do_not_show_that_an_agent_is_better(windows, delivered):
    """Five signs are the same by luck too often for an interval of 95 %."""
    better = np.linspace(1.0, 2.0, windows)
    verdict = compare(better, np.zeros(windows), "rule", "x", seed=0)
    assert verdict.delivered == delivered
    assert (verdict.low is None) == (delivered == "rule")


def test_without_validation_windows_there_is_no_verdict(clusters):
    assert judge_of(replace(clusters, validation=()))(rule_policy(clusters.spec, "sf_p")) is None


def test_one_window_is_not_enough(clusters, monkeypatch):
    monkeypatch.setattr(gates, "eligible_rules", lambda _spec: ["sf_p"])
    one = replace(clusters, validation=clusters.validation[:1])
    verdict = judge_of(one)(rule_policy(clusters.spec, "urgent_first"))
    assert (verdict.delivered, verdict.low, verdict.high) == ("rule", None, None)
    assert verdict.difference > 0.0


def test_an_agent_that_no_guard_lets_pass_is_not_delivered(clusters):
    verdict = judge_of(clusters)(None)
    assert (verdict.delivered, verdict.difference) == ("rule", None)


def test_a_better_agent_plays_further_windows_too(clusters, monkeypatch):
    """A worse agent is refused without them."""
    monkeypatch.setattr(gates, "eligible_rules", lambda _spec: ["sf_p"])
    more = replace(clusters, further=range(500, 512))
    better = judge_of(more)(rule_policy(clusters.spec, "urgent_first"))
    assert (better.delivered, better.windows) == ("agent", 22)
    agent = rule_policy(clusters.spec, "urgent_first")
    parts = [judge_of(replace(clusters, validation=v))(agent).difference
             for v in (clusters.validation, more.further)]  # fmt: skip
    assert better.difference == pytest.approx((10 * parts[0] + 12 * parts[1]) / 22)
    monkeypatch.setattr(gates, "eligible_rules", lambda _spec: ["urgent_first"])
    worse = judge_of(more)(rule_policy(clusters.spec, "sf_p"))
    assert (worse.delivered, worse.windows) == ("rule", 10)


def test_further_windows_are_in_no_split():
    recipe = load_recipe("slots-deeprm-v1", ('split.test="999990..999995"',))
    assert further_windows(recipe, 1_000_000, 6) == [999999, 999998, 999997, 999996, 999989, 999988]
    assert further_windows(load_recipe("binpack-synthetic-v1"), 300, 6) == []


@pytest.mark.slow
def test_a_training_writes_what_it_delivers(tmp_path):
    """After one generation from zero the rule is delivered, and plays exactly."""
    recipe = load_recipe(
        "multicluster-evolution-online",
        (*SMALL, "online.settings.sampling.trajectories=4", "online.settings.step=0.01"),
    )
    out = train_online(recipe, out=tmp_path / "run", iterations=1)
    told = read_description(out / "delivered")["training"]["delivered"]
    assert told["delivered"] == "rule"
    assert told["rule"] == "urgent_shortest"
    assert told["high"] < 0.0
    policy = load_policy(out / "delivered")
    assert policy.network.settings.rules == ("urgent_shortest",)
    before = {p.name: p.read_bytes() for p in (out / "delivered").iterdir()}
    train_online(recipe, out=tmp_path / "again", iterations=1, workers=2)
    again = {p.name: p.read_bytes() for p in (tmp_path / "again" / "delivered").iterdir()}
    assert before == again


def test_evolution_starts_from_the_best_of_its_rules(clusters):
    settings = evolution.Config(
        network=NetworkSettings(quadratic=False, rules=("sf_p", "urgent_first", "lf_p")),
        sampling=Sampling(trajectories=4, windows=2, stay=1, baseline="none"),
        start="best_rule",
    )
    network = fit_network(clusters, settings.network)
    learner = evolution.learner(clusters, settings, network, None, CPU)
    acting = clusters.acting(network, learner.weights())
    expected = returns_of_rule(clusters, "urgent_first", clusters.validation)
    assert values_of(clusters, acting, clusters.validation).tolist() == expected


def test_evolution_starts_from_a_rule_only_if_it_has_one(clusters):
    with pytest.raises(RecipeError, match=r"needs network\.rules"):
        evolution.Config(start="best_rule")
    rules = NetworkSettings(rules=("sf_p",), hidden=(4,))
    with pytest.raises(RecipeError, match="without hidden layers"):
        evolution.Config(network=rules, start="best_rule")


def test_rules_play_once_for_all_agents(clusters, monkeypatch):
    played_windows = []
    values = played.values_of

    def counted(windows, policy, some, value):
        if isinstance(policy, Heuristic):
            played_windows.append((policy.name, len(some)))
        return values(windows, policy, some, value)

    monkeypatch.setattr(played, "values_of", counted)
    judge = judge_of(clusters)
    agents = [rule_policy(clusters.spec, name) for name in ("urgent_first", "sf_p")]
    first = [judge(agent) for agent in agents]
    once = len(played_windows)
    assert [judge(agent) for agent in agents] == first
    assert len(played_windows) == once
    assert len(set(played_windows)) == once
