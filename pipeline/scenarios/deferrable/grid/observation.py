"""Observations of a slot on a grid, and the forecasts and lengths that they show.

Lengths are known as they are requested or predicted, and as running jobs show them: the block of
durations of `deferrable` holds what is expected, which moves at the close of each slot.

Slot by slot, each startable row has what a start now costs beside the other starts within its wait.
Where jobs choose their starts, the rows are the starts of the job that decides, in time order from
this slot to its latest one. Feasible are those where the cores are expected to be free beside what
was promised. If none is, the only row is the first start after the latest one that is.
"""

import numpy as np

from hindcast.pipeline.grids.forecasts import forecast
from hindcast.pipeline.grids.starts import between, fits
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.features import MOMENT as BASE_MOMENT
from hindcast.pipeline.scenarios.deferrable.features import ROW as BASE_ROW
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.features import MOMENT, ROW
from hindcast.pipeline.scenarios.deferrable.observation import observe as observe_base
from hindcast.pipeline.scenarios.deferrable.observation import write_context
from hindcast.pipeline.simulation.kernel import OBSERVE, Floats, Ints, Mask, Rows, compiled

_LOW = 0.2  # quantile of the last day
_LOW_AHEAD = 0.3  # quantile of the next one; with the forecast `perfect` that of Ecovisor in GAIA


@compiled(forceinline=True)
def in_slots(floats: Floats, hours: float) -> int:
    """Return the slots that a run touches, at least one."""
    return max(int(np.ceil(hours / floats[f.SLOT_H] - 1e-9)), 1)


@compiled(forceinline=True)
def _hour(ints: Ints, floats: Floats) -> int:
    """Return the hour of this slot."""
    return int(f.HISTORY + ints[m.SLOT] * floats[f.SLOT_H])


@compiled()
def _foresee(ints: Ints, floats: Floats) -> None:
    """Make the forecast of this slot, once."""
    if floats[f.FORECAST_AT_SLOT] == ints[m.SLOT]:
        return
    floats[f.FORECAST_AT_SLOT] = ints[m.SLOT]
    y, hours = int(floats[f.COST_AT]), int(floats[f.HOURS])
    seen, ahead, now = int(floats[f.SEEN_AT]), int(floats[f.LOOKED_AHEAD]), _hour(ints, floats)
    end, kind, seed = min(ahead, hours - now), int(floats[f.FORESIGHT]), int(floats[f.SEED])
    x = floats[y : y + hours]
    forecast(x, now, kind, floats[f.SIGMA], seed, end, floats[seen : seen + ahead])
    if floats[f.ISSUED] == 1.0:
        at = int(floats[f.ISSUED_AT]) + (now - f.HISTORY) * ahead
        for h in range(1, end):
            if not np.isnan(floats[at + h]):
                floats[seen + h] = floats[at + h]
    floats[seen + ahead] = 0.0
    for h in range(end):
        floats[seen + ahead + h + 1] = floats[seen + ahead + h] + floats[seen + h]


@compiled()
def promised(ints: Ints, floats: Floats) -> Floats:
    """Return the cores of running jobs and of chosen starts in each slot from this one on, (T,).

    A chosen start that could not be kept is expected in this slot.
    """
    slot = ints[m.SLOT]
    load = np.zeros(ints[m.HORIZON] - slot)
    for job in ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]]:
        end = ints[ints[m.START_AT] + job] + ints[ints[m.DURATION_AT] + job]
        load[: end - slot] += ints[ints[m.CORES_AT] + job]
    for job in ints[ints[m.STARTABLE_AT] : ints[m.STARTABLE_AT] + ints[m.STARTABLE_JOBS]]:
        if job < floats[f.DECIDED]:
            begin = max(ints[ints[m.LATEST_AT] + job] - slot, 0)
            end = begin + ints[ints[m.DURATION_AT] + job]
            load[begin:end] += ints[ints[m.CORES_AT] + job]
    return load


@compiled()
def capacity_ahead(ints: Ints, floats: Floats) -> Floats:
    """Return the capacity of this slot, and of later ones that of the last known day, (T,)."""
    slot, day, before = ints[m.SLOT], int(floats[f.DAY_SLOTS]), int(floats[f.BEFORE_AT])
    found = np.empty(ints[m.HORIZON] - slot)
    for later in range(len(found)):
        at = slot + later - day * ((later + day - 1) // day)
        found[later] = ints[ints[m.CAPACITY_AT] + at] if at >= 0 else floats[before + day + at]
    return found


@compiled()
def _crowd(ints: Ints, floats: Floats) -> None:
    """Sum the prices of promised cores from this slot to each later one."""
    at, here = int(floats[f.CROWDED_AT]), int(floats[f.COST_AT]) + _hour(ints, floats)
    price = floats[f.LOAD_PRICE] * np.abs(floats[here - 167 : here + 1].mean()) * floats[f.SLOT_H]
    load, capacity = promised(ints, floats), capacity_ahead(ints, floats)
    floats[at] = 0.0
    for later in range(len(load)):
        share = load[later] / max(capacity[later], 1.0)
        floats[at + later + 1] = floats[at + later] + price * share**4


@compiled()
def free_reserved(ints: Ints, floats: Floats) -> float:
    """Return the reserved cores that are free in this slot."""
    free, flags = floats[f.RESERVED], int(floats[f.ON_RESERVED_AT])
    for job in ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]]:
        free -= floats[flags + job] * ints[ints[m.CORES_AT] + job]
    return float(free)


