"""GAIA's simulator: ticks of 5 s, hours of 720 ticks, pieces of jobs in the order of a binary heap.

    every tick   submit the jobs that arrive, with a planned start; pop all waiting pieces in the
                 order of arrival and start those that are due, and with a work-conserving policy
                 those that fit the free reserved cores; free reserved cores that end
    at a start   a spot core if the policy has them and the piece is short; else reserved cores if
                 all fit; else on demand
    bill         core-ticks on demand and of spot; reserved cores until the last start

Ties of arrival follow the heap, which the published program fills anew in every tick. Carbon is in
kg/kWh x core-hours, at 1 W per core.

Source: Hanafy et al., "Going Green for Less Green", ASPLOS 2024; umassos/GAIA@62a5efc.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.grids.starts import integral
from hindcast.pipeline.simulation.kernel import Ints, Mask, compiled

TICK_S: Final = 5
HOUR: Final = 720  # ticks
SHORT: Final = 2 * HOUR  # ticks below which a job is in the short queue
ON_DEMAND: Final = 0.0624 / HOUR  # money per core-tick
SPOT: Final = 0.01248 / HOUR
RESERVED_RATE: Final = 0.4  # of on demand, for all the time
_HUNDREDTHS: Final = 100.0


@dataclass(frozen=True)
class Jobs:
    """Jobs in order of arrival: arrival and length in ticks, and cores, (J,) int64 each.

    `raw` is the length in ticks before it is cut to a whole number, (J,) float64.
    """

    arrival: NDArray[np.int64]
    length: NDArray[np.int64]
    cores: NDArray[np.int64]
    raw: NDArray[np.float64]


def jobs_of(
    arrival_s: NDArray[np.float64], length_s: NDArray[np.float64], cores: NDArray[np.int64]
) -> Jobs:
    """Return jobs from seconds."""
    raw = length_s / TICK_S
    arrival = (arrival_s / TICK_S).astype(np.int64)
    return Jobs(arrival, raw.astype(np.int64), cores.astype(np.int64), raw)


def expected_lengths(jobs: Jobs) -> NDArray[np.int64]:
    """Return the mean length of each job's queue in ticks, (J,)."""
    queues = [jobs.raw[jobs.raw <= SHORT], jobs.raw[jobs.raw >= SHORT]]
    return np.where(jobs.length < SHORT, *(int(of.mean()) if len(of) else 0 for of in queues))


@dataclass(frozen=True)
class Policy:
    """A policy of the published program.

    Attributes:
        scheduling: Value of its `--scheduling-policy`.
        carbon: Value of its `--carbon-policy`.
        waits: Value of its `-w`: longest wait of short and of long jobs in hours.
        reserved: Reserved cores.
        start_without_arrival: Whether a job that `suspend-resume` leaves in one piece is planned at
            its offset instead of arrival + offset, as before commit 0d474d3. The published row of
            Wait AWhile has it.
    """

    scheduling: str
    carbon: str
    waits: str = "6x24"
    reserved: int = 0
    start_without_arrival: bool = False


@dataclass(frozen=True)
class Run:
    """Pieces in the order of their starts.

    Attributes:
        job: Number of the job, (P,).
        start: Tick of the start, (P,).
        length: Ticks, (P,).
        carbon: Carbon of each piece, (P,).
        bill: Money for cores on demand, spot cores and reserved cores.
        wait_h: Hours from arrival to start, mean over pieces.
    """

    job: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    carbon: NDArray[np.float64]
    bill: float
    wait_h: float


def play(jobs: Jobs, intensity: NDArray[np.float64], policy: Policy) -> Run:
    """Return what a policy does with jobs on hours of carbon, (T,) in g/kWh."""
    ticks = np.repeat(np.rint(intensity * _HUNDREDTHS), HOUR)  # whole numbers have exact sums
    wait = np.where(jobs.length < SHORT, *map(int, policy.waits.split("x"))) * HOUR
    job, offset, length = _plan(jobs, ticks, policy, wait)
    whole = np.bincount(job, minlength=len(wait))[job] == 1
    forgets = policy.start_without_arrival & whole
    planned = np.where(forgets, offset, jobs.arrival[job] + offset)
    class_length = length if policy.scheduling == "suspend-resume" else jobs.raw[job]
    is_short = np.where(whole, jobs.raw[job], class_length) <= SHORT
    order, start, paid_by = np.zeros((3, len(job)), np.int64)
    _run(
        jobs.arrival[job], planned, length, jobs.cores[job], is_short, "spot" in policy.scheduling,
        "cost" in policy.scheduling, policy.reserved, order, start, paid_by,
    )  # fmt: skip
    job, length, start, paid_by = job[order], length[order], start[order], paid_by[order]
    cores = jobs.cores[job]
    carbon = integral(ticks, start, start + length) * cores
    money = cores * length * np.array([0.0, ON_DEMAND, SPOT])[paid_by]
    reserved = policy.reserved * RESERVED_RATE * ON_DEMAND * start.max(initial=0)
    return Run(
        job, start, length, carbon / _HUNDREDTHS / 1e3 / HOUR,
        float(money.sum() + reserved), float((start - jobs.arrival[job]).mean() / HOUR),
    )  # fmt: skip


