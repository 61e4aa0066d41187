"""Windows of `deferrable` on a grid for tests: settings, a log, and what an instance holds."""

import dataclasses

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload
from tests.pipeline.scenarios.deferrable.small_logs import log_of

SCENARIO = load_scenario("deferrable")
NOTHING = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), Provenance("generated"))
GENERATED = DeferrableConfig(
    horizon=48, jobs_per_slot=2.0, fixed_share=0.2, longest_window=20, longest_notice=0,
    scale_capacity=False,
)  # fmt: skip
LOG = dataclasses.replace(GENERATED, jobs="log", short_wait=6.0, long_wait=20.0)


def log(count: int = 300, seed: int = 0) -> Workload:
    """Return a log of four days with requests, of minutes to a day."""
    rng = np.random.default_rng(seed)
    run = rng.exponential(4.0 * 3600, count).round() + 60
    submit = np.sort(rng.uniform(0, 96 * 3600, count))
    cores = rng.integers(1, 9, count)
    return log_of(submit, run, cores, (run * rng.uniform(1.0, 4.0, count)).round())


def instance_of(config: DeferrableConfig, objective: str = "carbon", seed: int = 0) -> Instance:
    """Return the first window."""
    workload = log() if config.jobs == "log" else NOTHING
    return SCENARIO.instance(config, objective, workload, 0, np.random.default_rng(seed))


def blocks_of(instance: Instance) -> list[np.ndarray]:
    """Return run, known, submitted, objective, carbon and price of an instance."""
    floats, jobs = instance.floats, int(instance.ints[m.JOBS])
    size = dict.fromkeys((f.RUN_AT, f.KNOWN_AT, f.SUBMITTED_AT), jobs)
    size |= dict.fromkeys((f.COST_AT, f.CARBON_AT, f.PRICE_AT), int(floats[f.HOURS]))
    return [floats[int(floats[at]) :][:length] for at, length in size.items()]


def starts_of(environment: CompiledEnvironment, jobs: int) -> np.ndarray:
    return m.block(environment._ints, m.START_AT, jobs)