@compiled()
def _write_moment(
    ints: Ints, floats: Floats, context: Floats, is_over: bool, with_load: bool
) -> None:
    """Write the features of the hour, and make its forecast and the prices of promised cores.

    A capacity without a limit is 0, and free cores are then those of all jobs that can start.
    """
    if context[BASE_MOMENT.capacity] >= f.UNLIMITED:
        context[BASE_MOMENT.capacity : BASE_MOMENT.capacity + m.LAGS + 1] = 0.0
        context[BASE_MOMENT.free_cores] = 0.0
        for job in ints[ints[m.STARTABLE_AT] :][: ints[m.STARTABLE_JOBS]]:
            context[BASE_MOMENT.free_cores] += ints[ints[m.CORES_AT] + job]
    if is_over:
        context[MOMENT.carbon :] = 0.0
        return
    _foresee(ints, floats)
    hour = _hour(ints, floats)
    here = int(floats[f.COST_AT]) + hour
    context[MOMENT.carbon] = floats[int(floats[f.CARBON_AT]) + hour]
    context[MOMENT.price] = floats[int(floats[f.PRICE_AT]) + hour]
    context[MOMENT.cost] = floats[here]
    context[MOMENT.cost_1_ago] = floats[here - 1]
    context[MOMENT.cost_24_ago] = floats[here - 24]
    context[MOMENT.cost_mean_24] = floats[here - 23 : here + 1].mean()
    context[MOMENT.cost_low_24] = np.quantile(floats[here - 23 : here + 1], _LOW)
    context[MOMENT.cost_mean_168] = floats[here - 167 : here + 1].mean()
    angle = 2.0 * np.pi * floats[int(floats[f.LOCAL_HOUR_AT]) + hour] / 24.0
    context[MOMENT.hour_sin] = np.sin(angle)
    context[MOMENT.hour_cos] = np.cos(angle)
    if len(context) > MOMENT.cost_low_next_24:
        seen, left = int(floats[f.SEEN_AT]), int(floats[f.HOURS]) - hour
        ahead = floats[seen : seen + min(24, left)]
        context[MOMENT.cost_low_next_24] = np.quantile(ahead, _LOW_AHEAD)
    if with_load:
        _crowd(ints, floats)


@compiled(forceinline=True)
def ran_last(ints: Ints, job: int) -> bool:
    """Return whether a job ran in the last slot, so that it may pause."""
    start = ints[ints[m.START_AT] + job]
    return bool(0 <= start == ints[m.SLOT] - 1)


@compiled(forceinline=True)
def _share_below(values: Floats, value: float) -> float:
    """Return the share of values that are below another one."""
    below = 0
    for each in values:
        below += each < value
    return below / len(values)


@compiled()
def _write_starts(
    ints: Ints, floats: Floats, candidates: Rows, row: int, rows: int, job: int, first: int
) -> None:
    """Write the columns of some starts of a job from slot `first` on, beside all in its wait."""
    slot, latest, slot_h = ints[m.SLOT], ints[ints[m.LATEST_AT] + job], floats[f.SLOT_H]
    at, ahead = int(floats[f.SEEN_AT]), int(floats[f.LOOKED_AHEAD])
    seen, paid = floats[at : at + ahead], floats[at + ahead : at + 2 * ahead + 1]
    known = min(floats[int(floats[f.KNOWN_AT]) + job], ahead - 3.0)  # with many pauses
    if known <= f.NOTHING_H:  # it may pause and has run for longer than known
        known = slot_h
    slots, count = in_slots(floats, known), max(latest - first, 0) + 1
    begin = slot * slot_h - int(slot * slot_h) + (first - slot) * slot_h
    pausable, with_load = floats[f.PAUSABLE] == 1.0, candidates.shape[1] > ROW.priced_now
    at, longest = int(floats[f.STARTS_AT]), int(floats[f.LONGEST])
    costs, priced = floats[at : at + count], floats[at + longest : at + longest + count]
    at += 2 * longest
    hours = floats[at : at + count + (slots - 1 if pausable else 0)]
    for later in range(len(hours)):
        hours[later] = seen[min(int(begin + later * slot_h), ahead - 1)]
    for later in range(count):
        from_h = min(begin + later * slot_h, ahead - known - 1.0)
        costs[later] = between(paid, seen, from_h, from_h + known) / known
    if with_load:
        at, end = int(floats[f.CROWDED_AT]), ints[m.HORIZON] - slot
        for later in range(count):
            after = min(first - slot + later, end)
            load = floats[at + min(after + slots, end)] - floats[at + after]
            priced[later] = costs[later] + load / known
    least, load_least = costs.min(), priced.min() if with_load else 0.0
    for place in range(rows):
        start, write = first + place, candidates[row + place]
        write[ROW.wait_h] = start * slot_h - floats[int(floats[f.SUBMITTED_AT]) + job]
        write[ROW.left_h] = (latest - start) * slot_h
        write[ROW.run_h] = known
        write[ROW.cost_now] = costs[place]
        write[ROW.cost_least] = least
        write[ROW.cost_rank] = _share_below(costs, costs[place])
        write[ROW.hour_rank] = _share_below(hours, hours[place])
        if with_load:
            write[ROW.priced_now] = priced[place]
            write[ROW.priced_least] = load_least
    if pausable:
        candidates[row, ROW.ran_last] = ran_last(ints, job)


