"""Closed times: stretches of a record in which nothing started although every waiting job fitted.

A machine that is reserved or stopped for some hours leaves a stretch in which all jobs wait. A
record is measured again without it: a job that waited in it counts as submitted when it started.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.whatif.measures import Measures
from hindcast.pipeline.whatif.record import Record

_LONG_S: Final = 3600
_MOST: Final = 3  # stretches
_SHARE: Final = 0.8  # of the job-seconds of all stretches, which they exceed


@dataclass(frozen=True)
class Closed:
    """A closed time.

    Attributes:
        begin, end: In s on the clock of the log.
        jobs: Jobs that waited in it.
        share: Its share of the waiting while every waiting job fitted.
    """

    begin: int
    end: int
    jobs: int
    share: float


def closed_times(record: Record, measures: Measures) -> tuple[Closed, ...]:
    """Return the least number of long stretches that hold most of the open waiting.

    There is none if three of them do not hold 80 %. They are in order of time. In a closed time no
    job starts that has waited for more than D: one in which others are held goes on serving.
    """
    begin, end, waited = measures.stretches
    late = record.known & (record.start - record.arrive > measures.delta)
    starts = np.sort(record.start[late])
    served = np.searchsorted(starts, end, "left") > np.searchsorted(starts, begin, "right")
    long = np.flatnonzero((end - begin > _LONG_S) & ~served)
    longest = long[np.argsort(-waited[long], kind="stable")][:_MOST]
    held = np.cumsum(waited[longest])
    enough = np.flatnonzero(held > _SHARE * waited.sum())
    if not len(enough):
        return ()
    found = np.sort(longest[: enough[0] + 1])
    return tuple(closed(record, measures, int(begin[i]), int(end[i])) for i in found)


def closed(record: Record, measures: Measures, begin: int, end: int) -> Closed:
    """Return a closed time from its begin and end in s."""
    begins, ends, waited = measures.stretches
    inside = (begins < end) & (ends > begin)
    share = float(waited[inside].sum() / max(waited.sum(), 1))
    return Closed(begin, end, int(_waited_in(record, begin, end).sum()), share)


def without(record: Record, times: Sequence[Closed]) -> Record:
    """Return a record whose jobs that waited in closed times are submitted when they started."""
    arrive, submit = record.arrive.copy(), record.submit.copy()
    for time in times:
        waited = _waited_in(record, time.begin, time.end)
        arrive[waited] = submit[waited] = record.start[waited]
    order = np.argsort(arrive, kind="stable")
    return replace(record, arrive=arrive, submit=submit).take(order)


def _waited_in(record: Record, begin: int, end: int) -> NDArray[np.bool_]:
    return record.known & (record.arrive < end) & (record.start >= begin)
