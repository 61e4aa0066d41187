"""Instances on a grid: jobs of a window, hours of the series beside it, and the bound."""

from dataclasses import replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.grids.forecasts import FORECASTS, LEVEL7
from hindcast.pipeline.grids.starts import Work, integral
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.bounds import bounds
from hindcast.pipeline.scenarios.deferrable.grid.reserved import bills
from hindcast.pipeline.scenarios.deferrable.instances import Jobs, draw_jobs
from hindcast.pipeline.scenarios.deferrable.memory import make_instance
from hindcast.pipeline.simulation.scenario import DRAWN_WINDOWS, Demand, Instance, require_room
from hindcast.pipeline.storage.files import sha256_file
from hindcast.pipeline.storage.location import location, traces_folder
from hindcast.pipeline.traces.field_values import UTC, require_time_zone
from hindcast.pipeline.traces.hourly.ingest import SYNTHETIC, open_series
from hindcast.pipeline.traces.hourly.series import (
    CAPACITY,
    CARBON,
    HOUR_S,
    PRICE,
    Series,
    all_known,
    read_issued,
)
from hindcast.pipeline.workloads.schema import Workload

_DAY: Final = 24
_EPOCH: Final = date(1970, 1, 1).toordinal()
_QUEUES: Final = ("queue", "partition")  # columns of a log, the first that it has
_BOTH: Final = (CARBON, PRICE)


def series_of(config: DeferrableConfig, rng: np.random.Generator) -> Series:
    """Return the hours of the zone of the settings, or of one drawn from several.

    Raises RecipeError or TraceError.
    """
    path = location(config.series)
    if config.series != SYNTHETIC:
        path = _path(config.series, "config.series", f", or {SYNTHETIC!r}")
    changed = 0 if config.series == SYNTHETIC else path.stat().st_mtime_ns
    found = [_zone(path, name.strip(), config, changed) for name in config.zone.split(",")]
    return found[rng.integers(len(found))] if len(found) > 1 else found[0]


