"""Compiled transition on a grid, around that of `deferrable`.

A job that may pause needs `resume_h` hours more if it ran in the last slot and is not chosen again.
It is due at its latest start plus its length as known, in slots, or later if it runs for longer.

Where jobs choose their starts, carbon, electricity and waiting are booked with the decision, and
anew should the job start in another slot; the bill of reserved cores and lateness when it starts.

Reserved cores are paid for all slots of the episode, used or not. A job that starts takes reserved
cores if all of its cores are free there, and cores on demand else; it never moves. Work that may
pause is allotted slot by slot. A reserved core is free in the slot in which a job ends.

Source of the bill: Hanafy et al., ASPLOS 2024, whose simulator frees a core a tick of 5 s later.
"""

import numpy as np

from hindcast.pipeline.grids.starts import fits
from hindcast.pipeline.scenarios.deferrable import dynamics as base
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.features import OUT, TERM
from hindcast.pipeline.scenarios.deferrable.grid.observation import (
    capacity_ahead,
    decides,
    first_start,
    free_reserved,
    in_slots,
    promised,
    ran_last,
)
from hindcast.pipeline.scenarios.deferrable.layout import U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import OUTCOME, STEP, Floats, Ints, compiled


@compiled()
def _integral(floats: Floats, at: int, begin: float, end: float) -> float:
    """Return the integral of the hours at `at` from `begin` to `end`."""
    total = 0.0
    for hour in range(int(begin), int(np.ceil(end))):
        total += floats[at + hour] * (min(hour + 1.0, end) - max(float(hour), begin))
    return total


@compiled()
def _charge(ints: Ints, floats: Floats, job: int, slot: int, hours: float, sign: float) -> None:
    """Book hours of a job from the beginning of a slot on, and the wait before them.

    With a `sign` of -1, take them out of the books again.
    """
    cores, last = ints[ints[m.CORES_AT] + job], ints[ints[m.START_AT] + job]
    submitted = floats[int(floats[f.SUBMITTED_AT]) + job]
    since = (last + 1) * floats[f.SLOT_H] if last >= 0 else submitted
    begin = f.HISTORY + slot * floats[f.SLOT_H]
    end = min(begin + hours, floats[f.HOURS])
    begin = min(begin, end)
    power = sign * cores * floats[f.POWER_KW]
    floats[f.CARBON_G] += power * _integral(floats, int(floats[f.CARBON_AT]), begin, end)
    if floats[f.RESERVED] == 0.0:
        price = _integral(floats, int(floats[f.PRICE_AT]), begin, end)
        floats[f.MONEY] += power / 1e3 * price
    wait = sign * (slot * floats[f.SLOT_H] - since)
    floats[f.WAIT_H] += wait
    floats[f.CORE_WAIT_H] += wait * cores


@compiled()
def _pay(ints: Ints, floats: Floats, job: int, hours: float) -> None:
    """Allot cores to a job that starts in this slot, and book the bill of its hours."""
    cores = ints[ints[m.CORES_AT] + job]
    fits = cores <= free_reserved(ints, floats)
    floats[int(floats[f.ON_RESERVED_AT]) + job] = fits
    if fits:
        left = (ints[m.HORIZON] - ints[m.SLOT]) * floats[f.SLOT_H]
        floats[f.RESERVED_HOURS] += cores * min(hours, left)
    else:
        floats[f.MONEY] += floats[f.ON_DEMAND_PRICE] * cores * hours


@compiled()
def _reveal(ints: Ints, floats: Floats) -> None:
    """Move the expected ends of running jobs by what the end of this slot shows.

    A job that runs for longer than expected is then expected to end in the next slot.
    """
    then = ints[m.SLOT] + 1
    over, freed = then == ints[m.HORIZON], ints[m.FREED_AT]
    for job in ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]]:
        start, duration = ints[ints[m.START_AT] + job], ints[m.DURATION_AT] + job
        expected = start + ints[duration]
        end = start + in_slots(floats, floats[int(floats[f.LENGTH_AT]) + job])
        if end > then and not over:
            end = max(expected, then + 1)
        ints[duration] = end - start
        if not over:
            ints[freed + expected] -= ints[ints[m.CORES_AT] + job]
            ints[freed + end] += ints[ints[m.CORES_AT] + job]


