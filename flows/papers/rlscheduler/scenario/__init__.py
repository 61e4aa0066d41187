"""`rlscheduler`: the simulator of the RLScheduler paper, as its program behaves.

Parallel jobs of a log run on one machine of identical processors. A window is a sequence of
consecutive jobs; the machine is empty when the first one arrives, and no job arrives after the last
one. A decision chooses any waiting job. If it fits it starts; otherwise events pass until it does,
and with `backfill` other jobs may start meanwhile
(hindcast.flows.papers.rlscheduler.scenario.dynamics).

    bounded_slowdown   r = -sum of max(1, (wait + run) / max(run, 10 s)) / N over the jobs that
                       start between two decisions, N jobs in the window
    wait               r = -sum of their waits in hours / N

With `observation = "all"` there is one row per waiting job, in order of arrival. With "published"
there are 128 rows. If fewer jobs wait, rows at the end are padded with 0, 1, ..., 1, 0 and are not
feasible. If more jobs wait, those with the shortest requests and those with the fewest processors
take turns until 128 are found, and others cannot be chosen.

Simulators that claim to schedule as a real machine does are in scenario `queue`. This one is here
to reproduce published numbers: a log ends with the window, a chosen job blocks all others, and
processors that it will not need stay idle.
"""

from typing import Final

import numpy as np

from hindcast.flows.papers.rlscheduler.scenario import dynamics as kernel
from hindcast.flows.papers.rlscheduler.scenario import layout as m
from hindcast.flows.papers.rlscheduler.scenario.config import RLSchedulerConfig, check_config
from hindcast.flows.papers.rlscheduler.scenario.features import OBJECTIVES, spec
from hindcast.flows.papers.rlscheduler.scenario.heuristics import HEURISTICS
from hindcast.flows.papers.rlscheduler.scenario.instances import lay_out, read_log
from hindcast.flows.papers.rlscheduler.scenario.observation import observe
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.simulation.scenario import Instance, Scenario, require_room
from hindcast.pipeline.workloads.schema import Workload

__all__ = ["HEURISTICS", "SCENARIO"]


def windows(config: RLSchedulerConfig, workload: Workload) -> int:
    """Return the number of windows: that of `starts`, else of whole windows side by side."""
    if config.starts:
        return len(config.starts)
    return len(read_log(workload, config.trace_name).submit) // config.jobs


def stretch(config: RLSchedulerConfig, window: int) -> tuple[int, int]:
    """Return the first job of a window and the one after its last."""
    first = config.starts[window] if config.starts else window * config.jobs
    return first, first + config.jobs


def instance(
    config: RLSchedulerConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """Return the jobs of one window and an empty machine. Draws nothing."""
    check_config(config)
    require_room((10.0 + m.FIXED) * config.jobs)
    log = read_log(workload, config.trace_name)
    if not 0 <= window < windows(config, workload):
        raise InputError(
            f"window {window} does not exist; windows are 0..{windows(config, workload) - 1}"
        )
    start, _ = stretch(config, window)
    published = config.observation == "published"
    ints, floats = lay_out(log, start, config.jobs, backfill=config.backfill, published=published)
    ints[m.OBJECTIVE] = OBJECTIVES.index(objective)
    return Instance(ints, floats, capacity=m.ROWS_SHOWN if published else config.jobs)


SCENARIO: Final = Scenario(
    name="rlscheduler",
    config=RLSchedulerConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=kernel.step,
    outcome=kernel.outcome,
    stretch=stretch,
    source=(
        'Zhang et al., "RLScheduler: An Automated HPC Batch Job Scheduler Using Reinforcement '
        'Learning", SC 2020; its program, github.com/DIR-LAB/deep-batch-scheduler.'
    ),
    differences=(
        "The three columns of the context, and the last four columns of a row, are not published.",
        (
            "The rules WFP3 and UNICEF exist twice: as published, with their signs turned (wfp, "
            "uni), and as they are meant (wfp3, unicef)."
        ),
        "The reward is paid when jobs start. The program pays once, at the end of a sequence.",
        (
            "Rows are in order of arrival. If more than 128 jobs wait, the program shows the same "
            "jobs; their order in its observation was not compared."
        ),
    ),
)
