"""Replay of a record: recorded starts are events of the simulation.

At a moment, jobs end, then jobs arrive, then the due ones start: those whose recorded start has
come, in order of (recorded start, row), each if it fits. One that does not fit stays due and blocks
no other. The next moment is the next end, arrival or recorded start. A job that starts late keeps
its run time. Jobs of unknown start are due when they arrive, after all others.

Where the record keeps within the machine, every job of the run starts in its recorded second.
"""

import heapq
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.fitting import AS_ASKED, NOWHERE
from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.simulation.kernel import Ints, compiled
from hindcast.pipeline.whatif.resources.several import (
    Many,
    compiled_for_both,
    kinds_of,
    many_of,
    place,
    take,
)
from hindcast.pipeline.whatif.run import Run

_NONE: Final = 1 << 62  # processors of a place without a due job


@dataclass(frozen=True)
class Replay:
    """Result of a replay: the recorded starts of a run, as far as they could be kept.

    Attributes:
        starts: Starts in s on the clock of the log, (N,).
        compared: Counted jobs of known start.
        late: Those of them that started later than recorded.
        mean_delay_s: Mean of the delays of the compared jobs.
        ks: Kolmogorov-Smirnov distance of their waits from the recorded ones.
    """

    starts: NDArray[np.int64]
    compared: int
    late: int
    mean_delay_s: float
    ks: float


def replay(run: Run) -> Replay:
    """Play the recorded starts of a run."""
    return beside_record(run, replay_placed(run)[0])


def replay_placed(run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the start and the placement of every job under the recorded starts, (N,) each."""
    unknown = run.start == NEVER
    due = np.where(unknown, np.maximum(run.arrive, run.now), run.start)
    turn = np.empty(len(due), np.int64)
    turn[np.lexsort((run.row, due, unknown))] = np.arange(len(due))
    starts = np.where(np.arange(len(due)) < run.running, run.start, NEVER)
    waits = np.argsort(due[run.running :], kind="stable") + run.running
    many = many_of(run, np.zeros(len(due), np.int64), planning=False)
    _play(many, run.processors, waits, due, turn, run.cpu, run.run, starts)
    return starts, kinds_of(run, many)


def beside_record(run: Run, starts: NDArray[np.int64]) -> Replay:
    """Return the starts of a replay beside the recorded ones."""
    known = run.counted & (run.start != NEVER)
    recorded, since = run.start[known], np.maximum(run.arrive[known], run.now)
    delay = starts[known] - recorded
    return Replay(
        starts=starts,
        compared=len(delay),
        late=int((delay > 0).sum()),
        mean_delay_s=float(delay.mean()) if len(delay) else 0.0,
        ks=distance(recorded - since, starts[known] - since) if len(delay) else 0.0,
    )


@compiled()
def _set_leaf(tree: Ints, node: int, value: int) -> None:
    tree[node] = value
    while node > 1:
        node //= 2
        tree[node] = min(tree[2 * node], tree[2 * node + 1])


@compiled_for_both()
def _play(
    many: Many | None, processors: int, waits: Ints, due: Ints, turn: Ints, cpu: Ints, run: Ints,
    starts: Ints,
) -> None:  # fmt: skip
    """Fill the starts of the jobs `waits`, which are in order of the moments when they are due.

    tree[1] is the least number of processors of a due job; a job is the leaf of its turn.
    """
    leaves = 1
    while leaves < len(turn):
        leaves *= 2
    tree = np.full(2 * leaves, _NONE)
    at, passed = np.zeros(len(turn), np.int64), np.zeros(len(turn), np.int64)
    ends, free = [(np.int64(0), np.int64(0)) for _ in range(0)], processors
    for job in range(len(turn)):
        at[turn[job]] = job
        if starts[job] != NEVER:
            heapq.heappush(ends, (starts[job] + run[job], np.int64(job)))
            free -= int(cpu[job])
            if many is not None:
                take(many, job, many.free, 0, many.kind[job], 1)
    came = 0
    while came < len(waits) or tree[1] < _NONE:
        moment = ends[0][0] if ends else due[waits[came]]
        if came < len(waits):
            moment = min(moment, int(due[waits[came]]))
        while ends and ends[0][0] <= moment:
            ended = int(heapq.heappop(ends)[1])
            free += int(cpu[ended])
            if many is not None:
                take(many, ended, many.free, 0, many.kind[ended], -1)
        while came < len(waits) and due[waits[came]] == moment:
            _set_leaf(tree, leaves + turn[waits[came]], cpu[waits[came]])
            came += 1
        held_up = 0
        while tree[1] <= free:
            node = 1
            while node < leaves:
                node = 2 * node if tree[2 * node] <= free else 2 * node + 1
            job = int(at[node - leaves])
            _set_leaf(tree, node, _NONE)
            kind = AS_ASKED if many is None else place(many, job, many.free)
            if kind == NOWHERE:
                passed[held_up] = job
                held_up += 1
                continue
            starts[job] = moment
            free -= int(cpu[job])
            heapq.heappush(ends, (moment + run[job], np.int64(job)))
            if many is not None:
                many.kind[job] = kind
                take(many, job, many.free, 0, kind, 1)
        for i in range(held_up):
            _set_leaf(tree, leaves + turn[passed[i]], cpu[passed[i]])


def distance(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return the Kolmogorov-Smirnov distance of two samples."""
    values = np.concatenate([first, second])
    shares = [
        np.searchsorted(np.sort(of), values, side="right") / len(of) for of in (first, second)
    ]
    return float(np.abs(shares[0] - shares[1]).max())
