"""Forecasts of the waits of jobs, and the simpler ones that they are compared with.

    draws        plays with drawn run times and the arrivals of earlier weeks
    requested    one play in which all jobs last as long as requested and nobody arrives
    reservation  the slot that a plan of requested times gives the job, nobody before it is delayed
    past         quantiles of the last 500 waits of jobs of like area in a queue of like length

`requested` and `reservation` are one moment each, so all their quantiles are alike until they are
calibrated. All but `past` are calibrated on the last 300 forecasts of jobs that have started.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.forecast.calibration import (
    EARLIER,
    LEVELS,
    Floats,
    Score,
    calibrated,
    quantiles_of,
    score,
    shifts_of,
)
from hindcast.pipeline.forecast.plays import (
    DRAWS,
    HORIZON_S,
    Past,
    draw_runs,
    drawn_spans,
    moment_of,
    no_arrivals,
    past_of,
    play_draws,
    requested_runs,
)
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.whatif.orders import ALL_RESERVE, Mode, Order
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Array, Record
from hindcast.pipeline.whatif.run import Run, run_of

Policy = tuple[Order, Mode]
Tell = Callable[[int, int], None]

PLAYED: Final = ("draws", "requested", "reservation")
PAST: Final = "past"
_LAST_WAITS, _FEWEST_WAITS = 500, 30
_ONE_IN: Final = 5  # of the jobs that waited is forecast to calibrate
_PURPOSE: Final = "start"


def simulated(record: Record, policy: Policy) -> Past:
    """Return the past of a log that is played under a rule from an empty machine on."""
    return past_of(replace(record, start=play(run_of(record, 0, warm=False), *policy)))


def forecast(
    past: Past, moment: Run, policy: Policy, jobs: Array, rng: np.random.Generator, *,
    draws: int = DRAWS, free: int | None = None,
) -> Array:  # fmt: skip
    """Return how long after a moment jobs start, in s, of D draws, (D, T); HORIZON_S: not before.

    Args:
        past: The log, from which run times and arrivals are drawn.
        moment: The jobs that run and wait.
        policy: The rule.
        jobs: Places of the waiting jobs in the moment, (T,).
        rng: Generator of the draws.
        draws: Number of draws.
        free: Free processors, if running jobs are not all that hold some.
    """
    run = draw_runs(past, moment, draws, rng)
    spans = drawn_spans(past, moment.now, draws, rng)
    return play_draws(past, moment, policy, jobs, run, spans, free=free)


def plan(
    past: Past, moment: Run, policy: Policy, jobs: Array, *, free: int | None = None
) -> dict[str, Array]:
    """Return how long after a moment jobs start by requested times, in s, (T,) each."""
    run, nobody = requested_runs(moment), no_arrivals(moment.now, 1)
    rules = {"requested": policy, "reservation": (policy[0], ALL_RESERVE)}
    return {
        name: play_draws(past, moment, rule, jobs, run, nobody, free=free)[0]
        for name, rule in rules.items()
    }


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of n jobs at their submissions.

    Attributes:
        job: The jobs in the record, (n,).
        moment: Their submissions in s, (n,).
        start: Their starts in the schedule, (n,).
        wait: Their waits in s, at most HORIZON_S, (n,).
        quantiles: Quantiles in s by name, (n, 7) each.
    """

    job: Array
    moment: Array
    start: Array
    wait: Array
    quantiles: dict[str, Floats]

    def shifts(self, name: str, now: int) -> Floats:
        """Return the calibration at a moment: by the last forecasts of jobs that had started."""
        started = np.flatnonzero(self.start <= now)
        last = started[np.argsort(self.start[started], kind="stable")][-EARLIER:]
        return shifts_of(self.quantiles[name][last], self.wait[last])


def waited(past: Past) -> Array:
    """Return the jobs that did not start at once, in order of arrival."""
    record = past.record
    return np.flatnonzero(record.known & (record.start > record.arrive))


def earlier_jobs(past: Past, now: int, rng: np.random.Generator) -> Array:
    """Return 300 jobs to calibrate on, of the last 1,500 that waited and had started."""
    start = past.record.start
    jobs = waited(past)
    jobs = jobs[start[jobs] <= now]
    jobs = jobs[np.argsort(start[jobs], kind="stable")][-_ONE_IN * EARLIER :]
    return np.sort(rng.choice(jobs, min(EARLIER, len(jobs)), replace=False))


