"""`slots`: one cluster as a grid of resource slots by time steps; place a visible job or move on.

A cluster has two resources ("cpu" and "memory") of r slots each, seen H time steps ahead. A job
has a length in time steps and a demand in slots of each resource. The first M jobs that wait are
visible, one in each slot of the queue; up to B more stand behind them, first in, first out.

A choice places the job of one slot, or moves on. A placement is a reservation: the job takes the
earliest window of its length in the horizon in which both resources are free throughout, and its
slot is refilled from the backlog at once; no time passes. Moving on lets one time step pass, in
this order: the grid shifts, finished jobs leave, the arrivals of the step enter (lowest empty
slot, else backlog, else dropped and counted), the reward is booked. A slot is feasible where its
job has a window; moving on always is.

    slowdown     r = -sum of 1 / length over the jobs in machine, queue and backlog
    completion   r = -number of these jobs
    utilisation  r = fraction of the slots in use in the time step that passes, mean of resources

What is there at 0, before the first step, is booked with the first move on. So, every job
finished, sum of r == -sum of slowdowns, slowdown = (finish - enter) / length, in time steps.

The episode terminates when nothing will arrive and nothing is left, and is truncated after
`max_time_steps`. Outcomes are over all jobs that entered; an unfinished one counts until the end.

Context, compact (91 numbers with H = 20, M = 10):

    free_cpu_00 free_memory_00 jobs_00 | free_cpu_01 ...     H times: the time steps from now on
    cpu_0 memory_0 length_0 | cpu_1 ...                      M times: the slots of the queue
    backlog                                                  its number of jobs

Image (`observation = "image"`: beside the compact context), H rows, uint8:

    cpu: machine (r) | slots 0 .. M-1 (r each) | memory: the same | backlog (ceil(B/H)) | time (1)

A running job is a block in one of 40 greys (its number modulo 40, from 255 down to 60); a waiting
job fills its demand across and its length down with 255, the backlog one cell a job, row by row;
the time column is 255 * min(time steps since the last arrival, 10) / 10.

Candidates: the M slots in order, then the row that moves on. A row tells of its job (all zero
where the slot is empty, and where the row moves on), of what the other visible jobs are to it, and,
the same in all rows, of the cluster: what a rule must weigh to hold a long job back for short ones
that may come, or to leave room beside it, stands in one row, where a linear score can find it. With
`foresight` a row also tells what starting its job now puts off, of what waits and of what may come;
with an image, which place it is, for networks that read nothing else of it.

`compat = "deeprm"` is the published simulator: the last offset is excluded (0 .. H - length - 1);
the first element of a sequence is never delivered; the entry after a removal from the running
list is passed over and stays one more time step (which only the reward and the end feel); the end
is tested between removals and arrivals; its 100 sequences come from RandomState(42); the slowdown
is over jobs that have been placed.

Sources: Mao, Alizadeh, Menache & Kandula, "Resource Management with Deep Reinforcement Learning",
HotNets 2016; its reproduction under the same title, St. Kliment Ohridski University, 2021.

Differences from the papers:
- An infeasible choice is refused; they take it as moving on (so does `random_reference`).
- The slowdown counts all jobs that entered, with the number of unfinished and dropped ones beside
  it; they average over the finished.
- The last offset of the horizon is used, and element k of a sequence enters at time step k = 1 ...
- Grey levels are those of a byte; utilisation is that of the step that passes.
- The papers do not say how many jobs wait at once; the recipe slots-report-v1 has 47.
- Workloads of a trace: lengths are the run times, as if they were known when a job is submitted;
  slots and time steps are rounded up; memory takes no slot where it is
  unknown, and is left out of utilisation and loads where no job of a window asks for it.
"""

import math
from typing import Final

import numpy as np

from pipeline.errors import InputError
from pipeline.scenarios.slots import dynamics as k
from pipeline.scenarios.slots.instances import (
    COMPAT_EXAMPLES,
    Jobs,
    Sizes,
    SlotsConfig,
    compat_jobs,
    draw_jobs,
    sizes_of,
    trace_jobs,
)
from pipeline.scenarios.slots.observation import observe
from pipeline.simulation.scenario import Instance, Scenario, require_room
from pipeline.simulation.spec import MOST_PIXELS, Feature, Outcome, Spec
from pipeline.workloads.schema import Workload

OBJECTIVES: Final = ("slowdown", "completion", "utilisation")
DRAWN_WINDOWS: Final = 1_000_000  # window numbers of drawn sequences: any will do
_RESOURCES: Final = 2
_EMPTY_IMAGE: Final = ()

