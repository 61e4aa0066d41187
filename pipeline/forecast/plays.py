"""Plays of the queue from one moment on: a compiled run for every draw of run times and arrivals.

The jobs of a draw are those that run and wait at the moment, then copies of earlier submissions:

    log      ... |- w weeks -| t
    draw                     t |- the same submissions -|- the same again -| ... until the horizon

A copy has its own processors, request and run time; the request where its run is not known yet.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue import run_times as learning
from hindcast.pipeline.scenarios.queue.drawn.run_times import (
    Contexts,
    contexts_of,
    draw_run_times,
    ends_of,
)
from hindcast.pipeline.scenarios.queue.layout import LATER, NEVER
from hindcast.pipeline.simulation.kernel import Floats, Ints, Ints2, compiled
from hindcast.pipeline.whatif.desk import Desk, Running, empty_desk
from hindcast.pipeline.whatif.orders import Mode, Order
from hindcast.pipeline.whatif.playing import (
    BEGUN,
    FREE,
    GOING,
    LEFT,
    NEXT,
    NOW,
    PLANNED,
    RUNNING,
    STATE,
    UNTIL,
    WORK,
    ChangeCell,
    Ends,
    FillCell,
    Memory,
    advance,
    functions_of,
    jobs_of,
    scheme_of,
    start_job,
)
from hindcast.pipeline.whatif.record import Array, Record
from hindcast.pipeline.whatif.run import PER_JOB, Run, log_of, with_histories
from hindcast.pipeline.whatif.run import Past as Completed
from hindcast.pipeline.whatif.waiting import (
    FIRST,
    OF_ALL,
    OF_USER,
    PREDICTS,
    PREDICTS_FROM,
    Jobs,
    Waiting,
    empty_queue,
)

DAY_S: Final = 86_400
WEEK_S: Final = 7 * DAY_S
WEEKS: Final = 8  # the most of which submissions are copied
HORIZON_S: Final = 14 * DAY_S
DRAWS: Final = 60
OF_JOB: Final = tuple(name for name in PER_JOB if name not in {"row", "counted", "chain"})
_BEFORE_ALL: Final = -LATER  # a moment before which no run has ended
_PICKED: Final = 64  # jobs of the log for the steps of a desk


class Arrivals(NamedTuple):
    """The L submissions of a log in order of arrival."""

    arrive: Ints
    cpu: Ints
    requested: Ints
    run: Ints
    end: Ints  # LATER if it is unknown
    user: Ints
    key: Ints


class Draws(NamedTuple):
    """D draws for the J jobs of a moment, of which R run, and T jobs that are asked about."""

    run: Ints2  # (D, J)
    since: Ints  # (D,) submissions after this moment ..
    until: Ints  # (D,) .. and up to this one are copied,
    shift: Ints  # (D,) so many seconds later
    jobs: Ints  # (T,)
    start: Ints2  # (D, T) what is filled; NEVER: not until the horizon
    last: Ints  # (U,) histories at the moment
    before: Ints  # (U,)
    similar: Ints  # (K,)
    places: Ints  # (4 L,) learned contexts of the submissions, if the rule reads them; else (0,)
    sums: Floats  # the contexts at the moment
    state: Ints  # (7,) of the places below


# Places in Draws.state: the moment, free processors when no job runs, number of running jobs,
# seconds of a play, the moment up to which ends of runs are known, 1 if the rule knows run times,
# and the processors of the machine.
_MOMENT, _FREE, _RUNNING, _HORIZON, _KNOWN, _CLAIRVOYANT, _PROCESSORS = range(7)


@dataclass(frozen=True)
class Past:
    """A log with the starts of one schedule.

    Attributes:
        record: The log with these starts.
        contexts: Its runs by context.
        arrivals: Its submissions.
        picked: Jobs that stand for all where a desk needs some.
    """

    record: Record
    contexts: Contexts
    arrivals: Arrivals
    picked: Array

    @property
    def first(self) -> int:
        """The first arrival."""
        return int(self.record.arrive[0])

    @cached_property
    def learned(self) -> tuple[learning.Contexts, Array]:
        """The contexts from which rules learn run times, and their places by job, (4 L,).

        A job of a state that has a context of no job of the log goes without it.
        """
        of = self.record.user, self.record.cpu, self.record.requested
        contexts = learning.contexts_of(*of)
        return contexts, contexts.places(*of)

    def sums(self, now: int) -> NDArray[np.float64]:
        """Return these contexts after all runs that have ended by a moment."""
        contexts, places = self.learned
        log, sums = log_of(self.record), contexts.empty()
        ended = log.by_end[: np.searchsorted(log.ends, now, side="right")]
        of_job = np.ascontiguousarray(places.reshape(-1, learning.CONTEXTS)[ended].reshape(-1))
        learning.learn_all(of_job, sums, 0, log.run[ended], log.requested[ended])
        return sums


def past_of(record: Record) -> Past:
    """Return the past of a record, by its starts."""
    end = ends_of(record.start, record.run, ~record.known)
    arrays = (record.arrive, record.cpu, record.requested, record.run, end, record.user, record.key)
    arrivals = Arrivals(*map(np.ascontiguousarray, arrays))
    contexts = contexts_of(record.user, record.cpu, record.requested, record.run, end)
    shares = np.linspace(0, len(record.cpu) - 1, _PICKED // 2).astype(np.int64)
    by_size = (np.argsort(of, kind="stable")[shares] for of in (record.cpu, record.requested))
    return Past(record, contexts, arrivals, np.concatenate(list(by_size)))


def moment_of(past: Past, now: int, order: Order) -> Run:
    """Return the jobs that run and wait at a moment, after what the schedule decided there.

    It has the histories of all users if the order reads them.
    """
    record, end = past.record, past.arrivals.end
    stop = int(np.searchsorted(record.arrive, now, side="right"))
    start, known = record.start[:stop], record.known[:stop]
    running = np.flatnonzero(known & (start <= now) & (end[:stop] > now))
    row = np.concatenate([running, np.flatnonzero(known & (start > now))])
    columns = {name: getattr(record, name)[row] for name in OF_JOB}
    nobody = [np.full(int(of.max(initial=-1)) + 1, -1) for of in (record.user, record.key)]
    run = Run(
        processors=record.processors, now=now, running=len(running), row=row, **columns,
        counted=np.arange(len(row)) >= len(running), chain=np.full(len(row), -1),
        last=nobody[0], before=nobody[0].copy(), similar=nobody[1],
        past=Completed(log_of(record), now),
    )  # fmt: skip
    return with_all_histories(past, run) if PREDICTS_FROM.get(order.rule) == OF_USER else run


def with_all_histories(past: Past, moment: Run) -> Run:
    """Return a moment with the histories of all users and keys of the log, its second included."""
    record = past.record
    of_all = replace(moment, now=moment.now + 1, user=record.user, key=record.key)
    found = with_histories(record, of_all)
    return replace(moment, last=found.last, before=found.before, similar=found.similar)


@dataclass(frozen=True)
class Spans:
    """Parts of the past whose submissions the draws copy, (D,) each, see Draws."""

    since: Array
    until: Array
    shift: Array


def drawn_spans(past: Past, now: int, draws: int, rng: np.random.Generator) -> Spans:
    """Return spans of one to eight weeks that end at a moment; whole days in a log of no week.

    They end whole weeks earlier where the log ended more than a day before. Nothing is copied where
    the log is younger than a day.
    """
    age, late = now - past.first, now - int(past.record.arrive[-1]) - DAY_S
    lag = -(-max(late, 0) // WEEK_S) * WEEK_S
    weeks = min(WEEKS, (age - lag) // WEEK_S)
    length = WEEK_S * rng.integers(1, max(weeks, 1) + 1, size=draws)
    if weeks < 1:
        length = np.full(draws, max(age - lag, 0) // DAY_S * DAY_S)
    return Spans(now - lag - length, np.full(draws, now - lag), lag + length)


def no_arrivals(now: int, draws: int) -> Spans:
    """Return draws that copy nothing."""
    return Spans(np.full(draws, now), np.full(draws, now), np.zeros(draws, np.int64))


def draw_runs(past: Past, moment: Run, draws: int, rng: np.random.Generator) -> Array:
    """Return run times in s of the jobs of a moment, (D, J)."""
    elapsed = _elapsed(moment)
    uniforms = rng.random((draws, len(elapsed)))
    jobs = (moment.user, moment.cpu, moment.requested)
    return draw_run_times(past.contexts, moment.now, jobs, elapsed, uniforms)


def requested_runs(moment: Run) -> Array:
    """Return requested times as run times, (1, J); a job past its request ends in a second."""
    return np.maximum(moment.requested, _elapsed(moment) + 1)[None]


def _elapsed(moment: Run) -> Array:
    runs = np.arange(len(moment.row)) < moment.running
    return np.where(runs, moment.now - moment.start, 0)


@compiled()
def _begin(
    jobs: Jobs, waiting: Waiting, running: Running, ends: Ends, state: Ints, draws: Draws, draw: int
) -> None:
    """Set the state back to the moment, with the run times of a draw."""
    runs = draws.state[_RUNNING]
    waiting.size[:], waiting.newest[:] = 0, -1
    jobs.last[:], jobs.before[:], jobs.similar[:] = draws.last, draws.before, draws.similar
    jobs.sums[:] = draws.sums
    state[NOW], state[FREE], state[NEXT] = draws.state[_MOMENT], draws.state[_FREE], runs
    state[LEFT], state[RUNNING], state[BEGUN], state[WORK] = len(draws.jobs), 0, 0, 0
    state[UNTIL] = draws.state[_MOMENT] + draws.state[_HORIZON]
    for job in range(draws.run.shape[1]):
        ends.run[job] = draws.run[draw, job]
        if draws.state[_CLAIRVOYANT] == 1:
            jobs.request[job] = ends.run[job]
        if job < runs:
            start_job(None, jobs, running, ends, state, job, ends.start[job])
        else:
            ends.start[job] = NEVER


@compiled()
def _copy_arrivals(
    arrivals: Arrivals, jobs: Jobs, ends: Ends, draws: Draws, draw: int, until: int
) -> int:
    """Put copies of earlier submissions behind the J jobs of the moment; return the number of all.

    A draw copies the submissions of its span of the past, again and again, up to the second `until`
    of the play, or until the arrays are full.
    """
    size, since, stop = draws.run.shape[1], draws.since[draw], draws.until[draw]
    shift = draws.shift[draw]  # seconds from a submission to its copy
    first = np.searchsorted(arrivals.arrive, since, side="right")
    last = np.searchsorted(arrivals.arrive, stop, side="right")
    at = first
    while size < len(jobs.cpu) and first < last:
        if at == last:
            at = first
            shift += stop - since
        if arrivals.arrive[at] + shift > until:
            break
        jobs.arrive[size] = arrivals.arrive[at] + shift
        jobs.cpu[size] = min(arrivals.cpu[at], draws.state[_PROCESSORS])  # it may have shrunk
        jobs.request[size] = arrivals.requested[at]
        jobs.user[size], jobs.key[size] = arrivals.user[at], arrivals.key[at]
        if len(draws.places) > 0:
            to, of = learning.CONTEXTS * size, learning.CONTEXTS * at
            for i in range(learning.CONTEXTS):
                jobs.places[to + i] = draws.places[of + i]
        known = arrivals.end[at] <= draws.state[_KNOWN]
        ends.run[size] = arrivals.run[at] if known else arrivals.requested[at]
        if draws.state[_CLAIRVOYANT] == 1:
            jobs.request[size] = ends.run[size]
        size, at = size + 1, at + 1
    return size  # type: ignore[no-any-return]


@compiled()
def _play(
    scheme: Ints, jobs: Jobs, waiting: Waiting, running: Running, ends: Ends, desk: Desk,
    memory: Memory, fill: FillCell, change: ChangeCell, state: Ints, arrivals: Arrivals,
    draws: Draws,
) -> None:  # fmt: skip
    """Play every draw until all jobs that are asked about have started, or to the horizon."""
    for draw in range(len(draws.run)):
        _begin(jobs, waiting, running, ends, state, draws, draw)
        state[PLANNED] = _copy_arrivals(arrivals, jobs, ends, draws, draw, state[UNTIL])
        while True:
            status = advance(
                None, scheme, jobs, waiting, running, ends, desk, memory, fill, change, state
            )
            if status != GOING:
                break
        for place in range(len(draws.jobs)):
            draws.start[draw, place] = ends.start[draws.jobs[place]]


def _room(past: Past, moment: Run, spans: Spans, horizon_s: int) -> int:
    """Return the most submissions that a draw copies up to the horizon."""
    arrive, most = past.arrivals.arrive, 0
    for since, until, shift in set(zip(*(a.tolist() for a in vars(spans).values()), strict=True)):
        reach = moment.now + horizon_s - shift  # of the first copy
        if until <= since or reach <= since:
            continue
        times, rest = divmod(reach - since, until - since)
        places = np.searchsorted(arrive, [since, until, since + rest], side="right")
        most = max(most, int(times * (places[1] - places[0]) + places[2] - places[0]))
    return most


def play_draws(
    past: Past, moment: Run, policy: tuple[Order, Mode], jobs: Array, run: Array, spans: Spans, *,
    known_until: int | None = None, free: int | None = None,
) -> Array:  # fmt: skip
    """Return how long after a moment jobs start in every draw, in s, (D, T).

    Args:
        past: The log whose submissions are copied.
        moment: The jobs that run and wait, and the histories.
        policy: Order and mode. The order must not depend on compiled priorities.
        jobs: Places of the waiting jobs in the moment, (T,).
        run: Run times of the jobs of the moment, (D, J).
        spans: Of which past the submissions are copied.
        known_until: Moment up to which ends of runs are known; None: the moment itself.
        free: Free processors; None: those that no running job holds.

    Returns:
        Seconds until the start. HORIZON_S: not before.
    """
    order, mode = policy
    room, here = _room(past, moment, spans, HORIZON_S), len(moment.row)
    some = np.resize(past.picked, max(room, _PICKED if room else 0))
    record = past.record
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(moment, name), getattr(record, name)[some]])
        for name in OF_JOB
    }
    size = here + len(some)
    run_of_all = Run(
        processors=moment.processors, now=moment.now, running=moment.running,
        row=np.arange(size), counted=np.zeros(size, bool), chain=np.full(size, -1),
        last=moment.last, before=moment.before, similar=moment.similar,
        past=Completed(moment.past.log, _BEFORE_ALL), **columns,
    )  # fmt: skip
    scheme, known = scheme_of(run_of_all, order, mode), jobs_of(run_of_all, order)
    scheme[FIRST] = min(past.first, moment.arrive[moment.running :].min(initial=past.first))
    places = np.zeros(0, np.int64)
    if scheme[PREDICTS] == OF_ALL:
        contexts, places = past.learned
        of = (run_of_all.user, run_of_all.cpu, run_of_all.requested)
        known = known._replace(places=contexts.places(*of), sums=past.sums(moment.now))
    held = int(moment.cpu[: moment.running].sum())
    numbers = np.zeros((5, size), np.int64)
    must, start = np.zeros(size, np.int64), np.full(size, NEVER)
    must[jobs], start[: moment.running] = 1, moment.start[: moment.running]
    row = np.concatenate([moment.row, len(record.row) + here + np.arange(len(some))])
    ends = Ends(
        end=numbers[0], job=numbers[1], estimated=numbers[2], run=numbers[3], row=row,
        chain=run_of_all.chain, must=must, start=start, coming=numbers[4],
    )  # fmt: skip
    starts = np.full((len(run), len(jobs)), NEVER)
    draws = Draws(
        run=np.ascontiguousarray(run), since=spans.since, until=spans.until, shift=spans.shift,
        jobs=jobs, start=starts, last=known.last.copy(), before=known.before.copy(),
        similar=known.similar.copy(), places=places, sums=known.sums.copy(),
        state=np.array([moment.now, moment.processors if free is None else free + held,
                        moment.running, HORIZON_S,
                        moment.now if known_until is None else known_until, order.clairvoyant,
                        moment.processors]),
    )  # fmt: skip
    ints, floats, fill, change = functions_of(run_of_all, order)
    memory = Memory(ints, floats, np.zeros(size, np.int64), np.zeros(size))
    _play(scheme, known, empty_queue(size, len(moment.last)),
          Running(*np.zeros((2, size), np.int64)), ends, empty_desk(known), memory, fill, change,
          np.zeros(STATE, np.int64), past.arrivals, draws)  # fmt: skip
    return np.where(starts == NEVER, HORIZON_S, starts - moment.now)
