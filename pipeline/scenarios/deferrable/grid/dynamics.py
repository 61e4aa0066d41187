"""Compiled functions on a grid, around those of `deferrable`, which they call."""

import numpy as np

from hindcast.pipeline.grids.starts import between
from hindcast.pipeline.scenarios.deferrable import dynamics as base
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.features import ROW as BASE_ROW
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.books import (
    at_block,
    book,
    crowd,
    foresee,
    in_slots,
    priced,
    slots_known,
    write_moment,
)
from hindcast.pipeline.scenarios.deferrable.grid.commitment import commit, observe_job
from hindcast.pipeline.scenarios.deferrable.grid.features import MOMENT, OUT, ROW, TERM
from hindcast.pipeline.scenarios.deferrable.grid.pauses import close, latest_run, ran_last, run_slot
from hindcast.pipeline.scenarios.deferrable.grid.reserved import free_reserved
from hindcast.pipeline.scenarios.deferrable.layout import U
from hindcast.pipeline.scenarios.deferrable.observation import observe as observe_base
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import (
    OBSERVE,
    OUTCOME,
    STEP,
    Floats,
    Ints,
    Rows,
    compiled,
)

_CARBON, _PRICE, _BOTH = range(m.GRID, m.GRID + 3)


@compiled()
def _write_row(ints: Ints, floats: Floats, candidates: Rows, row: int, job: int) -> None:
    """Write the columns of the grid of a job that can start."""
    slot_h, ahead = floats[f.SLOT_H], int(floats[f.LOOKED_AHEAD])
    now_h = ints[m.SLOT] * slot_h
    known = min(floats[at_block(ints, floats, f.KNOWN) + job], ahead - 3.0)  # with many pauses
    if known <= 0.0:  # it may pause and has run for longer than known
        known = slot_h
    candidates[row, ROW.wait_h] = now_h - floats[at_block(ints, floats, f.SUBMITTED) + job]
    left = max(ints[ints[m.LATEST_AT] + job] - ints[m.SLOT], 0)
    candidates[row, ROW.left_h] = (ints[ints[m.LATEST_AT] + job] - ints[m.SLOT]) * slot_h
    candidates[row, ROW.run_h] = known
    at = at_block(ints, floats, f.SEEN)
    seen, paid = floats[at : at + ahead], floats[at + ahead : at + 2 * ahead + 1]
    begin = now_h - int(now_h)
    per_hour = max(known, 1e-9)
    now, least, cheaper, lower = 0.0, np.inf, 0, 0
    for later in range(left + 1):
        after = begin + later * slot_h
        cost = between(paid, seen, after, after + known) / per_hour
        if later == 0:
            now = cost
        least = min(least, cost)
        cheaper += cost < now
        lower += seen[int(after)] < seen[0]
    hours, slots = left + 1, in_slots(floats, known)
    if floats[f.PAUSABLE] == 1.0:
        hours = left + slots
        for later in range(left + 1, hours):
            lower += seen[int(begin + later * slot_h)] < seen[0]
        candidates[row, ROW.ran_last] = ran_last(ints, job)
    candidates[row, ROW.cost_now] = now
    candidates[row, ROW.cost_least] = least
    candidates[row, ROW.cost_rank] = cheaper / (left + 1)
    candidates[row, ROW.hour_rank] = lower / hours
    if candidates.shape[1] > ROW.priced_now:
        least = np.inf
        for later in range(left, -1, -1):
            after = begin + later * slot_h
            cost = between(paid, seen, after, after + known) + priced(ints, floats, later, slots)
            candidates[row, ROW.priced_now] = cost / per_hour
            least = min(least, cost / per_hour)
        candidates[row, ROW.priced_least] = least
    if floats[f.RESERVED] > 0.0:
        fits = candidates[row, BASE_ROW.cores] <= free_reserved(ints, floats, ints[m.SLOT])
        candidates[row, ROW.on_reserved] = fits