def _plan(
    jobs: Jobs, ticks: NDArray[np.float64], policy: Policy, wait: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the pieces: job, start after the arrival, and length in ticks."""
    number = np.arange(len(wait))
    if policy.scheduling == "cost":
        return number, wait, jobs.length
    if policy.scheduling.startswith("suspend"):
        choose = _below_threshold if policy.scheduling.endswith("threshold") else _cheapest
        pieces = []
        for job in number:
            chosen = choose(ticks[jobs.arrival[job] :], int(jobs.length[job]), int(wait[job]))
            runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)
            pieces += [(job, run[0], len(run)) for run in runs]
        job, begin, length = np.array(pieces, np.int64).T.copy()
        return job, begin, length
    seen = expected_lengths(jobs)
    if policy.carbon in {"oracle", "cst_oracle"}:
        seen = jobs.length
    elif policy.carbon == "lowest":
        seen = np.ones_like(wait)
    later = np.arange(0, int(wait.max(initial=0)) + 1, HOUR)
    begin = jobs.arrival[:, None] + later
    cost = integral(ticks, begin, begin + seen[:, None])
    cost[later > wait[:, None]] = np.nan
    if policy.carbon.startswith("cst"):
        saved_per_tick = (cost[:, :1] - cost) / (later + seen[:, None])
        return number, later[np.nanargmax(saved_per_tick, axis=1)], jobs.length
    offset = later[np.nanargmin(cost, axis=1)]
    if policy.carbon == "lowest":
        offset = np.maximum(offset - (jobs.arrival + offset) % HOUR, 0)
    return number, offset, jobs.length


def _cheapest(ahead: NDArray[np.float64], length: int, wait: int) -> NDArray[np.int64]:
    """Return the `length` cheapest ticks of a job's window, earlier ones first."""
    return np.sort(np.argsort(ahead[: length + wait], kind="stable")[:length])


def _below_threshold(ahead: NDArray[np.float64], length: int, wait: int) -> NDArray[np.int64]:
    """Return ticks below the .3-quantile of the next 24 h, and any once the wait is used up."""
    cheap = ahead[: length + wait] < np.quantile(ahead[: 24 * HOUR], 0.3)
    return np.flatnonzero(cheap | (np.cumsum(~cheap) > wait))[:length]


@compiled()
def _rise(heap: Ints, priority: Ints, place: int) -> None:
    """Move the item at `place` towards the first past parents that come after it."""
    item = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if priority[item] >= priority[heap[parent]]:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


@compiled()
def _pop(heap: Ints, priority: Ints, size: int) -> int:
    """Return the first item of a heap of `size` items, as Python's heapq does."""
    first, item = heap[0], heap[size - 1]
    size -= 1
    if size == 0:
        return int(first)
    place, child = 0, 1
    while child < size:
        if child + 1 < size and priority[heap[child]] >= priority[heap[child + 1]]:
            child += 1
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = item
    _rise(heap, priority, place)
    return int(first)


@compiled()
def _run(
    arrival: Ints, planned: Ints, length: Ints, cores: Ints, is_short: Mask, spot: bool,
    conserving: bool, reserved: int, order: Ints, start: Ints, paid_by: Ints,
) -> None:  # fmt: skip
    """Fill the order of the starts, their ticks, and who pays: 0 reserved, 1 on demand, 2 spot."""
    pieces = len(arrival)
    heap, other = np.empty(pieces, np.int64), np.empty(pieces, np.int64)
    last_start = max(planned.max(), arrival.max())
    freed = np.zeros(last_start + length.max() + 1, np.int64)  # reserved cores that end by tick
    waiting, submitted, started = 0, 0, 0
    free = reserved
    tick = 0
    while started < pieces:
        while submitted < pieces and arrival[submitted] <= tick:
            heap[waiting] = submitted
            waiting += 1
            _rise(heap, arrival, waiting - 1)
            submitted += 1
        left = 0
        for size in range(waiting, 0, -1):
            piece = _pop(heap, arrival, size)
            due = tick >= planned[piece]
            early = conserving and free >= cores[piece] and not (spot and is_short[piece])
            if not due and not early:
                other[left] = piece
                left += 1
                _rise(other, arrival, left - 1)
                continue
            order[started], start[piece] = piece, tick
            started += 1
            paid_by[piece] = 1
            if spot and is_short[piece]:
                paid_by[piece] = 2
            elif free >= cores[piece]:
                paid_by[piece] = 0
                free -= cores[piece]
                freed[tick + length[piece]] += cores[piece]
        heap, other = other, heap
        waiting = left
        free += freed[tick]
        tick += 1