_OUTCOMES: Final = (
    Outcome("mean_slowdown", "1", "(finish - enter) / length, mean over jobs"),
    Outcome("jobs", "jobs", "jobs that entered; in compat: that were placed", "neither"),
    Outcome("slowdown_sum", "1", "sum of slowdowns: over several windows, pool it with jobs"),
    Outcome("mean_completion_s", "s", "finish - enter, mean over jobs"),
    Outcome(
        "utilisation", "fraction", "slots in use, mean over time steps and resources", "higher"
    ),
    Outcome("unfinished", "jobs", "jobs that entered and did not finish"),
    Outcome("dropped", "jobs", "jobs that found the backlog full"),
    Outcome("left_out", "jobs", "jobs of a trace's window longer than the horizon"),
    Outcome("time_steps", "steps", "time steps until the end"),
    Outcome("actions", "1", "placements and time steps", "neither"),
    Outcome("expected_load", "1", "work per step over capacity, of the setting", "neither"),
    Outcome("offered_load", "1", "work per step of arrivals over capacity, measured", "neither"),
    Outcome("report_load", "1", "fraction of the queue + fraction of the slots in use", "neither"),
)


def _context_features(config: SlotsConfig, sizes: Sizes) -> tuple[Feature, ...]:
    r, h = sizes.slots_per_resource, sizes.horizon
    features: list[Feature] = []
    for step in range(h):
        when = f"in {step} time steps"
        features += (
            Feature(f"free_cpu_{step:02}", "slots", 0, r, f"free cpu slots {when}", scale=r / 2),
            Feature(f"free_memory_{step:02}", "slots", 0, r, f"free memory slots {when}",
                    scale=r / 2),
            Feature(f"jobs_{step:02}", "jobs", 0, 2 * r, f"jobs in the machine {when}", scale=2.0),
        )  # fmt: skip
    for slot in range(config.queue):
        whose = f"of the job in slot {slot}"
        features += (
            Feature(f"cpu_{slot}", "slots", 0, r, f"cpu slots {whose}", scale=r / 2),
            Feature(f"memory_{slot}", "slots", 0, r, f"memory slots {whose}", scale=r / 2),
            Feature(
                f"length_{slot}", "steps", 0, h, f"length {whose}", heavy_tailed=True, scale=h / 4
            ),
        )
    backlog = Feature("backlog", "jobs", 0, config.backlog, "jobs behind the queue", scale=10.0)
    return (*features, backlog)


def _candidate_features(config: SlotsConfig, sizes: Sizes) -> tuple[Feature, ...]:
    r, h, m = sizes.slots_per_resource, sizes.horizon, config.queue
    foresight = (
        Feature("delays", "1", 0, np.inf, "slowdown that starting it now adds to the visible jobs",
                heavy_tailed=True),
        Feature("delays_shorter", "1", 0, np.inf, "the same, of those shorter than it",
                heavy_tailed=True),
        Feature("cpu_wait", "steps", 0, h, "until d cpu slots are free, beside it where it can "
                "start now, mean of d = r/2 .. r", scale=h / 4),
        Feature("memory_wait", "steps", 0, h, "the same of memory", scale=h / 4),
    )  # fmt: skip
    place = Feature("place", "1", 0, m, "its slot of the queue; M where it moves on",
                    identifier=True)  # fmt: skip
    return (
        Feature("length", "steps", 0, h, "length of the job", heavy_tailed=True, scale=h / 4),
        Feature("cpu", "slots", 0, r, "cpu slots that it needs", scale=r / 2),
        Feature("memory", "slots", 0, r, "memory slots that it needs", scale=r / 2),
        Feature("waited", "steps", 0, np.inf, "time since it entered", heavy_tailed=True,
                scale=10.0),
        Feature("offset", "steps", 0, h, "start of its earliest window; the horizon where none",
                scale=h / 4),
        Feature("fits_now", "flag", 0, 1, "1 where that window starts now"),
        Feature("move_on", "flag", 0, 1, "1 on the row that lets a time step pass"),
        Feature("tie", "slots", 0, 2 * r,
                "total demand, which goes first among jobs that a rule finds equal; 0 where the "
                "lowest slot does", identifier=True, scale=r / 2),
        Feature("urgency", "1/steps", 0, 1, "1 / length: slowdown that a time step adds to it"),
        Feature("shorter", "jobs", 0, m, "visible jobs shorter than it", scale=m / 2),
        Feature("crowded_out", "1/steps", 0, m,
                "urgency of the visible jobs that fit now, but not beside it"),
        Feature("quiet", "steps", 0, np.inf, "time since the last arrival", heavy_tailed=True,
                scale=10.0),
        Feature("queued", "jobs", 0, m + config.backlog, "jobs visible or behind", scale=m / 2),
        Feature("free_cpu", "slots", 0, r, "free cpu slots now", scale=r / 2),
        Feature("free_memory", "slots", 0, r, "free memory slots now", scale=r / 2),
        Feature("running", "jobs", 0, 2 * r, "jobs in the machine now", scale=2.0),
        *(foresight if config.foresight else ()),
        *((place,) if config.observation == "image" else ()),
    )  # fmt: skip


