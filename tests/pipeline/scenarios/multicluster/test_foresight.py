"""Tests of the columns of `multicluster` with `foresight`, against plain code and by hand."""

import dataclasses
import math

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.multicluster import layout as m
from hindcast.pipeline.scenarios.multicluster.config import MulticlusterConfig
from hindcast.pipeline.scenarios.multicluster.features import CANDIDATES, FORESIGHT
from hindcast.pipeline.scenarios.multicluster.initial_state import lay_out
from hindcast.pipeline.scenarios.multicluster.instances import (
    CRITICAL,
    REGULAR,
    STREAMING,
    Applications,
    draw_applications,
)
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.testing import check_scenario, uniform
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics.multicluster import HEURISTICS

SCENARIO = load_scenario("multicluster")
NOTHING = Workload(pl.DataFrame(), Provenance("generated"))
CROWDED = MulticlusterConfig(
    applications=40, clusters=(30, 50, 80), batches=(2, 6), tasks=(20, 60), streaming_share=0.4,
    arrival_interval=(1, 12), jobs_mean=6.0, deadline=(1.0, 1.25), foresight=True,
)  # fmt: skip
NAMES = [feature.name for feature in FORESIGHT]


def begin(config, a):
    environment = CompiledEnvironment(SCENARIO, config, "misses_and_delay", NOTHING, 0)
    return environment, environment.begin(lay_out(config, 0, a))


def matched(last_steps: list[int]) -> int:
    """Return the most applications that can have a step of their own in 1 .. their last step."""
    taken: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for step in range(1, last_steps[i] + 1):
            if step not in seen:
                seen.add(step)
                if step not in taken or place(taken[step], seen):
                    taken[step] = i
                    return True
        return False

    return sum(place(i, set()) for i in range(len(last_steps)))


def plain(config: MulticlusterConfig, a: Applications, pool, now, room) -> list[list[float]]:
    """Return the columns of every pair from their descriptions; `room` is that of the clusters."""
    slack = {i: a.deadline[i] - a.execution[i] - (now - a.arrival[i]) for i in pool}
    last = {i: math.floor(s) for i, s in slack.items() if 0 <= s < math.inf}
    rows = []
    for i in pool:
        critical, streaming = a.category[i] == CRITICAL, a.category[i] == STREAMING
        tight = i in last and any(
            sum(other <= d for other in last.values()) >= d + 1
            for d in range(last[i], len(pool) + 1)
        )
        others = [step for j, step in last.items() if j != i]
        shorter = [
            j for j in pool if a.category[j] != STREAMING and a.execution[j] < a.execution[i]
        ]
        middle = sum(config.execution) / 2
        for free in room:
            row = {
                "critical": critical,
                "streaming": streaming,
                "due_now": 0 <= slack[i] < 1,
                "late": slack[i] < 0,
                "slack": float(np.clip(slack[i], 0, 5)),
                "tight_critical": tight and critical,
                "tight_streaming": tight and streaming,
                "others_late": len(others) - matched(others),
                "shorter": len(shorter),
                "execution_streaming": streaming * (a.execution[i] - middle) / 100,
                "duration_streaming": streaming * a.runs[i] * a.period[i] / 1000,
                "room_behind": (max(room) - free) / 1000,
                "spare": max(free - a.tasks[i], 0) / 1000,
                "short": max(a.tasks[i] - free, 0) / 1000,
            }
            rows.append([float(row[name]) for name in NAMES])
    return rows


@pytest.mark.parametrize("seed", range(6))
def test_columns_are_what_their_descriptions_say(seed):
    """Random play; every flag is 0 and 1, and every count and amount takes several values."""
    a = draw_applications(CROWDED, np.random.default_rng(seed))
    environment, observation = begin(CROWDED, a)
    rng = np.random.default_rng(seed + 100)
    seen, over = [], False
    while not over:
        ints = environment._ints
        pool = ints[ints[m.POOLED_AT] : ints[m.POOLED_AT] + ints[m.POOL]].tolist()
        free = ints[ints[m.FREE_AT] : ints[m.FREE_AT] + 3]
        queued = ints[ints[m.QUEUED_AT] : ints[m.QUEUED_AT] + 3]
        found = observation.candidates[:, len(CANDIDATES) :]
        expected = plain(CROWDED, a, pool, int(observation.time_s), (free - queued).tolist())
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        seen.append(found.copy())
        step = environment.step(uniform(observation, rng))
        observation, over = step.observation, step.terminated
    every = np.concatenate(seen)
    assert all(len(np.unique(column)) > 1 for column in every.T)


