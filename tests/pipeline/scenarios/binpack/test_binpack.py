"""Tests of scenario `binpack`: hand-made episodes, the reference's event order, conformance."""

import dataclasses

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.binpack.config import BinpackConfig
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.testing import check_scenario, uniform
from hindcast.pipeline.workloads.schema import Provenance, Workload
from hindcast.policies.heuristics.binpack import HEURISTICS

SCENARIO = load_scenario("binpack")


def workload(*tasks: tuple[int, float, float, float, float, int]) -> Workload:
    """Return a workload of tasks (job, submit_s, duration_s, cores, memory, instances)."""
    frame = pl.DataFrame(
        tasks,
        schema=["job", "submit_s", "duration_s", "cores", "memory", "instances"],
        orient="row",
        infer_schema_length=None,
    ).select(
        pl.col("job").cast(pl.Int64),
        pl.int_range(pl.len(), dtype=pl.Int64).over("job").alias("task"),
        pl.col("job").cast(pl.String).alias("job_id"),
        pl.lit("t").alias("task_id"),
        *(pl.col(c).cast(pl.Float64) for c in ("submit_s", "duration_s", "cores", "memory")),
        pl.col("instances").cast(pl.Int64),
    )
    return Workload(frame, Provenance("test"))


def some_workload(seed: int, jobs: int = 6) -> Workload:
    """Return a small random workload with fractional durations and equal submissions."""
    rng = np.random.default_rng(seed)
    tasks = []
    submit = 0
    for job in range(jobs):
        tasks += [
            (
                job,
                submit,
                float(rng.choice([1.0, 2.0, 3.5, 7.25, 0.4])),
                float(rng.choice([0.5, 1.0, 2.0])),
                float(rng.choice([0.1, 0.25, 0.003])),
                int(rng.integers(1, 9)),
            )
            for _ in range(rng.integers(1, 4))
        ]
        submit += int(rng.integers(0, 4))
    return Workload(workload(*tasks).tasks, Provenance("test"))


def run(config: BinpackConfig, load: Workload, policy: str, objective: str = "makespan"):
    """Return outcomes by name, return and steps of one episode of a rule on window 0."""
    spec = SCENARIO.spec(config, objective)
    instance = SCENARIO.instance(config, objective, load, 0, np.random.default_rng(0))
    episode = run_episode(
        SCENARIO, spec, instance, Behaviour(policy, HEURISTICS[policy]), np.random.default_rng(0)
    )
    named = dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))
    return named, episode


SMALL = BinpackConfig(machines=1, machine_cores=1.0, machine_memory=1.0, jobs_per_window=1)


def test_three_instances_in_a_row_on_one_core():
    """Three instances of 2 s start at 0, 2, 4, and the makespan and the open ticks are 6."""
    load = workload((0, 0, 2.0, 1.0, 0.5, 3))
    named, episode = run(SMALL, load, "first_fit")
    assert named["makespan_s"] == 6
    assert episode.total == -6
    assert episode.steps == 3
    assert named["mean_completion_s"] == 6
    assert named["mean_slowdown"] == 3
    assert named["cpu_utilisation"] == 1.0
    assert named["memory_utilisation"] == 0.5
    assert named["lower_bound_s"] == 6
    assert named["optimality_ratio"] == 1.0


def test_fractional_durations_hold_their_machine_for_whole_ticks():
    """Two instances of 1.5 s on one core run in ticks 0..2 and 2..4."""
    named, _ = run(SMALL, workload((0, 0, 1.5, 1.0, 0.5, 2)), "first_fit")
    assert named["makespan_s"] == 4
    assert named["work_lower_bound_s"] == 3.0
    assert named["lower_bound_s"] == 4


def test_objectives_book_open_tasks():
    """On two cores a long task (4 s) arrives at 0 and a short one (1 s) at 1."""
    config = dataclasses.replace(SMALL, machine_cores=2.0, jobs_per_window=2)
    load = workload((0, 0, 4.0, 1.0, 0.1, 1), (1, 1, 1.0, 1.0, 0.1, 1))
    assert run(config, load, "first_fit", "makespan")[1].total == -4
    # ticks 0..4 with one open task, tick 1 with two
    assert run(config, load, "first_fit", "completion")[1].total == -5
    assert run(config, load, "first_fit", "slowdown")[1].total == -(4 / 4 + 1 / 1)