def image_shape(config: SlotsConfig) -> tuple[int, ...]:
    """Rows and columns of the image."""
    sizes = sizes_of(config)
    machine = _RESOURCES * sizes.slots_per_resource * (1 + config.queue)
    shape = (sizes.horizon, machine + -(-config.backlog // sizes.horizon) + 1)
    if math.prod(shape) > MOST_PIXELS:
        raise InputError(f"an image of {shape[0]} x {shape[1]} pixels, more than {MOST_PIXELS}")
    return shape


def spec(config: SlotsConfig, objective: str) -> Spec:
    """Names of the observation, the reward terms and the outcomes."""
    sizes = sizes_of(config)
    return Spec(
        scenario="slots",
        objective=objective,
        context=_context_features(config, sizes),
        candidates=_candidate_features(config, sizes),
        reward_terms=OBJECTIVES,
        outcomes=_OUTCOMES,
        image_shape=image_shape(config) if config.observation == "image" else _EMPTY_IMAGE,
    )


def windows(config: SlotsConfig, workload: Workload) -> int:
    """Windows of a trace, 100 in compat, any number of drawn sequences."""
    if not workload.tasks.is_empty():
        return workload.tasks.height // config.jobs_per_window
    return COMPAT_EXAMPLES if config.compat else DRAWN_WINDOWS


def _jobs(
    config: SlotsConfig, sizes: Sizes, workload: Workload, window: int, rng: np.random.Generator
) -> Jobs:
    if not 0 <= window < windows(config, workload):
        raise InputError(f"window {window}; windows are 0..{windows(config, workload) - 1}")
    traced = not workload.tasks.is_empty()
    if traced and config.arrival != "bernoulli" and not config.compat:
        return trace_jobs(config, sizes, workload, window)
    if traced or config.arrival == "trace":
        raise InputError(
            f'config.arrival is "{config.arrival}", but the recipe has '
            + ('a trace; use "trace" or "all_at_once"' if traced else "no trace")
        )
    return compat_jobs(config, sizes, window) if config.compat else draw_jobs(config, sizes, rng)


def instance(
    config: SlotsConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """The jobs of one window before an empty cluster, with those of time step 0 in the queue."""
    sizes = sizes_of(config)
    require_room(10.0 * config.steps + config.backlog + 3.0 * (config.queue + sizes.horizon))
    if config.compat:
        require_room(1e5 * config.steps)  # which draws all its examples at once
    return lay_out(config, sizes, objective, _jobs(config, sizes, workload, window, rng))


def lay_out(config: SlotsConfig, sizes: Sizes, objective: str, jobs: Jobs) -> Instance:
    """The memory of an episode with these jobs."""
    n, queue, backlog = len(jobs.length), config.queue, config.backlog
    grid = k.COLUMNS * sizes.horizon
    ints = np.zeros(k.INT_HEADER + 7 * n + backlog + 3 * queue, np.int64)
    floats = np.zeros(k.GRID + grid + n)
    at = k.INT_HEADER
    for block, length, values in (
        (k.ARRIVE_AT, n, jobs.arrive),
        (k.LENGTH_AT, n, jobs.length),
        (k.CPU_AT, n, jobs.cpu),
        (k.MEMORY_AT, n, jobs.memory),
        (k.ENTER_AT, n, -1),
        (k.FINISH_AT, n, -1),
        (k.RUNNING_AT, n, 0),
        (k.RING_AT, backlog, 0),
        (k.JOB_AT, queue, -1),
        (k.OFFSET_AT, queue, -1),
        (k.SHOWN_AT, queue, -1),
    ):
        ints[block] = at
        ints[at : at + length] = values
        at += length
    ints[k.INVERSE_AT] = k.GRID + grid
    floats[k.GRID : k.GRID + grid] = np.tile(
        [float(sizes.slots_per_resource), float(sizes.slots_per_resource), 0.0], sizes.horizon
    )
    floats[k.GRID + grid :] = 1.0 / jobs.length
    ints[k.JOBS], ints[k.QUEUE], ints[k.BACKLOG] = n, queue, backlog
    ints[k.HORIZON], ints[k.SLOTS] = sizes.horizon, sizes.slots_per_resource
    ints[k.COMPAT] = config.compat == "deeprm"
    ints[k.OBJECTIVE] = OBJECTIVES.index(objective)
    ints[k.LAST_STEP], ints[k.MAX_STEPS] = jobs.last_step, config.max_time_steps
    ints[k.PLACED] = -1
    ints[k.LEFT_OUT] = jobs.left_out
    ints[k.TIES] = config.ties == "demand" and not config.compat
    ints[k.FORESIGHT] = config.foresight
    asked = int(jobs.cpu.any()) + int(jobs.memory.any())
    floats[k.CAPACITY] = sizes.slots_per_resource * max(asked, 1)
    work = int((jobs.length * (jobs.cpu + jobs.memory)).sum())
    floats[k.OFFERED_LOAD] = work / floats[k.CAPACITY] / jobs.span
    floats[k.EXPECTED_LOAD] = jobs.expected_load
    floats[k.STEP_S] = config.step_s

    k.arrive(ints, floats)
    floats[k.CARRIED_RATE] = floats[k.OPEN_RATE]
    floats[k.CARRIED_JOBS] = k.in_system(ints)
    return Instance(ints, floats, capacity=queue + 1)


SCENARIO: Final = Scenario(
    name="slots",
    config=SlotsConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=k.step,
    outcome=k.outcome,
    about=__doc__,
)
