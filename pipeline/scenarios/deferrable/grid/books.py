"""Forecast, features of the hour, and the books of a started job on a grid."""

import numpy as np

from hindcast.pipeline.grids.forecasts import forecast
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.features import MOMENT
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
def crowd(ints: Ints, floats: Floats) -> None:
    """Sum the prices of promised cores from this slot to each later one.

    Promised are the cores that are kept for chosen starts, for as long as these jobs truly run, or
    those of the jobs that run, as far as their lengths are known.
    """
    slot, at, here = ints[m.SLOT], crowded_at(ints, floats), at_block(ints, floats, f.COST)
    here += int(f.HISTORY + slot * floats[f.SLOT_H])
    price = floats[f.LOAD_PRICE] * np.abs(floats[here - 167 : here + 1].mean()) * floats[f.SLOT_H]
    load = np.zeros(ints[m.HORIZON] - slot)
    if floats[f.COMMITS] == 1.0:
        load += ints[ints[m.FREED_AT] + slot : ints[m.FREED_AT] + ints[m.HORIZON]]
    for job in ints[ints[m.RUNNING_AT] : ints[m.RUNNING_AT] + ints[m.RUNNING_JOBS]]:
        left = slots_known(ints, floats, job) + ints[ints[m.START_AT] + job] - slot
        left = 1 if floats[f.PAUSABLE] == 1.0 else max(left, 1)
        load[:left] += ints[ints[m.CORES_AT] + job]
    floats[at] = 0.0
    for later in range(len(load)):
        known = later if floats[f.COMMITS] == 1.0 else 0
        capacity = max(ints[ints[m.CAPACITY_AT] + slot + known], 1)
        floats[at + later + 1] = floats[at + later] + price * (load[later] / capacity) ** 4


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
    floats[f.MONEY] += power / 1e3 * _integral(floats, at_block(ints, floats, f.PRICE), begin, end)
    floats[f.WAIT_H] += wait
    floats[f.CORE_WAIT_H] += wait * cores


@compiled()
def book(ints: Ints, floats: Floats, job: int, slot: int) -> None:
    """Book a job that starts in a slot and runs to its end."""
    wait = slot * floats[f.SLOT_H] - floats[at_block(ints, floats, f.SUBMITTED) + job]
    charge(ints, floats, job, slot, floats[at_block(ints, floats, f.RUN) + job], wait)
    floats[f.LATE] += slot > ints[ints[m.LATEST_AT] + job]
