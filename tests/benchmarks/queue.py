"""Speed of `queue`: a whole log with and without observations, and episodes that step together.

Rules of learned run times stand beside others, in the scenario and in the runs of `whatif`.

    python -m tests.benchmarks.queue

The log is drawn: 100,000 jobs that offer seven tenths of 128 processors. A run of `whatif` is
compared with the episode on a log that offers a fifth more than there is, so that jobs queue.
"""

import time

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.simulation.batched import BatchedEpisodes
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.simulation.rollout import run_episode
from hindcast.pipeline.simulation.scenario import config_for
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import read_record
from hindcast.pipeline.whatif.run import run_of
from hindcast.pipeline.workloads.schema import MACHINE_COLUMNS, TASK_COLUMNS, Provenance, Workload
from hindcast.policies.heuristics import rules

JOBS = 100_000
QUEUED = 10_000
PROCESSORS = 128
EPISODES = 64


def drawn_log(jobs: int = JOBS, offered: float = 0.7) -> Workload:
    """Return a log of log-normal run times and requests above them."""
    rng = np.random.default_rng(0)
    run = np.ceil(np.exp(rng.normal(6, 2, jobs)).clip(1, 86_400))
    cpu = 2.0 ** rng.integers(0, 7, jobs)
    gaps = rng.exponential(float((run * cpu).mean()) / PROCESSORS / offered, jobs)
    columns = {
        "job": np.arange(jobs), "task": np.zeros(jobs, np.int64),
        "job_id": np.arange(jobs).astype(str), "task_id": np.zeros(jobs, np.int64).astype(str),
        "submit_s": np.floor(np.cumsum(gaps)), "duration_s": run, "cores": cpu,
        "memory": np.zeros(jobs), "instances": np.ones(jobs, np.int64),
    }  # fmt: skip
    tasks = pl.DataFrame(columns, schema=dict(TASK_COLUMNS)).with_columns(
        requested_s=pl.Series(np.ceil(run * rng.uniform(1, 20, jobs))),
        user=pl.Series(rng.integers(1, 100, jobs)),
    )
    machines = pl.DataFrame(
        [(0, "m", float(PROCESSORS), 1.0)], schema=dict(MACHINE_COLUMNS), orient="row"
    )
    return Workload(tasks, Provenance("drawn"), machines)


def measure() -> list[tuple[str, float, str, str]]:
    """Return decisions and steps per second on one core, and ratios within this run."""
    scenario, log = load_scenario("queue"), drawn_log()
    known, rng = rules("queue"), np.random.default_rng(0)
    config = QueueConfig(whole=True, warm=False, visible=128)
    rates = {}
    for name in ("saf_clairvoyant", "saf_easy", "aged_area_easy", "aged_expected_easy"):
        behaviour = Behaviour(name, known[name])
        config = config_for(scenario, config, known[name])
        spec = scenario.spec(config, "bounded_slowdown")
        whole = scenario.instance(config, "bounded_slowdown", log, 0, rng)
        run_episode(scenario, spec, whole, behaviour, rng)
        begun = time.perf_counter()
        episode = run_episode(scenario, spec, whole, behaviour, rng)
        rates[name] = episode.steps / (time.perf_counter() - begun)
    config = QueueConfig(warm=False, visible=128)
    spec = scenario.spec(config, "bounded_slowdown")
    instances = [
        scenario.instance(config, "bounded_slowdown", log, 5 * n, rng) for n in range(EPISODES)
    ]
    together = BatchedEpisodes(scenario, spec, instances)
    steps, begun = 0, time.perf_counter()
    while len(together.live):
        seen = together.observe()
        firsts = [
            int(np.argmax(seen.feasible[one:other]))
            for one, other in zip(seen.offsets[:-1], seen.offsets[1:], strict=True)
        ]
        together.step(np.array(firsts))
        steps += len(firsts)
    rates["batch"] = steps / (time.perf_counter() - begun)
    unseen = rates["saf_clairvoyant"]
    return [
        (f"queue, {name}", rate, "decisions/s", f"{rate / unseen:.2f} of saf_clairvoyant's")
        for name, rate in rates.items()
    ] + _runs()


def _runs() -> list[tuple[str, float, str, str]]:
    """Return the jobs that a run of `whatif` starts per second, beside the episode of the rule."""
    scenario, log, known = load_scenario("queue"), drawn_log(QUEUED, 1.2), rules("queue")
    rng, found = np.random.default_rng(0), []
    config = QueueConfig(whole=True, warm=False, allow_wait=True)
    run = run_of(read_record(log), 0, warm=False)
    for name in ("saf_easy", "aged_area_easy", "aged_expected_easy", "conservative"):
        seen = config_for(scenario, config, known[name])
        spec = scenario.spec(seen, "bounded_slowdown")
        whole = scenario.instance(seen, "bounded_slowdown", log, 0, rng)
        begun = time.process_time()
        run_episode(scenario, spec, whole, Behaviour(name, known[name]), rng)
        seconds = time.process_time() - begun
        play(run, *policy_of(name))  # the first run of a process looks up its functions
        begun = time.process_time()
        play(run, *policy_of(name))
        alone = time.process_time() - begun
        ratio = f"{seconds / alone:.0f} times as fast as the episode"
        found.append((f"queue, {name} in a run", QUEUED / alone, "jobs/s", ratio))
    return found


if __name__ == "__main__":
    for name, value, unit, beside in measure():
        print(f"{name:40} {value:14,.0f} {unit} {beside}")
