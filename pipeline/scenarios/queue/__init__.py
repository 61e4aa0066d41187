"""`queue`: batch scheduling of parallel jobs on one machine, with reservation and backfilling."""

from typing import Final

import numpy as np

from pipeline.errors import InputError
from pipeline.scenarios.queue import dynamics as kernel
from pipeline.scenarios.queue.config import QueueConfig, check_config
from pipeline.scenarios.queue.features import OBJECTIVES, spec
from pipeline.scenarios.queue.initial_state import lay_out
from pipeline.scenarios.queue.instances import read_log, select_jobs
from pipeline.scenarios.queue.observation import observe
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.workloads.schema import Workload


def windows(config: QueueConfig, workload: Workload) -> int:
    """Return the number of windows: that of `starts`, else of whole windows side by side."""
    if config.starts:
        return len(config.starts)
    return len(read_log(workload).submit) // config.jobs


def instance(
    config: QueueConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """Return the jobs of one window and the state in which it begins. Draws nothing."""
    check_config(config)
    log = read_log(workload)
    if not 0 <= window < windows(config, workload):
        raise InputError(
            f"window {window} does not exist; windows are 0..{windows(config, workload) - 1}"
        )
    return lay_out(config, objective, log, select_jobs(config, log, window))


SCENARIO: Final = Scenario(
    name="queue",
    config=QueueConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=kernel.step,
    outcome=kernel.outcome,
    bound="bounded_slowdown_lower_bound",
    bound_kind="lower",
    source="",
)