@compiled()
def _as_known(ints: Ints, floats: Floats, context: Floats, candidates: Rows, rows: int) -> None:
    """Put lengths as known in place of the true ones that `deferrable` shows.

    A job that runs for longer than known is expected to end in the next slot.
    """
    startable, future = 0.0, 0.0
    pausable = floats[f.PAUSABLE] == 1.0
    if not pausable:
        context[MOMENT.freed_in_1 : MOMENT.freed_in_1 + m.LOOKAHEAD] = 0.0
    for row in range(rows - 1):
        job = int(candidates[row, BASE_ROW.job])
        slots = slots_known(ints, floats, job)
        left = slots
        if candidates[row, BASE_ROW.is_running] == 1.0 and not pausable:
            left = max(slots + ints[ints[m.START_AT] + job] - ints[m.SLOT], 1)
            if left <= m.LOOKAHEAD:
                context[MOMENT.freed_in_1 + left - 1] += candidates[row, BASE_ROW.cores]
        startable += candidates[row, BASE_ROW.is_startable] * slots
        future += candidates[row, BASE_ROW.is_future] * slots
        candidates[row, BASE_ROW.duration] = slots
        candidates[row, BASE_ROW.remaining] = left
    context[MOMENT.startable_mean_duration] = startable / max(ints[m.STARTABLE_JOBS], 1)
    context[MOMENT.future_mean_duration] = future / max(ints[m.FUTURE_JOBS], 1)


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write the observation of `deferrable`, and on a grid its further columns."""
    if ints[m.OBJECTIVE] >= m.GRID and floats[f.COMMITS] == 1.0:
        return observe_job(ints, floats, context, candidates, feasible)
    rows = observe_base(ints, floats, context, image, candidates, feasible)
    if ints[m.OBJECTIVE] < m.GRID:
        return rows
    if rows == 0:
        context[MOMENT.carbon :] = 0.0
        return rows
    foresee(ints, floats)
    write_moment(ints, floats, context)
    _as_known(ints, floats, context, candidates, rows)
    if candidates.shape[1] > ROW.priced_now:
        crowd(ints, floats)
    first = ints[m.RUNNING_JOBS]
    for row in range(rows):
        candidates[row, len(BASE_ROW) :] = 0.0
        if first <= row < first + ints[m.STARTABLE_JOBS]:
            job = ints[ints[m.STARTABLE_AT] + row - first]
            _write_row(ints, floats, candidates, row, job)
    return rows


@compiled()
def _start(ints: Ints, floats: Floats, place: int) -> None:
    """Start a startable job and book it."""
    if floats[f.PAUSABLE] == 1.0:
        run_slot(ints, floats, place)
        return
    book(ints, floats, ints[ints[m.STARTABLE_AT] + place], ints[m.SLOT])
    base.start_job(ints, U(place))


@compiled()
def _force(ints: Ints, floats: Floats) -> None:
    """Start the jobs whose latest start this slot is, as far as they fit, and at the end all."""
    last = ints[m.SLOT] == ints[m.HORIZON] - 1
    place = 0
    while place < ints[m.STARTABLE_JOBS]:
        job = ints[ints[m.STARTABLE_AT] + place]
        free = ints[ints[m.CAPACITY_AT] + ints[m.SLOT]] - ints[m.RUNNING_CORES]
        due = latest_run(ints, floats, job) <= ints[m.SLOT]
        if last or (due and ints[ints[m.CORES_AT] + job] <= free):
            _start(ints, floats, place)
        else:
            place += 1


@compiled()
def _apply(ints: Ints, floats: Floats, choice: int) -> int:
    """Apply a choice and return the status."""
    if floats[f.COMMITS] == 1.0:
        return int(commit(ints, floats, choice))
    place = base.chosen_place(ints, choice)
    if place < 0:
        return k.INFEASIBLE
    if place < ints[m.STARTABLE_JOBS]:
        _start(ints, floats, place)
        return k.RUNNING
    _force(ints, floats)
    floats[f.PEAK] = max(floats[f.PEAK], float(ints[m.RUNNING_CORES]))
    if floats[f.PAUSABLE] == 1.0:
        return int(close(ints, floats))
    return int(base.close_slot(ints, floats))


@compiled()
def _delay(floats: Floats) -> float:
    """Return the cost of waiting and of late jobs so far."""
    wait = floats[f.WAITING_WEIGHT] * floats[f.CORE_WAIT_H]
    return float(wait + floats[f.LATE_WEIGHT] * floats[f.LATE])


@compiled(STEP)
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Start the job in row `choice` of the last observation, or close the slot (the last row)."""
    if ints[m.OBJECTIVE] < m.GRID:
        return base.step(ints, floats, choice, step_outputs)
    grams, money, waited = floats[f.CARBON_G], floats[f.MONEY], _delay(floats)
    time = floats[k.TIME]
    status = _apply(ints, floats, choice)
    if status == k.INFEASIBLE:
        return status
    step_outputs[k.ELAPSED] = floats[k.TIME] - time
    if floats[f.RESERVED] > 0.0:
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
    jobs, at = ints[m.JOBS], at_block(ints, floats, f.SUBMITTED)
    start = ints[ints[m.START_AT] : ints[m.START_AT] + jobs]
    waits = (start * floats[f.SLOT_H] - floats[at : at + jobs])[start >= 0]
    at = at_block(ints, floats, f.LENGTH)
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
    cost = kg
    if ints[m.OBJECTIVE] == _PRICE:
        cost = money
    elif ints[m.OBJECTIVE] == _BOTH:
        cost = floats[f.CARBON_PRICE] * kg / 1e3 + money
    jobs, energy = max(ints[m.JOBS], 1), max(floats[f.ENERGY_KWH], 1e-300)
    now = floats[f.NOW_G] / 1e3
    best = floats[f.NOW_COST] - floats[f.BOUND]
    outcomes[OUT.total_reward] = 0.0 - cost - wait
    outcomes[OUT.carbon_kg] = kg
    outcomes[OUT.money] = money
    outcomes[OUT.saved] = 1.0 - kg / now if now > 0.0 else 0.0
    outcomes[OUT.saved_g_per_kwh] = 1e3 * (now - kg) / energy
    outcomes[OUT.money_saved_per_mwh] = 1e3 * (floats[f.NOW_MONEY] - money) / energy
    outcomes[OUT.share_of_bound] = (floats[f.NOW_COST] - cost) / best if best > 1e-12 else 0.0
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
