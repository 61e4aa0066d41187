"""Decisions at the submission: each job chooses its start among the slots of its wait.

Candidates are the starts in time order, from the first slot after the submission to the latest one;
feasible are those where the cores are expected to be free beside what was promised, by the lengths
as known and the capacity of the day before. If none is, the only candidate is the first slot after
the latest one where they are, and the job is late. The choice is final, and its reward is paid at
once. Jobs of one slot decide in the order of the log.

A job that truly does not fit at its start, since it or a promised one runs for longer than known or
the capacity is another one, starts as soon as it does.

The block of freed cores holds the cores of every slot that are truly taken, the list of running
jobs those whose end has not come, and that of future jobs the chosen start of each job. The current
slot is that of the job that decides, and the number of started jobs says which one it is.
"""

import numpy as np

from hindcast.pipeline.grids.starts import between, fits
from hindcast.pipeline.scenarios.deferrable import dynamics as base
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.features import ROW as BASE_ROW
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.books import (
    at_block,
    book,
    capacity_ahead,
    crowd,
    foresee,
    priced,
    promised,
    slots_known,
    write_moment,
)
from hindcast.pipeline.scenarios.deferrable.grid.features import MOMENT, ROW
from hindcast.pipeline.scenarios.deferrable.grid.reserved import settle
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import Floats, Ints, Mask, Rows, compiled


@compiled()
def _job(ints: Ints) -> int:
    """Return the job that decides, and make its slot the current one."""
    job = int(ints[ints[m.BY_SUBMISSION_AT] + ints[m.STARTED]])
    ints[m.SLOT] = ints[ints[m.EARLIEST_AT] + job]
    return job


@compiled()
def _first_start(ints: Ints, free: Floats, job: int, slots: int) -> int:
    """Return the start of the first candidate: the current slot, or a late one if no other fits.

    `free` are the cores of each slot from the current one on that are expected to be free.
    """
    cores, last = ints[ints[m.CORES_AT] + job], ints[ints[m.LATEST_AT] + job] - ints[m.SLOT]
    for later in range(last + 1):
        if fits(free, later, later + slots, cores):
            return int(ints[m.SLOT])
    late = last + 1
    while not fits(free, late, late + slots, cores):
        late += 1
    return int(ints[m.SLOT] + late)


