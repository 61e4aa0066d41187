"""Whole slots of `deferrable`: the state at the beginning of a slot, and all its starts at once.

    rows of a slot   startable | running | future, ascending by job within each; no close row

An observation within a slot shows the jobs that were started in it as running. These are the
running jobs that have all their duration left, so the beginning of the slot can be reconstructed
from any observation within it. A policy that scores the jobs once per slot can therefore be called
decision by decision without a memory.

`play_slot` takes the scores of a slot, starts the longest prefix that fits, and closes the slot.

The history (LAGS + 1, HISTORY) describes a slot and the slots before it, oldest first:

    0   capacity
    1   cores started then, of jobs that still run
    2   jobs submitted then that are still present
    3   their mean cores
    4   their mean duration
    5   cores above the capacity then, of jobs that still run
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.flows.papers.osdec.network import HISTORY
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.dynamics import outcome, step
from hindcast.pipeline.scenarios.deferrable.features import MOMENT, ROW, TERM
from hindcast.pipeline.scenarios.deferrable.observation import observe
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, FLOATS3, INTS, INTS2, MASK, ROWS, compiled
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, stack_memories
from hindcast.pipeline.simulation.spec import Spec

LAGS: Final = m.LAGS
_VIOLATION: Final = k.TERMS + TERM.violation
_READ1: Final = types.Array(types.float64, 1, "C", readonly=True)
_READ2: Final = types.Array(types.float64, 2, "C", readonly=True)
_READ3: Final = types.Array(types.float64, 3, "C", readonly=True)


@compiled(types.int64(_READ2, types.int64, INTS))
def _kind(candidates, i, kinds):  # type: ignore[no-untyped-def]
    """Return the kind of a row and count it in `kinds`.

    0 is a job that was startable when the slot began, 1 a running job, 2 a future job, and -1 no
    job.
    """
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
def _write_history(moment, rows, history, counts):  # type: ignore[no-untyped-def]
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
    """Reconstruct the beginning of the slot that an observation belongs to.

    The rows of `candidates` may be in any order. Fills moment (C,), the context with the running
    and free cores of that time (its counts of jobs are copied unchanged); rows (N, F); history
    (LAGS + 1, HISTORY); and counts (3,) of startable, running and future rows.
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
        job_key = kind * 1e9 + candidates[i, ROW.job]
        j = jobs
        while j > 0 and key[j - 1] > job_key:
            key[j] = key[j - 1]
            order[j] = order[j - 1]
            j -= 1
        key[j] = job_key
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
    _write_history(moment, rows, history, counts)


@dataclass(frozen=True)
class Begun:
    """The beginnings of B slots, of at most L jobs each (see `begin_of_slot`).

    Attributes:
        context: Features of the moment, (B, C).
        rows: Rows of the jobs, (B, L, F).
        history: The history, (B, LAGS + 1, HISTORY).
        counts: Numbers of startable, running and future rows, (B, 3).
    """

    context: NDArray[np.float64]
    rows: NDArray[np.float64]
    history: NDArray[np.float64]
    counts: NDArray[np.int64]


def begun_slots(context: NDArray[np.floating], candidates: NDArray[np.floating]) -> Begun:
    """Return the beginnings of the slots of observations.

    context (B, C); candidates (B, L, F), padded with zeros. Other shapes raise HindcastError,
    because compiled code does no bounds checks.
    """
    b = len(context)
    if context.ndim != 2 or candidates.ndim != 3 or candidates.shape[::2] != (b, len(ROW)):
        raise HindcastError(
            f"context {context.shape} and candidates {candidates.shape} are not observations of "
            "deferrable"
        )
    slots = Begun(
        np.empty(context.shape), np.zeros(candidates.shape), np.empty((b, LAGS + 1, HISTORY)),
        np.empty((b, 3), np.int64),
    )  # fmt: skip
    _begin_all(
        np.ascontiguousarray(context, np.float64), np.ascontiguousarray(candidates, np.float64),
        slots.context, slots.rows, slots.history, slots.counts,
    )  # fmt: skip
    return slots