def test_time_before_the_first_decision_is_booked_with_the_first_step():
    """With compat, the first observation is at tick 1."""
    config = dataclasses.replace(SMALL, compat="cloudsimpy")
    environment = CompiledEnvironment(
        SCENARIO, config, "makespan", workload((0, 0, 3.0, 1.0, 0.1, 1)), 0
    )
    observation = environment.reset(np.random.default_rng(0))
    assert observation.time_s == 1
    step = environment.step(0)
    assert (step.reward, step.elapsed_s, step.terminated) == (-4.0, 4.0, True)


@pytest.mark.parametrize(
    ("submits", "starts"),
    [
        ([0, 1, 2, 3], [1, 2, 3, 4]),
        ([0, 3, 4], [1, 3, 4]),
        ([0, 1, 3], [1, 2, 3]),
        ([0, 5, 5, 5], [1, 5, 6, 6]),
        ([0, 5, 5, 6], [1, 5, 6, 7]),
        ([0, 5, 5, 7], [1, 5, 6, 7]),
    ],
)
def test_compat_sees_arrivals_when_the_reference_does(submits, starts):
    """Starts by submission time equal the reference's, with capacity for everything."""
    config = BinpackConfig(
        machines=1, machine_cores=64, jobs_per_window=len(submits), compat="cloudsimpy"
    )
    load = workload(*((job, s, 100.0, 1.0, 0.01, 1) for job, s in enumerate(submits)))
    environment = CompiledEnvironment(SCENARIO, config, "makespan", load, 0)
    observation = environment.reset(np.random.default_rng(0))
    seen = []
    for _ in submits:
        seen.append(observation.time_s)
        observation = environment.step(0).observation
    assert seen == starts


@pytest.mark.parametrize(
    ("duration", "instances", "starts", "makespan"),
    [
        (1.0, 3, [1, 3, 5], 7),  # a release at start + 1 comes after that tick's decisions
        (2.0, 2, [1, 3], 5),
        (1.5, 2, [1, 3], 5),  # a fractional end is usable at the next whole tick
        (1.0, 1, [1], 3),
    ],
)
def test_compat_releases_when_the_reference_does(duration, instances, starts, makespan):
    config = dataclasses.replace(SMALL, compat="cloudsimpy")
    load = workload((0, 0, duration, 1.0, 0.5, instances))
    environment = CompiledEnvironment(SCENARIO, config, "makespan", load, 0)
    observation = environment.reset(np.random.default_rng(0))
    seen, total = [], 0.0
    for _ in range(instances):
        seen.append(observation.time_s)
        step = environment.step(0)
        total += step.reward
        observation = step.observation
    assert seen == starts
    assert environment.outcome()["makespan_s"] == makespan == -total


def test_candidates_are_the_fitting_pairs_machine_major():
    """Of two machines and two tasks, one task fits the small machine only."""
    machines = pl.DataFrame(
        {"machine": [0, 1], "machine_id": ["a", "b"], "cores": [1.0, 4.0], "memory": [1.0, 0.5]}
    )
    tasks = workload((0, 0, 2.0, 1.0, 0.8, 1), (0, 0, 3.0, 1.0, 0.1, 5)).tasks
    load = Workload(tasks, Provenance("test"), machines)
    config = BinpackConfig(machines=2, cluster="trace", jobs_per_window=1)
    environment = CompiledEnvironment(SCENARIO, config, "makespan", load, 0)
    observation = environment.reset(np.random.default_rng(0))
    # free cores, free memory, cores, memory, duration, unplaced, machine
    assert observation.candidates.tolist() == [
        [1.0, 1.0, 1.0, 0.8, 2.0, 1.0, 0.0],
        [1.0, 1.0, 1.0, 0.1, 3.0, 5.0, 0.0],
        [4.0, 0.5, 1.0, 0.1, 3.0, 5.0, 1.0],
    ]
    assert observation.context.tolist() == [5.0, 1.5, 2.0, 6.0, 0.0, 4.0, 1.0]


