"""Schedules of windows of scenario `queue`."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.asks import PROCESSORS, units_of
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.instances import (
    Jobs,
    Log,
    read_log,
    select_jobs,
    tasks_of,
    with_too_wide,
)
from hindcast.pipeline.scenarios.queue.machines import Machine, machine_of
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.schedules.playback import Ints, Played
from hindcast.pipeline.whatif.resources.amounts import Resources, amounts_of
from hindcast.pipeline.workloads.log_names import names_of
from hindcast.pipeline.workloads.schema import Workload

LABELS: Final = ("user", "queue", "partition", "account")


def labels_of(workload: Workload, tasks: pl.DataFrame) -> pl.DataFrame:
    """Return name, user, queue, partition and account of tasks as strings, null where unknown.

    Numbers have the names that the reader of the log kept. A negative number is unknown.
    """
    columns = [tasks["job_id"].alias("name")]
    for label in LABELS:
        if label not in tasks.columns:
            columns.append(pl.Series(label, [None] * tasks.height, pl.String()))
            continue
        values = tasks[label]
        if values.dtype.is_numeric():
            number = values.cast(pl.Float64).fill_nan(None).cast(pl.Int64)
            known = number.to_frame().select(pl.when(pl.col(label) >= 0).then(label))[label]
            values = known.cast(pl.String)
            if names := names_of(workload, label):
                values = values.replace({str(n): name for n, name in names.items()})
        columns.append(values.cast(pl.String))
    return pl.DataFrame(columns)


def window_of(played: Played) -> tuple[Log, Jobs, Machine]:
    """Return the log of a played window, which of its jobs are played, and the machine."""
    config: QueueConfig = played.job.recipe.config
    machine = machine_of(config)
    log = read_log(played.job.workload, config.arrive, machine)
    jobs = select_jobs(config, log, played.window)
    return with_too_wide(log, jobs), jobs, machine


def chosen_of(jobs: Jobs) -> Ints:
    """Return the jobs of a log in the order of an episode, (N,)."""
    return np.concatenate([jobs.running, jobs.carried, jobs.counted, jobs.follow]).astype(int)


def queue_schedule(played: Played) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the jobs of a window of `queue`, and the facts of a Schedule."""
    log, jobs, machine = window_of(played)
    workload, row = played.job.workload, log.row[chosen_of(jobs)]
    tasks = tasks_of(workload, machine)[row]
    of, ints = read_schedule(played.ints), played.ints
    started = of.start != m.NEVER
    submit = np.ceil(tasks["submit_s"].to_numpy())
    frame = pl.DataFrame({
        "job": row,
        "submit_s": np.minimum(submit, of.submit + jobs.now),
        "eligible_s": of.submit + jobs.now,
        "start_s": of.start + jobs.now,
        "end_s": of.start + of.run + jobs.now,
        "processors": of.processors,
        "requested_s": of.requested,
        "counted": of.counted,
        "wait_s": of.waits.astype(np.float64),
        "bounded_slowdown": of.bounded_slowdowns,
    })  # fmt: skip
    frame = blank_unstarted(frame, started, of.counted).hstack(labels_of(workload, tasks))
    facts: dict[str, Any] = {
        "capacity": {PROCESSORS: int(ints[m.PROCESSORS])},
        "unit": PROCESSORS,
        "from_s": float(jobs.now),
        "to_s": float(jobs.now + ints[m.NOW]),
    }
    if not machine.is_several:
        return frame, facts
    n, resources, pools = len(row), int(ints[m.RESOURCES]), int(ints[m.POOLS])
    asks = ints[ints[m.ASK_AT] :][: n * (resources + 1)].reshape(n, resources + 1)
    placed = np.maximum(ints[ints[m.PLACED_AT] :][:n], 0)
    capacity = ints[ints[m.CAPACITY_AT] :][: pools * resources].reshape(pools, resources)
    units = units_of(workload.tasks, machine.names)
    return with_resources(
        frame, facts, Resources(machine.names, capacity.sum(axis=0), units),
        amounts_of(asks, placed), capacity, ints[ints[m.POOL_AT] :][:n],
    )  # fmt: skip


def blank_unstarted(
    frame: pl.DataFrame, started: NDArray[np.bool_], counts: NDArray[np.bool_]
) -> pl.DataFrame:
    """Return jobs without times of those that did not start, nor waits of those not counted."""
    never, uncounted = pl.lit(pl.Series(~started)), pl.lit(pl.Series(~(started & counts)))
    return frame.with_columns(
        *(pl.when(~never).then(name).alias(name) for name in ("start_s", "end_s")),
        *(pl.when(~uncounted).then(name).alias(name) for name in ("wait_s", "bounded_slowdown")),
    )


def with_resources(
    frame: pl.DataFrame, facts: Mapping[str, Any], resources: Resources, amounts: Ints,
    capacity: Ints, pool: Ints,
) -> tuple[pl.DataFrame, dict[str, Any]]:  # fmt: skip
    """Return jobs and facts with further resources, amounts (N, K), and pools, (M, K)."""
    names = resources.names
    more = {name: amounts[:, k] for k, name in enumerate(names) if k > 0}
    found = {
        **facts,
        "capacity": dict(zip(names, map(int, resources.capacity), strict=True)),
        "per_unit": dict(zip(names, map(int, resources.units), strict=True)),
    }
    if len(capacity) > 1:
        more["machine"] = pool[:, None].tolist()
        found["machine"] = "pool"
        found["machines"] = {n: capacity[:, k].tolist() for k, n in enumerate(names)}
    return frame.with_columns(**{n: pl.Series(values) for n, values in more.items()}), found
