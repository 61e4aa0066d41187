"""Optimum of work that can wait: the most that can be saved if all hours are known.

For a job of n hours at 1 kW that is known in hour i and may start up to `slack` hours later, with
hours x of a series of T hours:

    now      x_i + ... + x_{i+n-1}
    start    the least sum of n hours from a start in i .. i + slack
    hours    the sum of the n least hours of i .. i + slack + n - 1: the job may pause

Windows are cut at the end of the series, and rows i < T - n are offered. With a slack of T or more
the window is the rest of the series, and rows are offered as long as the job fits. Rows whose
window has an unknown hour are left out.

Source: Sukprasert et al., "On the Limitations of Carbon-Aware Temporal and Spatial Workload
Shifting in the Cloud", EuroSys 2024, and its published tables.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.simulation.kernel import Floats, compiled
from hindcast.pipeline.traces.hourly.series import CARBON, Series, all_known

_EXACT: Final = 100.0  # published hours have two decimals, whose sums are exact as whole numbers


@compiled()
def _optima(x: Floats, job: int, slack: int, now: Floats, start: Floats, hours: Floats) -> int:
    """Fill the three costs of every row; return the number of rows."""
    size = len(x)
    rows = size - job + 1 if slack >= size else size - job
    sums = np.concatenate((np.zeros(1), np.cumsum(x)))
    costs = sums[job:] - sums[: size - job + 1]
    for i in range(rows):
        end = min(i + slack + job, size)
        now[i], start[i] = costs[i], costs[i : end - job + 1].min()
        hours[i] = np.partition(x[i:end], job - 1)[:job].sum()
    return rows


def optima(x: NDArray[np.float64], job: int, slack: int) -> NDArray[np.float64]:
    """Return the costs (rows, 3) of now, start and hours in the unit of `x` times hours.

    Rows with an unknown hour in their window are NaN.
    """
    size = len(x)
    if job > size:
        return np.empty((0, 3))
    hundreds = x * _EXACT
    exact = bool(np.allclose(hundreds, np.rint(hundreds), rtol=0, atol=1e-6, equal_nan=True))
    known = np.nan_to_num(np.rint(hundreds) if exact else x)
    out = np.empty((3, size))
    rows = _optima(known, job, slack, out[0], out[1], out[2])
    found = out[:, :rows].T / (_EXACT if exact else 1.0)
    first = np.arange(rows)
    found[~all_known(x, first, np.minimum(first + slack + job, size))] = np.nan
    return np.asarray(found, np.float64)


def table_of(
    series: Series, jobs: tuple[int, ...], slacks: tuple[int, ...], column: str = CARBON
) -> list[dict[str, Any]]:  # fmt: skip
    """Return a row for every zone, length and slack: sums over all starts, and what is saved.

    A saving is that of the best start. It is null where the sum of now is not above 0, as can be
    with prices. A zone whose hours are all unknown has no starts.
    """
    rows = []
    unit = "saved_g_per_kwh" if column == CARBON else "saved_per_mwh"
    for zone in series.zones:
        of = series.only(zone)
        known = column in of.table.columns
        x = of.values(column) if known else np.full(of.table.height, np.nan)
        for job in jobs:
            for slack in slacks:
                found = optima(x, job, slack)
                found = found[~np.isnan(found).any(axis=1)]
                now, start, hours = (float(each) for each in found.sum(axis=0))
                rows.append({
                    "zone": zone, "job_h": job, "slack_h": slack, "rows": len(found),
                    "now_sum": now, "start_sum": start, "hours_sum": hours,
                    "saved_percent": 100 * (1 - start / now) if now > 0 else None,
                    unit: (now - start) / (len(found) * job) if len(found) else None,
                })  # fmt: skip
    return rows
