"""Whole slots of `deferrable`: what is known when a slot begins, and all its starts at once.

    rows of a slot   startable | running | future, ascending by job within each; no close row

An observation within a slot shows the jobs that were started in it as running. They are the running
jobs that have all their duration left, so the slot as it began can be read off any observation in
it: a policy that scores the jobs once per slot needs no memory to be asked decision by decision.

    played           play_slot   scores of a slot -> its longest prefix that fits, and the close

    history (LAGS + 1, HISTORY), oldest first, of what a slot tells of itself and the ones before:
    0 capacity | 1 cores started then, of jobs that still run | 2 jobs submitted then, of those that
    are still there | 3 their mean cores | 4 their mean duration | 5 cores above the capacity then,
    by what still runs
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.scenarios.deferrable import layout as m
from pipeline.scenarios.deferrable.dynamics import outcome, step
from pipeline.scenarios.deferrable.features import MOMENT, ROW, TERM
from pipeline.scenarios.deferrable.observation import observe
from pipeline.simulation import kernel as k
from pipeline.simulation.kernel import FLOATS, FLOATS3, INTS, INTS2, MASK, ROWS, compiled
from pipeline.simulation.rollout import Episode, finished_episode
from pipeline.simulation.scenario import Instance, stack_memories
from pipeline.simulation.spec import Spec

HISTORY: Final = m.HISTORY
LAGS: Final = m.LAGS
_VIOLATION: Final = k.TERMS + TERM.violation
_READ1: Final = types.Array(types.float64, 1, "C", readonly=True)
_READ2: Final = types.Array(types.float64, 2, "C", readonly=True)
_READ3: Final = types.Array(types.float64, 3, "C", readonly=True)


@compiled(types.int64(_READ2, types.int64, INTS))
def _kind(candidates, i, kinds):  # type: ignore[no-untyped-def]
    """0 startable when the slot began, 1 running, 2 future, -1 no job; counted in `kinds`."""
    kind = -1
    if candidates[i, ROW.closes] == 1.0:
        return kind
    if candidates[i, ROW.is_startable] == 1.0:
        kind = 0
    elif candidates[i, ROW.is_running] == 1.0:
        kind = 0 if candidates[i, ROW.remaining] == candidates[i, ROW.duration] else 1
    elif candidates[i, ROW.is_future] == 1.0:
        kind = 2
    if kind >= 0:
        kinds[kind] += 1
    return kind


@compiled(types.void(FLOATS, ROWS, ROWS, INTS))
def _tell_history(moment, rows, history, counts):  # type: ignore[no-untyped-def]
    """Fill the history from the context and the rows of a slot."""
    history[:] = 0.0
    for lag in range(LAGS + 1):
        history[LAGS - lag, 0] = moment[lag]
        history[LAGS - lag, 5] = 0.0 - moment[lag]
    for j in range(counts.sum()):
        lag = int(rows[j, ROW.since_submission])
        if 0 <= lag <= LAGS:
            history[LAGS - lag, 2] += 1.0
            history[LAGS - lag, 3] += rows[j, ROW.cores]
            history[LAGS - lag, 4] += rows[j, ROW.duration]
        if counts[0] <= j < counts[0] + counts[1]:
            ago = int(rows[j, ROW.duration] - rows[j, ROW.remaining])
            if ago <= LAGS:
                history[LAGS - ago, 1] += rows[j, ROW.cores]
            for lag in range(min(ago, LAGS) + 1):
                history[LAGS - lag, 5] += rows[j, ROW.cores]
    for lag in range(LAGS + 1):
        submitted = max(history[lag, 2], 1.0)
        history[lag, 3] /= submitted
        history[lag, 4] /= submitted
        history[lag, 5] = max(history[lag, 5], 0.0)


@compiled(types.void(_READ1, _READ2, FLOATS, ROWS, ROWS, INTS))
def begin_of_slot(context, candidates, moment, rows, history, counts):  # type: ignore[no-untyped-def]
    """The slot that an observation is of, as it began; rows of candidates may be in any order.

    Fills moment (C,), the context with running and free cores as they were (what else the context
    counts of jobs is left as it is); rows (N, F), history (LAGS + 1, HISTORY), and counts (3,) of
    startable, running and future rows.
    """
    n = len(candidates)
    counts[:] = 0
    order = np.empty(n, np.int64)
    key = np.empty(n)
    jobs = 0
    started = 0.0
    for i in range(n):
        kind = _kind(candidates, i, counts)
        if kind < 0:
            continue
        if kind == 0 and candidates[i, ROW.is_running] == 1.0:
            started += candidates[i, ROW.cores]
        own = kind * 1e9 + candidates[i, ROW.job]
        j = jobs
        while j > 0 and key[j - 1] > own:
            key[j] = key[j - 1]
            order[j] = order[j - 1]
            j -= 1
        key[j] = own
        order[j] = i
        jobs += 1
    moment[:] = context
    moment[MOMENT.running_cores] -= started
    moment[MOMENT.free_cores] += started
    for j in range(jobs):
        for column in range(len(ROW)):
            rows[j, column] = candidates[order[j], column]
    for j in range(counts[0]):
        rows[j, ROW.is_running], rows[j, ROW.is_startable] = 0.0, 1.0
    _tell_history(moment, rows, history, counts)


@dataclass(frozen=True)
class Begun:
    """B slots as they began, of at most L jobs each; what an element means: `begin_of_slot`.

    context (B, C), rows (B, L, F), history (B, LAGS + 1, HISTORY), counts (B, 3)
    """

    context: NDArray[np.float64]
    rows: NDArray[np.float64]
    history: NDArray[np.float64]
    counts: NDArray[np.int64]


def begun_slots(context: NDArray[np.floating], candidates: NDArray[np.floating]) -> Begun:
    """The slots that observations are of; context (B, C), candidates (B, L, F), padded with zeros.

    Raises HindcastError for arrays of other shapes: compiled code reads where it is told to.
    """
    b = len(context)
    if context.ndim != 2 or candidates.ndim != 3 or candidates.shape[::2] != (b, len(ROW)):
        raise HindcastError(
            f"context {context.shape} and candidates {candidates.shape} are not observations of "
            "deferrable"
        )
    found = Begun(
        np.empty(context.shape), np.zeros(candidates.shape), np.empty((b, LAGS + 1, HISTORY)),
        np.empty((b, 3), np.int64),
    )  # fmt: skip
    _begin_all(
        np.ascontiguousarray(context, np.float64), np.ascontiguousarray(candidates, np.float64),
        found.context, found.rows, found.history, found.counts,
    )  # fmt: skip
    return found


def waiting_jobs(
    candidates: NDArray[np.floating], startable: NDArray[np.floating]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the jobs that still can be started, and their places among those of their slot.

    candidates (N, F) of an observation; startable (K, F), those of the slot as it began, ascending.
    """
    waiting = np.flatnonzero(candidates[:, ROW.is_startable] == 1.0)
    return waiting, np.searchsorted(startable[:, ROW.job], candidates[waiting, ROW.job])


