"""`queue`: batch scheduling of parallel jobs on one machine, with reservation and backfilling.

A machine has identical processors without a topology. A job has a time of submission, a number of
processors n, a run time, a requested time r and a user. It holds n processors from its start for
its run time, is not preempted, and (without `kill`) not ended when its requested time is over.
Times are whole seconds since the submission of the window's first job.

The order of events at time t: every release of an end <= t, every arrival of a submission <= t in
file order, decisions; then time jumps to the next release or arrival. A job fits if n processors
are free. The free processors are below 0 at first where the log exceeds its machine.

The candidates are the waiting jobs in order of arrival, the `visible` oldest ones, and with
`allow_wait` a last row that waits for the next event. A moment has two phases:

    open     every job is feasible; one that fits starts, and one that does not fit becomes the
             head: it gets the reservation, and the phase closes
    closed   feasible are the jobs that are safe beside the reservation; they start

The reservation of the head: running jobs in order of their estimated ends, max(start + r, t); the
shadow is the first of these ends at which the head fits, and the processors that are free then,
less those of the head, are spare. A job is safe if it fits and either t + r <= shadow, or n <=
spare; in the second case it uses up spare processors. No decision is asked where no visible job can
start. When time passes, the head is forgotten. So the greedy choice by any score of a row is that
priority with EASY backfilling. With `reserve = false` jobs that do not fit are infeasible: list
scheduling.

A window has `jobs` counted jobs and `follow` more, which arrive and are scheduled as well, but are
not counted: jobs that a policy starves keep waiting behind later arrivals. A warm window
begins with what ran and waited in the log when its first job was submitted; what waited is counted,
from the start of the window. The episode ends when all J counted jobs have started. With q the
later of submission and start of the window, w = start - q and p the run time:

    bounded_slowdown   r = -1 / J times the growth of max(1, (w + p) / max(p, 10)) of the waiting
                       counted jobs, and -1 / J at the start of each of them
    wait               r = -seconds * waiting counted jobs / J / 3600

The sum of r is -mean_bounded_slowdown, or the mean wait in hours times -1.

Time before the first decision is paid with the first step. Rewards use run times; observations do
not: their predictions come from jobs that ended in the simulation, and from the log before the
window. Observations show neither the time since the window began nor whether a job
counts. The column `submitted`, from which some rules are computed, is an identifier.

With `resources`, jobs ask for GPUs and memory too (hindcast.pipeline.scenarios.queue.asks). A job
then fits if all that it asks for is free. The shadow is the first moment at which everything
suffices for the head, and others must leave what it needs of every resource. With `pools`, the jobs
of some partitions have a machine of their own (hindcast.pipeline.scenarios.queue.several).

`whole = true` makes one episode of all jobs from the window's first one to the end of the log.
hindcast.pipeline.scenarios.queue.schedule reads the starts of all jobs from the memory of an
episode.
"""

import math
import sys
from dataclasses import replace
from typing import Final

import numpy as np

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue import dynamics as kernel
from hindcast.pipeline.scenarios.queue.config import QueueConfig, check_config
from hindcast.pipeline.scenarios.queue.drawn.futures import Sampler
from hindcast.pipeline.scenarios.queue.features import OBJECTIVES, RUN_TIMES, spec
from hindcast.pipeline.scenarios.queue.forgetting import forget
from hindcast.pipeline.scenarios.queue.initial_state import lay_out
from hindcast.pipeline.scenarios.queue.instances import (
    first_job,
    read_log,
    select_jobs,
    with_too_wide,
)
from hindcast.pipeline.scenarios.queue.machines import machine_of
from hindcast.pipeline.scenarios.queue.observation import observe
from hindcast.pipeline.scenarios.queue.picture import picture
from hindcast.pipeline.scenarios.queue.schedule import by_week
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.schema import Workload


def windows(config: QueueConfig, workload: Workload) -> int:
    """Return the number of windows: that of `starts`, else of whole windows side by side."""
    if config.starts:
        return len(config.starts)
    return len(read_log(workload, config.arrive, machine_of(config)).submit) // config.jobs


def stretch(config: QueueConfig, window: int) -> tuple[int, int]:
    """Return the first counted job of a window and the one after its last."""
    first = first_job(config, window)
    return first, sys.maxsize if config.whole else first + config.jobs


def load(config: QueueConfig, workload: Workload, window: int) -> float:
    """Return the offered load of a window, by processors; NaN if its jobs came within 0 s.

    Jobs come at their submission, or at their eligibility where the configuration says so.
    """
    log = read_log(workload, config.arrive, machine_of(config))
    jobs = slice(*stretch(config, window))
    submit, work = log.submit[jobs], log.cpu[jobs] * log.run[jobs]
    span = int(submit[-1] - submit[0])
    return float(work.sum()) / (log.processors * span) if span else math.nan


def instance(
    config: QueueConfig,
    objective: str,
    workload: Workload,
    window: int,
    rng: np.random.Generator,
) -> Instance:
    """Return the jobs of one window and the state in which it begins. Draws nothing."""
    check_config(config)
    log = read_log(workload, config.arrive, machine_of(config))
    if not 0 <= window < windows(config, workload):
        raise InputError(
            f"window {window} does not exist; windows are 0..{windows(config, workload) - 1}"
        )
    jobs = select_jobs(config, log, window)
    log = with_too_wide(log, jobs)
    made = lay_out(config, objective, log, jobs)
    return replace(made, futures=Sampler(log, jobs, config.kill))


def caveats(config: QueueConfig, workload: Workload) -> tuple[Caveat, ...]:
    """Return what a log does not tell of several resources, and whom the machine leaves out."""
    several = read_log(workload, config.arrive, machine_of(config)).several
    return () if several is None else several.caveats


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
    picture=picture,
    stretch=stretch,
    load=load,
    blocks=by_week,
    forget=forget,
    caveats=caveats,
    samples=True,
    added={column.name: "run_times" for column in RUN_TIMES},
    references=("aged_expected_easy",),
    bound="bounded_slowdown_lower_bound",
    bound_kind="lower",
    source=(
        'Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; Mu\'alem & Feitelson, '
        '"Utilization, predictability, workloads, and user runtime estimates in scheduling the IBM '
        'SP2 with backfilling", TPDS 2001; logs and models of the Parallel Workloads Archive '
        '(Feitelson, Tsafrir & Krakov, "Experience with using the Parallel Workloads Archive", '
        "JPDC 2014)."
    ),
    differences=(
        (
            "Reservation and backfilling follow EASY, but the job with the reservation is the "
            "policy's choice and not the oldest one, and it is chosen again at every event."
        ),
        (
            "A job that has run longer than it requested counts as ending now, so that others can "
            "only use spare processors. It is not killed, unless config.kill is true."
        ),
        "Waits count from the start of the window: those before it no policy can change.",
        (
            "Jobs go on to arrive after the counted ones, where the literature lets the queue "
            "drain (config.follow = 0)."
        ),
        (
            "The logs' schedulers refused jobs for reasons that no log shows (queues, limits, "
            "holds), so the simulated machine is not the one of the log."
        ),
    ),
)
