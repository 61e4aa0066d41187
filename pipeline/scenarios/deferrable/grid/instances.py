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
from hindcast.pipeline.grids.starts import Work
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.config import DeferrableConfig
from hindcast.pipeline.scenarios.deferrable.dynamics import begin_slot
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.bounds import bounds
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
from hindcast.pipeline.workloads.log_columns import LogColumns
from hindcast.pipeline.workloads.schema import Workload

_DAY: Final = 24
_QUEUES: Final = ("queue", "partition")  # columns of a log, the first that it has
_BOTH: Final = (CARBON, PRICE)
_NEEDED: Final = {"carbon": _BOTH[:1], "price": _BOTH[1:], "both": _BOTH}  # by objective


def series_of(config: DeferrableConfig, rng: np.random.Generator) -> Series:
    """Return the hours of the zone of the settings, or of one drawn from several.

    Raises RecipeError or TraceError.
    """
    given, changed = config.series, 0
    if given != SYNTHETIC:
        path = _path(given, "config.series", f", or {SYNTHETIC!r}")
        given, changed = str(path), path.stat().st_mtime_ns
    found = [_zone(given, name.strip(), config, changed) for name in config.zone.split(",")]
    return found[rng.integers(len(found))] if len(found) > 1 else found[0]


@lru_cache(maxsize=256)
def _zone(given: str, zone: str, config: DeferrableConfig, changed: int) -> Series:
    """Return the hours of a zone on the days of the settings (UTC)."""
    series = _read(given, config.series_sha256, changed).only(zone, "config.zone")
    table, day = series.table, pl.from_epoch(pl.col("hour") * HOUR_S).dt.date()
    for name, keep in (("first_day", day.ge), ("last_day", day.le)):
        text = getattr(config, name)
        try:
            table = table.filter(keep(date.fromisoformat(text))) if text else table
        except ValueError:
            raise RecipeError(f"config.{name} is {text!r}, expected a day as 2022-01-31") from None
    if table.is_empty():
        first, last = series.table.select(a=day.min(), b=day.max()).row(0)
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
def _read(given: str, sha256: str, _changed: int) -> Series:
    """Return the series of a path, which is read once per change of the file."""
    path = Path(given)
    if sha256 and path.is_file() and sha256_file(path) != sha256:
        raise RecipeError(
            f"config.series: {path}: its SHA-256 is {sha256_file(path)[:12]}..., the recipe has "
            f"{sha256[:12]}...; publishers revise their hours, so this is another series"
        )
    return open_series(given)


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
    """Return a window's jobs, hours and bound, at the first decision."""
    count = windows(config, workload)
    if window >= count:
        raise InputError(f"window {window} does not exist: the log makes {count} windows")
    slot_h = np.float64(config.slot_s / HOUR_S)
    if config.jobs == "generated":
        jobs = draw_jobs(config, rng)
        run = known = jobs.duration * slot_h
        submit = jobs.earliest * slot_h
    else:
        jobs, run, known, submit = _of_log(config, workload, window)
    if not len(run):
        raise InputError(f"window {window}: no job is submitted in it")
    series = series_of(config, rng)
    for column in _NEEDED[objective]:
        if column == CARBON or not config.reserved:  # a bill for cores has no price of hours
            series.values(column)  # raises TraceError where the zone has none
    config = replace(config, zone=series.zones[0]) if "," in config.zone else config
    longest = float(np.maximum(run, known).max(initial=1.0))
    slots = max(f.slots_of(config), int(jobs.latest.max()) + 2)
    slots += int(np.ceil(longest / slot_h)) if config.pausable else 0
    pauses_h = config.resume_h * slots / 2 if config.pausable else 0.0  # the most
    hours = f.HISTORY + int(np.ceil(slots * slot_h + longest + pauses_h)) + 2
    carbon, price, local, first = _hours(config, series, workload, window, hours, rng)
    require_room(8.0 * (slots + hours) + 40.0 * len(run))
    day = int(np.ceil(_DAY / slot_h))
    cores = _capacity(config, series, np.arange(-day, slots) * slot_h + first)
    before, capacity = cores[:day], cores[day:]
    expected = np.maximum(np.ceil(known / slot_h - 1e-9), 1.0).astype(np.int64)
    due = jobs.latest + (np.maximum(expected, jobs.duration) if config.pausable else jobs.duration)
    made = make_instance(config, objective, replace(jobs, duration=expected), capacity)
    if config.decide == "start":
        made.ints[m.SLOT] = jobs.earliest.min()
        begin_slot(made.ints)
    y = _cost(config, objective, carbon, price)
    wait = (jobs.latest - jobs.earliest) * slot_h
    begin = f.HISTORY + jobs.earliest * slot_h
    work = Work(begin, run, known, wait, jobs.cores)
    power = config.watts_per_core * config.pue / 1e3
    ahead = int(np.ceil(float((wait + known).max(initial=0.0)) + slot_h)) + 3
    ahead = max(ahead, _DAY) if f.looks_ahead(config) else ahead
    issued = _issued(config, objective, series.first_hour + first, int(slots * slot_h) + 1, ahead)
    start_bound, least = bounds(config, work, y, jobs.earliest, due, submit, capacity)
    now_money = float(work.cost(price, begin).sum()) * power / 1e3
    now_cost = float(work.cost(y, begin).sum()) * power / 1e3
    now_cost += config.waiting_weight * float((jobs.earliest * slot_h - submit) @ jobs.cores)
    if config.reserved:
        now_money, least_bill = _bills(config, jobs, run, slots * slot_h)
        if objective != "carbon":
            now_cost, start_bound = now_cost + now_money, start_bound + least_bill
            least += least_bill
    now_g, columns = float(work.cost(carbon, begin).sum()) * power, series.table.columns
    now_g = now_g if CARBON in columns else np.nan
    now_money = now_money if PRICE in columns or config.reserved else np.nan
    header = np.zeros(f.FLOAT_HEADER)
    header[: m.FLOAT_HEADER] = made.floats
    most = slots + int(ahead / slot_h) + 1  # slots in which a job could start or run
    for place, value in (
        (f.SLOT_H, slot_h), (f.HOURS, hours), (f.LOOKED_AHEAD, ahead), (f.POWER_KW, power),
        (f.WAITING_WEIGHT, config.waiting_weight), (f.CARBON_PRICE, config.carbon_price),
        (f.FORESIGHT, LEVEL7 if issued.size else FORECASTS.index(config.forecast)),
        (f.SIGMA, config.forecast_error), (f.SEED, float(rng.integers(1 << 30))),
        (f.FORECAST_AT_SLOT, -1.0), (f.ISSUED, float(issued.size > 0)), (f.LONGEST, most),
        (f.NOW_G, now_g), (f.NOW_MONEY, now_money), (f.NOW_COST, now_cost), (f.BOUND, least),
        (f.START_BOUND, start_bound), (f.ENERGY_KWH, float(run @ jobs.cores) * power),
        (f.COMMITS, float(config.decide == "start")), (f.LOAD_PRICE, config.load_price),
        (f.PAUSABLE, float(config.pausable)), (f.RESUME_H, config.resume_h),
        (f.LATE_WEIGHT, config.late_weight), (f.DAY_SLOTS, day), (f.RESERVED, config.reserved),
        (f.ON_DEMAND_PRICE, config.on_demand_price),
        (f.RESERVED_PRICE, config.reserved_rate * config.on_demand_price),
    ):  # fmt: skip
        header[place] = value
    blocks = (
        run, known, submit, run, due, np.zeros(len(run)), y, carbon, price, local,
        np.zeros(2 * ahead + 1), np.zeros(slots + 1), before, np.zeros(3 * most), issued.ravel(),
    )  # fmt: skip
    header[f.RUN_AT :] = f.FLOAT_HEADER + np.cumsum([0, *map(len, blocks[:-1])])
    floats = np.concatenate([header, *blocks])
    starts = int((jobs.latest - jobs.earliest).max(initial=0)) + 1
    return Instance(made.ints, floats, capacity=max(len(run) + 1, starts))