@compiled()
def _slots_known(floats: Floats, job: int, more_h: float) -> int:
    """Return the slots of a job's work as known, with some hours more."""
    return int(in_slots(floats, floats[int(floats[f.KNOWN_AT]) + job] + more_h))


@compiled()
def _work(ints: Ints, floats: Floats, job: int, hours: float) -> None:
    """Take hours from the work of a job, so that its latest start moves."""
    ints[ints[m.LATEST_AT] + job] += _slots_known(floats, job, 0.0)
    floats[int(floats[f.RUN_AT]) + job] -= hours
    floats[int(floats[f.KNOWN_AT]) + job] -= hours
    floats[int(floats[f.SUBMITTED_AT]) + job] += hours
    ints[ints[m.LATEST_AT] + job] -= _slots_known(floats, job, 0.0)


@compiled()
def _expect(ints: Ints, job: int, slots: int) -> None:
    """Expect a startable job to take some slots."""
    ints[m.STARTABLE_SLOTS] += slots - ints[ints[m.DURATION_AT] + job]
    ints[ints[m.DURATION_AT] + job] = slots


@compiled()
def _run(ints: Ints, floats: Floats, place: int) -> None:
    """Start the job at a place of the startable ones, for this slot only if it may pause."""
    job, slot = ints[ints[m.STARTABLE_AT] + place], ints[m.SLOT]
    hours = left = floats[int(floats[f.RUN_AT]) + job]
    latest = ints[ints[m.LATEST_AT] + job]
    if floats[f.PAUSABLE] == 1.0:
        hours = left if slot == ints[m.HORIZON] - 1 else min(left, floats[f.SLOT_H])
        _expect(ints, job, 1)
    if floats[f.COMMITS] == 0.0 or slot != latest:
        _charge(ints, floats, job, slot, hours, 1.0)
    if floats[f.COMMITS] == 1.0 and slot != latest:
        _charge(ints, floats, job, latest, hours, -1.0)
    if floats[f.RESERVED] > 0.0:
        _pay(ints, floats, job, hours)
    if left - hours > f.NOTHING_H:
        _work(ints, floats, job, hours)
    else:
        floats[int(floats[f.RUN_AT]) + job] = 0.0
        floats[f.LATE] += slot + in_slots(floats, hours) > floats[int(floats[f.DUE_AT]) + job]
    base.start_job(ints, U(place))


@compiled()
def _force(ints: Ints, floats: Floats) -> None:
    """Start the jobs that would miss their latest start, as far as they fit, and at the end all.

    A job that would pause now needs `resume_h` more.
    """
    last = ints[m.SLOT] == ints[m.HORIZON] - 1
    place = 0
    while place < ints[m.STARTABLE_JOBS]:
        job = ints[ints[m.STARTABLE_AT] + place]
        free = ints[ints[m.CAPACITY_AT] + ints[m.SLOT]] - ints[m.RUNNING_CORES]
        latest = ints[ints[m.LATEST_AT] + job]
        if ran_last(ints, job):
            more = _slots_known(floats, job, floats[f.RESUME_H])
            latest -= more - _slots_known(floats, job, 0.0)
        if last or (latest <= ints[m.SLOT] and ints[ints[m.CORES_AT] + job] <= free):
            _run(ints, floats, place)
        else:
            place += 1


@compiled()
def _pause(ints: Ints, floats: Floats) -> None:
    """Let the startable jobs pause that ran in the last slot."""
    for job in ints[ints[m.STARTABLE_AT] : ints[m.STARTABLE_AT] + ints[m.STARTABLE_JOBS]]:
        if ran_last(ints, job):
            floats[f.SUSPENSIONS] += 1.0
            floats[f.WAIT_H] += floats[f.RESUME_H]
            floats[f.CORE_WAIT_H] += floats[f.RESUME_H] * ints[ints[m.CORES_AT] + job]
            _work(ints, floats, job, -floats[f.RESUME_H])
            _expect(ints, job, _slots_known(floats, job, 0.0))


