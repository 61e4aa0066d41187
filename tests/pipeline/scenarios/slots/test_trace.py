"""Tests of scenario `slots` on the jobs of a trace."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.slots import layout as m
from hindcast.pipeline.scenarios.slots.config import SlotsConfig
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.testing import check_scenario
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics.slots import HEURISTICS
from tests.conftest import require_traces

SCENARIO = load_scenario("slots")
CONFIG = SlotsConfig(
    slots_per_resource=4, horizon=6, short_lengths=(1, 2), long_lengths=(3, 5),
    dominant_slots=(2, 4), other_slots=(1, 2), arrival="trace", step_s=10.0, jobs_per_window=3,
)  # fmt: skip


def workload(*tasks: tuple[float, float, float, float]) -> Workload:
    """Return tasks (submit_s, duration_s, cores, memory) on a machine of 8 cores."""
    rows = [
        (i, 0, str(i), "0", submit, duration, cores, memory, 1)
        for i, (submit, duration, cores, memory) in enumerate(tasks)
    ]
    machines = pl.DataFrame([(0, "m", 8.0, 1.0)], schema=dict(MACHINE_COLUMNS), orient="row")
    tasks = pl.DataFrame(rows, schema=dict(TASK_COLUMNS), orient="row")
    return Workload(tasks, Provenance("test"), machines)


THREE = workload((100, 15, 2, 0), (101, 10, 3, 0.3), (130, 60, 8, 0))


def test_slots_and_time_steps_are_rounded_up():
    """2 of 8 cores are 1 of 4 slots, 3 are 2; 15 s are 2 steps of 10 s; 1 s is one more step."""
    env = CompiledEnvironment(SCENARIO, CONFIG, "slowdown", THREE, 0)
    observation = env.reset(np.random.default_rng(0))
    assert observation.candidates[:2, :3].tolist() == [[2, 1, 0], [0, 0, 0]]
    observation = env.step(CONFIG.queue).observation
    assert observation.time_s == 10
    assert observation.candidates[:2, :3].tolist() == [[2, 1, 0], [1, 2, 2]]
    for _ in range(2):
        observation = env.step(CONFIG.queue).observation
    assert observation.candidates[2, :3].tolist() == [6, 4, 0]
    assert env.outcome()["jobs"] == 3


def test_memory_that_nobody_asks_for_is_no_part_of_utilisation():
    env = CompiledEnvironment(
        SCENARIO, dataclasses.replace(CONFIG, jobs_per_window=1), "utilisation",
        workload((0, 10, 8, 0)), 0,
    )  # fmt: skip
    env.reset(np.random.default_rng(0))
    env.step(0)
    assert env.step(CONFIG.queue).reward == 1


def test_a_job_shorter_than_a_rounding_error_takes_a_time_step():
    short = workload(*[(0, 1e-12, 2, 0)] * 3)
    instance = SCENARIO.instance(CONFIG, "slowdown", short, 0, np.random.default_rng(0))
    ints = instance.ints
    assert ints[ints[m.LENGTH_AT] : ints[m.LENGTH_AT] + 3].tolist() == [1, 1, 1]
    assert SCENARIO.demand(CONFIG, short, 0).rounded == 3 * 2 * CONFIG.step_s


def test_machines_without_memory_run_jobs_that_ask_for_none():
    """The one job of 30 s on 2 of 8 cores arrives within a second: a load of 7.5."""
    machines = THREE.machines.with_columns(memory=pl.lit(0.0))
    config = dataclasses.replace(CONFIG, jobs_per_window=1)
    env = CompiledEnvironment(
        SCENARIO, config, "slowdown", Workload(workload((0, 30, 2, 0)).tasks, Provenance("test"),
                                               machines), 0,
    )  # fmt: skip
    observation = env.reset(np.random.default_rng(0))
    assert observation.candidates[0, :3].tolist() == [3, 1, 0]
    assert env.outcome()["expected_load"] == 7.5
    with pytest.raises(InputError, match="job 1 needs memory, but the machines of the"):
        SCENARIO.instance(
            CONFIG, "slowdown", Workload(THREE.tasks, Provenance("test"), machines), 0,
            np.random.default_rng(0),
        )  # fmt: skip


def test_a_job_longer_than_the_horizon_is_refused_or_left_out():
    long = workload((0, 10, 1, 0), (1, 61, 1, 0), (2, 10, 1, 0))
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"job 1 runs 61 s, 7 time steps of 10 s, but the horizon"):
        SCENARIO.instance(CONFIG, "slowdown", long, 0, rng)
    env = CompiledEnvironment(
        SCENARIO, dataclasses.replace(CONFIG, too_long="leave_out"), "slowdown", long, 0
    )
    env.reset(rng)
    assert env.outcome()["left_out"] == 1


def test_the_error_names_the_settings_with_which_every_window_fits():
    """Not only the job that was found first: a try can take half a minute."""
    rng = np.random.default_rng(0)
    durations = (61, 20, 10, 10, 95, 81, 9e6)  # two windows of three jobs; the last job is in none
    long = workload(*((i, d, 1, 0) for i, d in enumerate(durations)))
    with pytest.raises(InputError) as error:
        SCENARIO.instance(CONFIG, "slowdown", long, 0, rng)
    said = "3 of the 6 jobs of all 2 windows are longer; config.horizon = 10 or config.step_s = 16 "
    assert said in str(error.value)
    for settings in ({"horizon": 10}, {"step_s": 16.0}):
        for window in (0, 1):
            fitting = dataclasses.replace(CONFIG, **settings)
            SCENARIO.instance(fitting, "slowdown", long, window, rng)
    with pytest.raises(InputError, match=r"are longer; config\.step_s = 1500000 fits them all"):
        SCENARIO.instance(CONFIG, "slowdown", workload(*[(0, 9e6, 1, 0)] * 3), 0, rng)


@pytest.mark.parametrize(
    ("load", "config", "message"),
    [
        (workload((0, 10, 9, 0)), {"jobs_per_window": 1}, "job 0 needs 5 of 4 slots of cores"),
        (Workload(THREE.tasks, Provenance("test")), {}, "no machines"),
        (THREE, {"arrival": "bernoulli"}, 'has a trace; use "trace" or "all_at_once"'),
    ],
)
def test_a_workload_that_cannot_be_run_is_refused(load, config, message):
    with pytest.raises(InputError, match=message):
        SCENARIO.instance(
            dataclasses.replace(CONFIG, **config), "slowdown", load, 0, np.random.default_rng(0)
        )


@pytest.mark.parametrize("arrival", ["trace", "all_at_once"])
def test_conformance(arrival):
    config = dataclasses.replace(CONFIG, arrival=arrival, queue=2)
    rules = {name: HEURISTICS[name] for name in ("sjf_now", "packer_reserve", "hold_5")}
    check_scenario(
        SCENARIO, config, "slowdown",
        lambda n: SCENARIO.instance(config, "slowdown", THREE, 0, np.random.default_rng(n)),
        rules, episodes=1,
    )  # fmt: skip


@pytest.mark.slow
def test_every_window_of_the_kth_recipe_can_be_run():
    """All jobs fit the grid and finish, and the number of windows is that of the splits."""
    require_traces()
    recipe = load_recipe("slots-swf-kth-v1")
    load = load_source(recipe)
    config = recipe.config
    assert SCENARIO.windows(config, load) == 142 == recipe.windows("all")[-1] + 1
    spec = SCENARIO.spec(config, "slowdown")
    names = [o.name for o in spec.outcomes]
    for window in range(0, 142, 20):
        instance = SCENARIO.instance(config, "slowdown", load, window, np.random.default_rng(0))
        behaviour = Behaviour("sjf_now", HEURISTICS["sjf_now"])
        episode = run_episode(SCENARIO, spec, instance, behaviour, np.random.default_rng(0))
        got = dict(zip(names, episode.outcomes, strict=True))
        assert got["jobs"] == 200
        assert got["unfinished"] == got["dropped"] == got["left_out"] == 0
        assert abs(episode.total + got["slowdown_sum"]) < 1e-9
