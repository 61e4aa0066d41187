"""Schedules of the run of a log on one or more machines, see hindcast.pipeline.whatif.run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.asks import PROCESSORS
from hindcast.pipeline.scenarios.queue.instances import tasks_of
from hindcast.pipeline.schedules.of_queue import blank_unstarted, labels_of, with_resources
from hindcast.pipeline.schedules.playback import Ints
from hindcast.pipeline.schedules.schedule import Schedule, make_schedule
from hindcast.pipeline.schedules.windows import whole_facts
from hindcast.pipeline.storage.files import sha256_text
from hindcast.pipeline.whatif.outcomes import counted
from hindcast.pipeline.whatif.resources.amounts import Resources, amounts_of
from hindcast.pipeline.whatif.run import Run, joined
from hindcast.pipeline.workloads.schema import Workload


def log_source(workload: Workload) -> dict[str, str]:
    """Return the name of the file of a log, and the digest of its content; of several, of all."""
    files = workload.provenance.files
    digests = [file.sha256 for file in files]
    digest = digests[0] if len(digests) == 1 else sha256_text("\n".join(digests))
    return {"log": files[0].name if files else workload.provenance.format, "digest": digest}


def run_schedule(
    workload: Workload, row: Ints, runs: Sequence[Run], starts: Sequence[Ints],
    kinds: Sequence[Ints], policy: str,
) -> Schedule:  # fmt: skip
    """Return the schedule of a run.

    The wait of a job is that of the user, since its submission or the beginning of the run.

    Args:
        workload: The log.
        row: Place of every job of the record among the usable tasks, (R,). A job behind them, too
            wide for its pool, has a number below 0.
        runs: One for each machine.
        starts: Start of each job of a run, (N,) each; layout.NEVER if it has none.
        kinds: Placements, (N,) each.
        policy: Name of the policy.
    """
    frame, facts = _jobs(workload, row, runs, starts, kinds)
    known = {"policy": policy, "scenario": "queue", "source": log_source(workload),
             "window": None, "seed": None}  # fmt: skip
    return make_schedule(frame, whole_facts({**known, **facts}, workload))


def _jobs(
    workload: Workload, row: Ints, runs: Sequence[Run], starts: Sequence[Ints],
    kinds: Sequence[Ints],
) -> tuple[pl.DataFrame, dict[str, Any]]:  # fmt: skip
    """Return the jobs of a run, and the facts of a Schedule."""
    run, place = joined(runs)
    start, kind = np.concatenate(starts)[place], np.concatenate(kinds)[place]
    waits, slowdowns = np.zeros((2, len(run.row)))
    of = counted(run, start)
    waits[of.job], slowdowns[of.job] = of.wait, of.slowdown
    number = np.append(row, -1)[np.minimum(run.row, len(row))]
    known = number >= 0
    number[~known] = -1 - np.arange(np.count_nonzero(~known))
    frame = pl.DataFrame({
        "job": number,
        "submit_s": run.submit,
        "eligible_s": run.arrive,
        "start_s": start,
        "end_s": start + run.run,
        "processors": run.cpu,
        "requested_s": run.requested,
        "counted": run.counted,
        "wait_s": waits,
        "bounded_slowdown": slowdowns,
    })  # fmt: skip
    frame = blank_unstarted(frame, start != m.NEVER, run.counted)
    tasks = tasks_of(workload, None)
    labels = labels_of(workload, tasks[np.maximum(number, 0)])
    frame = frame.hstack(labels.with_columns(
        pl.when(pl.lit(pl.Series(known))).then(pl.all()).name.keep()
    ))  # fmt: skip
    stopped = start[run.counted & (start != m.NEVER)]
    facts: dict[str, Any] = {
        "capacity": {PROCESSORS: run.processors},
        "unit": PROCESSORS,
        "from_s": float(run.now),
        "to_s": float(stopped.max(initial=run.now)),
    }
    if run.resources is None and len(runs) == 1:
        return frame, facts
    pool = np.repeat(np.arange(len(runs)), [len(one.row) for one in runs])[place]
    resources = run.resources or Resources(
        (PROCESSORS,), np.array([run.processors]), np.ones(1, np.int64)
    )
    capacity = np.array([
        [one.processors] if one.resources is None else one.resources.capacity for one in runs
    ])  # fmt: skip
    amounts = run.cpu[:, None] if run.resources is None else amounts_of(run.asks, kind)
    return with_resources(frame, facts, resources, amounts, capacity, pool)
