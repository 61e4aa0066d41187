"""Forecast, features of the hour, and the books of a started job on a grid."""

import numpy as np

from hindcast.pipeline.grids.forecasts import forecast
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.features import MOMENT
from hindcast.pipeline.scenarios.deferrable.grid.reserved import pay
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled

_LOW = 0.2  # quantile of the last day
_LOW_AHEAD = 0.3  # quantile of the next one; with the forecast `perfect` that of Ecovisor in GAIA


@compiled(forceinline=True)
def at_block(ints: Ints, floats: Floats, which: int) -> int:
    """Return where a block of floats begins, from RUN to SEEN."""
    jobs, hours = ints[m.JOBS], int(floats[f.HOURS])
    return int(f.FLOAT_HEADER + min(which, f.COST) * jobs + max(which - f.COST, 0) * hours)


@compiled(forceinline=True)
def crowded_at(ints: Ints, floats: Floats) -> int:
    """Return where the sums of promised load begin."""
    return int(at_block(ints, floats, f.SEEN) + 2 * floats[f.LOOKED_AHEAD] + 1)


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


@compiled()
def slots_known(ints: Ints, floats: Floats, job: int) -> int:
    """Return the slots of a job's run as far as its length is known."""
    return int(in_slots(floats, floats[at_block(ints, floats, f.KNOWN) + job]))


@compiled()
def foresee(ints: Ints, floats: Floats) -> None:
    """Make the forecast of this slot, once."""
    if floats[f.FORECAST_AT_SLOT] == ints[m.SLOT]:
        return
    floats[f.FORECAST_AT_SLOT] = ints[m.SLOT]
    y, hours = at_block(ints, floats, f.COST), int(floats[f.HOURS])
    seen, ahead = at_block(ints, floats, f.SEEN), int(floats[f.LOOKED_AHEAD])
    now = int(f.HISTORY + ints[m.SLOT] * floats[f.SLOT_H])
    forecast(
        floats[y : y + hours], now, int(floats[f.FORESIGHT]), 0, floats[f.SIGMA],
        int(floats[f.SEED]), min(ahead, hours - now), floats[seen : seen + ahead],
    )  # fmt: skip
    if floats[f.ISSUED] == 1.0:
        at = crowded_at(ints, floats) + ints[m.HORIZON] + 1 + (now - f.HISTORY) * ahead
        for h in range(1, min(ahead, hours - now)):
            if not np.isnan(floats[at + h]):
                floats[seen + h] = floats[at + h]
    floats[seen + ahead] = 0.0
    for h in range(min(ahead, hours - now)):
        floats[seen + ahead + h + 1] = floats[seen + ahead + h] + floats[seen + h]


@compiled()
def promised(ints: Ints, floats: Floats) -> Floats:
    """Return the cores of running jobs and of chosen starts in each slot from this one on, (T,).

    They are promised as far as the lengths are known. A job that runs for longer is expected to end
    in the next slot, one whose chosen start could not be kept to start in this one.
    """
    slot = ints[m.SLOT]
    load = np.zeros(ints[m.HORIZON] - slot)
    for job in ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]]:
        start = ints[ints[m.START_AT] + job]
        if start > slot:
            start = max(ints[ints[m.FUTURE_AT] + job], slot)
        begin = max(start - slot, 0)
        end = slots_known(ints, floats, job) + start - slot
        end = begin + 1 if floats[f.PAUSABLE] == 1.0 else max(end, begin + 1)
        load[begin:end] += ints[ints[m.CORES_AT] + job]
    return load


@compiled()
def capacity_ahead(ints: Ints, floats: Floats) -> Ints:
    """Return the capacity of each slot from this one on as it is expected, (T,).

    It is that of this slot or, where jobs choose their starts, of the same time of the last known
    day.
    """
    slot, day = ints[m.SLOT], int(floats[f.DAY_SLOTS])
    first, found = ints[m.CAPACITY_AT], np.empty(ints[m.HORIZON] - slot, np.int64)
    before = int(floats[f.BEFORE_AT])
    at = slot
    for later in range(len(found)):
        found[later] = ints[first + at] if at >= 0 else int(floats[before + day + at])
        at += 1 if day > 0 else 0
        at -= day if at > slot else 0
    return found