def test_outcomes_of_an_episode_that_is_broken_off_are_no_better_than_those_of_a_finished_one():
    """Nothing has started at 0, one of three tasks has not been seen, and 6 s of work remain."""
    config = dataclasses.replace(SMALL, jobs_per_window=3)
    load = workload((0, 0, 2.0, 1.0, 0.1, 1), (1, 0, 1.0, 1.0, 0.1, 1), (2, 3, 3.0, 1.0, 0.1, 1))
    environment = CompiledEnvironment(SCENARIO, config, "makespan", load, 0)
    environment.reset(np.random.default_rng(0))
    outcome = environment.outcome()
    assert outcome["unfinished"] == 3
    assert outcome["makespan_s"] == outcome["lower_bound_s"] == 6
    assert outcome["optimality_ratio"] == outcome["cpu_utilisation"] == 1
    assert outcome["mean_completion_s"] == outcome["mean_completion_from_start_s"] == 0
    environment.step(0)  # runs in 0..2; the second task has waited for 2 s then
    outcome = environment.outcome()
    assert outcome["makespan_s"] == 6
    assert outcome["mean_completion_s"] == (2 + 2 + 0) / 3
    assert outcome["mean_slowdown_from_start"] == 1 / 3


@pytest.mark.parametrize(("compat", "cores"), [("", 1.001), ("cloudsimpy", 1.0006)])
def test_the_spec_has_the_cores_and_memory_that_a_machine_holds(compat, cores):
    """They are rounded to milli-cores and 1e-9ths of memory, but not in compat."""
    config = dataclasses.replace(SMALL, machine_cores=1.0006, compat=compat)
    environment = CompiledEnvironment(
        SCENARIO, config, "makespan", workload((0, 0, 2.0, 1.0, 0.1, 1)), 0
    )
    free = environment.spec.candidates[0]
    assert free.high == cores == environment.reset(np.random.default_rng(0)).candidates[0, 0]
    config = dataclasses.replace(SMALL, machine_cores=0.3, machine_memory=0.1)
    assert [f.high for f in SCENARIO.spec(config, "makespan").candidates[:2]] == [0.3, 0.1]


def test_a_wait_row_lets_time_pass():
    config = dataclasses.replace(SMALL, allow_wait=True, machine_cores=2.0, jobs_per_window=2)
    load = workload((0, 0, 2.0, 1.0, 0.1, 1), (1, 3, 1.0, 1.0, 0.1, 1))
    environment = CompiledEnvironment(SCENARIO, config, "makespan", load, 0)
    observation = environment.reset(np.random.default_rng(0))
    assert observation.feasible.tolist() == [True, True]
    step = environment.step(1)
    assert (step.elapsed_s, len(step.observation.feasible)) == (3.0, 3)
    assert not step.observation.feasible[2]  # nothing runs or arrives: no waiting


def test_a_task_that_fits_nowhere_is_refused():
    with pytest.raises(InputError, match="task t of job 0 needs 2 cores"):
        run(SMALL, workload((0, 0, 1.0, 2.0, 0.5, 1)), "first_fit")


@pytest.mark.slow
@pytest.mark.parametrize("compat", ["", "cloudsimpy"])
@pytest.mark.parametrize("allow_wait", [False, True])
@pytest.mark.parametrize("features", ["paper", "extended"])
def test_conformance(compat, allow_wait, features):
    config = BinpackConfig(
        machines=3, machine_cores=4.0, jobs_per_window=6, compat=compat, allow_wait=allow_wait,
        features=features,
    )  # fmt: skip
    for objective in SCENARIO.objectives:
        check_scenario(
            SCENARIO,
            config,
            objective,
            lambda n, o=objective: SCENARIO.instance(
                config, o, some_workload(n), 0, np.random.default_rng(n)
            ),
            HEURISTICS,
            episodes=2,
        )


@pytest.mark.parametrize("seed", range(20))
def test_random_play_keeps_the_capacity_and_finishes_everything(seed):
    """Machines never exceed their capacity; every instance starts once and every task ends."""
    load = some_workload(seed)
    config = BinpackConfig(machines=2, machine_cores=4.0, jobs_per_window=6)
    environment = CompiledEnvironment(SCENARIO, config, "completion", load, 0)
    rng = np.random.default_rng(seed)
    observation = environment.reset(rng)
    total, starts, over = 0.0, 0, False
    while not over:
        free = observation.candidates[:, :2]
        wanted = observation.candidates[:, 2:4]
        assert (wanted <= free + 1e-12).all()
        assert (free[:, 0] <= 4.0).all()
        assert (observation.candidates[:, 5] >= 1).all()
        step = environment.step(uniform(observation, rng))
        starts += 1
        total += step.reward
        observation, over = step.observation, step.terminated
    outcome = environment.outcome()
    assert starts == load.tasks["instances"].sum()
    assert outcome["unfinished"] == 0
    assert outcome["makespan_s"] >= outcome["lower_bound_s"] >= outcome["work_lower_bound_s"] - 1
    assert total == pytest.approx(-outcome["mean_completion_s"] * load.tasks.height)