def test_four_applications_of_which_two_can_meet_their_deadline():
    """At step 0, A and B must go now, C by step 1; D is streaming and longer, without a hurry."""
    a = Applications(
        arrival=np.zeros(4, np.int64),
        category=np.array([CRITICAL, CRITICAL, STREAMING, REGULAR]),
        execution=np.array([40, 36, 38, 42]),
        tasks=np.array([3, 7, 2, 4]),
        deadline=np.array([40.5, 36.9, 39.5, math.inf]),
        runs=np.array([1, 1, 2, 1]),
        period=np.array([0, 0, 50, 0]),
        profile=np.full((4, 10), 0.1),
        needs=np.array([3, 7, 2, 2, 4]),
    )
    config = MulticlusterConfig(clusters=(4, 6), foresight=True)
    environment, observation = begin(config, a)
    shown = {name: observation.candidates[:, len(CANDIDATES) + at] for at, name in enumerate(NAMES)}
    of_applications = {name: values[::2].tolist() for name, values in shown.items()}
    assert of_applications["due_now"] == [1, 1, 0, 0]
    assert of_applications["slack"] == pytest.approx([0.5, 0.9, 1.5, 5])
    assert of_applications["tight_critical"] == [1, 1, 0, 0]
    assert of_applications["tight_streaming"] == [0, 0, 1, 0]
    assert of_applications["others_late"] == [1, 1, 2, 2]
    assert of_applications["shorter"] == [1, 0, 1, 2]
    assert of_applications["duration_streaming"] == [0, 0, 0.1, 0]
    assert shown["room_behind"].tolist() == pytest.approx([0.002, 0] * 4)
    assert shown["spare"].tolist() == pytest.approx([0.001, 0.003, 0, 0, 0.002, 0.004, 0, 0.002])
    assert shown["short"].tolist() == pytest.approx([0, 0, 0.003, 0.001, 0, 0, 0, 0])
    later = environment.step(1).observation  # A goes on cluster 1
    assert later.candidates[0, len(CANDIDATES) + NAMES.index("late")] == 1  # B


@pytest.mark.parametrize("rule", ["urgent_shortest", "sf_e"])
def test_the_columns_change_neither_the_others_nor_the_play(rule):
    without = dataclasses.replace(CROWDED, foresight=False)
    played = []
    for config in (without, CROWDED):
        spec = SCENARIO.spec(config, "misses_and_delay")
        rng = np.random.default_rng(3)
        instance = SCENARIO.instance(config, spec.objective, NOTHING, 3, rng)
        played.append(run_episode(SCENARIO, spec, instance, Behaviour(rule, HEURISTICS[rule]), rng))
    one, other = played
    assert one.outcomes.tolist() == other.outcomes.tolist()
    assert one.total == other.total
    a = draw_applications(CROWDED, np.random.default_rng(0))
    plain_rows, rows = (begin(config, a)[1].candidates for config in (without, CROWDED))
    assert plain_rows.shape[1] == len(CANDIDATES)
    assert rows[:, : len(CANDIDATES)].tolist() == plain_rows.tolist()


@pytest.mark.slow
def test_conformance():
    """The whole suite of environments holds with the columns."""
    check_scenario(
        SCENARIO, CROWDED, "misses_and_delay",
        lambda n: SCENARIO.instance(
            CROWDED, "misses_and_delay", NOTHING, n, np.random.default_rng(n)
        ),
        {name: HEURISTICS[name] for name in ("urgent_first", "urgent_shortest")}, episodes=1,
    )  # fmt: skip
