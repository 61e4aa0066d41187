"""Run times that a job may have: those of completed runs of five contexts, drawn by weight.

    context, from fine to coarse         decay d   strength m   runs kept
    user & processors & request           .9763      23.69          96
    user & request                        .605        3.8           12
    user                                  .5486       3.1           12
    request, floor(2 log2 r)              .9913      39.89         256
    all jobs                              .99         1            128

The i-th last completed run of a context (i = 0, 1, ..) weighs d^i, as run / requested. With N, the
sum of these weights, the context takes N / (N + m) of what the finer ones left. What is left at the
end goes to 0.1, 0.2 .. 1 of the request. A run that has lasted e seconds keeps the longer ones. If
there are none, it lasts 1.01 e + 30 s or 1.1 e + 300 s.

The decays and strengths are those of the running means of run times of scenario `queue`.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.layout import LATER
from hindcast.pipeline.simulation.kernel import Floats, Ints, Ints2, Rows, compiled

Array = NDArray[np.int64]

DECAY: Final = np.array([0.9763, 0.605, 0.5486, 0.9913, 0.99])
STRENGTH: Final = np.array([23.69, 3.8, 3.1, 39.89, 1.0])
KEPT: Final = np.array([96, 12, 12, 256, 128])
CONTEXTS: Final = 5
_PARTS: Final = 10  # of the request, where no run is known
MOST: Final = int(KEPT.sum()) + _PARTS  # values of a distribution


class Runs(NamedTuple):
    """Runs of the log in order of (context, end), once for each of the five contexts."""

    end: Ints  # (5 L,) LATER if it is unknown
    share: Floats  # (5 L,) run / requested


@dataclass(frozen=True)
class Contexts:
    """The L runs of a log by context.

    Attributes:
        runs: The runs.
        codes: Codes of each context in the order of `runs`, (L,) each.
        cpus: Distinct numbers of processors, ascending.
        requests: Distinct requested times, ascending.
    """

    runs: Runs
    codes: tuple[Array, ...]
    cpus: Array
    requests: Array

    def spans(self, user: Array, cpu: Array, requested: Array) -> tuple[Array, Array]:
        """Return begin and end of the runs of the contexts of J jobs, (J, 5) each."""
        size, first, last = len(self.codes[0]), list[Array](), list[Array]()
        for level, code in enumerate(codes_of(user, cpu, requested, self.cpus, self.requests)):
            first.append(level * size + np.searchsorted(self.codes[level], code))
            last.append(level * size + np.searchsorted(self.codes[level], code, side="right"))
            last[-1] = np.where(code < 0, first[-1], last[-1])
        return np.stack(first, axis=1), np.stack(last, axis=1)


def _rank(values: Array, of: Array) -> Array:
    """Return the places of numbers among ascending ones, -1 for those that are not there."""
    place = np.minimum(np.searchsorted(of, values), len(of) - 1)
    return np.where(of[place] == values, place, -1)


def codes_of(
    user: Array, cpu: Array, requested: Array, cpus: Array, requests: Array
) -> tuple[Array, ...]:
    """Return a number for the context of every job at each level; -1: it has no runs there."""
    cpu, request = _rank(cpu, cpus), _rank(requested, requests)
    by_request = np.where((user < 0) | (request < 0), -1, user * len(requests) + request)
    bins = np.floor(2.0 * np.log2(requested)).astype(np.int64)
    return (
        np.where((by_request < 0) | (cpu < 0), -1, by_request * len(cpus) + cpu),
        by_request, user, bins, np.zeros_like(user),
    )  # fmt: skip


def contexts_of(user: Array, cpu: Array, requested: Array, run: Array, end: Array) -> Contexts:
    """Return the runs of a log by context; runs that end in one second stay in order.

    Args:
        user: Numbers of the users, -1 if unknown, (L,).
        cpu: Processors, (L,).
        requested: Requested times in s, (L,).
        run: Run times in s, (L,).
        end: Ends in s, LATER if unknown, (L,).
    """
    cpus, requests = np.unique(cpu), np.unique(requested)
    share, ends, shares, codes = run / requested, [], [], []
    for code in codes_of(user, cpu, requested, cpus, requests):
        order = np.lexsort((end, code))
        ends.append(end[order])
        shares.append(share[order])
        codes.append(code[order])
    return Contexts(
        Runs(np.concatenate(ends), np.concatenate(shares)), tuple(codes), cpus, requests
    )


@compiled(_nrt=False)
def _first_after(ends: Ints, begin: int, stop: int, now: int) -> int:
    """Return the first place in ascending ends whose end is after a time."""
    low, high = begin, stop
    while low < high:
        middle = (low + high) // 2
        if ends[middle] <= now:
            low = middle + 1
        else:
            high = middle
    return low


@compiled(_nrt=False)
def distribution(
    runs: Runs, first: Ints, last: Ints, now: int, requested: int, elapsed: int,
    values: Floats, sums: Floats,
) -> int:  # fmt: skip
    """Fill the run times that a job may have, and the sums of their weights; return their number.

    `first` and `last` are the spans of the job's contexts, (5,). `elapsed` is how long it has run,
    0 for a job that waits. The last sum is not 1 where shorter run times are left out.
    """
    left, total, count = 1.0, 0.0, 0
    for level in range(CONTEXTS):
        stop = _first_after(runs.end, first[level], last[level], now)
        size = min(stop - first[level], KEPT[level])
        decay, strength = DECAY[level], STRENGTH[level]
        kept = (1.0 - decay**size) / (1.0 - decay) + strength
        weight = left / kept
        for place in range(stop - 1, stop - 1 - size, -1):
            value = runs.share[place] * requested
            if value > elapsed:
                total += weight
                values[count], sums[count] = value, total
                count += 1
            weight *= decay
        left *= strength / kept
    for part in range(1, _PARTS + 1):
        value = part * requested / _PARTS
        if value > elapsed:
            total += left / _PARTS
            values[count], sums[count] = value, total
            count += 1
    if count == 0:
        values[0], values[1], sums[0], sums[1] = (
            1.01 * elapsed + 30.0, 1.1 * elapsed + 300.0, 0.5, 1.0,
        )  # fmt: skip
        count = 2
    return count


@compiled()
def _draw(
    runs: Runs, first: Ints2, last: Ints2, now: int, requested: Ints, elapsed: Ints,
    uniforms: Rows, drawn: Ints2,
) -> None:  # fmt: skip
    """Fill the drawn run times, (D, J), from uniform numbers, (D, J)."""
    values, sums = np.empty(MOST), np.empty(MOST)
    for job in range(len(requested)):
        count = distribution(
            runs, first[job], last[job], now, requested[job], elapsed[job], values, sums
        )
        for draw in range(len(uniforms)):
            at = np.searchsorted(sums[:count], uniforms[draw, job] * sums[count - 1], side="right")
            value = values[min(at, count - 1)]
            drawn[draw, job] = max(int(np.rint(value)), elapsed[job] + 1)


def draw_run_times(
    contexts: Contexts, now: int, jobs: tuple[Array, Array, Array], elapsed: Array,
    uniforms: NDArray[np.float64],
) -> Array:  # fmt: skip
    """Return run times in s of J jobs, longer than they have run, (D, J).

    Args:
        contexts: Runs of the log; those that have ended by `now` are known.
        now: The moment in s.
        jobs: Users, processors and requested times, (J,) each.
        elapsed: Seconds that the jobs have run, 0 for those that wait, (J,).
        uniforms: Uniform numbers from [0, 1), (D, J).
    """
    first, last = contexts.spans(*jobs)
    drawn = np.zeros(uniforms.shape, np.int64)
    _draw(contexts.runs, first, last, now, jobs[2], elapsed, uniforms, drawn)
    return drawn


def ends_of(start: Array, run: Array, unknown: NDArray[np.bool_]) -> Array:
    """Return the ends of runs, LATER where the start is unknown."""
    return np.where(unknown, LATER, start + run)
