"""What is known in a slot on a grid, and the books of what ran.

Lengths are known as they are requested or predicted, and as running jobs show them: the block of
durations of `deferrable` holds what is expected, see `reveal`.

Reserved cores are paid for all slots of the episode, used or not. A job that starts takes reserved
cores if all of its cores are free there, and cores on demand else; it never moves. Work that may
pause is allotted slot by slot. A reserved core is free in the slot in which a job ends.

Source: Hanafy et al., ASPLOS 2024, whose simulator frees a reserved core a tick of 5 s later.
"""

import numpy as np

from hindcast.pipeline.grids.forecasts import forecast
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled


@compiled()
def _integral(floats: Floats, at: int, begin: float, end: float) -> float:
    """Return the integral of the hours at `at` from `begin` to `end`."""
    total = 0.0
    for hour in range(int(begin), int(np.ceil(end))):
        total += floats[at + hour] * (min(hour + 1.0, end) - max(float(hour), begin))
    return total


@compiled(forceinline=True)
def in_slots(floats: Floats, hours: float) -> int:
    """Return the slots that a run touches, at least one."""
    return max(int(np.ceil(hours / floats[f.SLOT_H] - 1e-9)), 1)


@compiled(forceinline=True)
def hour_of(ints: Ints, floats: Floats) -> int:
    """Return the hour of this slot."""
    return int(f.HISTORY + ints[m.SLOT] * floats[f.SLOT_H])


@compiled()
def foresee(ints: Ints, floats: Floats) -> None:
    """Make the forecast of this slot, once."""
    if floats[f.FORECAST_AT_SLOT] == ints[m.SLOT]:
        return
    floats[f.FORECAST_AT_SLOT] = ints[m.SLOT]
    y, hours = int(floats[f.COST_AT]), int(floats[f.HOURS])
    seen, ahead, now = int(floats[f.SEEN_AT]), int(floats[f.LOOKED_AHEAD]), hour_of(ints, floats)
    end = min(ahead, hours - now)
    forecast(
        floats[y : y + hours], now, int(floats[f.FORESIGHT]), 0, floats[f.SIGMA],
        int(floats[f.SEED]), end, floats[seen : seen + ahead],
    )  # fmt: skip
    if floats[f.ISSUED] == 1.0:
        at = int(floats[f.ISSUED_AT]) + (now - f.HISTORY) * ahead
        for h in range(1, end):
            if not np.isnan(floats[at + h]):
                floats[seen + h] = floats[at + h]
    floats[seen + ahead] = 0.0
    for h in range(end):
        floats[seen + ahead + h + 1] = floats[seen + ahead + h] + floats[seen + h]


@compiled()
def reveal(ints: Ints, floats: Floats) -> None:
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
def crowd(ints: Ints, floats: Floats) -> None:
    """Sum the prices of promised cores from this slot to each later one."""
    at, here = int(floats[f.CROWDED_AT]), int(floats[f.COST_AT]) + hour_of(ints, floats)
    price = floats[f.LOAD_PRICE] * np.abs(floats[here - 167 : here + 1].mean()) * floats[f.SLOT_H]
    load, capacity = promised(ints, floats), capacity_ahead(ints, floats)
    floats[at] = 0.0
    for later in range(len(load)):
        share = load[later] / max(capacity[later], 1.0)
        floats[at + later + 1] = floats[at + later] + price * share**4


@compiled()
def charge(ints: Ints, floats: Floats, job: int, slot: int, hours: float, sign: float) -> None:
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
def free_reserved(ints: Ints, floats: Floats) -> float:
    """Return the reserved cores that are free in this slot."""
    free, flags = floats[f.RESERVED], int(floats[f.ON_RESERVED_AT])
    for job in ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]]:
        free -= floats[flags + job] * ints[ints[m.CORES_AT] + job]
    return float(free)


@compiled()
def pay(ints: Ints, floats: Floats, job: int, hours: float) -> None:
    """Allot cores to a job that starts in this slot, and book the bill of its hours."""
    cores = ints[ints[m.CORES_AT] + job]
    fits = cores <= free_reserved(ints, floats)
    floats[int(floats[f.ON_RESERVED_AT]) + job] = fits
    if fits:
        left = (ints[m.HORIZON] - ints[m.SLOT]) * floats[f.SLOT_H]
        floats[f.RESERVED_HOURS] += cores * min(hours, left)
    else:
        floats[f.MONEY] += floats[f.ON_DEMAND_PRICE] * cores * hours
