"""Tests of scenario `deferrable`: hand-made episodes, the published action, conformance."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from gymnasium.utils.env_checker import check_env

from hindcast.pipeline.errors import InfeasibleChoice, InputError
from hindcast.pipeline.gymnasium_env.single import SchedulingEnv
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.deferrable import make_instance
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.instances import Jobs
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.testing import check_scenario
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.deferrable import HEURISTICS
from tests.pipeline.scenarios.deferrable.reference import prefix

SCENARIO = load_scenario("deferrable")
SPEC = SCENARIO.spec(DeferrableConfig(), "revenue")
NOTHING = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
SMALL = DeferrableConfig(horizon=20, jobs_per_slot=2.0, capacity=7.0, longest_notice=5)


def jobs(*rows: tuple[int, int, int, int, int]) -> Jobs:
    """Return jobs (c, d, e, l, g), ascending by e."""
    table = np.array(rows, np.int64).reshape(-1, 5)
    return Jobs(*(table[:, i].copy() for i in range(5)))


def tiny(
    capacity: list[int], *rows: tuple[int, int, int, int, int], objective: str = "revenue"
) -> Instance:
    return make_instance(DeferrableConfig(), objective, jobs(*rows), np.array(capacity))


def begin(instance: Instance):
    environment = CompiledEnvironment(SCENARIO, DeferrableConfig(), "revenue", NOTHING, 0)
    return environment, environment.begin(instance)


def feature(observation, name: str) -> float:
    return observation.context[[f.name for f in SPEC.context].index(name)]


def column(observation, name: str) -> list[float]:
    return observation.candidates[:, [f.name for f in SPEC.candidates].index(name)].tolist()


def run(instance: Instance, policy: str):
    """Return outcomes by name and the episode of a rule."""
    episode = run_episode(
        SCENARIO, SPEC, instance, Behaviour(policy, HEURISTICS[policy]), np.random.default_rng(0)
    )
    return dict(zip([o.name for o in SPEC.outcomes], episode.outcomes, strict=True)), episode


def test_a_job_pays_at_its_start_and_the_slot_ends_at_the_close():
    """2 cores for 3 slots pay 6, and a slot late 6 - 2. Time only passes when a slot is closed."""
    environment, observation = begin(tiny([4, 4], (2, 3, 0, 1, 0)))
    assert observation.feasible.tolist() == [True, True]
    step = environment.step(1)
    assert (step.reward, step.elapsed_s, step.observation.time_s) == (0.0, 3600.0, 3600.0)
    step = environment.step(0)
    assert (step.reward, step.elapsed_s) == (4.0, 0.0)
    assert step.terms.tolist() == [4.0, 6.0, -2.0, 0.0]  # revenue utilisation delay violation
    step = environment.step(1)
    assert (step.reward, step.terminated) == (0.0, True)
    assert len(step.observation.feasible) == 0
    outcome = environment.outcome()
    assert (outcome["total_reward"], outcome["mean_delay_slots"]) == (4.0, 1.0)
    assert outcome["capacity_used"] == 2 / 8


def test_running_cores_above_the_capacity_are_a_violation():
    """4 cores run on when 3 and then 1 are left: 1 + 3 core-slots in violation cost 10 each."""
    named, episode = run(tiny([4, 3, 1, 9], (4, 3, 0, 0, 0)), "fifo")
    assert named["violation"] == 4
    assert named["total_reward"] == 12 - 40 == episode.total
    assert episode.steps == 5  # one start, four closes


def test_utilisation_as_an_objective_pays_without_penalties():
    instance = tiny([4, 3, 1, 9], (4, 3, 0, 0, 0), objective="utilisation")
    named, episode = run(instance, "fifo")
    assert episode.total == 12
    assert episode.terms.tolist() == [-28.0, 12.0, 0.0, -40.0]
    assert named["total_reward"] == -28


def test_candidates_are_the_running_the_startable_and_the_future_jobs():
    """At slot 2 job 0 runs since slot 0, jobs 1 and 2 can start, 3 cannot yet, 4 is unknown."""
    environment, _ = begin(
        tiny(
            [9, 9, 5, 9],
            (3, 4, 0, 0, 0),
            (2, 1, 1, 3, 1),
            (4, 2, 2, 2, 0),
            (1, 1, 3, 9, 2),
            (1, 1, 3, 9, 3),
        )
    )
    environment.step(0)
    for rows in (3, 4):
        observation = environment.step(rows - 1).observation  # this decision closes the slot
    # c d e-t l-t t-g remaining running startable future closes job
    assert observation.candidates.tolist() == [
        [3, 4, -2, -2, 2, 2, 1, 0, 0, 0, 0],
        [2, 1, -1, 1, 1, 1, 0, 1, 0, 0, 1],
        [4, 2, 0, 0, 2, 2, 0, 1, 0, 0, 2],
        [1, 1, 1, 7, 0, 1, 0, 0, 1, 0, 3],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, -1],
    ]
    assert observation.feasible.tolist() == [False, True, False, False, True]  # 5 - 3 cores free
    assert feature(observation, "capacity") == 5
    assert feature(observation, "capacity_1_ago") == 9
    assert feature(observation, "free_cores") == 2
    assert feature(observation, "freed_in_2") == 3
    assert feature(observation, "startable_mean_cores") == 3
    assert feature(observation, "future") == 1
    assert feature(observation, "slots_left") == 2
    started = environment.step(1).observation
    assert column(started, "job") == [0, 1, 2, 3, -1]
    assert column(started, "is_running") == [1, 1, 0, 0, 0]
    assert started.feasible.tolist() == [False, False, False, False, True]
    with pytest.raises(InfeasibleChoice):
        environment.step(2)


def test_a_job_that_is_not_started_in_time_expires_and_costs_nothing():
    named, _ = run(tiny([1, 1, 1], (2, 1, 0, 1, 0), (2, 1, 1, 9, 0)), "fifo")
    assert (named["started"], named["expired"], named["waiting_at_end"]) == (0, 1, 1)
    assert named["total_reward"] == 0
    assert named["offered"] == 4


def test_prefix_rules_stop_at_the_first_job_that_does_not_fit():
    """Of 6 free cores FIFO (g order 1, 2, 0) uses 4 and stops at 3; SJF: 0 and 1; Tetris: 1."""
    rows = ((2, 1, 2, 2, 2), (4, 2, 2, 2, 0), (3, 4, 2, 2, 1))
    for policy, started in (("fifo", [1]), ("sjf", [0, 1]), ("tetris", [1])):
        environment, observation = begin(tiny([6, 6, 6], *rows))
        while environment.step(_choice(policy, observation)).observation.time_s < 2 * 3600:
            observation = environment._observation
        observation, chosen = environment._observation, []
        while (choice := _choice(policy, observation)) != len(observation.feasible) - 1:
            chosen.append(int(column(observation, "job")[choice]))
            observation = environment.step(choice).observation
        assert chosen == started, policy


def _choice(policy: str, observation) -> int:
    scores = HEURISTICS[policy].scores(observation)
    return int(np.argmax(np.where(observation.feasible, scores, -np.inf)))


def test_skipping_rules_go_on_after_a_job_that_does_not_fit():
    """With 6 free cores and jobs of 4, 3, 2 by e, the rule starts 4 and 2.

    The best set is 3 of 4 slots.
    """
    rows = ((4, 2, 0, 0, 0), (3, 4, 0, 0, 0), (2, 1, 0, 0, 0))
    assert run(tiny([6], *rows), "fifo_skip")[0]["utilisation"] == 4 * 2 + 2 * 1
    assert run(tiny([6], *rows), "knapsack")[0]["utilisation"] == 3 * 4 + 2 * 1


def test_knapsack_takes_the_best_set_where_greedy_does_not():
    """With 7 cores, one job of 5 cores pays 10 and two jobs of 3 cores pay 9 each."""
    rows = ((5, 2, 0, 0, 0), (3, 3, 0, 0, 0), (3, 3, 0, 0, 0))
    assert run(tiny([7], *rows), "knapsack")[0]["total_reward"] == 18
    assert run(tiny([7], *rows), "tetris")[0]["total_reward"] == 10


def test_knapsack_leaves_a_job_that_does_not_pay_its_delay():
    """A job of one core-slot pays 1 - 2 when a slot late, so it is never started then."""
    named, _ = run(tiny([2, 4, 4], (2, 1, 0, 0, 0), (1, 1, 0, 2, 0)), "knapsack")
    assert (named["started"], named["waiting_at_end"] + named["expired"]) == (1, 1)


@pytest.mark.parametrize("seed", range(30))
def test_the_action_of_a_slot_and_its_decisions_start_the_same_jobs(seed):
    """With scores drawn once per slot, `prefix` and single decisions agree, also on ties."""
    from hindcast.pipeline.scenarios.deferrable.slotwise_action import stop_at_misfit

    rng = np.random.default_rng(seed)
    instance = SCENARIO.instance(SMALL, "revenue", NOTHING, seed, rng)
    environment, observation = begin(instance)
    over = False
    while not over:
        live = np.flatnonzero(observation.candidates[:, 7] == 1)
        score = {int(observation.candidates[i, 10]): float(rng.integers(0, 4)) for i in live}
        at_once = live[
            prefix(
                np.array(list(score.values())),
                observation.candidates[live, 0],
                feature(observation, "free_cores"),
            )
        ]
        expected = [int(observation.candidates[i, 10]) for i in at_once]
        started = []
        while True:
            scores = np.array([score.get(int(row[10]), 99.0) for row in observation.candidates])
            candidates, feasible = observation.candidates.copy(), observation.feasible.copy()
            stop_at_misfit(candidates, feasible, scores)
            choice = int(np.argmax(np.where(feasible, scores, -np.inf)))
            step = environment.step(choice)
            if choice == len(feasible) - 1:
                break
            started.append(int(observation.candidates[choice, 10]))
            observation = step.observation
        assert started == expected
        observation, over = step.observation, step.terminated


def test_prefix_gives_the_drawing_of_its_module():
    assert prefix(np.array([0.9, 0.1, 0.7, 0.4]), np.array([4, 1, 2, 8]), 10).tolist() == [0, 2]
    assert prefix(np.zeros(3), np.ones(3), 2).tolist() == [0, 1]
    assert prefix(np.zeros(0), np.zeros(0), 2).tolist() == []


def test_the_same_window_is_the_same_instance_and_real_time_has_its_jobs():
    first = SCENARIO.instance(SMALL, "revenue", NOTHING, 3, np.random.default_rng(3))
    again = SCENARIO.instance(SMALL, "revenue", NOTHING, 3, np.random.default_rng(3))
    np.testing.assert_array_equal(first.ints, again.ints)
    np.testing.assert_array_equal(first.floats, again.floats)
    config = dataclasses.replace(SMALL, setting="realtime")
    now = SCENARIO.instance(config, "revenue", NOTHING, 3, np.random.default_rng(3))
    one, other = (run(i, "knapsack")[0] for i in (first, now))
    for name in ("jobs", "offered", "capacity"):
        assert one[name] == other[name]
    assert other["mean_delay_slots"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "config.horizon is 0, expected from 1"),
        ({"slot_s": 0.0}, "config.slot_s is 0.0, expected above 0"),
        ({"fixed_share": 1.5}, "config.fixed_share is 1.5, expected from 0 to 1"),
        ({"jobs": "trace"}, "window 0 does not exist: the 0 slots of the trace make 0 windows"),
    ],
)
def test_settings_out_of_range_are_named(change, message):
    config = dataclasses.replace(DeferrableConfig(), **change)
    with pytest.raises(InputError, match=message):
        SCENARIO.instance(config, "revenue", NOTHING, 0, np.random.default_rng(0))


def test_an_episode_without_jobs_is_closes_alone():
    config = dataclasses.replace(SMALL, jobs_per_slot=0.0)
    instance = SCENARIO.instance(config, "revenue", NOTHING, 0, np.random.default_rng(0))
    named, episode = run(instance, "knapsack")
    assert (episode.steps, episode.total, named["upper_bound"]) == (20, 0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["deferrable", "realtime"])
@pytest.mark.parametrize("objective", SCENARIO.objectives)
def test_conformance(setting, objective):
    config = dataclasses.replace(SMALL, setting=setting)
    check_scenario(
        SCENARIO,
        config,
        objective,
        lambda n: SCENARIO.instance(config, objective, NOTHING, n, np.random.default_rng(n)),
        HEURISTICS,
        episodes=2,
    )


@pytest.mark.parametrize("name", ["base", "realtime", "azure2020"])
def test_recipes_load_and_their_windows_exist(name):
    recipe = load_recipe(f"deferrable-{name}-v1")
    assert recipe.scenario == "deferrable"
    if name == "base":
        assert recipe.config == DeferrableConfig(), "the base recipe is the default config"


@pytest.mark.filterwarnings(
    "ignore:.*infinity. This is probably too"
)  # some features are unbounded
def test_gymnasium_accepts_the_base_recipe():
    """192 rows are enough for every observation of a week."""
    environment = SchedulingEnv(load_recipe("deferrable-base-v1"), candidates=192)
    check_env(environment, skip_render_check=True)