@compiled()
def crowd(ints: Ints, floats: Floats) -> None:
    """Sum the prices of promised cores from this slot to each later one."""
    slot, at, here = ints[m.SLOT], crowded_at(ints, floats), at_block(ints, floats, f.COST)
    here += int(f.HISTORY + slot * floats[f.SLOT_H])
    price = floats[f.LOAD_PRICE] * np.abs(floats[here - 167 : here + 1].mean()) * floats[f.SLOT_H]
    load, capacity = promised(ints, floats), capacity_ahead(ints, floats)
    floats[at] = 0.0
    for later in range(len(load)):
        share = load[later] / max(capacity[later], 1)
        floats[at + later + 1] = floats[at + later] + price * share**4


@compiled()
def priced(ints: Ints, floats: Floats, later: int, slots: int) -> float:
    """Return the price of promised cores of a run of some slots that begins `later` slots on."""
    at, last = crowded_at(ints, floats), ints[m.HORIZON] - ints[m.SLOT]
    return float(floats[at + min(later + slots, last)] - floats[at + min(later, last)])


@compiled()
def write_moment(ints: Ints, floats: Floats, context: Floats) -> None:
    """Write the features of the hour."""
    hour = int(f.HISTORY + ints[m.SLOT] * floats[f.SLOT_H])
    y = at_block(ints, floats, f.COST)
    here = y + hour
    context[MOMENT.carbon] = floats[at_block(ints, floats, f.CARBON) + hour]
    context[MOMENT.price] = floats[at_block(ints, floats, f.PRICE) + hour]
    context[MOMENT.cost] = floats[here]
    context[MOMENT.cost_1_ago] = floats[here - 1]
    context[MOMENT.cost_24_ago] = floats[here - 24]
    context[MOMENT.cost_mean_24] = floats[here - 23 : here + 1].mean()
    context[MOMENT.cost_low_24] = np.quantile(floats[here - 23 : here + 1], _LOW)
    context[MOMENT.cost_mean_168] = floats[here - 167 : here + 1].mean()
    angle = 2.0 * np.pi * floats[at_block(ints, floats, f.LOCAL_HOUR) + hour] / 24.0
    context[MOMENT.hour_sin] = np.sin(angle)
    context[MOMENT.hour_cos] = np.cos(angle)
    if len(context) > MOMENT.cost_low_next_24:
        seen, left = at_block(ints, floats, f.SEEN), int(floats[f.HOURS]) - hour
        ahead = floats[seen : seen + min(24, left)]
        context[MOMENT.cost_low_next_24] = np.quantile(ahead, _LOW_AHEAD)


@compiled()
def charge(ints: Ints, floats: Floats, job: int, slot: int, hours: float, wait: float) -> None:
    """Book hours of a job from the beginning of a slot on: carbon, money and waiting."""
    cores = float(ints[ints[m.CORES_AT] + job])
    begin = f.HISTORY + slot * floats[f.SLOT_H]
    end = min(begin + hours, floats[f.HOURS])
    begin = min(begin, end)
    power = cores * floats[f.POWER_KW]
    floats[f.CARBON_G] += power * _integral(floats, at_block(ints, floats, f.CARBON), begin, end)
    if floats[f.RESERVED] == 0.0:
        price = _integral(floats, at_block(ints, floats, f.PRICE), begin, end)
        floats[f.MONEY] += power / 1e3 * price
    elif floats[f.COMMITS] == 0.0:  # else when its start has come
        pay(ints, floats, job, slot, hours)
    floats[f.WAIT_H] += wait
    floats[f.CORE_WAIT_H] += wait * cores


@compiled()
def book(ints: Ints, floats: Floats, job: int, slot: int) -> None:
    """Book a job that starts in a slot and runs to its end."""
    wait = slot * floats[f.SLOT_H] - floats[at_block(ints, floats, f.SUBMITTED) + job]
    charge(ints, floats, job, slot, floats[at_block(ints, floats, f.RUN) + job], wait)
    floats[f.LATE] += slot > ints[ints[m.LATEST_AT] + job]
