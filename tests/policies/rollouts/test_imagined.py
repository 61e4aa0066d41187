"""Tests of lookahead in drawn futures: deterministic, by name, and better than its base policy."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.policies.entrants import entrants
from hindcast.policies.heuristics import heuristics
from hindcast.policies.networks.checkpoint import Trained, save
from hindcast.policies.networks.player import Decider
from hindcast.policies.rollouts import lookahead
from hindcast.policies.rollouts.lookahead import ImaginedRollouts, imagined_rollouts_of
from hindcast.policies.rollouts.trajectories import sample_trajectory
from hindcast.policies.training.delivery.verdict import rule_policy, rule_weights

SMALL = ("config.applications=40", "config.clusters=[300,500]", 'split.test="30..33"')


@pytest.fixture(scope="module")
def clusters():
    """Return scenario, spec and instances of a small multicluster recipe."""
    recipe = load_recipe("multicluster-uniform-v1", SMALL)
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    spec = scenario.spec(recipe.config, recipe.objective)
    instances = [make_instance(recipe, scenario, workload, w) for w in recipe.windows("test")]
    return scenario, spec, instances


def totals(clusters, policy):
    scenario, spec, instances = clusters
    return np.array([policy.episode(scenario, spec, one).total for one in instances])


@pytest.mark.slow
def test_it_is_better_than_a_poor_base_policy(clusters):
    scenario, spec, instances = clusters
    rule = heuristics("multicluster")["lf_e"]
    alone = [
        run_episode(scenario, spec, i, Behaviour("lf_e", rule), np.random.default_rng(0)).total
        for i in instances
    ]
    ahead = totals(clusters, imagined_rollouts_of(rule_policy(spec, "lf_e")))
    assert (ahead > alone).all()


@pytest.mark.slow
def test_a_rule_and_its_network_look_ahead_alike(clusters):
    """The network reads the columns of the rule, which are computed for every observation."""
    network = rule_policy(clusters[1], "urgent_first")
    rule = Decider(network, heuristics("multicluster")["urgent_first"])
    by_network = totals(clusters, imagined_rollouts_of(network))
    np.testing.assert_array_equal(by_network, totals(clusters, ImaginedRollouts("r", rule)))


def test_with_one_candidate_or_without_advantage_the_base_policy_acts(clusters, monkeypatch):
    """If all candidates are worth the same, the base policy's choice is the first of equals."""
    scenario, spec, instances = clusters
    monkeypatch.setattr(lookahead._Candidates, "_try", lambda _play, rows: np.ones(len(rows)))
    rule = heuristics("multicluster")["urgent_first"]
    alone = [
        run_episode(scenario, spec, i, Behaviour("u", rule), np.random.default_rng(0)).total
        for i in instances
    ]
    found = totals(clusters, imagined_rollouts_of(rule_policy(spec, "urgent_first")))
    np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize(("values", "acts"), [([2.0, 3.0, 2.5], 1), ([2.0, -9.0, 1.9], 0)])
def test_the_candidate_with_the_highest_value_acts(clusters, monkeypatch, values, acts):
    scenario, spec, instances = clusters
    policy = imagined_rollouts_of(rule_policy(spec, "sf_p"))
    futures = [instances[0].futures(np.random.default_rng(i)) for i in range(3)]
    play = lookahead._Candidates(scenario, spec, instances[0], policy, futures)
    monkeypatch.setattr(play, "_try", lambda rows: np.array(values)[rows])
    scores, feasible = np.array([0.9, 0.5, 0.1]), np.ones(3, np.bool_)
    play.scenario.observe(*play.memory)
    assert play._choice(scores, feasible) == acts
    assert play._choice(scores, np.array([False, False, True])) == 2


def test_a_limit_leaves_the_candidates_that_the_base_policy_scores_highest(clusters, monkeypatch):
    scenario, spec, instances = clusters
    futures = [instances[0].futures(np.random.default_rng(i)) for i in range(3)]
    policy = imagined_rollouts_of(rule_policy(spec, "sf_p"))
    tried = []

    def worth(rows):
        tried.append(rows.tolist())
        return np.array([0.0, 1.0, 9.0, 2.0, 9.0])[rows]

    for most in (3, 0):
        limited = dataclasses.replace(policy, candidates=most)
        play = lookahead._Candidates(scenario, spec, instances[0], limited, futures)
        monkeypatch.setattr(play, "_try", worth)
        play.scenario.observe(*play.memory)
        chosen = play._choice(np.array([0.4, 0.9, 0.1, 0.8, 0.99]), np.array([1, 1, 1, 1, 0], bool))
        assert chosen == (3 if most else 2)
    assert tried[:2] == [[1, 0, 3]] * 2
    assert tried[3] == [1, 0, 2, 3]


