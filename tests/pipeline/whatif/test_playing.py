"""A run that is played without observations starts every job when scenario `queue` does."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.simulation.memory_rules import MemoryRule, play_rule
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.whatif.orders import Mode, order_of, policy_of
from hindcast.pipeline.whatif.outcomes import by_week, counted, outcomes
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Record, read_record
from hindcast.pipeline.whatif.run import run_of
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics import rules
from tests.pipeline.whatif.records import by_hand
from tests.pipeline.whatif.schedulers import ALL, Scheduler

SCENARIO = load_scenario("queue")
RULES = rules("queue")
PLAYED = sorted(name for name in RULES if policy_of(name))
QUICK = (
    "saf", "lxf_easy", "aged_similar_easy", "fcfs_easy_sjbf", "unicef_greedy", "saf_clairvoyant",
    "conservative",
)  # fmt: skip
_NO_BOUND = ("bounded_slowdown_lower_bound", "wait_lower_bound")


def drawn_log(seed: int, jobs: int = 150, processors: int = 16) -> Workload:
    """Return a log with ties, unknown users, runs beyond requests and starts beyond the machine.

    That of seed 2 takes weeks, those of the others hours.
    """
    rng = np.random.default_rng(seed)
    run = rng.integers(1, 40, jobs) * rng.choice([1, 7, 40], jobs) * (401 if seed == 2 else 1)
    cpu = rng.choice([1, 1, 2, 3, 4, 8, processors], jobs)
    width = int((run * cpu).sum() / processors / rng.uniform(0.7, 1.6))
    columns = {
        "job": np.arange(jobs), "task": np.zeros(jobs, np.int64),
        "job_id": np.arange(jobs).astype(str), "task_id": np.zeros(jobs, np.int64).astype(str),
        "submit_s": np.sort(rng.integers(0, width, jobs) // 5 * 5).astype(float),
        "duration_s": run.astype(float), "cores": cpu.astype(float), "memory": np.zeros(jobs),
        "instances": np.ones(jobs, np.int64),
    }  # fmt: skip
    requested = np.ceil(run * rng.choice([0.5, 1, 2, 9], jobs) / 60) * rng.choice([60, 61])
    waits = rng.integers(0, 300, jobs).astype(float)
    users = pl.Series(rng.integers(0, 4, jobs))
    tasks = pl.DataFrame(columns, schema=dict(TASK_COLUMNS)).with_columns(
        requested_s=pl.Series(requested),
        user=pl.when(users > 0).then(users),
        wait_s=pl.when(pl.Series(rng.random(jobs) > 0.02)).then(pl.Series(waits)),
        queue=pl.Series(rng.integers(1, 3, jobs)),
    )
    machines = pl.DataFrame(
        [(0, "m", float(processors), 1.0)], schema=dict(MACHINE_COLUMNS), orient="row"
    )
    return Workload(tasks, Provenance("drawn"), machines)


def simulated(name: str, config: QueueConfig, log: Workload):
    """Return the waits of the counted jobs, the outcomes and their means by week."""
    rng, policy = np.random.default_rng(0), RULES[name]
    spec = SCENARIO.spec(config, "bounded_slowdown")
    instance = SCENARIO.instance(config, "bounded_slowdown", log, 0, rng)
    waits = {}

    def keep(ints):
        schedule = read_schedule(ints)
        waits["s"] = schedule.waits[schedule.counted]
        return SCENARIO.blocks(ints)

    scenario = replace(SCENARIO, blocks=keep)
    if isinstance(policy, MemoryRule):
        episode = play_rule(scenario, spec, instance, policy)[0]
    else:
        episode = run_episode(scenario, spec, instance, Behaviour(name, policy), rng)
    values = dict(zip([o.name for o in spec.outcomes], episode.outcomes, strict=True))
    return waits["s"], values, episode.blocks


@pytest.mark.parametrize("seed", [
    0, pytest.param(1, marks=pytest.mark.nightly), pytest.param(2, marks=pytest.mark.nightly),
])  # fmt: skip
@pytest.mark.parametrize("name", [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in PLAYED
])  # fmt: skip
def test_every_rule_starts_every_job_when_the_scenario_does(name, seed):
    log = drawn_log(seed)
    for config, last in (
        (QueueConfig(jobs=10, starts=(100,), whole=True, allow_wait=True, run_times=True), None),
        (QueueConfig(jobs=40, starts=(30,), follow=50, allow_wait=True, kill=seed == 1,
                     run_times=True), 70),
        (QueueConfig(jobs=50, starts=(0,), follow=0, allow_wait=True, warm=False, run_times=True),
         50),
    ):  # fmt: skip
        run = run_of(
            read_record(log), config.starts[0], last, follow=config.follow, warm=config.warm
        )
        if config.kill:
            run = replace(run, run=np.minimum(run.run, run.requested))
        starts = play(run, *policy_of(name))
        waits, values, weeks = simulated(name, config, log)
        assert weeks or seed < 2 or not config.whole
        assert by_week(run, starts).keys() == weeks.keys()
        np.testing.assert_array_equal(counted(run, starts).wait, waits)
        found = outcomes(run, starts)
        for outcome, value in values.items():
            if outcome not in _NO_BOUND:
                assert found[outcome] == pytest.approx(value, rel=1e-9), outcome
        for outcome, means in by_week(run, starts).items():
            np.testing.assert_array_equal(means, weeks[outcome])


def queued_record(seed: int, jobs: int = 160) -> Record:
    """Return jobs that come faster than their machine serves them: queues of a hundred."""
    rng = np.random.default_rng(seed)
    cpu, run = rng.choice([1, 1, 2, 3, 5, 12], jobs), rng.integers(1, 90, jobs)
    arrive = np.sort(rng.integers(0, int((cpu * run).sum() / 12 / 2), jobs))
    return replace(
        by_hand(12, *zip(arrive, arrive, run, cpu, strict=True)),
        requested=run * rng.choice([1, 2, 5], jobs) + rng.choice([0, 0, 7], jobs),
    )


@pytest.mark.parametrize("reservations", [1, 2, 5, ALL])
@pytest.mark.parametrize("order", ["fcfs", "saf", "lxf"])
def test_reservations_and_depth_are_those_of_a_plain_scheduler(order, reservations):
    for seed, depth in ((0, ALL), (1, ALL), (2, 20), (3, 4)):
        record = queued_record(seed)
        plain = Scheduler(order, reservations, depth=depth).starts(record, record.processors)
        run = run_of(record, 0, warm=False)
        starts = play(run, order_of(order), Mode(reservations, depth))
        np.testing.assert_array_equal(starts, plain, f"seed {seed}, depth {depth}")


def test_the_first_jobs_of_a_run_hold_more_than_the_machine_at_first():
    """The logs above exceed their machine: free processors begin below 0 in some."""
    short = []
    for seed in range(3):
        run = run_of(read_record(drawn_log(seed)), 100)
        short.append(run.processors - run.cpu[: run.running].sum())
    assert min(short) < 0


def test_a_run_that_is_not_there_is_refused():
    record = read_record(drawn_log(0))
    with pytest.raises(InputError, match="from 0 to 150, got 40 to 151"):
        run_of(record, 40, 151)