@compiled()
def observe_job(
    ints: Ints, floats: Floats, context: Floats, candidates: Rows, feasible: Mask
) -> int:
    """Write the starts of the job that decides; no rows when all have."""
    context[:] = 0.0
    if ints[m.STARTED] == ints[m.JOBS]:
        return 0
    job = _job(ints)
    foresee(ints, floats)
    write_moment(ints, floats, context)
    slot, latest = ints[m.SLOT], ints[ints[m.LATEST_AT] + job]
    cores, running = ints[ints[m.CORES_AT] + job], ints[ints[m.FREED_AT] + slot]
    context[MOMENT.capacity] = ints[ints[m.CAPACITY_AT] + slot]
    context[MOMENT.running_cores] = running
    context[MOMENT.free_cores] = context[MOMENT.capacity] - running
    context[MOMENT.startable] = 1.0
    context[MOMENT.slots_left] = ints[m.HORIZON] - slot
    load, slots = promised(ints, floats), slots_known(ints, floats, job)
    free = capacity_ahead(ints, floats) - load
    first = _first_start(ints, free, job, slots)
    rows = int(latest - slot + 1) if first == slot else 1
    slot_h, known = floats[f.SLOT_H], floats[at_block(ints, floats, f.KNOWN) + job]
    submitted = floats[at_block(ints, floats, f.SUBMITTED) + job]
    at, ahead = at_block(ints, floats, f.SEEN), int(floats[f.LOOKED_AHEAD])
    seen, paid = floats[at : at + ahead], floats[at + ahead : at + 2 * ahead + 1]
    begin = slot * slot_h - int(slot * slot_h)
    least, load_least = np.inf, np.inf
    with_load = candidates.shape[1] > ROW.priced_now
    if with_load:
        crowd(ints, floats)
    for row in range(rows):
        start = first + row
        for column in range(candidates.shape[1]):
            candidates[row, column] = 0.0
        after = min(begin + (start - slot) * slot_h, ahead - known - 1.0)
        cost = between(paid, seen, after, after + known) / max(known, 1e-9)
        least = min(least, cost)
        candidates[row, BASE_ROW.cores] = cores
        candidates[row, BASE_ROW.duration] = slots
        candidates[row, BASE_ROW.until_earliest] = start - slot
        candidates[row, BASE_ROW.until_latest] = latest - start
        candidates[row, BASE_ROW.remaining] = slots
        candidates[row, BASE_ROW.is_startable] = 1.0
        candidates[row, BASE_ROW.job] = job
        candidates[row, ROW.wait_h] = start * slot_h - submitted
        candidates[row, ROW.left_h] = (latest - start) * slot_h
        candidates[row, ROW.run_h] = known
        candidates[row, ROW.cost_now] = cost
        if with_load:
            cost += priced(ints, floats, start - slot, slots) / max(known, 1e-9)
            candidates[row, ROW.priced_now] = cost
            load_least = min(load_least, cost)
        if floats[f.RESERVED] > 0.0 and start < ints[m.HORIZON]:
            unused = floats[f.RESERVED] - load[start - slot]
            candidates[row, ROW.on_reserved] = cores <= unused
        feasible[row] = fits(free, start - slot, start - slot + slots, cores)
    for row in range(rows):
        cheaper, lower = 0, 0
        hour = seen[int(begin + row * slot_h)]
        for other in range(rows):
            cheaper += candidates[other, ROW.cost_now] < candidates[row, ROW.cost_now]
            lower += seen[int(begin + other * slot_h)] < hour
        candidates[row, ROW.cost_least] = least
        if with_load:
            candidates[row, ROW.priced_least] = load_least
        candidates[row, ROW.cost_rank] = cheaper / rows
        candidates[row, ROW.hour_rank] = lower / rows
    return rows


@compiled()
def commit(ints: Ints, floats: Floats, choice: int) -> int:
    """Promise the start in row `choice` to the job that decides; return the status."""
    if ints[m.STARTED] == ints[m.JOBS]:
        return k.INFEASIBLE
    job = _job(ints)
    slot, latest = ints[m.SLOT], ints[ints[m.LATEST_AT] + job]
    duration, cores = ints[ints[m.DURATION_AT] + job], ints[ints[m.CORES_AT] + job]
    free, known = (
        capacity_ahead(ints, floats) - promised(ints, floats),
        slots_known(ints, floats, job),
    )
    first = _first_start(ints, free, job, known)
    rows, later = latest - slot + 1 if first == slot else 1, int(first + choice) - slot
    if not 0 <= choice < rows or not fits(free, later, later + known, cores):
        return k.INFEASIBLE
    ends, at = ints[m.HORIZON] - slot, ints[m.CAPACITY_AT] + slot
    taken = ints[ints[m.FREED_AT] + slot : ints[m.FREED_AT] + ints[m.HORIZON]]
    truly_free = (ints[at : at + ends] - taken).astype(np.float64)
    while not fits(truly_free, later, later + duration, cores):
        later += 1
    start = slot + later
    book(ints, floats, job, start)
    for at in range(start, start + duration):
        ints[ints[m.FREED_AT] + at] += cores
        if at < ints[m.HORIZON]:
            floats[f.PEAK] = max(floats[f.PEAK], float(ints[ints[m.FREED_AT] + at]))
    ints[ints[m.FUTURE_AT] + job] = first + choice
    ints[ints[m.START_AT] + job] = start
    ints[m.STARTED] += 1
    ints[ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]] = job
    ints[m.RUNNING_JOBS] += 1
    if ints[m.STARTED] < ints[m.JOBS]:
        _job(ints)
        status = k.RUNNING
    else:
        ints[m.SLOT] = ints[m.HORIZON]
        status = k.TERMINATED
    if floats[f.RESERVED] > 0.0:
        settle(ints, floats, ints[m.SLOT] + (status == k.TERMINATED))
    base.end_jobs(ints)
    floats[k.TIME] = ints[m.SLOT] * floats[m.SLOT_S]
    return status