@lru_cache(maxsize=256)
def _zone(path: Path, zone: str, config: DeferrableConfig, changed: int) -> Series:
    """Return the hours of a zone on the days of the settings (UTC)."""
    if config.series == SYNTHETIC:
        series = open_series(SYNTHETIC)
    else:
        series = _read(path, config.series_sha256, changed).only(zone, "config.zone")
    table, hour = series.table, pl.col("hour")
    for name, beside in (("first_day", hour.ge), ("last_day", hour.lt)):
        day = getattr(config, name)
        try:
            at = date.fromisoformat(day).toordinal() - _EPOCH if day else None
        except ValueError:
            raise RecipeError(f"config.{name} is {day!r}, expected a day as 2022-01-31") from None
        if at is not None:
            table = table.filter(beside(_DAY * (at + (name == "last_day"))))
    if table.is_empty():
        first, last = (date.fromordinal(_EPOCH + series.table["hour"][i] // _DAY) for i in (0, -1))
        raise RecipeError(
            f"config.first_day, config.last_day: the series has no hour of {config.first_day!r} to "
            f"{config.last_day!r}, expected days from {first} to {last}"
        )
    return Series(table, remarks=series.remarks)


def _path(given: str, where: str, other: str = "") -> Path:
    """Return the path of a setting, which may be below the folder of traces."""
    path = location(given)
    if not path.is_absolute() and not path.exists():
        path = traces_folder() / given
    if not given or not path.exists():
        raise RecipeError(
            f"{where}: {given}: no such file or folder, expected one that exists, or one below "
            f"$HINDCAST_TRACES{other}"
        )
    return path


@lru_cache(maxsize=4)
def _read_issued(path: Path, zone: str, columns: tuple[str, ...], _changed: int) -> pl.DataFrame:
    """Return the issued forecasts of a path, which is read once per change of the file."""
    return read_issued(path, zone, columns)


@lru_cache(maxsize=4)
def _read(path: Path, sha256: str, _changed: int) -> Series:
    """Return the series of a path, which is read once per change of the file."""
    if sha256 and path.is_file() and sha256_file(path) != sha256:
        raise RecipeError(
            f"config.series: {path}: its SHA-256 is {sha256_file(path)[:12]}..., the recipe has "
            f"{sha256[:12]}...; publishers revise their hours, so this is another series"
        )
    return open_series(path)


def windows(config: DeferrableConfig, workload: Workload) -> int:
    """Return the number of windows: stretches of the log times draws, or any number."""
    if config.jobs == "generated":
        return DRAWN_WINDOWS
    if config.jobs == "trace":
        raise RecipeError('config.jobs = "trace" has no series; expected "log" or "generated"')
    last = workload.tasks["submit_s"].max()
    slots = 0 if last is None else int(float(last) // config.slot_s) + 1  # type: ignore[arg-type]
    return max(slots // config.horizon, 0) * config.draws_per_window


def instance(
    config: DeferrableConfig, objective: str, workload: Workload, window: int,
    rng: np.random.Generator,
) -> Instance:  # fmt: skip
    """Return a window's jobs, hours and bound, at the first decision of slot 0."""
    count = windows(config, workload)
    if window >= count:
        raise InputError(f"window {window} does not exist: the log makes {count} windows")
    slot_h = config.slot_s / HOUR_S
    if config.jobs == "generated":
        jobs = draw_jobs(config, rng)
        run = known = (jobs.duration * slot_h).astype(np.float64)
        submit = (jobs.earliest * slot_h).astype(np.float64)
    else:
        jobs, run, known, submit = _of_log(config, workload, window)
    if not len(run):
        raise InputError(f"window {window}: no job is submitted in it")
    series = series_of(config, rng)
    config = replace(config, zone=series.zones[0]) if "," in config.zone else config
    longest = float(np.maximum(run, known).max(initial=1.0))
    slots = f.slots_of(config)
    if config.deadline in f.OF_LENGTHS and config.jobs == "log":
        slots = max(slots, int(jobs.latest.max()) + 2)
    slots += int(np.ceil(longest / slot_h)) if config.pausable else 0
    pauses_h = config.resume_h * slots / 2 if config.pausable else 0.0  # the most
    hours = f.HISTORY + int(np.ceil(slots * slot_h + longest + pauses_h)) + 2
    carbon, price, local, first = _hours(config, series, workload, window, hours, rng)
    require_room(8.0 * (slots + hours) + 40.0 * len(run))
    capacity = _capacity(config, series, jobs, slots, first, slot_h)
    pieces = replace(jobs, duration=np.ones_like(jobs.duration)) if config.pausable else jobs
    made = make_instance(config, objective, pieces, capacity)
    y = _cost(config, objective, carbon, price)
    wait = (jobs.latest - jobs.earliest) * slot_h
    begin = (f.HISTORY + jobs.earliest * slot_h).astype(np.float64)
    power = config.watts_per_core * config.pue / 1e3
    work = Work(begin, run, known, wait.astype(np.float64), jobs.cores)
    ahead = int(np.ceil(float((wait + known).max(initial=0.0)) + slot_h)) + 3
    ahead = max(ahead, _DAY) if f.looks_ahead(config) else ahead
    at = series.first_hour + first
    issued = _issued(config, objective, at, int(slots * slot_h) + 1, ahead).ravel()
    header = np.zeros(f.FLOAT_HEADER - m.FLOAT_HEADER)
    energy = power * jobs.cores
    start_bound, least = bounds(config, jobs, work, y, energy, submit, capacity)
    now_money = float(integral(price, begin, begin + run) @ energy / 1e3)
    now_cost = float(integral(y, begin, begin + run) @ energy / 1e3)
    day_slots = int(np.ceil(_DAY / slot_h)) if config.decide == "start" else 0
    before = _capacity(config, series, jobs, day_slots, first - _DAY, slot_h)
    if config.reserved:
        now_money, least_bill = bills(config, jobs, run, slots * slot_h)
        if objective != "carbon":
            now_cost, start_bound = now_cost + now_money, start_bound + least_bill
            least += least_bill
    for place, value in (
        (f.SLOT_H, slot_h), (f.HOURS, hours), (f.LOOKED_AHEAD, ahead), (f.POWER_KW, power),
        (f.WAITING_WEIGHT, config.waiting_weight), (f.CARBON_PRICE, config.carbon_price),
        (f.FORESIGHT, LEVEL7 if issued.size else FORECASTS.index(config.forecast)),
        (f.SIGMA, config.forecast_error), (f.SEED, float(rng.integers(1 << 30))),
        (f.FORECAST_AT_SLOT, -1.0),
        (f.NOW_G, integral(carbon, begin, begin + run) @ energy),
        (f.NOW_MONEY, now_money), (f.NOW_COST, now_cost),
        (f.BOUND, least),
        (f.ENERGY_KWH, run @ energy), (f.ISSUED, float(issued.size > 0)),
        (f.COMMITS, float(config.decide == "start")), (f.LOAD_PRICE, config.load_price),
        (f.PAUSABLE, float(config.pausable)), (f.RESUME_H, config.resume_h),
        (f.START_BOUND, start_bound), (f.LATE_WEIGHT, config.late_weight),
        (f.DAY_SLOTS, day_slots), (f.RESERVED, config.reserved),
        (f.ON_DEMAND_PRICE, config.on_demand_price),
        (f.RESERVED_PRICE, config.reserved_rate * config.on_demand_price),
    ):  # fmt: skip
        header[place - m.FLOAT_HEADER] = value
    seen = np.zeros(2 * ahead + slots + 2)
    on_reserved = np.zeros(len(run) if config.reserved else 0)
    blocks = (run, known, submit, run, y, carbon, price, local, seen, issued, before, on_reserved)
    floats = np.concatenate([made.floats, header, *blocks])
    floats[f.BEFORE_AT] = len(floats) - len(on_reserved) - len(before)
    starts = int((jobs.latest - jobs.earliest).max(initial=0)) + 1
    if config.decide == "start":
        made.ints[m.SLOT] = jobs.earliest.min(initial=slots)
    return Instance(made.ints, floats, capacity=max(len(run) + 1, starts))


def _of_log(
    config: DeferrableConfig, workload: Workload, window: int
) -> tuple[Jobs, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the jobs submitted in a window, their lengths, known lengths and submissions in h."""
    first_s = (window // config.draws_per_window) * config.horizon * config.slot_s
    tasks = workload.tasks
    submit_s = tasks["submit_s"]
    last_s = first_s + config.horizon * config.slot_s
    rows = slice(int(submit_s.search_sorted(first_s)), int(submit_s.search_sorted(last_s)))
    known_of_all = _known(config, workload) / HOUR_S
    chosen = tasks[rows]
    run, known = chosen["duration_s"].to_numpy() / HOUR_S, known_of_all[rows]
    slot_h = config.slot_s / HOUR_S
    submit = (chosen["submit_s"].to_numpy() - first_s) / HOUR_S
    wait = _waits(config, chosen, submit + first_s / HOUR_S, known)
    if config.align == "calendar":  # slots begin with an hour of the series
        submit = submit + (_zero_s(workload) + first_s) % HOUR_S / HOUR_S
    earliest = np.ceil(submit / slot_h - 1e-9).astype(np.int64)
    latest = np.maximum(np.floor((submit + wait) / slot_h + 1e-9).astype(np.int64), earliest)
    cores = np.rint((chosen["cores"] * chosen["instances"]).to_numpy()).clip(1).astype(np.int64)
    duration = np.maximum(np.ceil(run / slot_h - 1e-9), 1.0).astype(np.int64)
    return Jobs(cores, duration, earliest, latest, earliest.copy()), run, known, submit


def _is_short(config: DeferrableConfig, tasks: pl.DataFrame, hours: NDArray[np.float64]) -> Any:
    """Return whether jobs of these lengths are in the short queue, (J,)."""
    if config.short_queues:
        queue = next((name for name in _QUEUES if name in tasks.columns), None)
        if queue is None:
            raise RecipeError("config.short_queues: the log has no column of a queue")
        return tasks[queue].cast(pl.String).fill_null("").is_in(config.short_queues).to_numpy()
    return hours < config.short_below


def _waits(
    config: DeferrableConfig, tasks: pl.DataFrame, submit: NDArray[np.float64],
    known: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Return the longest wait of each job in hours, by its submission on the clock of the log."""
    if config.deadline == "hours":
        return np.full(len(known), config.long_wait)
    if config.deadline == "factor":
        return config.deadline_factor * known
    short = _is_short(config, tasks, known)
    wait = np.where(short, config.short_wait, config.long_wait)
    if config.deadline == "queues":
        return wait
    if "deadline_s" not in tasks.columns:
        raise RecipeError('config.deadline = "column": the log has no column deadline_s')
    due = tasks["deadline_s"].cast(pl.Float64).fill_null(np.nan).to_numpy() / HOUR_S
    return np.where(np.isnan(due), wait, np.maximum(due - known - submit, 0.0))


def demand(config: DeferrableConfig, workload: Workload, window: int) -> Demand:
    """Return the work of a window; only a limited capacity rounds it, to slots."""
    jobs, run, *_ = _of_log(config, workload, window)
    work = float(run @ jobs.cores) * HOUR_S
    if config.grid_capacity == "unlimited":
        return Demand(work, work)
    return Demand(work, float(jobs.duration @ jobs.cores) * config.slot_s)


def _known(config: DeferrableConfig, workload: Workload) -> NDArray[np.float64]:
    """Return the lengths as policies know them, in s; `queue_mean` is over the whole log.

    Without a request it is the mean of the jobs of its queue that had ended before, or an hour.
    """
    tasks = workload.tasks
    run = tasks["duration_s"].to_numpy().astype(np.float64)
    if config.knows_length == "true":
        return run
    short = _is_short(config, tasks, run / HOUR_S)
    if config.knows_length == "queue_mean":
        means = [run[of].mean() if of.any() else 0.0 for of in (short, ~short)]
        return np.where(short, *means)
    known, submit = np.full(len(run), HOUR_S, np.float64), tasks["submit_s"].to_numpy()
    wait = tasks["wait_s"].fill_null(0.0).to_numpy() if "wait_s" in tasks.columns else 0.0
    queues = (short, ~short) if config.short_queues else (np.ones(len(run), bool),)
    for of in queues:
        order = np.argsort((submit + wait + run)[of])
        ended = np.searchsorted((submit + wait + run)[of][order], submit[of], "right")
        mean = np.cumsum(run[of][order])[ended - 1] / np.maximum(ended, 1)
        known[of] = np.where(ended > 0, mean, HOUR_S)
    if config.knows_length == "request" and "requested_s" in tasks.columns:
        asked = tasks["requested_s"].fill_null(0.0).to_numpy()
        known = np.where(asked > 0, asked, known)
    return known


def _hours(
    config: DeferrableConfig, series: Series, workload: Workload, window: int, hours: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], int]:  # fmt: skip
    """Return carbon, price and hour of day of a window, history first, and the hour of slot 0."""
    require_time_zone(config.time_zone, "config.time_zone")
    clock = pl.from_epoch(series.table["hour"] * HOUR_S).dt.replace_time_zone(UTC)
    clock = clock.dt.convert_time_zone(config.time_zone)
    local = (clock.dt.hour() + clock.dt.minute() / 60).to_numpy()
    given = [series.values(name) for name in (CARBON, PRICE) if name in series.table.columns]
    total = len(given[0])
    if config.align == "calendar":
        zero = _zero_s(workload)
        at = (window // config.draws_per_window) * config.horizon * config.slot_s + zero
        first = int(at // HOUR_S) - series.first_hour
        places = np.array([first])
    else:
        places = np.flatnonzero(local < 1)
    inside = (places >= f.HISTORY) & (places - f.HISTORY + hours <= total)
    places = places[inside]
    begins = places - f.HISTORY
    places = places[all_known(np.sum(given, axis=0), begins, begins + hours)]
    if not len(places):
        raise InputError(
            f"window {window}: no stretch of {hours:,} known hours of the series fits, which has "
            f"{total:,}: {f.HISTORY} before the window, and those in which its jobs could run"
        )
    first = int(places[rng.integers(len(places))])
    cut = slice(first - f.HISTORY, first - f.HISTORY + hours)
    values = {
        name: series.values(name)[cut] if name in series.table.columns else np.zeros(hours)
        for name in (CARBON, PRICE)
    }
    return values[CARBON], values[PRICE], local[cut], first


def _cost(
    config: DeferrableConfig, objective: str, carbon: NDArray[np.float64],
    price: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Return hours in the unit of the objective; a bill for cores does not depend on them."""
    price = np.zeros_like(price) if config.reserved else price
    both = config.carbon_price * carbon / 1e3 + price
    return {"carbon": carbon, "price": price, "both": both}[objective]


def _issued(
    config: DeferrableConfig, objective: str, first: int, hours: int, ahead: int
) -> NDArray[np.float64]:
    """Return what the last forecast of each hour from `first` on has of those after it, (T, K)."""
    if config.forecast != "file":
        return np.zeros((0, ahead))
    require_room(float(hours * ahead))
    columns = {"carbon": [CARBON], "price": [PRICE], "both": [CARBON, PRICE]}[objective]
    path = _path(config.forecast_series, "config.forecast_series")
    table = _read_issued(path, config.zone, tuple(columns), path.stat().st_mtime_ns)
    issue, hour = table["issued"].to_numpy(), table["hour"].to_numpy()
    of = [table[name].to_numpy() if name in columns else np.zeros(len(hour)) for name in _BOTH]
    values, seen = _cost(config, objective, *of), np.full((hours, ahead), np.nan)
    for t in range(hours):
        last = np.searchsorted(issue, first + t, "right")
        begin = np.searchsorted(issue, issue[last - 1]) if last else 0
        later = hour[begin:last] - first - t
        inside = (later >= 0) & (later < ahead)
        seen[t, later[inside]] = values[begin:last][inside]
    return seen


def _zero_s(workload: Workload) -> float:
    """Return the beginning of a log in seconds since 1970. Raises RecipeError."""
    zero = workload.provenance.noted.get("UnixStartTime", "")
    if not zero.strip().isdecimal():
        raise RecipeError('config.align = "calendar": the log does not say when it began')
    return float(zero)


def _capacity(
    config: DeferrableConfig, series: Series, jobs: Jobs, slots: int, first: int, slot_h: float
) -> NDArray[np.int64]:
    """Return the cores of every slot; unlimited are as many as all jobs have together."""
    if config.grid_capacity == "unlimited":
        return np.full(slots, max(int(jobs.cores.sum()), 1))
    if config.grid_capacity == "constant":
        return np.full(slots, int(config.capacity))
    hour = first + (np.arange(slots) * slot_h).astype(np.int64)
    cores = np.nan_to_num(series.values(CAPACITY)[np.minimum(hour, series.table.height - 1)])
    return np.asarray(np.floor(cores).astype(np.int64))