def forecasts_of(
    past: Past, policy: Policy, jobs: Array, seed: int, *, names: tuple[str, ...] = PLAYED,
    draws: int = DRAWS, tell: Tell = lambda _done, _total: None,
) -> Forecasts:  # fmt: skip
    """Return the forecasts of jobs at their submissions; those of a job depend on no other one."""
    record = past.record
    quantiles = {name: np.zeros((len(jobs), len(LEVELS))) for name in names}
    for place, job in enumerate(jobs.tolist()):
        moment = moment_of(past, int(record.arrive[job]), policy[0])
        asked = np.flatnonzero(moment.row == job)
        rng = generator(seed, _PURPOSE, int(record.row[job]))
        waits = forecast(past, moment, policy, asked, rng, draws=draws)
        quantiles["draws"][place] = quantiles_of(waits)[0]
        if len(names) > 1:
            for name, wait in plan(past, moment, policy, asked).items():
                quantiles[name][place] = wait
        tell(place + 1, len(jobs))
    wait = np.minimum(record.start[jobs] - record.arrive[jobs], HORIZON_S)
    return Forecasts(jobs, record.arrive[jobs], record.start[jobs], wait, quantiles)


def past_waits(past: Past, jobs: Array) -> Floats:
    """Return quantiles of the waits of jobs before that waited, by class of area and queue."""
    record, of = past.record, waited(past)
    arrive, known = record.arrive, record.known
    starts = np.sort(record.start[known])
    before = np.searchsorted(arrive, arrive, side="right")
    queue = np.maximum(before - np.searchsorted(starts, arrive, side="right"), 1)
    area = np.floor(np.log2(record.requested.astype(np.float64) * record.cpu)) // 2
    label = (area * 64 + np.floor(np.log2(queue))).astype(np.int64)
    of = of[np.argsort(record.start[of], kind="stable")]
    groups = {int(one): of[label[of] == one] for one in np.unique(label[of])}
    found = np.zeros((len(jobs), len(LEVELS)))
    for place, job in enumerate(jobs.tolist()):
        like = _started(record, groups.get(int(label[job]), of[:0]), int(arrive[job]))
        if len(like) < _FEWEST_WAITS:
            like = _started(record, of, int(arrive[job]))
        if len(like):
            last = like[-_LAST_WAITS:]
            found[place] = quantiles_of((record.start[last] - arrive[last])[:, None])[0]
    return found


def _started(record: Record, jobs: Array, now: int) -> Array:
    """Return those of the jobs, in order of start, that have started by a moment."""
    return jobs[: np.searchsorted(record.start[jobs], now, side="right")]


@dataclass(frozen=True)
class Check:
    """Forecasts of jobs of the last 30 % of a log, calibrated on what came before each.

    Attributes:
        jobs: Number of jobs.
        at_once: Share of all jobs of the last 30 % that started at once and are not among them.
        scores: Scores by name of the forecast.
    """

    jobs: int
    at_once: float
    scores: dict[str, Score]


def check(
    past: Past, policy: Policy, count: int, seed: int, *, draws: int = DRAWS,
    tell: Tell = lambda _done, _total: None,
) -> Check:  # fmt: skip
    """Return how good the forecasts of a rule are on the last 30 % of a log.

    Args:
        past: The log with the starts of a schedule.
        policy: The rule that the plays follow.
        count: Number of jobs that are drawn from those that did not start at once.
        seed: Seed of the draws.
        draws: Number of draws.
        tell: Is given the number of finished forecasts and their total.
    """
    record, rng = past.record, generator(seed, _PURPOSE)
    begin, of = record.first, waited(past)
    late, early = of[of >= begin], of[of < begin]
    if len(late) == 0 or len(early) == 0:
        raise InputError(
            "no job waited in the first 70 % or in the last 30 % of the log; nothing to check"
        )
    tested = np.sort(rng.choice(late, min(count, len(late)), replace=False))
    part = early[-int(1.5 * EARLIER * len(late) / len(tested)) :]  # as thinned as those tested
    before = np.sort(rng.choice(part, min(int(1.5 * EARLIER), len(part)), replace=False))
    jobs = np.concatenate([before, tested])
    made = forecasts_of(past, policy, jobs, seed, draws=draws, tell=tell)
    new = slice(len(before), None)
    scores = {
        name: score(
            np.stack([
                calibrated(quantiles, made.shifts(name, now))
                for quantiles, now in zip(of_all[new], made.moment[new].tolist(), strict=True)
            ]),
            made.wait[new],
        )
        for name, of_all in made.quantiles.items()
    }  # fmt: skip
    scores["draws, not calibrated"] = score(made.quantiles["draws"][new], made.wait[new])
    scores[PAST] = score(past_waits(past, tested), made.wait[new])
    share = 1.0 - len(late) / (len(record.arrive) - begin)
    return Check(len(tested), share, scores)
