"""Tests of `multicluster`: hand-made episodes on tiny clusters, values, refusals, conformance."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.dynamics import values
from hindcast.pipeline.scenarios.multicluster.initial_state import lay_out
from hindcast.pipeline.scenarios.multicluster.instances import Applications
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.testing import check_scenario
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics.multicluster import HEURISTICS

SCENARIO = load_scenario("multicluster")
NOTHING = Workload(pl.DataFrame(), Provenance("generated"))
TINY = MulticlusterConfig(applications=20, clusters=(60, 90), batches=(2, 5), tasks=(20, 60))

Given = tuple[int, int, int, float, int, list[int]]  # arrival, category, s, deadline, period, needs


def applications(*given: Given) -> Applications:
    """Return the applications as an instance; n is the largest need."""
    arrival, category, execution, deadline, period, needs = zip(*given, strict=True)
    return Applications(
        arrival=np.array(arrival),
        category=np.array(category),
        execution=np.array(execution),
        tasks=np.array([max(n) for n in needs]),
        deadline=np.array(deadline, np.float64),
        runs=np.array([len(n) for n in needs]),
        period=np.array(period),
        profile=np.full((len(given), 10), 0.1),
        needs=np.concatenate(needs),
    )


def begin(
    config: MulticlusterConfig, a: Applications, objective: str = "misses_and_delay"
) -> CompiledEnvironment:
    """Return an environment at the first decision of these applications."""
    environment = CompiledEnvironment(SCENARIO, config, objective, NOTHING, 0)
    environment.begin(lay_out(config, SCENARIO.objectives.index(objective), a))
    return environment


def play(environment: CompiledEnvironment, *choices: int) -> list[float]:
    """Return the rewards of the choices. The episode must be over after them."""
    steps = [environment.step(choice) for choice in choices]
    assert [s.terminated for s in steps] == [False] * (len(choices) - 1) + [True]
    return [s.reward for s in steps]


def values_of(environment: CompiledEnvironment) -> list[float]:
    """Return the Monte-Carlo values of the deployments, in order."""
    out = np.full(len(environment._ints), np.nan)
    values(environment._ints, environment._floats, out)
    return [float(v) for v in out[~np.isnan(out)]]


def drawn(config: MulticlusterConfig, window: int, objective: str = "misses_and_delay") -> Instance:
    return SCENARIO.instance(config, objective, NOTHING, window, np.random.default_rng(window))


ONE = MulticlusterConfig(clusters=(2,))
INF = np.inf


def test_three_tasks_on_two_executors_take_two_rounds():
    """With n = 3 and s = 4 two tasks end at 4 and the third at 8: AR = 8, OR = 4, delay 100 %."""
    environment = begin(ONE, applications((0, 0, 4, INF, 0, [3])))
    [reward] = play(environment, 0)
    assert reward == pytest.approx(-0.1 * 8 / 4)
    outcome = environment.outcome()
    assert outcome["length_s"] == 8
    assert outcome["ajdr_percent"] == 100
    assert outcome["tmdl"] == 0
    assert outcome["utilisation"] == 12 / 16


@pytest.mark.parametrize(("deadline", "missed"), [(8.0, 0), (7.999, 1)])
def test_a_deadline_that_is_met_exactly_is_met(deadline, missed):
    """The three tasks of the run end at 8, which no deadline of 8 forbids."""
    environment = begin(ONE, applications((0, 2, 4, deadline, 0, [3])))
    play(environment, 0)
    assert environment.outcome()["tmdl"] == missed


def test_free_executors_go_to_the_oldest_run_first_and_the_rest_to_the_next():
    """Of three executors, A (4 tasks of 2) gets 3 at 0 and 1 at 2; B (2 tasks of 3) gets the rest.

    A ends at 4. B, deployed at 1, starts at 2 and ends at 5, having arrived at 0.
    """
    config = MulticlusterConfig(clusters=(3,))
    environment = begin(config, applications((0, 0, 2, INF, 0, [4]), (0, 0, 3, INF, 0, [2])))
    step = environment.step(0)
    assert step.observation.time_s == 1
    queued = [f.name for f in environment.spec.candidates].index("queued")
    assert step.observation.candidates[:, queued].tolist() == [1 / 1000]
    assert environment.step(0).terminated
    outcome = environment.outcome()
    assert outcome["length_s"] == 5
    assert outcome["ajdr_percent"] == pytest.approx(100 * ((4 / 2 - 1) + (5 / 3 - 1)) / 2)
    assert outcome["mean_pool_wait_s"] == 0.5


# Arrives at 1 on two executors: batch 0 runs 1..3; batch 1, due at 4, needs 3 tasks and ends at 8;
# batch 2, due at 7, waits for it and runs 8..10. AR = 2, 4, 3; the deadline of 2.5 is missed twice,
# at 8 and at 10.
STREAM: Given = (1, 2, 2, 2.5, 3, [1, 3, 1])


def test_a_batch_is_due_at_its_period_and_queued_behind_its_predecessor():
    environment = begin(ONE, applications(STREAM))
    step = environment.step(0)
    assert step.terminated
    assert step.elapsed_s == 10  # the step before the first decision is counted with it
    outcome = environment.outcome()
    assert outcome["tmdl"] == 2
    assert outcome["missed_share"] == 2 / 3
    assert outcome["critical_runs"] == outcome["runs"] == 3
    assert outcome["ajdr_percent"] == pytest.approx(100 * (0 + 1 + 0.5) / 3)
    assert outcome["eval_cost"] == pytest.approx(0.02 * 2 + 50)


@pytest.mark.parametrize(("own", "value"), [(False, -2.15), (True, -2.15 - 2 * 0.02)])
def test_the_value_of_a_deployment_is_its_misses_and_its_mean_delay(own, value):
    """Values are -1 * 2 - .1 * (2 + 4 + 3) / (2 * 3), and .02 for each own miss that counts."""
    config = dataclasses.replace(ONE, own_misses_after=own)
    environment = begin(config, applications(STREAM))
    rewards = play(environment, 0)
    assert values_of(environment) == [pytest.approx(value)]
    assert sum(rewards) == pytest.approx(value)


@pytest.mark.parametrize(
    ("arrival", "execution", "misses"),
    [
        (2, 20, 2),  # deployed when both misses happen
        (2, 6, 1),  # ends at 8, in the step of the first miss
        (2, 5, 0),  # ends at 7
        (8, 5, 1),  # deployed at 8, after the first miss
        (7, 1, 1),  # 7..8
    ],
)
def test_misses_of_others_count_between_deployment_and_end(arrival, execution, misses):
    """A regular application on another cluster counts the misses at 8 and 10."""
    config = MulticlusterConfig(clusters=(2, 5))
    a = applications(STREAM, (arrival, 0, execution, INF, 0, [1]))
    environment = begin(config, a)
    rewards = play(environment, 0, 1)
    stream, regular = values_of(environment)
    assert stream == pytest.approx(-2.15)
    assert regular == pytest.approx(-0.02 * misses - 0.1)
    assert sum(rewards) == pytest.approx(stream + regular)


def test_the_other_objectives_add_up_to_tmdl_and_ajdr():
    a = applications(STREAM, (2, 0, 5, INF, 0, [3]))
    for objective, expected in (("misses", -2), ("delay", -(50 + 100) / 2)):
        environment = begin(MulticlusterConfig(clusters=(2, 2)), a, objective)
        assert sum(play(environment, 0, 1)) == pytest.approx(expected)


def test_observation_shows_the_pool_and_the_clusters_past():
    """A (3 tasks of 4 steps) runs on the small cluster; B and C are in the pool at step 2."""
    config = MulticlusterConfig(clusters=(4, 10))
    environment = begin(
        config,
        applications((0, 1, 4, 4.5, 0, [3]), (2, 0, 30, INF, 0, [200]), (2, 2, 5, 6.0, 8, [7, 9])),
    )
    seen = environment.step(0).observation
    assert seen.time_s == 2
    assert len(seen.context) == 2 * 103
    first, second = seen.context[:103], seen.context[103:]
    assert first[:5].tolist() == [0, 0.004, 0.75, 0.75, 0]  # index, capability, occupations
    assert second[:5].tolist() == [0.1, 0.01, 0, 0, 0]
    named = [
        dict(zip((f.name for f in environment.spec.candidates), row, strict=True))
        for row in seen.candidates.tolist()
    ]
    assert [(r["tasks"], r["cluster"]) for r in named] == [(2, 0), (2, 1), (0.09, 0), (0.09, 1)]
    assert [r["free"] for r in named[:2]] == [0.001, 0.01]
    assert [r["mean_free"] for r in named[:2]] == [0.001, 0.01]
    assert [r["mean_occupation"] for r in named[:2]] == [0.75, 0]
    assert [(r["category"], r["deadline"], r["duration"]) for r in named[1:3]] == [
        (0, 0, 0.03),
        (2, 0.06, 0.016),
    ]
    assert [r["age"] for r in named] == [0] * 4


def test_history_holds_the_last_hundred_steps_newest_first():
    """A task of 3 steps from 0 is observed at 101 .. 104, leaving the window step by step."""
    environment = begin(
        MulticlusterConfig(clusters=(1,)),
        applications((0, 0, 3, INF, 0, [1]), *((101 + i, 0, 200, INF, 0, [1]) for i in range(4))),
    )
    mean = [f.name for f in environment.spec.candidates].index("mean_occupation")
    observation = environment.step(0).observation
    seen = []
    for _ in range(3):
        seen.append(observation.context[2:102].tolist())
        assert observation.candidates[0, mean] == pytest.approx(np.mean(seen[-1]))
        observation = environment.step(0).observation
    assert seen[0] == [0.0] * 98 + [1.0] * 2
    assert seen[1] == [1.0] + [0.0] * 98 + [1.0]
    assert seen[2] == [1.0, 1.0] + [0.0] * 98


def test_a_limit_truncates_and_counts_what_is_unfinished():
    config = dataclasses.replace(ONE, limit=9)
    environment = begin(config, applications(STREAM))
    step = environment.step(0)
    assert (step.terminated, step.truncated) == (False, True)
    assert len(step.observation.feasible) == 0
    outcome = environment.outcome()
    assert (outcome["length_s"], outcome["unfinished"], outcome["tmdl"]) == (9, 1, 1)
    assert values_of(environment) == [pytest.approx(step.reward)]
    assert step.reward == pytest.approx(-1 - 0.1 * (2 + 4) / (2 * 3))


@pytest.mark.parametrize(("limit", "bound"), [(6, 0.0), (20, 6.25)])
def test_the_bound_of_a_truncated_episode_is_0(limit, bound):
    """The second waits for 1 step, 12.5 % of its 8, which costs nothing until it ends at 9."""
    config = MulticlusterConfig(clusters=(9,), limit=limit)
    environment = begin(config, applications((0, 0, 4, INF, 0, [1]), (0, 0, 8, INF, 0, [1])))
    environment.step(0)
    environment.step(0)
    outcome = environment.outcome()
    assert outcome["eval_cost_lower_bound"] == outcome["eval_cost"] == bound


@pytest.mark.slow
@pytest.mark.parametrize("arrivals", ["bernoulli", "uniform", "beta"])
def test_conformance(arrivals):
    config = dataclasses.replace(TINY, arrivals=arrivals, own_misses_after=arrivals == "beta")
    for objective in SCENARIO.objectives:
        check_scenario(
            SCENARIO,
            config,
            objective,
            lambda n, o=objective: drawn(config, n, o),
            HEURISTICS,
            episodes=2,
        )


@pytest.mark.parametrize("limit", [40, 300])
def test_conformance_of_truncated_episodes(limit):
    config = dataclasses.replace(TINY, limit=limit, jobs_mean=9.0)
    check_scenario(
        SCENARIO, config, "misses_and_delay", lambda n: drawn(config, n),
        {"sf_e": HEURISTICS["sf_e"]}, episodes=2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"clusters": ()}, "config.clusters"),
        ({"clusters": (5, 0)}, "config.clusters"),
        ({"execution": (5, 4)}, "config.execution"),
        ({"tasks": (0, 4)}, "config.tasks"),
        ({"period": (0.5, 2.0)}, "config.period"),
        ({"categories": (0.5, 0.5)}, "config.categories"),
        ({"categories": (0.5, 0.4, 0.2)}, "config.categories"),
        ({"arrival_probability": 0.0}, "config.arrival_probability"),
        ({"arrival_beta": (4.0, 0.0)}, "config.arrival_beta"),
        ({"applications": 0}, "config.applications"),
        ({"limit": 1}, "config.limit is 1, expected more than"),
    ],
)
def test_settings_that_cannot_be_run_are_refused_by_name(changed, message):
    with pytest.raises(InputError, match=message):
        drawn(dataclasses.replace(TINY, arrival_interval=(5, 9), **changed), 0)


def test_rules_take_the_row_that_they_are_named_for():
    """Cluster 0 is empty and small, cluster 1 large and busy, and three applications wait."""
    names = [f.name for f in SCENARIO.spec(TINY, "misses").candidates]
    tasks = {"tasks": [0.2, 2.4, 2.3]}
    category = {"category": [2.0, 0.0, 1.0]}  # streaming, regular, critical
    rows = np.zeros((6, len(names)))
    for position in range(3):
        for cluster in range(2):
            row = dict.fromkeys(names, 0.0) | {
                "tasks": tasks["tasks"][position],
                "category": category["category"][position],
                "execution": 0.40,
                "deadline": [0.43, 0.0, 0.42][position],
                "age": 0.01,
                "free": [0.5, 0.9][cluster],
                "queued": [0.0, 0.6][cluster],
                "mean_free": [0.5, 0.8][cluster],
                "mean_occupation": [0.0, 0.4][cluster],
            }
            rows[2 * position + cluster] = list(row.values())
    chosen = {}
    for name, heuristic in HEURISTICS.items():
        scores = np.empty(6)
        heuristic.score(np.zeros(1), rows, np.ones(6, np.bool_), np.zeros(0), scores)
        chosen[name] = int(scores.argmax())
    assert chosen == {
        "sf_p": 0, "lf_p": 2, "sf_e": 1, "lf_e": 3, "most_free_now": 0,
        "least_slack": 4, "urgent_first": 4, "urgent_shortest": 4,
    }  # fmt: skip
    rows[:2, names.index("deadline")] = 0.415  # streaming would be late in one step
    scores = np.empty(6)
    HEURISTICS["urgent_first"].score(np.zeros(1), rows, np.ones(6, np.bool_), np.zeros(0), scores)
    assert scores.argmax() == 0


def test_urgent_shortest_orders_the_applications_of_a_tier_by_their_execution():
    """The order is urgent, critical, then two regular ones, the shorter first and equals by age."""
    names = [f.name for f in SCENARIO.spec(TINY, "misses").candidates]
    given = (  # category, execution, deadline
        (2.0, 0.34, 0.40), (0.0, 0.40, 0.0), (0.0, 0.36, 0.0), (0.0, 0.36, 0.0),
        (1.0, 0.42, 0.47), (1.0, 0.41, 0.415),
    )  # fmt: skip
    rows = np.zeros((len(given), len(names)))
    for row, values_ in zip(rows, given, strict=True):
        for name, value in zip(("category", "execution", "deadline"), values_, strict=True):
            row[names.index(name)] = value
    order = {}
    for name in ("urgent_first", "urgent_shortest"):
        scores = np.empty(len(given))
        feasible = np.ones(len(given), np.bool_)
        HEURISTICS[name].score(np.zeros(1), rows, feasible, np.zeros(0), scores)
        order[name] = np.argsort(-scores, kind="stable").tolist()
    assert order == {
        "urgent_first": [5, 4, 1, 2, 3, 0],
        "urgent_shortest": [5, 4, 2, 3, 1, 0],
    }


def test_a_second_run_gives_the_same_episode():
    spec = SCENARIO.spec(TINY, "misses")
    behaviour = Behaviour("sf_e", HEURISTICS["sf_e"], epsilon=0.5)
    one, other = (
        run_episode(SCENARIO, spec, drawn(TINY, 5), behaviour, np.random.default_rng(1))
        for _ in range(2)
    )
    assert one.outcomes.tolist() == other.outcomes.tolist()
    assert one.steps == TINY.applications
