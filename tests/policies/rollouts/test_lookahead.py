"""Tests of rollouts at decision time: no future job is seen, and the best member acts."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from numba import njit

from hindcast.pipeline.errors import HindcastError, InputError, UnknownName
from hindcast.pipeline.evaluation.evaluate import evaluate
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import OnlineRecipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.binpack.config import BinpackConfig
from hindcast.pipeline.scenarios.binpack.features import ROW
from hindcast.pipeline.scenarios.binpack.layout import FIRST_START_AT
from hindcast.pipeline.simulation.batched import run_batched
from hindcast.pipeline.simulation.kernel import SCORE
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import Planner, run_episode
from hindcast.policies.entrants import entrants
from hindcast.policies.heuristics.binpack import HEURISTICS
from hindcast.policies.networks.checkpoint import Trained, save
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.player import Decider
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Network, NetworkSettings, make_network
from hindcast.policies.ope.ope import evaluate_offline
from hindcast.policies.rollouts.lookahead import (
    SPREAD,
    VARIANTS,
    RolloutPolicy,
    _Members,
    rollouts_of,
    rollouts_of_rules,
)
from tests.pipeline.scenarios.binpack.test_binpack import workload
from tests.policies.play import some_weights
from tests.policies.trainings import train_online

pytestmark = pytest.mark.slow

SCENARIO = load_scenario("binpack")
CONFIG = BinpackConfig(machines=2, machine_cores=4.0, jobs_per_window=8)
SPEC = SCENARIO.spec(CONFIG, "makespan")
GAP_S = 40
RULES = [HEURISTICS[n] for n in ("first_fit", "tetris", "shortest_first", "longest_first")]


@njit(SCORE)
def _waits(context, candidates, feasible, parameters, scores):
    """Return scores that choose to wait where waiting is allowed."""
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.machine]


def crowd(seed, jobs=6, gap_s=GAP_S, last=1.0, config=CONFIG):
    """Return jobs that wait for each other. Durations of the last one are multiplied by `last`."""
    rng = np.random.default_rng(seed)
    tasks = [
        (
            job, job * gap_s, float(rng.integers(1, 30)) * (last if job == jobs - 1 else 1.0),
            float(rng.choice([0.5, 1.0, 2.0, 3.0])), float(rng.choice([0.1, 0.25, 0.4])),
            int(rng.integers(1, 6)),
        )
        for job in range(jobs)
        for _ in range(3)
    ]  # fmt: skip
    config = dataclasses.replace(config, jobs_per_window=jobs)
    return SCENARIO.instance(config, "makespan", workload(*tasks), 0, np.random.default_rng(0))


@pytest.fixture
def scorer():
    settings = NetworkSettings(hidden=(5,), quadratic=False)
    network = Network(
        settings,
        unscaled_map(SPEC.candidates, SPEC.learned_candidates, quadratic=False),
        unscaled_map(SPEC.context, (), quadratic=False),
    )
    return LearnedPolicy("drawn", network, some_weights(network), SPEC.context, SPEC.candidates)


def planned(policy, instance, scenario=SCENARIO):
    """Return the seconds at which each task began, (T,), and the makespan."""
    play = _Members(scenario, SPEC, instance, policy)
    episode = play.play()
    at = play.memory.ints[FIRST_START_AT]
    return play.memory.ints[at : play.memory.ints[FIRST_START_AT + 1]].copy(), episode.outcomes[0]


def members_makespans(policy, instance):
    return [
        planned(dataclasses.replace(policy, members=(member,)), instance)[1]
        for member in policy.members
    ]


def rules():
    return rollouts_of_rules("rollout", RULES, SPEC)


def test_with_all_jobs_known_the_best_member_acts():
    """Every member is the best one in some decision."""
    best = set()
    for seed in range(12):
        instance = crowd(seed, gap_s=0)
        alone = members_makespans(rules(), instance)
        assert planned(rules(), instance)[1] == min(alone)
        best.add(int(np.argmin(alone)))
    assert len(best) > 2


def test_a_member_alone_plays_as_it_does_without_rollouts(scorer):
    instance, rng = crowd(3, gap_s=9), np.random.default_rng(0)
    asked = [
        (
            rollouts_of_rules("one", [rule], SPEC),
            run_episode(SCENARIO, SPEC, instance, Behaviour(rule.name, rule), rng),
        )
        for rule in RULES
    ]
    network = RolloutPolicy("one", (Decider(scorer),))
    behaviour = Behaviour("drawn", scorer)
    asked += [(network, *run_batched(SCENARIO, SPEC, [instance], behaviour, [rng]))]
    assert len({alone.total for _, alone in asked}) > 2
    for policy, alone in asked:
        found = policy.episode(SCENARIO, SPEC, instance)
        assert (found.steps, found.total, found.elapsed_s) == (
            alone.steps, alone.total, alone.elapsed_s,
        )  # fmt: skip
        assert found.outcomes.tobytes() == alone.outcomes.tobytes()
        assert found.terms.tobytes() == alone.terms.tobytes()


def test_what_is_to_come_changes_nothing_before_it_comes(scorer):
    """A copy that forgets nothing does change the choices, so the test would notice a leak."""

    def first_starts(policy, scenario, seed, last):
        begun, _ = planned(policy, crowd(seed, last=last), scenario)
        return np.where(begun < 5 * GAP_S, begun, -1)[:15]  # before the last job is submitted

    def peek(ints, floats):
        """Return a copy that still has the arrival times of future jobs."""
        return SCENARIO.forget(ints.copy(), floats)

    seeing = dataclasses.replace(SCENARIO, forget=peek)
    for policy in (rules(), rollouts_of(scorer, RULES, SPEC)):
        differ = 0
        for seed in range(8):
            one, other = (first_starts(policy, SCENARIO, seed, last) for last in (1.0, 40.0))
            assert (one >= 0).sum() > 5
            np.testing.assert_array_equal(one, other)
            one, other = (first_starts(policy, seeing, seed, last) for last in (1.0, 40.0))
            differ += bool((one != other).any())
        assert differ > 0


def test_forgetting_leaves_what_has_been_seen():
    """A copy that has forgotten ends as an instance of the seen jobs does."""
    whole, half = crowd(4, jobs=6), crowd(4, jobs=1)
    ints, floats = whole.ints.copy(), whole.floats.copy()
    assert SCENARIO.forget(ints, floats) == GAP_S
    assert SCENARIO.forget(ints, floats) == np.inf
    forgotten = dataclasses.replace(whole, ints=ints, floats=floats)
    policy = rollouts_of_rules("one", RULES[:1], SPEC)
    expected = policy.episode(SCENARIO, SPEC, half)
    assert policy.episode(SCENARIO, SPEC, forgotten).total == expected.total


def test_variants_lie_around_the_policy_and_are_always_the_same(scorer):
    first, *varied = (m.policy for m in rollouts_of(scorer, (), SPEC).members)
    again = [m.policy for m in rollouts_of(scorer, (), SPEC).members][1:]
    assert first is scorer
    assert len(varied) == VARIANTS
    for one, same in zip(varied, again, strict=True):
        for key, weight in scorer.weights.items():
            assert one.weights[key].tobytes() == same.weights[key].tobytes()
            away = np.linalg.norm(one.weights[key] - weight)
            assert away == pytest.approx(SPREAD * np.linalg.norm(weight), rel=1e-5)
    assert len({one.weights["layer0.weight"].tobytes() for one in varied}) == VARIANTS


def test_a_rule_acts_where_it_is_better_than_the_policy_and_its_variants(scorer):
    """All jobs are there, so the makespan is the smallest of all members."""
    policy, by_rule = rollouts_of(scorer, RULES, SPEC), 0
    assert [m.rule for m in policy.members] == [None] * (1 + VARIANTS) + RULES
    for seed in range(8):
        instance = crowd(seed, gap_s=0)
        alone = members_makespans(policy, instance)
        assert planned(policy, instance)[1] == min(alone)
        by_rule += int(np.argmin(alone)) > VARIANTS
    assert by_rule > 0


def test_it_is_evaluated_by_its_name(tiny_recipe, tmp_path):
    """The result is the same for any number of workers.

    A planner draws nothing, so one run is enough.
    """
    crowded = dataclasses.replace(tiny_recipe.config, machines=1, machine_cores=4.0)
    recipe = dataclasses.replace(tiny_recipe, config=crowded)
    found = entrants(recipe, ["rollout", "shortest_first"])
    assert isinstance(found[0].behaviour.policy, Planner)
    assert [(c.behaviour.name, c.kind) for c in found] == [
        ("rollout", "heuristic"), ("shortest_first", "heuristic"),
    ]  # fmt: skip
    for workers in (1, 3):
        evaluate(recipe, found, split="test", out=tmp_path / str(workers), workers=workers)
    one, three = (pl.read_parquet(tmp_path / w / "scores.parquet") for w in ("1", "3"))
    assert one.equals(three)
    makespan = one.filter(pl.col("metric") == "makespan_s").group_by("policy").agg("value", "seed")
    values = {name: (np.array(v), set(s)) for name, v, s in makespan.rows()}
    assert values["rollout"][1] == {0}
    assert values["rollout"][0].mean() <= values["shortest_first"][0].mean()


def test_a_checkpoint_looks_ahead_by_its_name(tiny_recipe, tmp_path):
    crowded = dataclasses.replace(tiny_recipe.config, machines=1, machine_cores=4.0)
    sampling = {"trajectories": 2, "windows": 1, "stay": 1}
    online = OnlineRecipe("reinforce", 1, {"sampling": sampling})
    recipe = dataclasses.replace(tiny_recipe, config=crowded, online=online)
    agent = train_online(recipe, out=tmp_path / "agent")
    alone, ahead = entrants(recipe, [str(agent), f"{agent}@rollout"])
    assert (ahead.behaviour.name, ahead.group, ahead.kind) == (
        "reinforce@rollout-seed0", "reinforce@rollout", "learned",
    )  # fmt: skip
    assert ahead.digest == alone.digest
    evaluate(recipe, [alone, ahead], split="test", out=tmp_path / "scores")
    scores = pl.read_parquet(tmp_path / "scores" / "scores.parquet")
    completion = scores.filter(pl.col("metric") == "makespan_s").pivot(
        on="policy", index="window", values="value"
    )
    assert (completion["reinforce-seed0"] != completion["reinforce@rollout-seed0"]).any()


def test_waiting_for_what_is_to_come_ends():
    """The episode allows a wait that the copy of an idle cluster forbids, and the wait is taken."""
    config = dataclasses.replace(CONFIG, allow_wait=True)
    spec = SCENARIO.spec(config, "makespan")
    waits = Heuristic("waits", _waits)
    for seed in range(3):
        instance, rng = crowd(seed, config=config), np.random.default_rng(0)
        alone = run_episode(SCENARIO, spec, instance, Behaviour("waits", waits), rng)
        found = rollouts_of_rules("one", [waits], spec).episode(SCENARIO, spec, instance)
        assert (found.steps, found.total) == (alone.steps, alone.total)
        both = rollouts_of_rules("both", [waits, HEURISTICS["longest_first"]], spec)
        assert both.episode(SCENARIO, spec, instance).total > alone.total


@pytest.mark.parametrize(("name", "rules"), [("binpack-synthetic-v1", 9), ("queue-lublin1-v1", 0)])
def test_few_rules_look_ahead_beside_a_network(name, rules, tmp_path):
    recipe = load_recipe(name)
    spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    network = make_network(spec.context, spec.candidates, NetworkSettings(quadratic=False))
    made = Trained("clone", spec, network, some_weights(network), {}, 1, 0)
    save(made, tmp_path / "agent", {})
    (found,) = entrants(recipe, [f"{tmp_path / 'agent'}@rollout"])
    members = found.behaviour.policy.members
    assert [m.rule is None for m in members] == [True] * (1 + VARIANTS) + [False] * rules


@pytest.mark.parametrize(("allowed", "rules"), [("true", 64), ("false", 43)])
def test_rules_whose_columns_are_missing_do_not_look_ahead(allowed, rules):
    recipe = load_recipe("queue-lublin1-v1", [f"config.allow_wait={allowed}"])
    (found,) = entrants(recipe, ["rollout"])
    assert len(found.behaviour.policy.members) == rules


def test_drawn_priorities_look_ahead_beside_the_rules():
    """Their weights differ, and are the same in every episode."""
    recipe = load_recipe("binpack-synthetic-v1", ['split.test="100..101"'])
    spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    plain, more = entrants(recipe, ["rollout", "rollout+drawn=3"])
    assert (more.behaviour.name, more.kind, more.digest) == ("rollout+drawn=3", "heuristic", None)
    drawn = more.behaviour.policy.members[len(plain.behaviour.policy.members) :]
    once, again = (
        [m.rule.parameters(spec, np.random.default_rng(7)).tolist() for m in drawn] for _ in "12"
    )
    assert once == again
    assert len({tuple(weights) for weights in once}) == 3
    with pytest.raises(InputError, match=r"no setting .futures.; .*drawn"):
        entrants(recipe, ["rollout+futures=3"])


def test_what_cannot_look_ahead(scorer, tiny_recipe, tiny_dataset, tmp_path):
    slots = load_recipe("slots-deeprm-v1")
    with pytest.raises(InputError, match=r"slots looks ahead in drawn futures.*backfill@rollout$"):
        entrants(slots, ["rollout"])
    thermal = load_recipe("thermal-default-v1")
    with pytest.raises(InputError, match=r"thermal does not support lookahead.*one of binpack"):
        entrants(thermal, ["rollout"])
    with pytest.raises(UnknownName, match=r"unknown policy 'rollouts'.*did you mean 'rollout'"):
        entrants(tiny_recipe, ["rollouts"])
    with pytest.raises(UnknownName, match="unknown policy 'rollouts' of scenario slots; known"):
        entrants(slots, ["rollouts"])
    with pytest.raises(InputError, match=r"rollout looks ahead .* leave it out"):
        evaluate_offline(tiny_dataset, ["rollout"], out=tmp_path / "ope")
    blind = dataclasses.replace(SCENARIO, forget=None)
    with pytest.raises(HindcastError, match="cannot hide future arrivals"):
        rules().episode(blind, SPEC, crowd(0))
