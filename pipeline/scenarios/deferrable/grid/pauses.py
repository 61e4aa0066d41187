"""Work that may pause: a chosen job runs for one slot, and can be chosen again in the next.

A job is due at its latest start plus its length as known, in slots, or later if it runs for longer
than known. It runs by force in a slot without which it would miss this end. A started job that is
not chosen pauses, which adds `resume_h` hours of work to it. In the last slot of all, jobs run to
their ends.

All jobs have a duration of one slot for `deferrable`, which ends them; those with work left become
startable again. The latest start moves on with the work.
"""

import numpy as np

from hindcast.pipeline.scenarios.deferrable import dynamics as base
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.books import (
    at_block,
    charge,
    in_slots,
    slots_known,
)
from hindcast.pipeline.scenarios.deferrable.layout import U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled

_NOTHING_H = 1e-9  # hours of work that are none


@compiled()
def ran_last(ints: Ints, job: int) -> bool:
    """Return whether a job ran in the last slot."""
    start = ints[ints[m.START_AT] + job]
    return bool(0 <= start == ints[m.SLOT] - 1)


@compiled()
def _work(ints: Ints, floats: Floats, job: int, hours: float) -> None:
    """Take hours from the work of a job, so that its latest start moves."""
    due = ints[ints[m.LATEST_AT] + job] + slots_known(ints, floats, job)
    for block in (f.RUN, f.KNOWN):
        floats[at_block(ints, floats, block) + job] -= hours
    floats[at_block(ints, floats, f.SUBMITTED) + job] += hours
    ints[ints[m.LATEST_AT] + job] = due - slots_known(ints, floats, job)


@compiled()
def latest_run(ints: Ints, floats: Floats, job: int) -> int:
    """Return the last slot from which a job that does not run in it can still meet its end."""
    latest = int(ints[ints[m.LATEST_AT] + job])
    if ran_last(ints, job) and floats[f.RESUME_H] > 0.0:
        known = floats[at_block(ints, floats, f.KNOWN) + job] + floats[f.RESUME_H]
        latest += slots_known(ints, floats, job) - in_slots(floats, known)
    return latest


@compiled()
def run_slot(ints: Ints, floats: Floats, place: int) -> None:
    """Run a startable job for this slot, or to its end in the last slot of all."""
    job, slot, slot_h = ints[ints[m.STARTABLE_AT] + place], ints[m.SLOT], floats[f.SLOT_H]
    left = floats[at_block(ints, floats, f.RUN) + job]
    submitted = at_block(ints, floats, f.SUBMITTED) + job
    hours = left if slot == ints[m.HORIZON] - 1 else min(left, slot_h)
    before = ints[ints[m.START_AT] + job]
    since = (before + 1) * slot_h if before >= 0 else floats[submitted]
    charge(ints, floats, job, slot, hours, slot * slot_h - since)
    _work(ints, floats, job, hours)
    if left - hours <= _NOTHING_H:
        due = ints[ints[m.LATEST_AT] + job] + slots_known(ints, floats, job)
        length = floats[at_block(ints, floats, f.LENGTH) + job]
        known = length + floats[at_block(ints, floats, f.KNOWN) + job]
        due += max(in_slots(floats, length) - in_slots(floats, known), 0)
        floats[submitted] -= hours  # its last start less this is its wait
        floats[f.LATE] += slot + np.ceil(hours / slot_h - 1e-9) > due
    base.start_job(ints, U(place))


@compiled()
def close(ints: Ints, floats: Floats) -> int:
    """End the slot; started jobs that did not run pause, and those with work left can run again."""
    for place in range(ints[m.STARTABLE_JOBS]):
        job = ints[ints[m.STARTABLE_AT] + place]
        if ran_last(ints, job):
            floats[f.SUSPENSIONS] += 1.0
            floats[f.WAIT_H] += floats[f.RESUME_H]
            floats[f.CORE_WAIT_H] += floats[f.RESUME_H] * ints[ints[m.CORES_AT] + job]
            _work(ints, floats, job, -floats[f.RESUME_H])
    ran = ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]].copy()
    status = int(base.close_slot(ints, floats))
    if status == k.RUNNING:
        at, run = ints[m.STARTABLE_AT], at_block(ints, floats, f.RUN)
        for job in ran[floats[run + ran] > _NOTHING_H]:
            ints[at + ints[m.STARTABLE_JOBS]] = job
            ints[m.STARTABLE_JOBS] += 1
            ints[m.STARTABLE_CORES] += ints[ints[m.CORES_AT] + job]
            ints[m.STARTABLE_SLOTS] += 1
        ints[at : at + ints[m.STARTABLE_JOBS]].sort()
    return status
