"""Outcomes of a run that has been played, with the names of scenario `queue`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.asks import GPUS, wide_jobs
from hindcast.pipeline.scenarios.queue.bounds import bounds_by_resource
from hindcast.pipeline.scenarios.queue.config import LONG_S, STARVED_S, WIDE
from hindcast.pipeline.scenarios.queue.layout import NEVER, TAU
from hindcast.pipeline.scenarios.queue.schedule import WEEK_S, means_by_week
from hindcast.pipeline.whatif.record import Array
from hindcast.pipeline.whatif.resources.amounts import amounts_of, asks_of
from hindcast.pipeline.whatif.resources.several import kinds_of, many_of
from hindcast.pipeline.whatif.run import Run


@dataclass(frozen=True)
class Counted:
    """The J counted jobs of a run that has been played, in order of arrival.

    Attributes:
        job: Index of each in the run, (J,).
        wait: Wait in s since its submission or the beginning of the run, (J,). That of a chain is
            its last end less its submission and its whole run.
        run: Run time in s, that of the whole chain, (J,).
    """

    job: Array
    wait: Array
    run: Array

    @property
    def slowdown(self) -> NDArray[np.float64]:
        """Bounded slowdown, (J,)."""
        return np.maximum((self.wait + self.run) / np.maximum(self.run, TAU), 1.0)


def counted(run: Run, starts: Array, *, since: str = "submit") -> Counted:
    """Return the waits of the counted jobs.

    Args:
        run: The run.
        starts: Start of each job in s, (N,).
        since: "submit": the wait of the user; "arrive": that of the scheduler, from the moment
            at which it could start the job.
    """
    job = np.flatnonzero(run.counted)
    last, total = job.copy(), run.run[job]
    while (going := run.chain[last] >= 0).any():
        last[going] = run.chain[last[going]]
        total[going] += run.run[last[going]]
    end = starts[last] + run.run[last]
    return Counted(job, end - total - np.maximum(getattr(run, since)[job], run.now), total)


def outcomes(
    run: Run, starts: Array, kinds: Array | None = None, wide: NDArray[np.bool_] | None = None
) -> dict[str, float]:
    """Return the outcomes of a run in which all counted jobs have started.

    They are those of scenario `queue` but for its lower bounds, and `counted`, the number of
    counted jobs. Means over no job are 0.

    Args:
        run: The run.
        starts: Start of each job in s, (N,).
        kinds: Placements of GPUs of any type, (N,), see hindcast.pipeline.whatif.resources.several.
        wide: Whether each job is wide on its machine, (N,); None: by the processors of the run.
    """
    jobs = counted(run, starts)
    size, slowdown, waits = len(jobs.job), jobs.slowdown, np.sort(jobs.wait)
    wide = wide_of(run) if wide is None else wide
    long = run.requested[jobs.job] >= LONG_S
    end = int(starts[jobs.job].max(initial=run.now))
    began = (starts != NEVER) & (starts < end)
    stop = np.minimum(starts + run.run, end)[began]
    held = np.maximum(stop - np.maximum(starts[began], run.now), 0)
    started = int((starts[run.running :] != NEVER).sum())
    return {
        "mean_bounded_slowdown": _mean(slowdown),
        "mean_wait_s": _mean(waits),
        "max_wait_s": _quantile(waits, 100),
        "p95_wait_s": _quantile(waits, 95),
        "p99_wait_s": _quantile(waits, 99),
        "starved_share": _mean(waits > STARVED_S),
        "user_fairness": _fairness(run.user[jobs.job], slowdown),
        "mean_slowdown_wide": _mean(slowdown[wide[jobs.job]]),
        "mean_slowdown_long": _mean(slowdown[long]),
        "utilisation": float((run.cpu[began] * held).sum())
        / (run.processors * max(end - run.now, 1)),
        **_utilisation(run, held, began, kinds, max(end - run.now, 1)),
        "starts": started,
        "follow_starts": started - size,
        "carried": run.carried,
        "counted": size,
    }


def lower_bounds_of(runs: Sequence[Run]) -> dict[str, float]:
    """Return lower bounds of the means of a run on machines with several resources.

    Each machine has the largest bound of its resources; `wait_lower_bound_NAME` is that of one
    resource alone. Machines count by their counted jobs.
    """
    found: dict[str, float] = {}
    total = sum(int(run.counted.sum()) for run in runs)
    for run in runs:
        resources, first, of = run.resources, run.running, np.flatnonzero(run.counted)
        assert resources is not None
        many = many_of(run, np.zeros(len(run.row), np.int64), planning=False)
        held = amounts_of(run.asks, kinds_of(run, many))[:first]
        bounds = bounds_by_resource(
            resources.capacity, np.maximum(run.arrive[of] - run.now, 0), run.asks[of, :-1],
            run.asks[of, -1], run.run[of], (run.start + run.run)[:first] - run.now, held,
            resources.shape,
        )  # fmt: skip
        has_types = resources.shape.first_type < resources.shape.last_type
        names = (*resources.names, *((GPUS,) if has_types else ()))  # all types together
        values = {f"wait_lower_bound_{n}": of for n, of in zip(names, bounds[:, 1], strict=False)}
        values |= dict(zip(("bounded_slowdown_lower_bound", "wait_lower_bound"), bounds.max(axis=0),
                           strict=True))  # fmt: skip
        for name, value in values.items():
            found[name] = found.get(name, 0.0) + float(value) * len(of) / total
    return found


def wide_of(run: Run) -> NDArray[np.bool_]:
    """Return which jobs ask for a quarter of a resource of their machine or more, (N,)."""
    if run.resources is None:
        return run.cpu >= WIDE * run.processors
    return wide_jobs(asks_of(run.asks), np.maximum(run.resources.capacity, 1), run.resources.shape)


def _utilisation(
    run: Run, held: Array, began: NDArray[np.bool_], kinds: Array | None, seconds: int
) -> dict[str, float]:
    """Return the share of each resource that jobs held; {} on a machine of processors alone."""
    if run.resources is None:
        return {}
    took = amounts_of(run.asks, np.zeros(len(run.row), np.int64) if kinds is None else kinds)
    total = (took[began].astype(np.float64) * held[:, None]).sum(axis=0)
    capacity = np.maximum(run.resources.capacity, 1)
    return {
        f"utilisation_{name}": float(of / (most * seconds))
        for name, of, most in zip(run.resources.names, total, capacity, strict=True)
    }


def weeks_of(run: Run) -> int:
    """Return the number of weeks in which the counted jobs of a run were submitted."""
    return int((run.submit[run.counted].max() - run.now) // WEEK_S) + 1


def by_week(run: Run, starts: Array, weeks: int | None = None) -> Mapping[str, NDArray[np.float64]]:
    """Return the mean outcomes by week of submission, see `means_by_week`.

    `weeks` is their number; None: those of the counted jobs.
    """
    jobs = counted(run, starts)
    values = {"mean_bounded_slowdown": jobs.slowdown, "mean_wait_s": jobs.wait}
    return means_by_week(run.submit[jobs.job] - run.now, values, weeks or weeks_of(run))


def _mean(values: NDArray[np.generic]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _quantile(ascending: Array, percent: int) -> float:
    """Return the value that `percent` % of the values do not exceed; 0 without values."""
    if not len(ascending):
        return 0.0
    return float(ascending[(percent * len(ascending) + 99) // 100 - 1])


def _fairness(user: Array, slowdown: NDArray[np.float64]) -> float:
    """Return Jain's index of the mean slowdowns of the users; 1 if no user is known."""
    numbers, place = np.unique(user[user >= 0], return_inverse=True)
    if not len(numbers):
        return 1.0
    mean = np.bincount(place, slowdown[user >= 0]) / np.bincount(place)
    return float(mean.sum() ** 2 / (len(mean) * (mean**2).sum()))