def waiting_jobs(
    candidates: NDArray[np.floating], startable: NDArray[np.floating]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the jobs that can still be started, and their indices in their slot.

    candidates (N, F) of an observation; startable (K, F) of the slot as it began, ascending by job.
    """
    waiting = np.flatnonzero(candidates[:, ROW.is_startable] == 1.0)
    return waiting, np.searchsorted(startable[:, ROW.job], candidates[waiting, ROW.job])


@compiled(types.void(_READ2, _READ3, ROWS, FLOATS3, FLOATS3, INTS2))
def _begin_all(context, candidates, moment, rows, history, counts):  # type: ignore[no-untyped-def]
    """Reconstruct the beginnings of all slots."""
    for b in range(len(context)):
        begin_of_slot(context[b], candidates[b], moment[b], rows[b], history[b], counts[b])


@compiled(types.int64(INTS, FLOATS, _READ1, FLOATS, FLOATS))
def play_slot(ints, floats, scores, step_outputs, totals):  # type: ignore[no-untyped-def]
    """Start the longest prefix by score that fits and close the slot.

    `scores` (K,) are those of the startable jobs of a slot that has just begun, ascending by job;
    ties go to the lower job. Adds the outputs of every decision to `totals`. Returns the number of
    decisions, negative for the last slot.
    """
    n = ints[m.STARTABLE_JOBS]
    waits = np.ones(n, np.bool_)
    decisions = 0
    while True:
        best = -1
        place = 0  # index of the best job among those that wait
        waiting = 0
        for i in range(n):
            if waits[i]:
                if best < 0 or scores[i] > scores[best]:
                    best, place = i, waiting
                waiting += 1
        if best < 0:
            break
        # A job that does not fit is refused and changes nothing.
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
    """Observe every episode and fill the beginning of its slot."""
    image = np.zeros(0, np.uint8)
    for e in range(len(ints)):
        ints[e, k.FRESH] = 0  # because all episodes share the buffers
        n = observe(ints[e], floats[e], context[e], image, candidates, feasible)
        rows[e] = blank
        begin_of_slot(context[e], candidates[:n], moment[e], rows[e], history[e], counts[e])


@compiled(types.int64(INTS2, ROWS, _READ2, ROWS, INTS, ROWS, FLOATS, INTS))
def _play_all(ints, floats, scores, totals, decisions, step_outputs, paid, started):  # type: ignore[no-untyped-def]
    """Play the slot of every episode; return the number of episodes that are over."""
    over = 0
    slot = np.zeros(step_outputs.shape[1])
    for e in range(len(ints)):
        slot[:] = 0.0
        before = ints[e, m.STARTED]
        count = play_slot(ints[e], floats[e], scores[e], step_outputs[e], slot)
        over += count < 0
        decisions[e] += abs(count)
        started[e] = ints[e, m.STARTED] - before
        step_outputs[e] = slot
        paid[e] = slot[k.REWARD]
        for i in range(len(slot)):
            totals[e, i] += slot[i]
    return over


class Slots:
    """Episodes of one horizon that are played together, slot by slot.

    The next call overwrites all arrays. There are E episodes of at most L jobs.

    Attributes:
        context: Features of the moment when the slot began, (E, C).
        rows: Rows of the jobs, (E, L, F).
        history: The history, (E, LAGS + 1, HISTORY).
        counts: Numbers of startable, running and future rows, (E, 3).
        step_outputs: Sums of the step outputs over the slot, (E, 2 + K), see
            hindcast.pipeline.simulation.kernel.
        totals: Sums of the step outputs over the episode, (E, 2 + K).
        paid: Reward of the slot, (E,).
        started: Number of jobs started in the slot, (E,).
    """

    def __init__(self, spec: Spec, instances: Sequence[Instance]) -> None:
        self._spec = spec
        n = len(instances)
        longest = max((i.capacity for i in instances), default=1)
        self._ints, self._floats = stack_memories(instances)
        self.horizon = int(self._ints[0, m.HORIZON])
        if (self._ints[:, m.HORIZON] != self.horizon).any():
            raise HindcastError(
                "episodes with different horizons cannot be played slot by slot together"
            )
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
        """Fill the arrays for the slot that has just begun."""
        _see_all(
            self._ints, self._floats, self._seen, self._candidates, self._feasible, self._blank,
            self.context, self.rows, self.history, self.counts,
        )  # fmt: skip

    def play(self, scores: NDArray[np.float64]) -> bool:
        """Play the slot with scores (E, K or more) of its startable jobs; True after the last."""
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
        """Return a summary of every episode."""
        return [
            finished_episode(
                outcome, self._spec, self._ints[e], self._floats[e], self.totals[e],
                int(self._decisions[e]), truncated=False,
            )
            for e in range(len(self._ints))
        ]  # fmt: skip