@compiled(types.void(_READ2, _READ3, ROWS, FLOATS3, FLOATS3, INTS2))
def _begin_all(context, candidates, moment, rows, history, counts):  # type: ignore[no-untyped-def]
    for b in range(len(context)):
        begin_of_slot(context[b], candidates[b], moment[b], rows[b], history[b], counts[b])


@compiled(types.int64(INTS, FLOATS, _READ1, FLOATS, FLOATS))
def play_slot(ints, floats, scores, step_outputs, totals):  # type: ignore[no-untyped-def]
    """Start the longest prefix by score that fits, close the slot; decisions taken.

    scores (K,) of the startable jobs of a slot that has just begun, ascending by job; ties go to
    the lower one. totals += step_outputs of every decision. Negative: 1 - decisions of the last
    slot.
    """
    n = ints[m.STARTABLE_JOBS]
    waits = np.ones(n, np.bool_)
    decisions = 0
    while True:
        best = -1
        place = 0  # of the best one among those that wait
        waiting = 0
        for i in range(n):
            if waits[i]:
                if best < 0 or scores[i] > scores[best]:
                    best, place = i, waiting
                waiting += 1
        if best < 0:
            break
        # What does not fit is refused, and changes nothing.
        if step(ints, floats, ints[m.RUNNING_JOBS] + place, step_outputs) == k.INFEASIBLE:
            break
        waits[best] = False
        decisions += 1
        for i in range(len(step_outputs)):
            totals[i] += step_outputs[i]
    close = ints[m.RUNNING_JOBS] + ints[m.STARTABLE_JOBS] + ints[m.FUTURE_JOBS]
    status = step(ints, floats, close, step_outputs)
    decisions += 1
    for i in range(len(step_outputs)):
        totals[i] += step_outputs[i]
    return decisions if status == k.RUNNING else -decisions


