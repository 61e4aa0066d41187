"""Rows of a drawing for the jobs of a schedule: who lies where on the axis of processors.

A row is a part of the resource that is drawn. A job lies in the smallest hole that is large enough
at its start. If there is none, the job is cut over several holes, the largest first: a real
machine needs no neighbouring processors either. Rows are free again at the job's end.

Where the schedule says on which machine a job ran, its rows are of that machine, and machines
stand on each other in order. A job of several machines has its amount in equal shares, the first
ones larger by the rest.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.schedules.schedule import Schedule
from hindcast.pipeline.simulation.kernel import Ints, compiled

_Ints: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float64]


class Rectangles(NamedTuple):
    """R rectangles of a drawing, in order of their jobs; a job that was cut has several.

    Attributes:
        job: Row of its job in the schedule.  # (R,)
        low: Lowest row that it covers.  # (R,)
        height: Number of rows.  # (R,)
        left_out: Jobs that hold something, but find too few free rows.
    """

    job: NDArray[np.int64]
    low: NDArray[np.int64]
    height: NDArray[np.int64]
    left_out: NDArray[np.int64]


class _Packed(NamedTuple):
    """Rectangles of J jobs in order of their starts; none of a job that found no room."""

    first: Ints  # (J + 1,) first rectangle of each job
    low: Ints  # (R,) lowest row
    height: Ints  # (R,) number of rows


def rectangles(schedule: Schedule) -> Rectangles:
    """Return the rectangles of the jobs that started and hold something."""
    jobs = schedule.jobs
    drawn = np.flatnonzero((jobs["start_s"].is_not_null() & (jobs["processors"] > 0)).to_numpy())
    start = jobs["start_s"].to_numpy()[drawn]
    end = jobs["end_s"].to_numpy()[drawn]
    amount = jobs["processors"].to_numpy()[drawn]
    if not schedule.on_machines:
        parts = [(drawn, pack(start, end, amount, schedule.capacity), 0)]
    else:
        parts = list(_by_machine(schedule, drawn, start, end, amount))
    found = [(of[job], low + below, height) for of, (job, low, height, _), below in parts]
    job, low, height = (np.concatenate(columns) for columns in zip(*found, strict=True))
    whole = np.bincount(job, height, minlength=len(jobs))[drawn] == amount
    order = np.lexsort((low, job))
    order = order[np.isin(job[order], drawn[whole])]  # a job is drawn whole or not at all
    return Rectangles(job[order], low[order], height[order], drawn[~whole])


def _by_machine(
    schedule: Schedule, drawn: _Ints, start: _Floats, end: _Floats, amount: _Ints
) -> Iterator[tuple[_Ints, Rectangles, int]]:
    """Yield for every machine its jobs, their rectangles, and the rows below it."""
    places = schedule.jobs["machine"].gather(drawn)
    count = places.list.len().to_numpy().astype(np.int64)
    of = np.repeat(np.arange(len(drawn)), count)
    turn = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    share = amount[of] // count[of] + (turn < amount[of] % count[of])
    machine = places.explode(empty_as_null=False).to_numpy()
    below = 0
    for number, rows in enumerate(schedule.facts["machines"][schedule.resources[0]]):
        here = np.flatnonzero((machine == number) & (share > 0))
        jobs = of[here]
        yield drawn[jobs], pack(start[jobs], end[jobs], share[here], rows), below
        below += rows


@compiled()
def _smallest(top: Ints, bottom: Ints, holes: int, need: int) -> int:
    """Return the smallest hole that is large enough, the lowest of equals, or -1."""
    best = -1
    for hole in range(holes):
        size = top[hole] - bottom[hole]
        if size >= need and (best < 0 or size < top[best] - bottom[best]):
            best = hole
    return best


@compiled()
def _largest(top: Ints, bottom: Ints, holes: int) -> int:
    """Return the largest hole, the lowest of equals."""
    best = 0
    for hole in range(1, holes):
        if top[hole] - bottom[hole] > top[best] - bottom[best]:
            best = hole
    return best


@compiled()
def _give(bottom: Ints, top: Ints, holes: int, low: int, high: int) -> int:
    """Add a hole, joined with those that it touches; return the number of holes."""
    at = np.searchsorted(bottom[:holes], low)
    below = at > 0 and top[at - 1] == low
    above = at < holes and bottom[at] == high
    if below and above:
        top[at - 1] = top[at]
        holes -= 1
        bottom[at:holes] = bottom[at + 1 : holes + 1].copy()
        top[at:holes] = top[at + 1 : holes + 1].copy()
    elif below:
        top[at - 1] = high
    elif above:
        bottom[at] = low
    else:
        bottom[at + 1 : holes + 1] = bottom[at:holes].copy()
        top[at + 1 : holes + 1] = top[at:holes].copy()
        bottom[at], top[at] = low, high
        holes += 1
    return holes


@compiled()
def _room(numbers: Ints, used: int) -> Ints:
    """Return an array with room for one more."""
    if used < len(numbers):
        return numbers
    wider = np.empty(2 * len(numbers), np.int64)
    wider[:used] = numbers
    return wider


@compiled()
def _pack(starts: Ints, ends: Ints, leaving: Ints, amounts: Ints, rows: int) -> _Packed:
    """Place jobs in order of their starts; `leaving` has them in order of their ends."""
    count = len(starts)
    first = np.zeros(count + 1, np.int64)
    low, height = np.empty(2 * count + 16, np.int64), np.empty(2 * count + 16, np.int64)
    # Holes from bottom to top: [bottom, top). No two of them touch.
    bottom, top = np.empty(64, np.int64), np.empty(64, np.int64)
    bottom[0], top[0], holes, free = 0, rows, 1, rows
    gone, used = 0, 0
    for job in range(count):
        while gone < count and ends[leaving[gone]] <= starts[job]:
            left = leaving[gone]
            gone += 1
            if starts[left] == ends[left]:
                continue  # it took nothing
            for part in range(first[left], first[left + 1]):
                free += height[part]
                bottom, top = _room(bottom, holes), _room(top, holes)
                holes = _give(bottom, top, holes, low[part], low[part] + height[part])
        need = amounts[job]
        first[job] = used
        first[job + 1] = used
        if (need > free and starts[job] < ends[job]) or need > rows:
            continue
        if starts[job] == ends[job]:
            need = 0
            low, height = _room(low, used), _room(height, used)
            low[used], height[used] = 0, amounts[job]
            used += 1
        free -= need
        while need > 0:
            hole = _smallest(top, bottom, holes, need)
            if hole < 0:
                hole = _largest(top, bottom, holes)
            taken = min(need, top[hole] - bottom[hole])
            low, height = _room(low, used), _room(height, used)
            low[used], height[used] = bottom[hole], taken
            used += 1
            need -= taken
            bottom[hole] += taken
            if bottom[hole] == top[hole]:
                holes -= 1
                bottom[hole:holes] = bottom[hole + 1 : holes + 1].copy()
                top[hole:holes] = top[hole + 1 : holes + 1].copy()
        first[job + 1] = used
    return _Packed(first, low[:used].copy(), height[:used].copy())


def pack(start: _Floats, end: _Floats, amount: _Ints, rows: int) -> Rectangles:
    """Return the rectangles of J jobs on one machine of `rows` rows.

    start and end (J,) are times on one clock, amount (J,) is in rows. `job` and `left_out` of the
    result are numbers in these arrays.
    """
    order = np.lexsort((-amount, start))
    # Ranks stand for times: a job that ends when another starts has left before.
    times = np.unique(np.concatenate([start, end]))
    starts, ends = (np.searchsorted(times, moments) for moments in (start[order], end[order]))
    packed = _pack(starts, ends, np.argsort(ends, kind="stable"), amount[order], rows)
    parts = np.diff(packed.first)  # rectangles of each job
    job = np.repeat(order, parts)
    return Rectangles(job, packed.low, packed.height, left_out=np.sort(order[parts == 0]))
