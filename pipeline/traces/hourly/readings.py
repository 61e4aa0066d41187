"""Checks of the units and the clock of a series."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.hourly.series import (
    CAPACITY,
    CARBON,
    POWER,
    PRICE,
    VALUES,
    WARNING,
    Series,
)

# Means of 123 zones in 2022 were 16 to 950 gCO2eq/kWh, their hours 11 to 1,119.
_MOST_CARBON: Final = 2000.0
_CARBON_MEDIANS: Final = (5.0, 1300.0)
_PRICE_MEDIANS: Final = (3.0, 1000.0)  # of the absolute price per MWh, in the currencies judged
_JUDGED: Final = ("USD", "EUR", "GBP", "AUD", "CAD")
LONGEST_LAG: Final = 12  # hours
_WRONG_LAG: Final = 3
_TARIFF: Final = 100  # a price with fewer distinct values is a tariff, which keeps its own hours
_DARK: Final = 0.3  # share of zeros of a capacity that looks like solar
_DAY: Final = 24


def judged(series: Series) -> tuple[str, ...]:
    """Return remarks on units, clock and gaps of every zone.

    Raises TraceError for values that cannot be of their unit.
    """
    kinds = [name for name in VALUES if name in series.table.columns]
    return tuple(
        remark for zone in series.zones for remark in _of_zone(series.only(zone), zone, kinds)
    )


def _of_zone(series: Series, zone: str, kinds: Sequence[str]) -> Iterator[str]:
    """Yield what the hours of a zone say about it, and what looks wrong.

    Raises TraceError for numbers that cannot be in the unit that they are read in.
    """
    table, where = series.table, f"zone {zone!r}"
    for name in kinds:
        if name not in table.columns:
            yield f"{where}: no hour has a known {name}"
    if CARBON in table.columns and table[CARBON].count():
        carbon = _known(series, CARBON)
        least, middle, most = (float(np.quantile(carbon, q)) for q in (0.0, 0.5, 1.0))
        low, high = _CARBON_MEDIANS
        if not low <= middle <= high or least < 0 or most > _MOST_CARBON:
            factors = {"kg/kWh": 1e3, "lb/MWh": 0.453592}
            fits = [n for n, f in factors.items() if least >= 0 and low <= middle * f <= high]
            hint = "; is it a price? Then name it by --set price=COLUMN, in a wide file value=price"
            if least >= 0:
                hint = "; is it a carbon intensity?"
            if fits:
                hint = f"; is it {fits[0]}? Then give --set carbon_unit={fits[0]}"
            raise TraceError(
                f"{where}: carbon from {least:g} to {most:g} with median {middle:g} is no g/kWh, "
                f"expected 0 to {_MOST_CARBON:g} with a median of {low:g} to {high:g}{hint}"
            )
        if least == most:
            yield f"{where}: carbon is constant, so waiting saves none"
        else:
            yield (
                f"{where}: carbon has a median of {middle:.4g} g/kWh, and is lowest at "
                f"{_extremes(series, CARBON)} on average"
            )
    if PRICE in table.columns and table[PRICE].count():
        price = _known(series, PRICE)
        middle = float(np.median(np.abs(price)))
        low, high = _PRICE_MEDIANS
        currency = table["currency"][0]
        if currency in _JUDGED and not low <= middle <= high:
            energy = "kWh" if middle < low else "GWh"
            raise TraceError(
                f"{where}: a median price of {middle:g} {currency}/MWh is not plausible, expected "
                f"{low:g} to {high:g}; is it per {energy}? Then give --set "
                f"price_unit={currency}/{energy}"
            )
        yield (
            f"{where}: the price has a median of {np.median(price):.4g} {currency or ''}/MWh, and "
            f"is lowest at {_extremes(series, PRICE)} on average"
        )
        if (price < 0).any():
            yield f"{where}: {int((price < 0).sum()):,} hours have a negative price, which is kept"
    for name in [name for name in (CAPACITY, POWER) if name in table.columns]:
        capacity = _known(series, name)
        if (below := table.filter(pl.col(name) < 0)).height:
            hour = datetime.fromtimestamp(3600 * below["hour"][0], UTC)
            raise TraceError(
                f"{where}: {name} is {below[name][0]:g} at {hour:%Y-%m-%d %H:%M} UTC, expected "
                "cores or kW that are free, at least 0"
            )
        if len(capacity) and (dark := float((capacity == 0).mean())) > _DARK:
            yield f"{where}: {dark:.0%} of {name} are 0: is it solar, in kW?"
    if {CARBON, PRICE} <= set(table.columns):
        lag = best_lag(series.values(PRICE), series.values(CARBON))
        if lag is not None:
            yield f"{where}: the price fits the carbon best at a lag of {lag} h"
            tariff = table[PRICE].n_unique() < _TARIFF
            if abs(lag) >= _WRONG_LAG and not tariff:
                yield (
                    f"{WARNING}{where}: the clocks of price and carbon differ by {-lag} h, as if "
                    "one were shifted; right clocks give a lag of 0 or 1; check time_zone"
                )
    if "estimated" in table.columns and (share := _known(series, "estimated").mean()) > 0:
        yield f"{where}: {share:.2%} of the hours are estimated by the publisher"
    values = [series.values(name) for name in (CARBON, PRICE) if name in table.columns]
    if unknown := int(np.isnan(sum(values, np.zeros(table.height))).sum()):
        yield f"{where}: {unknown:,} hours are unknown; no window with one of them is offered"


def _known(series: Series, column: str) -> NDArray[np.float64]:
    values = series.values(column)
    return values[~np.isnan(values)]


def _extremes(series: Series, column: str) -> str:
    hours, values = series.table["hour"].to_numpy() % _DAY, series.values(column)
    known = ~np.isnan(values)
    counts = np.bincount(hours[known], minlength=_DAY)
    sums = np.bincount(hours[known], values[known], minlength=_DAY)
    means = np.divide(sums, counts, out=np.full(_DAY, np.nan), where=counts > 0)
    return f"{np.nanargmin(means):02d}:00 UTC and highest at {np.nanargmax(means):02d}:00 UTC"


def best_lag(price: NDArray[np.float64], carbon: NDArray[np.float64]) -> int | None:
    """Return the lag at which price[t] fits carbon[t + lag] best by ranks within days, in hours.

    None if there are fewer than ten whole days, or nothing varies.
    """
    fits = {lag: _fit(price, carbon, lag) for lag in range(-LONGEST_LAG, LONGEST_LAG + 1)}
    known = {lag: fit for lag, fit in fits.items() if fit is not None}
    return max(known, key=lambda lag: (known[lag], -abs(lag))) if known else None


def _fit(price: NDArray[np.float64], carbon: NDArray[np.float64], lag: int) -> float | None:
    begin, end = max(0, -lag), len(price) - max(0, lag)
    days = (end - begin) // _DAY
    if days < 10:
        return None
    cut = slice(begin, begin + days * _DAY)
    pairs = [_ranks(each.reshape(days, _DAY)) for each in (price[cut], np.roll(carbon, -lag)[cut])]
    whole = ~np.isnan(pairs[0] + pairs[1]).any(axis=1)
    first, second = (ranks[whole] - (_DAY - 1) / 2 for ranks in pairs)
    size = np.sqrt((first**2).sum() * (second**2).sum())
    return float((first * second).sum() / size) if size > 0 else None


def _ranks(days: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks within each day, from 0, ties by their mean; a day with NaN is NaN."""
    below = (days[:, :, None] > days[:, None, :]).sum(axis=2)
    equal = (days[:, :, None] == days[:, None, :]).sum(axis=2)
    ranks = below + (equal - 1) / 2.0
    ranks[np.isnan(days).any(axis=1)] = np.nan
    return np.asarray(ranks, np.float64)