@compiled(
    types.void(
        INTS2, ROWS, ROWS, ROWS, MASK, ROWS, ROWS, FLOATS3, FLOATS3, INTS2,
    ))  # fmt: skip
def _see_all(  # type: ignore[no-untyped-def]
    ints, floats, context, candidates, feasible, blank, moment, rows, history, counts
):
    """Observe every episode; the slot of each as it begins."""
    image = np.zeros(0, np.uint8)
    for e in range(len(ints)):
        ints[e, k.FRESH] = 0  # the buffers serve all episodes
        n = observe(ints[e], floats[e], context[e], image, candidates, feasible)
        rows[e] = blank
        begin_of_slot(context[e], candidates[:n], moment[e], rows[e], history[e], counts[e])


@compiled(types.int64(INTS2, ROWS, _READ2, ROWS, INTS, ROWS, FLOATS, INTS))
def _play_all(ints, floats, scores, totals, decisions, step_outputs, paid, started):  # type: ignore[no-untyped-def]
    """Play the slot of every episode; how many episodes are over then."""
    over = 0
    slot = np.zeros(step_outputs.shape[1])
    for e in range(len(ints)):
        slot[:] = 0.0
        before = ints[e, m.STARTED]
        taken = play_slot(ints[e], floats[e], scores[e], step_outputs[e], slot)
        over += taken < 0
        decisions[e] += abs(taken)
        started[e] = ints[e, m.STARTED] - before
        step_outputs[e] = slot
        paid[e] = slot[k.REWARD]
        for i in range(len(slot)):
            totals[e, i] += slot[i]
    return over


class Slots:
    """Episodes of one horizon, played slot by slot together.

    What a slot shows is in arrays that the next call overwrites, E episodes of at most L jobs:
    context (E, C), rows (E, L, F), history (E, LAGS + 1, HISTORY), counts (E, 3); what it came to
    in booked (E, ...), as pipeline.simulation.kernel has it, summed over the slot.
    """

    def __init__(self, spec: Spec, instances: Sequence[Instance]) -> None:
        self._spec = spec
        n = len(instances)
        longest = max((i.capacity for i in instances), default=1)
        self._ints, self._floats = stack_memories(instances)
        self.horizon = int(self._ints[0, m.HORIZON])
        if (self._ints[:, m.HORIZON] != self.horizon).any():
            raise HindcastError("episodes that are played slot by slot need one horizon")
        self._seen = np.zeros((n, len(spec.context)))
        self._candidates = np.zeros((longest, len(ROW)))
        self._feasible = np.zeros(longest, np.bool_)
        self._blank = np.zeros((longest, len(ROW)))
        self.context = np.zeros((n, len(spec.context)))
        self.rows = np.zeros((n, longest, len(ROW)))
        self.history = np.zeros((n, LAGS + 1, HISTORY))
        self.counts = np.zeros((n, 3), np.int64)
        self.step_outputs = np.zeros((n, k.TERMS + len(spec.reward_terms)))
        self.totals = np.zeros_like(self.step_outputs)
        self.paid = np.zeros(n)
        self.started = np.zeros(n, np.int64)
        self._decisions = np.zeros(n, np.int64)

    def see(self) -> None:
        """Bring the arrays to the slot that has just begun."""
        _see_all(
            self._ints, self._floats, self._seen, self._candidates, self._feasible, self._blank,
            self.context, self.rows, self.history, self.counts,
        )  # fmt: skip

    def play(self, scores: NDArray[np.float64]) -> bool:
        """Play the slot with scores (E, K or more) of its startable jobs; whether that was all."""
        over = _play_all(
            self._ints, self._floats, scores, self.totals, self._decisions, self.step_outputs,
            self.paid, self.started,
        )  # fmt: skip
        return bool(over)

    @property
    def violation(self) -> NDArray[np.float64]:
        """The violation term of the slot that was played, (E,): zero or below."""
        return self.step_outputs[:, _VIOLATION]

    def episodes(self) -> list[Episode]:
        """What the episodes have come to."""
        return [
            finished_episode(
                outcome, self._spec, self._ints[e], self._floats[e], self.totals[e],
                int(self._decisions[e]), truncated=False,
            )
            for e in range(len(self._ints))
        ]  # fmt: skip
