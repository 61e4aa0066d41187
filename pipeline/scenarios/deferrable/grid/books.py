"""Forecast, features of the hour, and the books of a started job on a grid."""

import numpy as np

from hindcast.pipeline.grids.forecasts import forecast
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.features import MOMENT
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled

_LOW = 0.2  # quantile of the last day


@compiled(forceinline=True)
def at_block(ints: Ints, floats: Floats, which: int) -> int:
    """Return where a block of floats begins, from RUN to SEEN."""
    jobs, hours = ints[m.JOBS], int(floats[f.HOURS])
    return int(f.FLOAT_HEADER + min(which, f.COST) * jobs + max(which - f.COST, 0) * hours)


@compiled()
def _integral(floats: Floats, at: int, begin: float, end: float) -> float:
    """Return the integral of the hours at `at` from `begin` to `end`."""
    total = 0.0
    for hour in range(int(begin), int(np.ceil(end))):
        total += floats[at + hour] * (min(hour + 1.0, end) - max(float(hour), begin))
    return total


@compiled()
def slots_known(ints: Ints, floats: Floats, job: int) -> int:
    """Return the slots of a job's run as far as its length is known."""
    known = floats[at_block(ints, floats, f.KNOWN) + job]
    return max(int(np.ceil(known / floats[f.SLOT_H] - 1e-9)), 1)


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
    floats[seen + ahead] = 0.0
    for h in range(min(ahead, hours - now)):
        floats[seen + ahead + h + 1] = floats[seen + ahead + h] + floats[seen + h]


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
    angle = 2.0 * np.pi * ((hour + floats[f.HOUR_OF_DAY]) % 24) / 24.0
    context[MOMENT.hour_sin] = np.sin(angle)
    context[MOMENT.hour_cos] = np.cos(angle)


@compiled()
def book(ints: Ints, floats: Floats, job: int, slot: int) -> None:
    """Book the start of a job in a slot: carbon, money and waiting."""
    cores = float(ints[ints[m.CORES_AT] + job])
    slot_h = floats[f.SLOT_H]
    begin = f.HISTORY + slot * slot_h
    end = min(begin + floats[at_block(ints, floats, f.RUN) + job], floats[f.HOURS])
    begin = min(begin, end)
    power = cores * floats[f.POWER_KW]
    wait = slot * slot_h - floats[at_block(ints, floats, f.SUBMITTED) + job]
    floats[f.CARBON_G] += power * _integral(floats, at_block(ints, floats, f.CARBON), begin, end)
    floats[f.MONEY] += power / 1e3 * _integral(floats, at_block(ints, floats, f.PRICE), begin, end)
    floats[f.WAIT_H] += wait
    floats[f.CORE_WAIT_H] += wait * cores
    floats[f.LATE] += slot > ints[ints[m.LATEST_AT] + job]