@compiled()
def _close(ints: Ints, floats: Floats) -> int:
    """End the slot and begin the next one, in which unfinished jobs can run; return the status."""
    _force(ints, floats)
    floats[f.PEAK] = max(floats[f.PEAK], float(ints[m.RUNNING_CORES]))
    if floats[f.PAUSABLE] == 0.0:
        _reveal(ints, floats)
        return int(base.close_slot(ints, floats))
    _pause(ints, floats)
    ran = ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]].copy()
    status = int(base.close_slot(ints, floats))
    at = ints[m.STARTABLE_AT]
    for job in ran:
        if status == k.RUNNING and floats[int(floats[f.RUN_AT]) + job] > 0.0:
            ints[at + ints[m.STARTABLE_JOBS]] = job
            ints[m.STARTABLE_JOBS] += 1
            ints[m.STARTABLE_CORES] += ints[ints[m.CORES_AT] + job]
            ints[m.STARTABLE_SLOTS] += ints[ints[m.DURATION_AT] + job]
            _expect(ints, job, _slots_known(floats, job, 0.0))
    ints[at : at + ints[m.STARTABLE_JOBS]].sort()
    return status


@compiled()
def _commit(ints: Ints, floats: Floats, choice: int) -> int:
    """Let the job that decides choose its start, and go on to the next; return the status."""
    job, slot = decides(ints, floats), ints[m.SLOT]
    if job < 0:
        return k.INFEASIBLE
    free = capacity_ahead(ints, floats) - promised(ints, floats)
    first, latest = first_start(ints, job, free), ints[m.LATEST_AT] + job
    start, cores = first + choice, ints[ints[m.CORES_AT] + job]
    end = start + ints[ints[m.DURATION_AT] + job]
    is_row = 0 <= choice < max(ints[latest] - first + 1, 1)
    if not is_row or not fits(free, start - slot, end - slot, cores):
        return k.INFEASIBLE
    ints[latest] = start
    _charge(ints, floats, job, start, floats[int(floats[f.RUN_AT]) + job], 1.0)
    floats[f.DECIDED] += 1.0
    status = k.RUNNING
    while status == k.RUNNING and decides(ints, floats) < 0:
        status = _close(ints, floats)
    return status


@compiled()
def _apply(ints: Ints, floats: Floats, choice: int) -> int:
    """Apply a choice and return the status."""
    if floats[f.COMMITS] == 1.0:
        return int(_commit(ints, floats, choice))
    place = base.chosen_place(ints, choice)
    if place < 0:
        return k.INFEASIBLE
    if place < ints[m.STARTABLE_JOBS]:
        _run(ints, floats, place)
        return k.RUNNING
    return int(_close(ints, floats))


@compiled()
def _delay(floats: Floats) -> float:
    """Return the cost of waiting and of late jobs so far."""
    wait = floats[f.WAITING_WEIGHT] * floats[f.CORE_WAIT_H]
    return float(wait + floats[f.LATE_WEIGHT] * floats[f.LATE])