def _bills(
    config: DeferrableConfig, jobs: Jobs, run: NDArray[np.float64], episode_h: float
) -> tuple[float, float]:
    """Return the bill of starting at once jobs of some hours, (J,), and one that none is below.

    The second has the reserved hours, and the work that is beyond them.
    """
    core_h, fits = run * jobs.cores, jobs.cores <= config.reserved
    on_reserved, end = np.zeros(len(run), np.bool_), jobs.earliest + jobs.duration
    for job, slot in enumerate(jobs.earliest):
        used = jobs.cores[on_reserved & (end > slot)].sum()
        on_reserved[job] = used + jobs.cores[job] <= config.reserved
    room = config.reserved * (episode_h + run.max(initial=0.0))
    least = core_h[~fits].sum() + max(core_h[fits].sum() - room, 0.0)
    paid = config.reserved_rate * config.reserved * episode_h
    found = config.on_demand_price * (paid + np.array([core_h[~on_reserved].sum(), least]))
    return float(found[0]), float(found[1])


def _of_log(
    config: DeferrableConfig, workload: Workload, window: int
) -> tuple[Jobs, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the jobs submitted in a window, their lengths, known lengths and submissions in h."""
    first_s = (window // config.draws_per_window) * config.horizon * config.slot_s
    ends_s = (first_s, first_s + config.horizon * config.slot_s)
    rows = slice(*(int(workload.tasks["submit_s"].search_sorted(each)) for each in ends_s))
    chosen, known = workload.tasks[rows], _known(config, workload)[rows] / HOUR_S
    run = chosen["duration_s"].to_numpy() / HOUR_S
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
    """Return the length of each job of a log as policies know it at its submission, in s, (J,).

    By `knows_length` it is "true", the run time; "queue_mean", the mean run time of all jobs of its
    queue, later ones too; "past_mean", that of the jobs that had ended by its submission, an hour
    if none had; or the "request". A job without a request, or with one that the reader took from
    the run time, has the past mean. A past mean is of one queue only if the settings name the
    short queues, since the queue of a job follows from its run time otherwise.
    """
    tasks = workload.tasks
    run = tasks["duration_s"].to_numpy().astype(np.float64)
    if config.knows_length == "true":
        return run
    short = _is_short(config, tasks, run / HOUR_S)
    if config.knows_length == "queue_mean":
        means = [run[jobs].mean() if jobs.any() else 0.0 for jobs in (short, ~short)]
        return np.where(short, *means)
    known, submit = np.full(len(run), HOUR_S, np.float64), tasks["submit_s"].to_numpy()
    wait = tasks["wait_s"].fill_null(0.0).to_numpy() if "wait_s" in tasks.columns else 0.0
    end = submit + wait + run
    for jobs in (short, ~short) if config.short_queues else (np.ones(len(run), bool),):
        by_end = np.argsort(end[jobs])
        ended = np.searchsorted(end[jobs][by_end], submit[jobs], "right")  # their number, by job
        mean = np.cumsum(run[jobs][by_end])[ended - 1] / np.maximum(ended, 1)
        known[jobs] = np.where(ended > 0, mean, HOUR_S)
    if config.knows_length == "request" and "requested_s" in tasks.columns:
        log = LogColumns(workload)
        known = np.where((log.requested > 0) & ~log.derived, log.requested, known)
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
    total = series.table.height
    values = [
        series.values(name) if name in series.table.columns else np.zeros(total) for name in _BOTH
    ]
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
    places = places[all_known(np.sum(values, axis=0), begins, begins + hours)]
    if not len(places):
        needed = f"{f.HISTORY} before the window, and those in which its jobs could run"
        if config.align == "calendar":
            begin = first - f.HISTORY
            raise InputError(
                f"window {window}: its {hours:,} hours are {_span(series, begin, hours)}: {needed};"
                f" the series is {_span(series, 0, total)}, and does not know all of them; expected"
                " windows of which it does"
            )
        raise InputError(
            f"window {window}: no stretch of {hours:,} known hours of the series fits, which has "
            f"{total:,}: {needed}"
        )
    first = int(places[rng.integers(len(places))])
    cut = slice(first - f.HISTORY, first - f.HISTORY + hours)
    return values[0][cut], values[1][cut], local[cut], first


def _span(series: Series, first: int, hours: int) -> str:
    """Return the moments at which some hours of a series begin and end."""
    moments = (np.array([first, first + hours]) + series.first_hour).astype("datetime64[h]")
    begin, end = np.datetime_as_string(moments, unit="m")
    return f"{begin} to {end} UTC"


def _cost(
    config: DeferrableConfig, objective: str, carbon: NDArray[np.float64],
    price: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Return the cost of a MWh in each hour, (H,), in the unit of the objective.

    That is kg of carbon for "carbon", and money for "price" and "both". `carbon` is in g/kWh,
    `price` in money/MWh. With reserved cores no price counts: cores are paid, and not energy.
    """
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
    columns = _NEEDED[objective]
    path = _path(config.forecast_series, "config.forecast_series")
    table = _read_issued(path, config.zone, columns, path.stat().st_mtime_ns)
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
    zero = workload.provenance.second_zero
    if zero is None:
        raise RecipeError('config.align = "calendar": the log does not say when it began')
    return float(zero)


def _capacity(
    config: DeferrableConfig, series: Series, hours: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the cores of slots that begin at some hours of the series."""
    if config.grid_capacity == "unlimited":
        return np.full(len(hours), f.UNLIMITED)
    if config.grid_capacity == "constant":
        return np.full(len(hours), int(config.capacity))
    hour = np.minimum(np.floor(hours), series.table.height - 1).astype(np.int64)
    return np.floor(np.nan_to_num(series.values(CAPACITY)[hour])).astype(np.int64)
