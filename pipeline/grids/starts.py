"""Starts of jobs that can wait on a grid: published rules, and the books of what they did.

Times are hours after the first hour of the series; series are step functions, which are integrated,
so that jobs of minutes are exact. A rule decides once, at the submission, among starts an hour
apart (`commit`), or at the submission and again at every hour of the clock (`again`):

    now             start at once; latest: at the end of the wait
    lowest_slot     the hour of least forecast, from its beginning
    lowest_window   the start of least forecast over the run, as far as its length is known
    carbon_time     the start that saves most per hour until completion, none if nothing is saved
    threshold       the first hour at or below a quantile of the last hours, which needs no forecast

Under a capacity a job takes its cores in every hour that it touches. A rule sees the cores that
running jobs and chosen starts are promised, as far as their lengths are known: a job that ended
early is promised none, one that runs for longer is expected to end in this hour. A rule that
decides once chooses a start that fits beside them, or the first one after its latest start that
does. A job that truly does not fit at its start begins in the first hour in which it does; after
its latest start it is late. With `crowding` k, each promised hour costs k times the mean of the
last week times (promised / capacity)^4 more.

`pause` runs a job in pieces: in an hour if cheaper hours before its end, by forecast, are fewer
than what it still has to run.

Sources: Hanafy et al., ASPLOS 2024; Wiesner et al., "Let's Wait Awhile", Middleware 2021.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.grids.forecasts import FORECASTS, forecast
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.traces.hourly.series import all_known

RULES: Final = ("now", "latest", "lowest_slot", "lowest_window", "carbon_time", "threshold")
NOW, LATEST, SLOT, WINDOW, TIME, THRESHOLD = range(len(RULES))
_LOW: Final = 0.2  # quantile of `threshold`, over the last _BACK_H hours
_BACK_H: Final = 24
_SIGMA: Final = 0.2  # relative error of the forecast `noise` a day ahead
_SEED: Final = 0  # of that error
_FAR: Final = 1 << 40  # a capacity that nothing reaches
Times: TypeAlias = NDArray[np.float64 | np.integer[Any]]


class Work(NamedTuple):
    """Jobs in order of submission, in hours after the first hour of a series; (J,) each.

    Attributes:
        submit: Submission.
        run: Length.
        known: Length as a rule knows it.
        wait: Longest wait for the start.
        cores: Cores, int64.
    """

    submit: Floats
    run: Floats
    known: Floats
    wait: Floats
    cores: Ints

    def within(self, x: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which jobs can neither leave the series nor touch an unknown hour, (J,)."""
        end = self.submit + self.wait + np.maximum(self.run, self.known)
        return ~np.isnan(integral(x, self.submit, end))

    def cost(self, x: NDArray[np.float64], start: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integral of x over the run from each start, times the cores, (J,)."""
        return integral(x, start, start + self.run) * self.cores


@dataclass(frozen=True)
class Rule:
    """A rule of when to start.

    Attributes:
        kind: Name of RULES.
        forecast: Name of FORECASTS.
        again: Whether it decides again at every hour.
        capacity: Cores; None without a limit.
        crowding: Price k of promised load.
    """

    kind: str
    forecast: str = "level7"
    again: bool = False
    capacity: int | None = None
    crowding: float = 0.0


class _Settings(NamedTuple):
    """A rule as the compiled functions take it, see Rule."""

    kind: int
    foresight: int
    again: bool
    capacity: int
    crowding: float


class _Hour(NamedTuple):
    """The knowledge of a rule in hour t.

    Attributes:
        seen: Forecast of each hour from t on.
        paid: Its integral to each of them.
        free: Cores of each hour of all that are not promised; (0,) without a limit.
        recent: Quantile of the last hours, for `threshold`.
        level: Mean of the last week, for `crowding`.
    """

    seen: Floats
    paid: Floats
    free: Floats
    recent: float
    level: float


@compiled(forceinline=True)
def _until(paid: Floats, x: Floats, time: float) -> float:
    """Return the integral of x from 0 to `time`; `paid` has that to every hour."""
    hour = int(time)
    rest = time - hour
    return float(paid[hour] + (x[hour] * rest if rest > 0.0 else 0.0))


@compiled(forceinline=True)
def between(paid: Floats, x: Floats, begin: float, end: float) -> float:
    """Return the integral of x from `begin` to `end`.

    `paid` holds the integrals of x from 0 to each hour.
    """
    return float(_until(paid, x, end) - _until(paid, x, begin))


@compiled()
def fits(free: Floats, first: int, end: int, cores: int) -> bool:
    """Return whether cores are free from one hour or slot to before another; behind all, they are.

    `free` are the free cores of each.
    """
    at, last = first, min(end, len(free))
    while at < last and cores <= free[at]:
        at += 1
    return at >= last


@compiled()
def _promise(work: Work, start: Floats, job: int, since: int, sign: int, free: Floats) -> None:
    """Promise a job its cores from hour `since` on, or with a `sign` of -1 take them back."""
    end = int(np.ceil(start[job] + work.known[job]))
    for hour in range(max(since, int(start[job])), min(end, len(free))):
        free[hour] -= sign * work.cores[job]


@compiled()
def _look(work: Work, start: Floats, running: Ints, free: Floats, t: int) -> int:
    """Take the jobs that have ended before hour t from the running ones; return how many are left.

    Those that run for longer than known are promised this hour.
    """
    kept = 0
    for job in running:
        if start[job] + work.run[job] <= t:
            _promise(work, start, job, t, -1, free)
            continue
        if start[job] + work.known[job] <= t < len(free):
            free[t] -= work.cores[job]
        running[kept] = job
        kept += 1
    return kept


@compiled()
def _best(
    now: float, latest: float, work: Work, job: int, t: int, hour: _Hour, rule: _Settings
) -> float:
    """Return the start that a rule wants at `now`, in hour t; above `latest` if none fits."""
    if rule.kind == THRESHOLD:
        return now if hour.seen[0] <= hour.recent else latest
    known, free, cores = work.known[job], hour.free, work.cores[job]
    clock = rule.again or rule.kind == SLOT or rule.capacity < _FAR
    least, best, first = np.inf, latest + 1.0, 0.0
    candidate = latest if rule.kind == LATEST else now
    while candidate <= latest:
        after = candidate - t
        cost = 0.0
        if rule.kind == SLOT:
            cost = hour.seen[int(after)]
        elif rule.kind in (WINDOW, TIME):
            cost = between(hour.paid, hour.seen, after, after + known)
        if candidate == now:
            first = cost
        if rule.kind == TIME:
            cost = (cost - first) / max(candidate - now + known, 1e-9)
        end = int(np.ceil(candidate + known))
        if rule.crowding > 0.0:
            for at in range(int(candidate), min(end, len(free))):
                share = (rule.capacity - free[at]) / rule.capacity
                cost += rule.crowding * hour.level * share**4
        if cost < least and (rule.again or fits(free, int(candidate), end, cores)):
            least, best = cost, candidate
        if rule.kind == NOW:
            break
        candidate = float(int(candidate) + 1) if clock else candidate + 1.0
    return best


@compiled()
def _know(x: Floats, t: int, need: int, rule: _Settings, ahead: _Hour) -> _Hour:
    """Return what is known in hour t, with a forecast of `need` hours."""
    here = min(t, len(x) - 1)
    forecast(x, here, rule.foresight, _SIGMA, _SEED, need, ahead.seen)
    for h in range(need):
        ahead.paid[h + 1] = ahead.paid[h] + ahead.seen[h]
    recent = np.nanquantile(x[max(here + 1 - _BACK_H, 0) : here + 1], _LOW)
    level = np.nanmean(x[max(here - 167, 0) : here + 1])
    return _Hour(ahead.seen, ahead.paid, ahead.free, recent, float(level))


@compiled()
def _play(work: Work, x: Floats, rule: _Settings, hour: _Hour, start: Floats) -> None:
    """Fill the starts of all jobs, hour by hour: first of those that wait, then of new ones."""
    jobs, free = len(start), hour.free
    waiting, running = np.empty(jobs, np.int64), np.empty(jobs, np.int64)
    n_waiting, n_running, next_job, t = 0, 0, 0, 0
    while next_job < jobs or n_waiting > 0:
        if n_waiting == 0:
            t = max(t, int(work.submit[next_job]))
        n_running = _look(work, start, running[:n_running], free, t)
        used, old, need, kept = work.cores[running[:n_running]].sum(), n_waiting, 1, 0
        while next_job < jobs and work.submit[next_job] < t + 1:
            waiting[n_waiting] = next_job
            n_waiting, next_job = n_waiting + 1, next_job + 1
        for job in waiting[0 if rule.again else old : n_waiting]:
            end = work.submit[job] + work.wait[job] + work.known[job]
            need = max(need, int(end - t) + 2) if SLOT <= rule.kind <= TIME else 1
        hour = _know(x, t, need, rule, hour)
        for place in range(n_waiting):
            job = waiting[place]
            now, latest = max(work.submit[job], float(t)), work.submit[job] + work.wait[job]
            known, cores = work.known[job], work.cores[job]
            if rule.again or place >= old:
                best = _best(now, latest, work, job, t, hour, rule) if now < latest else now
                if rule.again and best > now:
                    # The next decision is at the next hour, unless the wait ends before it.
                    best = t + 1.0 if latest >= t + 1 else latest
                elif not rule.again:
                    best = min(best, max(latest, now))
                    while not fits(free, int(best), int(np.ceil(best + known)), cores):
                        best = float(int(best) + 1)
                start[job] = best
                if not rule.again:
                    _promise(work, start, job, t, 1, free)
            if start[job] < t + 1 and used + cores <= rule.capacity:
                if rule.again:
                    _promise(work, start, job, t, 1, free)
                used += cores
                running[n_running] = job
                n_running += 1
                continue
            if start[job] < t + 1 and not rule.again:
                _promise(work, start, job, t, -1, free)
                start[job] = t + 1.0
                _promise(work, start, job, t, 1, free)
            waiting[kept] = job
            kept += 1
        n_waiting = kept
        t += 1


def starts(work: Work, x: NDArray[np.float64], rule: Rule) -> NDArray[np.float64]:
    """Return the start of each job by a rule, in hours, (J,)."""
    capacity = _FAR if rule.capacity is None else rule.capacity
    if work.cores.max(initial=0) > capacity:
        raise InputError(f"a job asks for {work.cores.max()} cores, but there are {capacity}")
    kind, foresight = RULES.index(rule.kind), FORECASTS.index(rule.forecast)
    again = rule.again or kind == THRESHOLD
    settings = _Settings(kind, foresight, again, capacity, float(rule.crowding))
    free = np.full(4 * len(x) if capacity < _FAR else 0, float(capacity))
    ahead, found = _hours_ahead(work), np.empty(len(work.submit))
    hour = _Hour(np.empty(ahead), np.zeros(ahead + 1), free, 0.0, 0.0)
    _play(work, np.array(x, np.float64), settings, hour, found)
    return found


def _hours_ahead(work: Work) -> int:
    """Return how many hours a forecast must have for any job."""
    return int((work.wait + work.known).max(initial=0.0)) + 4


@compiled()
def _pause(work: Work, x: Floats, foresight: int, seen: Floats, paid: Floats, end: Floats) -> None:
    """Fill the integral of x over the pieces of each job, and its end.

    Work is needed before submit + wait + known length. In an hour a job runs for what it still has
    to beyond the cheaper time that is forecast to be left.
    """
    for job in range(len(paid)):
        left, guess, time = work.run[job], work.known[job], work.submit[job]
        last = time + work.wait[job] + guess
        paid[job] = 0.0
        while left > 1e-12:
            t = min(int(time), len(x) - 1)
            need = int(np.ceil(last)) - t
            runs = left
            if guess > 0.0 and need > 1:
                forecast(x, t, foresight, _SIGMA, _SEED, need, seen)
                cheaper = 0.0
                for h in range(1, need):
                    if seen[h] < seen[0]:
                        cheaper += min(1.0, last - t - h)
                runs = max(guess - cheaper, 0.0)
            part = min(int(time) + 1 - time, runs, left)
            paid[job] += part * x[t]
            left -= part
            guess -= part
            end[job] = time + part
            time = float(int(time) + 1)


def paused(
    work: Work, x: NDArray[np.float64], rule: Rule
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the integral of x over each job's pieces by `pause`, and its end, (J,) each."""
    found, end = np.empty((2, len(work.submit)))
    seen, foresight = np.empty(_hours_ahead(work)), FORECASTS.index(rule.forecast)
    _pause(work, np.array(x, np.float64), foresight, seen, found, end)
    return found, end


def integral(x: NDArray[np.float64], begin: Times, end: Times) -> NDArray[np.float64]:
    """Return the integral of a series from `begin` to `end`, in hours.

    It is NaN outside of the series, and where an hour is unknown.
    """
    paid = np.concatenate([[0.0], np.cumsum(np.nan_to_num(x)), [np.nan]])
    hourly = np.append(x, [np.nan, np.nan])  # before and after the series

    def until(time: Times) -> NDArray[np.float64]:
        hour = np.clip(np.floor(time).astype(np.int64), -1, len(x) + 1)
        rest = time - hour
        return np.asarray(paid[hour] + np.where(rest > 0, hourly[hour] * rest, 0.0))

    found = until(end) - until(begin)
    if not np.isnan(x).any():
        return found
    touched = np.clip([np.floor(begin), np.ceil(end)], 0, len(x)).astype(np.int64)
    return np.where(all_known(x, *touched), found, np.nan)


def bound(work: Work, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least integral of x over each job's run from any start within its wait, (J,).

    It is reached where a run begins or ends at an hour, or at an end of the wait.
    """
    first, last = np.floor(work.submit), np.floor(work.submit + work.run)
    least = np.full(len(first), np.inf)
    for step in range(int(work.wait.max(initial=0)) + 3):
        for start in (first + step, last + step - work.run):
            inside = np.asarray(np.clip(start, work.submit, work.submit + work.wait), np.float64)
            least = np.minimum(least, integral(x, inside, inside + work.run))
    return least