@compiled(STEP)
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Start the job in row `choice` or close the slot (the last row), or choose that start."""
    if ints[m.OBJECTIVE] < m.GRID:
        return base.step(ints, floats, choice, step_outputs)
    grams, money, waited = floats[f.CARBON_G], floats[f.MONEY], _delay(floats)
    time = floats[k.TIME]
    status = _apply(ints, floats, choice)
    if status == k.INFEASIBLE:
        return status
    step_outputs[k.ELAPSED] = floats[k.TIME] - time
    hours = step_outputs[k.ELAPSED] / floats[m.SLOT_S] * floats[f.SLOT_H]
    floats[f.MONEY] += floats[f.RESERVED] * floats[f.RESERVED_PRICE] * hours
    kg = (floats[f.CARBON_G] - grams) / 1e3
    paid = floats[f.MONEY] - money
    wait = _delay(floats) - waited
    step_outputs[k.TERMS + TERM.carbon] = 0.0 - kg - wait
    step_outputs[k.TERMS + TERM.price] = 0.0 - paid - wait
    step_outputs[k.TERMS + TERM.both] = 0.0 - floats[f.CARBON_PRICE] * kg / 1e3 - paid - wait
    step_outputs[k.TERMS + TERM.emissions] = 0.0 - kg
    step_outputs[k.TERMS + TERM.money] = 0.0 - paid
    step_outputs[k.TERMS + TERM.waiting] = 0.0 - wait
    step_outputs[k.REWARD] = step_outputs[k.TERMS + ints[m.OBJECTIVE] - m.GRID]
    return status


@compiled()
def _waits(ints: Ints, floats: Floats, outcomes: Floats) -> None:
    """Fill the outcomes of the waits of started jobs."""
    jobs, at = ints[m.JOBS], int(floats[f.SUBMITTED_AT])
    start = ints[ints[m.START_AT] : ints[m.START_AT] + jobs]
    waits = (start * floats[f.SLOT_H] - floats[at : at + jobs])[start >= 0]
    at = int(floats[f.LENGTH_AT])
    cores = ints[ints[m.CORES_AT] : ints[m.CORES_AT] + jobs]
    work = (floats[at : at + jobs] * cores)[start >= 0]
    if len(waits) > 0:
        outcomes[OUT.longest_wait_h] = waits.max()
        outcomes[OUT.p95_wait_h] = np.quantile(waits, 0.95)
        outcomes[OUT.wait_h_by_work] = (waits * work).sum() / work.sum()


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec."""
    if ints[m.OBJECTIVE] < m.GRID:
        base.outcome(ints, floats, outcomes)
        return
    kg, money = floats[f.CARBON_G] / 1e3, floats[f.MONEY]
    wait = _delay(floats)
    costs = (kg, money, floats[f.CARBON_PRICE] * kg / 1e3 + money)  # of carbon, price and both
    cost = costs[ints[m.OBJECTIVE] - m.GRID]
    jobs, energy = max(ints[m.JOBS], 1), max(floats[f.ENERGY_KWH], 1e-300)
    now = floats[f.NOW_G] / 1e3
    best, less = floats[f.NOW_COST] - floats[f.BOUND], floats[f.NOW_COST] - cost - wait
    outcomes[OUT.total_reward] = 0.0 - cost - wait
    # Hours of a series without carbon or price are 0 here; what jobs emit or pay is then unknown.
    outcomes[OUT.carbon_kg] = np.nan if np.isnan(now) else kg
    outcomes[OUT.money] = np.nan if np.isnan(floats[f.NOW_MONEY]) else money
    outcomes[OUT.saved] = 1.0 - kg / now if now > 0.0 else np.nan
    outcomes[OUT.saved_g_per_kwh] = 1e3 * (now - kg) / energy
    outcomes[OUT.money_saved_per_mwh] = 1e3 * (floats[f.NOW_MONEY] - money) / energy
    outcomes[OUT.share_of_bound] = less / best if best > 1e-12 else 0.0
    outcomes[OUT.mean_wait_h] = floats[f.WAIT_H] / jobs
    outcomes[OUT.core_hours_waited] = floats[f.CORE_WAIT_H]
    outcomes[OUT.late] = floats[f.LATE]
    outcomes[OUT.peak_cores] = floats[f.PEAK]
    outcomes[OUT.jobs] = ints[m.JOBS]
    outcomes[OUT.carbon_now_kg] = now
    outcomes[OUT.energy_kwh] = floats[f.ENERGY_KWH]
    outcomes[OUT.bound] = 0.0 - floats[f.BOUND]
    _waits(ints, floats, outcomes)
    if floats[f.PAUSABLE] == 1.0:
        outcomes[OUT.suspensions] = floats[f.SUSPENSIONS]
        outcomes[OUT.bound_without_pause] = 0.0 - floats[f.START_BOUND]
    if floats[f.RESERVED] > 0.0:
        hours = floats[f.RESERVED] * ints[m.HORIZON] * floats[f.SLOT_H]
        outcomes[len(outcomes) - 1] = floats[f.RESERVED_HOURS] / hours
