"""`slots`: one cluster as a grid of resource slots by time steps; place a visible job or move on.

A cluster has two resources ("cpu" and "memory") of r slots each, shown for the next H time steps.
A job has a length in time steps and a demand in slots of each resource. The first M waiting jobs
are visible, one in each slot of the queue. Up to B more jobs stand behind them in the backlog,
first in, first out.

A choice either places the job of one slot, or moves on. A placement is a reservation: the job takes
the earliest window of its length in the horizon in which both resources are free throughout. Its
slot is refilled from the backlog at once, and no time passes. Moving on lets one time step pass, in
this order: the grid shifts, finished jobs leave, the arrivals of the step enter (lowest empty slot,
else the backlog, else they are dropped and counted), and the reward is paid. A slot is feasible if
its job has a window; moving on is always feasible.

    slowdown     r = -sum of 1 / length over the jobs in machine, queue and backlog
    completion   r = -number of these jobs
    utilisation  r = fraction of the slots in use in the time step that passes, mean of resources

The jobs present at time 0, before the first step, count in the reward of the first move on. If
every job has finished, sum of r == -sum of slowdowns, with slowdown = (finish - enter) / length in
time steps.

The episode terminates when no job will arrive and none is left. It is truncated after
`max_time_steps`. Outcomes cover all jobs that entered; an unfinished job counts until the end.

The compact context has 91 numbers if H = 20 and M = 10:

    free_cpu_00 free_memory_00 jobs_00 | free_cpu_01 ...     H times: the time steps from now on
    cpu_0 memory_0 length_0 | cpu_1 ...                      M times: the slots of the queue
    backlog                                                  its number of jobs

The image (`observation = "image"`, in addition to the compact context) has H rows of uint8:

    cpu: machine (r) | slots 0 .. M-1 (r each) | memory: the same | backlog (ceil(B/H)) | time (1)

A running job is a block in one of 40 greys (its number modulo 40, from 255 down to 60). A waiting
job fills its demand across and its length down with 255. The backlog has one cell per job, row by
row. The time column is 255 * min(time steps since the last arrival, 10) / 10.

The candidates are the M slots in order, then the row that moves on. A row describes its job (all
zero for an empty slot and for the row that moves on), compares it with the other visible jobs, and
repeats the state of the cluster, which is the same in all rows. One row therefore holds what a rule
must weigh to hold a long job back for short jobs that may come, or to leave room beside it, and a
linear score can express such a rule. With `foresight`, a row also shows the delay that starting its
job now causes to waiting jobs and to jobs that may come. With an image, a row also shows its
number, for networks that read nothing else of it.

`compat = "deeprm"` reproduces the published simulator. The last offset is excluded
(0 .. H - length - 1). The first element of a sequence is never delivered. The entry after a removal
from the list of running jobs is passed over and stays one more time step, which only affects the
reward and the end. The end is tested between removals and arrivals. Its 100 sequences come from
RandomState(42). The slowdown covers jobs that have been placed.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.slots import dynamics as kernel
from hindcast.pipeline.scenarios.slots import layout as m
from hindcast.pipeline.scenarios.slots.config import NO_TRACE, Sizes, SlotsConfig, sizes_of
from hindcast.pipeline.scenarios.slots.features import OBJECTIVES, spec
from hindcast.pipeline.scenarios.slots.futures import DrawnFuture
from hindcast.pipeline.scenarios.slots.instances import (
    COMPAT_EXAMPLES,
    Jobs,
    compat_jobs,
    draw_jobs,
)
from hindcast.pipeline.scenarios.slots.observation import observe
from hindcast.pipeline.scenarios.slots.picture import picture
from hindcast.pipeline.simulation.scenario import (
    DRAWN_WINDOWS,
    Instance,
    Scenario,
    make_memory,
    require_room,
)
from hindcast.pipeline.workloads.schema import Workload


def windows(config: SlotsConfig, workload: Workload) -> int:
    """Return 100 in compat, else DRAWN_WINDOWS. A trace raises InputError."""
    if not workload.tasks.is_empty():
        raise InputError(NO_TRACE)
    return COMPAT_EXAMPLES if config.compat else DRAWN_WINDOWS


def _jobs(
    config: SlotsConfig, sizes: Sizes, workload: Workload, window: int, rng: np.random.Generator
) -> Jobs:
    """Return the jobs of a window, drawn or of the published simulator."""
    if not 0 <= window < windows(config, workload):
        raise InputError(
            f"window {window} does not exist; windows are 0..{windows(config, workload) - 1}"
        )
    return compat_jobs(config, sizes, window) if config.compat else draw_jobs(config, sizes, rng)


def instance(
    config: SlotsConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """Return the jobs of one window and an empty cluster, with the jobs of time 0 in the queue."""
    sizes = sizes_of(config)
    require_room(10.0 * config.steps + config.backlog + 3.0 * (config.queue + sizes.horizon))
    if config.compat:
        require_room(1e5 * config.steps)  # because compat draws all its examples at once
    made = lay_out(config, sizes, objective, _jobs(config, sizes, workload, window, rng))
    if config.compat:
        return made  # there is no distribution to draw from
    known = int(made.ints[m.JOBS])

    def futures(rng: np.random.Generator) -> DrawnFuture:
        return DrawnFuture(draw_jobs(config, sizes, rng), known, made.capacity)

    return replace(made, futures=futures)


def lay_out(config: SlotsConfig, sizes: Sizes, objective: str, jobs: Jobs) -> Instance:
    """Return the memory of an episode with these jobs."""
    n, queue, backlog = len(jobs.length), config.queue, config.backlog
    inverse = m.GRID + m.COLUMNS * sizes.horizon  # the block after the grid
    blocks = (
        (m.ARRIVE_AT, n, jobs.arrive),
        (m.LENGTH_AT, n, jobs.length),
        (m.CPU_AT, n, jobs.cpu),
        (m.MEMORY_AT, n, jobs.memory),
        (m.ENTER_AT, n, -1),
        (m.FINISH_AT, n, -1),
        (m.RUNNING_AT, n, 0),
        (m.RING_AT, backlog, 0),
        (m.JOB_AT, queue, -1),
        (m.OFFSET_AT, queue, -1),
        (m.SHOWN_AT, queue, -1),
    )
    ints, floats = make_memory(
        m.INT_HEADER, blocks, inverse, [(m.INVERSE_AT, n, 1.0 / jobs.length)]
    )
    floats[m.GRID : inverse] = np.tile(
        [float(sizes.slots_per_resource), float(sizes.slots_per_resource), 0.0], sizes.horizon
    )
    ints[m.JOBS], ints[m.QUEUE], ints[m.BACKLOG] = n, queue, backlog
    ints[m.HORIZON], ints[m.SLOTS] = sizes.horizon, sizes.slots_per_resource
    ints[m.COMPAT] = config.compat == "deeprm"
    ints[m.OBJECTIVE] = OBJECTIVES.index(objective)
    ints[m.LAST_STEP], ints[m.MAX_STEPS] = jobs.last_step, config.max_time_steps
    ints[m.PLACED] = -1
    ints[m.TIES] = config.ties == "demand" and not config.compat
    ints[m.FORESIGHT] = config.foresight
    asked = int(jobs.cpu.any()) + int(jobs.memory.any())
    floats[m.CAPACITY] = sizes.slots_per_resource * max(asked, 1)
    work = int((jobs.length * (jobs.cpu + jobs.memory)).sum())
    floats[m.OFFERED_LOAD] = work / floats[m.CAPACITY] / config.steps
    floats[m.EXPECTED_LOAD] = jobs.expected_load
    floats[m.STEP_S] = config.step_s

    kernel.arrive(ints, floats)
    floats[m.CARRIED_RATE] = floats[m.OPEN_RATE]
    floats[m.CARRIED_JOBS] = kernel.in_system(ints)
    return Instance(ints, floats, capacity=queue + 1)


SCENARIO: Final = Scenario(
    name="slots",
    config=SlotsConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=kernel.step,
    outcome=kernel.outcome,
    picture=picture,
    imagines=True,
    source=(
        'Mao, Alizadeh, Menache & Kandula, "Resource Management with Deep Reinforcement Learning", '
        "HotNets 2016; its reproduction under the same title, St. Kliment Ohridski University, "
        "2021."
    ),
    differences=(
        "An infeasible choice is refused. In the papers it moves on (as in `random_reference`).",
        (
            "The slowdown covers all jobs that entered, and the numbers of unfinished and dropped "
            "jobs are reported with it. The papers average over the finished jobs."
        ),
        (
            "The last offset of the horizon is used, and element k of a sequence enters at time "
            "step k = 1 ..."
        ),
        "Grey levels fit in a byte. Utilisation is that of the time step that passes.",
        "The papers do not say how many jobs wait at once. The recipe slots-report-v1 has 47.",
    ),
)