@compiled(forceinline=True)
def decides(ints: Ints, floats: Floats) -> int:
    """Return the job that chooses its start in this slot; -1 if none is left."""
    job = int(floats[f.DECIDED])
    left = ints[m.SLOT] < ints[m.HORIZON] and job < ints[m.JOBS]
    return job if left and ints[ints[m.EARLIEST_AT] + job] <= ints[m.SLOT] else -1


@compiled()
def first_start(ints: Ints, job: int, free: Floats) -> int:
    """Return the slot of the first row of a job that chooses its start.

    `free` are the cores of each slot from this one on that are expected to be free, (T,).
    """
    slots, later = ints[ints[m.DURATION_AT] + job], 0
    while not fits(free, later, later + slots, ints[ints[m.CORES_AT] + job]):
        later += 1
    first = ints[m.SLOT] + later
    return int(first if first > ints[ints[m.LATEST_AT] + job] else ints[m.SLOT])


@compiled()
def _observe_job(
    ints: Ints, floats: Floats, context: Floats, candidates: Rows, feasible: Mask
) -> int:
    """Write the starts of the job that decides; no rows when all have."""
    write_context(ints, floats, context)
    job = decides(ints, floats)
    _write_moment(ints, floats, context, job < 0, candidates.shape[1] > ROW.priced_now)
    if job < 0:
        return 0
    load, slot = promised(ints, floats), ints[m.SLOT]
    free = capacity_ahead(ints, floats) - load
    first, latest = first_start(ints, job, free), ints[ints[m.LATEST_AT] + job]
    rows = max(latest - first + 1, 1)
    slots, cores = ints[ints[m.DURATION_AT] + job], ints[ints[m.CORES_AT] + job]
    candidates[:rows] = 0.0
    _write_starts(ints, floats, candidates, 0, rows, job, first)
    for row in range(rows):
        later = first + row - slot
        candidates[row, BASE_ROW.cores] = cores
        candidates[row, BASE_ROW.duration] = candidates[row, BASE_ROW.remaining] = slots
        candidates[row, BASE_ROW.until_earliest] = later
        candidates[row, BASE_ROW.until_latest] = latest - slot - later
        candidates[row, BASE_ROW.is_startable] = 1.0
        candidates[row, BASE_ROW.job] = job
        if floats[f.RESERVED] > 0.0 and later < len(load):
            candidates[row, ROW.on_reserved] = cores <= floats[f.RESERVED] - load[later]
        feasible[row] = fits(free, later, later + slots, cores)
    return int(rows)


@compiled(OBSERVE)
def observe(ints, floats, context, image, candidates, feasible):  # type: ignore[no-untyped-def]
    """Write the observation of `deferrable`, and on a grid its further columns."""
    if ints[m.OBJECTIVE] >= m.GRID and floats[f.COMMITS] == 1.0:
        return _observe_job(ints, floats, context, candidates, feasible)
    rows = observe_base(ints, floats, context, image, candidates, feasible)
    if ints[m.OBJECTIVE] < m.GRID:
        return rows
    _write_moment(ints, floats, context, rows == 0, candidates.shape[1] > ROW.priced_now)
    if rows == 0:
        return rows
    candidates[:rows, len(BASE_ROW) :] = 0.0
    reserved = free_reserved(ints, floats)
    first = ints[m.RUNNING_JOBS]
    for row in range(first, first + ints[m.STARTABLE_JOBS]):
        job = ints[ints[m.STARTABLE_AT] + row - first]
        _write_starts(ints, floats, candidates, row, 1, job, ints[m.SLOT])
        if floats[f.RESERVED] > 0.0:
            candidates[row, ROW.on_reserved] = ints[ints[m.CORES_AT] + job] <= reserved
    return rows
