"""Instances of RLScheduler's simulator: consecutive jobs of a log, on an empty machine."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.papers.rlscheduler.scenario import layout as m
from hindcast.flows.papers.rlscheduler.scenario.features import ROOM
from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.simulation.scenario import make_memory
from hindcast.pipeline.workloads.schema import Workload


@dataclass(frozen=True)
class Log:
    """The L jobs of a log in order of their numbers, as RLScheduler's program reads it.

    Attributes:
        processors: Processors of the machine.
        submit: Submission in s on the clock of the log, (L,).
        cpu: Processors of each job, (L,).
        run: Run time in s, at least 1, (L,).
        requested: Requested time in s; -1 if unknown, (L,).
        features: Published features that do not change: requested time, processors, memory, user,
            group, executable, (L, 6).
    """

    processors: int
    submit: NDArray[np.int64]
    cpu: NDArray[np.int64]
    run: NDArray[np.int64]
    requested: NDArray[np.int64]
    features: NDArray[np.float64]


_read: list[tuple[pl.DataFrame, str, Log]] = []  # the log that was read last


def read_log(workload: Workload, trace_name: str) -> Log:
    """Return a log of a workload of format "rlscheduler". The last one is kept.

    Raises InputError if the workload has another format, or has no log of that name.
    """
    for tasks, name, log in _read:
        if tasks is workload.tasks and name == trace_name:
            return log
    log = _log_of(workload, trace_name)
    _read[:] = [(workload.tasks, trace_name, log)]
    return log


def _log_of(workload: Workload, trace_name: str) -> Log:
    machines = workload.machines
    if machines is None or "number" not in workload.tasks.columns:
        raise InputError(
            "scenario rlscheduler needs the jobs as its program reads them; expected [trace] "
            'format = "rlscheduler"'
        )
    names = machines["machine_id"].to_list()
    if trace_name not in names:
        raise InputError(
            f"config.trace_name is {trace_name!r}, but the workload has no such log; "
            f"{did_you_mean(trace_name, names)}"
        )
    jobs = workload.tasks.filter(pl.col("log") == trace_name).sort("number")
    processors = int(machines.filter(pl.col("machine_id") == trace_name)["cores"][0])
    columns = ("submit_s", "cores", "duration_s", "requested_s")
    submit, cpu, run, requested = (jobs[c].to_numpy().astype(np.int64) for c in columns)
    if (cpu < 1).any() or (cpu > processors).any() or (run < 1).any():
        raise InputError(f"log {trace_name}: a job does not fit its machine, or has no run time")
    features = [requested / run.max(), cpu / processors]
    for name in ("requested_memory_kb", "user", "group", "executable"):
        values = jobs[name].to_numpy()
        features.append(np.where(values == -1.0, 2.0, values / max(float(values.max()), 1.0)))
    unknown = np.stack(features) == 2.0
    shown = np.where(unknown, 1.0, np.minimum(np.stack(features), 1.0 - ROOM))
    return Log(processors, submit, cpu, run, requested, shown.T.copy())


def lay_out(
    log: Log, start: int, jobs: int, *, backfill: bool, published: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the memory of an episode: the machine is empty, and the first job waits.

    Args:
        log: The log.
        start: Number of the first job.
        jobs: Number of consecutive jobs, N.
        backfill: Whether jobs may start before the committed one.
        published: Whether observations have the 128 published rows.
    """
    if start + jobs > len(log.submit):
        raise InputError(
            f"config.starts: a window at job {start:,} has {jobs:,} jobs, but the log has "
            f"{len(log.submit):,}"
        )
    of = slice(start, start + jobs)
    blocks = (
        (m.SUBMIT_AT, jobs, log.submit[of]),
        (m.CPU_AT, jobs, log.cpu[of]),
        (m.RUN_AT, jobs, log.run[of]),
        (m.REQUESTED_AT, jobs, log.requested[of]),
        (m.START_AT, jobs, m.NOT_STARTED),
        (m.WAITING_AT, jobs, 0),
        (m.BY_END_AT, jobs, 0),
        (m.BY_REQUEST_AT, jobs, 0),
        (m.SHOWN_AT, m.ROWS_SHOWN, 0),
    )
    ints, floats = make_memory(m.INT_HEADER, blocks, m.FLOAT_HEADER + m.FIXED * jobs)
    floats[m.FLOAT_HEADER :] = log.features[of].reshape(-1)
    ints[m.JOBS], ints[m.PROCESSORS], ints[m.FREE] = jobs, log.processors, log.processors
    ints[m.NOW] = ints[m.LAST_START] = ints[m.LAST_END] = log.submit[start]
    ints[m.NEXT] = ints[m.WAITING] = 1  # job 0 is in the list, whose first entry is 0
    ints[m.BACKFILL], ints[m.PUBLISHED] = backfill, published
    return ints, floats
