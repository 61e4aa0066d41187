"""GAIA again: its printed numbers, then other zones, no foresight, limited cores, and money.

Needs the folder `grids` of the traces: carbon_2022.parquet, gaia_pai_1k.csv, and for the table of
money prices_2021_2024.parquet. Nothing is trained, so the protocol has no stages: all is computed
for the page, and `cells.csv` is written beside the folder of the paper.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.flows.papers.cells import cell
from hindcast.flows.papers.claims import difference_claim, order_claim
from hindcast.flows.papers.gaia.cells import COLUMNS, FIRST_HOUR, HOURS, ZONE, cells
from hindcast.flows.papers.gaia.simulator import (
    HOUR,
    SHORT,
    Jobs,
    Policy,
    expected_lengths,
    jobs_of,
    play,
)
from hindcast.flows.papers.published import number, published
from hindcast.flows.papers.publishing import protocol_of
from hindcast.flows.papers.results import CLAIM, TABLE, Results, TableText
from hindcast.flows.protocols import Setting
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.grids.starts import Rule, Work, paused, starts
from hindcast.pipeline.statistics.intervals import mean_interval, paired_difference
from hindcast.pipeline.storage.files import write_text
from hindcast.pipeline.storage.location import traces_folder
from hindcast.pipeline.traces.hourly.series import CARBON, PRICE, Series, read_series
from hindcast.pipeline.workloads.log_columns import peak

TITLE: Final = "GAIA"
SOURCE: Final = (
    'Hanafy et al., "Going Green for Less Green: Optimizing the Cost of Reducing Cloud Carbon '
    'Emissions", ASPLOS 2024; numbers are those that its notebook prints'
)
_FILES: Final = ("carbon_2022.parquet", "gaia_pai_1k.csv", "prices_2021_2024.parquet")
_STARTS: Final = range(0, 8001, 500)  # first hours of windows, of 2022
_LIMITED: Final = ("AU-SA", "DE", "US-CAL-CISO", "NL")
_LOADS: Final = (3.0, 2.0, 1.5, 1.25)  # cores, as multiples of the mean load
_MONEY: Final = ("carbon", "price", "both at 100 per t")
_NAMES: Final = ("Lowest-Slot", "Carbon-Time", "Lowest-Window")
# Policies, and whether they know the lengths.
_RULES: Final[Mapping[str, tuple[Rule, bool]]] = {
    "Lowest-Slot": (Rule("lowest_slot", "perfect"), False),
    "Carbon-Time": (Rule("carbon_time", "perfect"), False),
    "Lowest-Window": (Rule("lowest_window", "perfect"), False),
    "Carbon-Time, level7": (Rule("carbon_time"), False),
    "Carbon-Time, day before": (Rule("carbon_time", "day"), False),
    "lowest window again, level7": (Rule("lowest_window", again=True), False),
    "threshold .2 of 24 h": (Rule("threshold"), False),
    "Carbon-Time, length known": (Rule("carbon_time", "perfect"), True),
    "Lowest-Window, length known": (Rule("lowest_window", "perfect"), True),
}
_PAUSES: Final = {"Wait AWhile": Rule("now", "perfect"), "pause, level7": Rule("now")}


def files() -> list[Path]:
    """Return the files that the protocol reads. Raises TraceError if a needed one is missing."""
    found = [traces_folder() / "grids" / name for name in _FILES]
    for path in found:
        if not path.is_file() and path.name != _FILES[-1]:
            raise TraceError(f"{path}: no such file; HINDCAST_TRACES names the folder of traces")
    return found


def read_jobs(path: Path) -> Jobs:
    """Return the jobs of a table of GAIA: arrival_time and length in seconds, and cpus."""
    table = pl.read_csv(path)
    columns = (table[name].to_numpy() for name in ("arrival_time", "length", "cpus"))
    return jobs_of(*columns)


def work_of(jobs: Jobs, first_hour: int, *, known: bool = False) -> Work:
    """Return the jobs in hours, with the waits and expected lengths of the two queues."""
    run = jobs.length / HOUR
    return Work(
        first_hour + jobs.arrival / HOUR, run, run if known else expected_lengths(jobs) / HOUR,
        np.where(jobs.length < SHORT, 6.0, 24.0), jobs.cores,
    )  # fmt: skip


def results(place: Path, setting: Setting) -> Results:
    """Return the tables and claims, and write the printed numbers to cells.csv."""
    carbon_file, jobs_file, price_file = files()
    carbon, jobs = read_series(carbon_file), read_jobs(jobs_file)
    own = carbon.only(ZONE).values(CARBON)
    printed = cells(jobs, own[FIRST_HOUR : FIRST_HOUR + HOURS])
    write_text(place.parent / "cells.csv", pl.DataFrame(printed).select(COLUMNS).write_csv())
    rows = _figures(printed)
    zones = carbon.zones[:: 4 if setting.quick else 1]
    zones += [ZONE] * (ZONE not in zones)
    saved = {zone: _saved(jobs, carbon.only(zone).values(CARBON)) for zone in zones}
    rows += _zone_rows(saved)
    rows += [row for zone in _LIMITED if zone in carbon.zones
             for row in _limited(jobs, zone, carbon.only(zone).values(CARBON))]  # fmt: skip
    rows += _reserved(jobs, own)
    rows += _money(jobs, read_series(price_file)) if price_file.is_file() else []
    return Results(
        pl.DataFrame(rows, schema=TABLE), _TEXTS, claims=pl.DataFrame(_claims(saved), schema=CLAIM)
    )  # fmt: skip


def _figures(printed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    paper, found = published("gaia"), []
    for of in printed:
        if of["figure"] in {8, 10, 12}:
            row = f"{of['policy']}, {of['reserved']} reserved cores"
            table, column = f"figure {of['figure']}", of["metric"]
            value = number(paper, table, row, column)
            found.append(cell(table, row, column, "", float(of["printed"]), value))
    return found


def _saved(jobs: Jobs, x: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return for each policy (windows, 4): saved %, saved g/kWh, mean wait in h, peak cores."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for first in _STARTS:
        work, known = work_of(jobs, first), work_of(jobs, first, known=True)
        now, energy = float(work.cost(x, work.submit).sum()), float(work.run @ work.cores)
        plays = {}
        for name, (rule, exact) in _RULES.items():
            start = starts(known if exact else work, x, rule)
            cores = peak(start, start + work.run, work.cores)
            plays[name] = work.cost(x, start), start - work.submit, cores
        for name, rule in _PAUSES.items():
            paid, end = paused(known, x, rule)
            plays[name] = paid * work.cores, end - work.submit - work.run, np.nan
        for name, (cost, wait, cores) in plays.items():
            saved = now - float(cost.sum())
            row = (100 * saved / now, saved / energy, float(wait.mean()), cores)
            found.setdefault(name, []).append(row)
    return {name: np.array(each) for name, each in found.items()}


def _zone_rows(saved: dict[str, dict[str, NDArray[np.float64]]]) -> list[dict[str, Any]]:
    found = []
    for policy in saved[ZONE]:
        means = {zone: of[policy].mean(axis=0) for zone, of in saved.items()}
        percent = np.array([each[0] for each in means.values()])
        grams, wait, cores = (float(np.median([of[n] for of in means.values()])) for n in (1, 2, 3))
        spread = saved[ZONE][policy][:, 0]
        add = partial(cell, "all zones", policy)
        found += [
            add(f"{ZONE}, mean", "%", float(spread.mean())),
            add(f"{ZONE}, lowest window", "%", float(spread.min())),
            add(f"{ZONE}, highest window", "%", float(spread.max())),
            *(add(f"{name} zone", "%", float(np.quantile(percent, q)))
              for name, q in (("upper quartile", 0.75), ("median", 0.5), ("lower quartile", 0.25))),
            add("median zone, saved", "g/kWh", grams),
            add("zones with 20 %", "", float((percent >= 20).sum())),
            add("zones with 10 %", "", float((percent >= 10).sum())),
            add("wait", "h", wait),
            add("peak", "cores", cores),
        ]  # fmt: skip
    for zone, of in saved.items():
        for policy in ("Carbon-Time", "lowest window again, level7", "Wait AWhile"):
            share, grams, *_ = map(float, of[policy].mean(axis=0))
            found.append(cell("each zone", zone, policy, "%", share))
            found.append(cell("each zone", zone, f"{policy}, saved", "g/kWh", grams))
    return found


def _limited(jobs: Jobs, zone: str, x: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return what rules save on a limited number of cores, and how many jobs are late."""
    found = []
    work = work_of(jobs, FIRST_HOUR, known=True)
    now = work.cost(x, work.submit).sum()
    span = float((work.submit + work.run).max() - work.submit.min())
    for load in _LOADS:
        capacity = max(int(load * (np.ceil(work.run) @ work.cores) / span), int(work.cores.max()))
        add = partial(cell, "limited cores", f"{zone}, {load:g} times the load ({capacity})")
        for name, seen, crowding in (
            ("perfect", "perfect", 0.0), ("level7", "level7", 0.0),
            ("level7, crowding 1", "level7", 1.0),
        ):  # fmt: skip
            rule = Rule("lowest_window", seen, capacity=capacity, crowding=crowding)
            start = starts(work, x, rule)
            late = float((start - work.submit > work.wait + 1e-9).sum())
            saved = 100 * float(1 - work.cost(x, start).sum() / now)
            found += [add(f"{name}: saved", "%", saved), add(f"{name}: late", "jobs", late)]
    return found


