"""The schedule of a `queue` episode, read from its memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue import layout as m

WEEK_S: Final = 7 * 86_400
_LEAST_WEEKS: Final = 4


@dataclass(frozen=True)
class JobStarts:
    """The N jobs of an episode and their starts. Times are seconds since the window began.

    Attributes:
        submit: Submission, (N,); below 0 before the window.
        processors: Processors, (N,).
        run: Run time, (N,).
        requested: Requested time, (N,).
        start: Start, (N,); layout.NEVER for a job that has not started.
        logged: Start in the log, (N,); layout.NEVER if it is unknown.
        user: Number of the user within the episode, (N,); -1 if unknown.
        counted: Whether outcomes count the job, (N,).
    """

    submit: NDArray[np.int64]
    processors: NDArray[np.int64]
    run: NDArray[np.int64]
    requested: NDArray[np.int64]
    start: NDArray[np.int64]
    logged: NDArray[np.int64]
    user: NDArray[np.int64]
    counted: NDArray[np.bool_]

    @property
    def waits(self) -> NDArray[np.int64]:
        """Waits of the jobs since their submission or the start of the window, (N,)."""
        return self.start - np.maximum(self.submit, 0)

    @property
    def bounded_slowdowns(self) -> NDArray[np.float64]:
        """Bounded slowdowns of the jobs, (N,)."""
        slowdowns = (self.waits + self.run) / np.maximum(self.run, m.TAU)
        return np.maximum(slowdowns, 1.0)


def read_schedule(ints: NDArray[np.int64]) -> JobStarts:
    """Return the schedule of an episode from its memory, as far as it has been played."""
    n, first = int(ints[m.JOBS]), int(ints[m.FIRST_COUNTED])
    blocks = (m.SUBMIT_AT, m.CPU_AT, m.RUN_AT, m.REQUESTED_AT, m.START_AT, m.LOGGED_AT, m.USER_AT)
    submit, processors, run, requested, start, logged, user = (
        ints[ints[at] : ints[at] + n].copy() for at in blocks
    )
    number = np.arange(n)
    counted = (number >= first) & (number < first + ints[m.COUNTED])
    return JobStarts(submit, processors, run, requested, start, logged, user, counted)


def by_week(ints: NDArray[np.int64]) -> Mapping[str, NDArray[np.float64]]:
    """Return the mean outcomes of a finished episode by week, see `means_by_week`."""
    schedule = read_schedule(ints)
    chosen = schedule.counted
    weeks = int(schedule.submit[chosen].max() // WEEK_S) + 1
    return means_by_week(
        schedule.submit[chosen],
        {
            "mean_bounded_slowdown": schedule.bounded_slowdowns[chosen],
            "mean_wait_s": schedule.waits[chosen],
        },
        weeks,
    )


def means_by_week(
    submit: NDArray[np.int64], values: Mapping[str, NDArray[np.generic]], weeks: int
) -> Mapping[str, NDArray[np.float64]]:
    """Return the means of values of J counted jobs by week of submission, each (W,).

    A week's value is the sum over its jobs times W / J, so that the mean of the weeks is the mean
    over the jobs. Empty for less than four weeks. Submissions (J,) are in seconds since the
    beginning.
    """
    if weeks < _LEAST_WEEKS:
        return {}
    week = np.maximum(submit, 0) // WEEK_S
    share = weeks / len(submit)
    return {
        name: np.bincount(week, of_jobs, weeks).astype(np.float64) * share
        for name, of_jobs in values.items()
    }