@pytest.mark.slow
def test_a_checkpoint_looks_ahead_by_its_name(tmp_path):
    recipe = load_recipe("multicluster-uniform-v1", SMALL)
    spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    network, weights = rule_weights(spec, "sf_p")
    agent = tmp_path / "agent"
    save(Trained("clone", spec, network, weights, {}, 1, 0), agent, {})
    found = entrants(recipe, [str(agent), f"{agent}@rollout"])
    assert [one.behaviour.name for one in found] == ["clone-seed0", "clone@rollout-seed0"]
    for workers in (1, 2):
        evaluate(recipe, found, split="test", out=tmp_path / str(workers), workers=workers)
    one, two = (pl.read_parquet(tmp_path / w / "scores.parquet") for w in "12")
    assert one.equals(two)
    cost = one.filter(pl.col("metric") == "eval_cost").group_by("policy").agg("value")
    values = {name: np.array(v) for name, v in cost.rows()}
    assert values["clone@rollout-seed0"].mean() < values["clone-seed0"].mean()


def test_what_cannot_draw_futures(clusters, tmp_path):
    scenario, spec, instances = clusters
    blind = dataclasses.replace(instances[0], futures=None)
    with pytest.raises(InputError, match="windows of multicluster are not drawn"):
        imagined_rollouts_of(rule_policy(spec, "sf_p")).episode(scenario, spec, blind)
    thermal = load_recipe("thermal-default-v1")
    of_thermal = load_scenario("thermal").spec(thermal.config, thermal.objective)
    network, weights = rule_weights(of_thermal, "window_short")
    save(Trained("clone", of_thermal, network, weights, {}, 1, 0), tmp_path / "agent", {})
    with pytest.raises(InputError, match=r"does not support lookahead.*multicluster, queue, slots"):
        entrants(thermal, [f"{tmp_path / 'agent'}@rollout"])


@pytest.mark.slow
def test_a_rule_looks_ahead_by_its_name(clusters):
    recipe = load_recipe("multicluster-uniform-v1", SMALL)
    (found,) = entrants(recipe, ["urgent_first@rollout"])
    assert (found.behaviour.name, found.kind) == ("urgent_first@rollout", "heuristic")
    scenario, spec, instances = clusters
    network = imagined_rollouts_of(rule_policy(spec, "urgent_first"))
    by_rule = [found.behaviour.policy.episode(scenario, spec, one).total for one in instances]
    np.testing.assert_array_equal(by_rule, totals(clusters, network))


@pytest.mark.slow
def test_a_name_gives_the_numbers_of_looking_ahead(clusters):
    recipe = load_recipe("multicluster-uniform-v1", SMALL)
    (found,) = entrants(recipe, ["sf_p@rollout+futures=3+candidates=4+decisions=5+errors=2.5"])
    assert (found.group, found.kind) == (found.behaviour.name, "heuristic")
    assert found.behaviour.name == "sf_p@rollout+futures=3+candidates=4+decisions=5+errors=2.5"
    played = found.behaviour.policy
    assert (played.futures, played.candidates, played.horizon) == (3, 4, 5)
    assert played.errors == 2.5
    scenario, spec, instances = clusters
    begun = played._begin(scenario, spec, instances[0])
    assert len(begun.futures) == 3
    assert len(begun.kept.choices) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "name", "message"),
    [
        ("multicluster-uniform-v1", "random@rollout", "'random' draws its choices"),
        ("binpack-synthetic-v1", "tetris@rollout",
         "binpack draws no futures for a rule.*slots.*'rollout' looks ahead with all rules"),
        ("thermal-default-v1", "window_short@rollout", "thermal draws no futures.*slots$"),
        ("multicluster-uniform-v1", "sf_p@rollout+future=16", "'future'; did you mean 'futures'"),
        ("multicluster-uniform-v1", "sf_p@rollout+futures=1", "whole number from 2 to 1024"),
        ("multicluster-uniform-v1", "sf_p@rollout+errors=nan", "a number from 0.0 to 100.0"),
        ("multicluster-uniform-v1", "sf_p@rollout+futures=4+futures=5", "expected one futures="),
    ],
)  # fmt: skip
def test_rules_that_cannot_look_ahead(recipe, name, message):
    with pytest.raises(InputError, match=message):
        entrants(load_recipe(recipe), [name])


@pytest.mark.slow
def test_lookahead_on_slots_is_better_than_its_rule():
    """Starting the shortest job at once blocks the cluster; lookahead holds long jobs back."""
    recipe = load_recipe("slots-deeprm-rate10-v1")
    scenario, workload = load_scenario(recipe.scenario), load_source(recipe)
    spec = scenario.spec(recipe.config, recipe.objective)
    of_slots = (
        scenario, spec, [make_instance(recipe, scenario, workload, w) for w in range(60, 64)]
    )  # fmt: skip
    base = rule_policy(spec, "sjf_now")
    alone = [
        sample_trajectory(scenario, spec, one, base, np.random.default_rng(0), 0.0).episode.total
        for one in of_slots[2]
    ]
    assert (totals(of_slots, imagined_rollouts_of(base)) > alone).all()