def _reserved(jobs: Jobs, own: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return carbon and bill with nine reserved cores, against no wait."""
    hours = own[FIRST_HOUR : FIRST_HOUR + HOURS]
    now = play(jobs, hours, Policy("carbon", "oracle", "0x0", 9))
    found = []
    for name, policy in {
        "Carbon-Time": Policy("carbon", "cst_average", reserved=9),
        "Lowest-Window": Policy("carbon", "waiting", reserved=9),
        "RES-First-Carbon-Time": Policy("carbon-cost", "cst_average", reserved=9),
        "AllWait-Threshold": Policy("cost", "oracle", reserved=9),
        "Wait AWhile, as released": Policy("suspend-resume", "oracle", reserved=9),
    }.items():
        of = play(jobs, hours, policy)
        add = partial(cell, "reserved cores", name)
        found += [add("carbon", "%", float(100 * (of.carbon.sum() / now.carbon.sum() - 1))),
                  add("bill", "%", 100 * (of.bill / now.bill - 1))]  # fmt: skip
    return found


def _money(jobs: Jobs, series: Series) -> list[dict[str, Any]]:
    """Return what waiting for carbon, price or both saves of each, with the forecast level7."""
    found = []
    for zone in series.zones:
        of = series.only(zone)
        carbon, price = of.values(CARBON), of.values(PRICE)
        objectives = (carbon, price, 0.1 * carbon + price)  # money per MWh
        windows = range(200, len(price) - 400, 500)
        works = [work_of(jobs, first, known=True) for first in windows]
        works = [work for work in works if work.within(carbon + price).all()]
        for name, x in zip(_MONEY, objectives, strict=True):
            spent = np.zeros((2, 2))  # carbon and price: started at once, and later
            for work in works:
                start = starts(work, x, Rule("lowest_window", again=True))
                spent += [[work.cost(values, begin).sum() for begin in (work.submit, start)]
                          for values in (carbon, price)]  # fmt: skip
            (carbon_now, carbon_then), (paid_now, paid_then) = spent.tolist()
            energy = sum(float(work.run @ work.cores) for work in works)
            add = partial(cell, "money", f"{zone}, waiting for {name}")
            found += [
                add("carbon saved", "%", 100 * (1 - carbon_then / carbon_now)),
                add("carbon saved per kWh", "g/kWh", (carbon_now - carbon_then) / energy),
                add("price saved", f"{of.table['currency'][0]}/MWh",
                    (paid_now - paid_then) / energy),
            ]  # fmt: skip
    return found


def _claims(saved: dict[str, dict[str, NDArray[np.float64]]]) -> list[dict[str, Any]]:
    def by_zone(policy: str) -> NDArray[np.float64]:
        return np.array([of[policy].mean(axis=0) for of in saved.values()])

    slot, time, window = map(by_zone, _NAMES)
    varies = window[:, 0] > 1e-9
    per_hour = [each[varies, 0] / each[varies, 2] for each in (slot, time, window)]
    neighbours = [paired_difference(time[varies, 0], slot[varies, 0]),
                  paired_difference(window[varies, 0], time[varies, 0])]  # fmt: skip
    return [
        difference_claim(
            "Carbon-Time saves", "figure 8", "Carbon-Time's carbon is below that of no wait", "%",
            27.5112, mean_interval(time[:, 0]), "all zones at hand, 17 windows of the year",
        ),
        order_claim(
            "saved carbon", "figure 8", "Lowest-Window saves more than Carbon-Time, and that more "
            "than Lowest-Slot", neighbours, "all zones at hand",
        ),
        difference_claim(
            "saved per hour of waiting", "figure 8",
            "Carbon-Time saves more per hour of waiting than Lowest-Window", "points/h",
            27.5112 / 4.729 - 31.6296 / 6.645, paired_difference(per_hour[1], per_hour[2]),
            "all zones at hand",
        ),
    ]  # fmt: skip


_TEXTS: Final = {
    "figure 8": TableText("Carbon and waiting", "notebook, Fig. 8",
                          "the row of Wait AWhile repeats a defect: `start_without_arrival`"),
    "figure 10": TableText("Nine reserved cores", "notebook, Fig. 10"),
    "figure 12": TableText("Spot and reserved cores", "notebook, Fig. 12"),
    "all zones": TableText("The week of jobs in all zones at hand, 17 windows of 2022", "",
                           "rows with level7, day before or threshold see no hour to come"),
    "each zone": TableText("Zone by zone", "", "means of the windows"),
    "limited cores": TableText("Limited cores", "", "lengths known; committed at submission"),
    "reserved cores": TableText("Carbon and bill against no wait, nine reserved cores", "",
                                f"{ZONE}, from hour {FIRST_HOUR}; reserved cores cost while idle"),
    "money": TableText("Carbon and money, decided again every hour with level7", "",
                       "2021 to 2024, lengths known; average carbon, day-ahead price or tariff"),
}  # fmt: skip

PROTOCOL: Final = protocol_of(TITLE, SOURCE, lambda _setting: (), results)
