"""The scheduler of a record: which order and mode would have started the jobs that started.

At each moment with starts, in the recorded state after all ends and arrivals, a scheduler is asked
which jobs it starts. It explains the recorded starts that are among them; starts of a job that did
not wait while no other did are left out, for every scheduler explains them. Moments are independent
of each other, so that nothing drifts, and evenly spread ones suffice for a long log.

The scheduler is asked again after the starts of a moment: a job that it would start then is idle
until the next moment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from hindcast.pipeline.simulation.kernel import Ints, compiled
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.pipeline.whatif.deciding import decide
from hindcast.pipeline.whatif.desk import Desk, Running, empty_desk
from hindcast.pipeline.whatif.orders import (
    ALL_RESERVE,
    ASKED,
    EASY,
    FILLED,
    STRICT,
    Mode,
    Order,
    order_of,
)
from hindcast.pipeline.whatif.playing import (
    FREE,
    NEXT,
    RUNNING,
    ChangeCell,
    Ends,
    FillCell,
    Memory,
    end_first,
    functions_of,
    jobs_of,
    scheme_of,
    start_job,
)
from hindcast.pipeline.whatif.record import Array, Record
from hindcast.pipeline.whatif.resources.several import (
    Many,
    compiled_for_both,
    many_of,
    place_recorded,
)
from hindcast.pipeline.whatif.run import Run, run_of
from hindcast.pipeline.whatif.waiting import (
    KIND,
    REFRESH,
    WAITING,
    Jobs,
    Waiting,
    complete,
    empty_queue,
    join,
    leave,
    list_waiting,
    set_values,
)

ORDERS: Final = ("fcfs", "sjf", "saf", "lxf", "wfp3", "unicef")
MODES: Final[Mapping[str, Mode]] = {"none": STRICT, "easy": EASY, "all": ALL_RESERVE}
MOST_MOMENTS: Final = 10_000

# Places in `state` behind those of a played run, and what the walk returns
PHASE, STARTED, MOMENT, STARTING, BEFORE, IDLE_JOBS, WAITING_JOBS = range(7, 14)
_STATE: Final = 14
_BEGIN, _BEFORE_STARTS, _STARTED, _AFTER_STARTS = range(4)  # phases of a moment
_DONE, _ASKING = range(2)
HITS, STARTS, IDLE, WAITED = range(4)  # places in `sums`


class _Recorded(NamedTuple):
    """Recorded starts, and the moments at which a scheduler is asked."""

    start: Ints  # (N,)
    by_start: Ints  # (N,)
    before: Ints  # 1 for each moment with starts at which it is asked before them
    after: Ints  # 1 for each moment at which it is asked after its starts
    taken: Ints  # (N,) 1 + the last moment with starts at which the scheduler took the job
    sums: Ints  # (4,)


@dataclass(frozen=True)
class Member:
    """A scheduler of the family, such as `saf` with `easy`."""

    order_name: str
    mode_name: str
    order: Order
    mode: Mode

    @property
    def name(self) -> str:
        """Order and mode, such as "saf easy"."""
        return f"{self.order_name} {self.mode_name}"


@dataclass(frozen=True)
class Explained:
    """Share of a record that a scheduler explains.

    Attributes:
        name: Order and mode, such as "saf easy".
        hits: Recorded starts that it takes too, at the moments at which it was asked.
        starts: Recorded starts at these moments.
        idle_s: Job-seconds waited by jobs that it would have started; 0 if it was not asked.
        waited_s: Job-seconds waited at the moments at which it was asked after the starts.
    """

    name: str
    hits: int
    starts: int
    idle_s: int = 0
    waited_s: int = 0

    @property
    def share(self) -> float:
        """Share of the recorded starts that it explains."""
        return self.hits / max(self.starts, 1)

    @property
    def idle(self) -> float:
        """Share of the waiting by jobs that it would have started."""
        return self.idle_s / max(self.waited_s, 1)


def members(mine: tuple[Order, Mode] | None = None) -> tuple[Member, ...]:
    """Return the schedulers of the family: six orders, and the reader's own, in three modes.

    The reader's own mode stands for the one with as many reservations, else it is a fourth, `own`.
    """
    found = [(name, order_of(name), MODES) for name in ORDERS]
    if mine is not None:
        order, own = mine
        alike = [name for name, mode in MODES.items() if mode.reservations == own.reservations]
        found.append(("mine", order, {**MODES, (alike[0] if alike else "own"): own}))
    return tuple(
        Member(name, label, order, mode)
        for name, order, modes in found if order is not None
        for label, mode in modes.items()
    )  # fmt: skip


def explain(
    machines: Sequence[Record], schedulers: Sequence[Member], most: int = MOST_MOMENTS
) -> tuple[Explained, ...]:
    """Return what schedulers explain of a record, the nearest first.

    The least idle of those that explain most comes first. The others have no `idle_s`.

    Args:
        machines: The record, or the records of its pools.
        schedulers: The schedulers.
        most: Number of moments of each machine at which a scheduler is asked.
    """
    runs = [_past(one) for one in machines if one.known.any()]
    found = {one: _sums(runs, one, most, 0) for one in schedulers}
    best = max(one.share for one in found.values())
    for one, explained in found.items():
        if explained.share == best:
            idle = _sums(runs, one, 0, most)
            found[one] = replace(explained, idle_s=idle.idle_s, waited_s=idle.waited_s)
    return tuple(sorted(found.values(), key=lambda one: (-one.share, one.idle)))


@dataclass(frozen=True)
class _Past:
    """A whole record as a run, without the jobs of unknown start.

    Attributes:
        run: The run.
        by_start: Its jobs in order of their recorded starts, (N,).
        starting: Number of moments with starts.
        moments: Number of moments with an end, an arrival or a start.
    """

    run: Run
    by_start: Array
    starting: int
    moments: int


def _past(record: Record) -> _Past:
    known = record if record.known.all() else record.take(np.flatnonzero(record.known))
    run = run_of(known, 0, warm=False)
    events = np.concatenate([run.arrive, run.start, run.start + run.run])
    return _Past(
        run, np.argsort(run.start, kind="stable"), len(np.unique(run.start)), len(np.unique(events))
    )


def _sums(pasts: Sequence[_Past], one: Member, before: int, after: int) -> Explained:
    sums = sum((_walk_of(past, one, before, after) for past in pasts), np.zeros(4, np.int64))
    return Explained(one.name, *map(int, sums))


def _spread(moments: int, most: int) -> Array:
    """Return 1 for at most `most` of the moments, evenly spread, and 0 for the others."""
    return np.diff(np.arange(moments + 1) * min(most, moments) // moments)


def _walk_of(past: _Past, one: Member, before: int, after: int) -> Array:
    """Return the sums of a scheduler that is asked at `before` starts and `after` moments."""
    run, order = past.run, one.order
    size = len(run.arrive)
    scheme, jobs = scheme_of(run, order, one.mode), jobs_of(run, order)
    recorded = _Recorded(
        run.start, past.by_start, _spread(past.starting, before), _spread(past.moments, after),
        np.zeros(size, np.int64), np.zeros(4, np.int64),
    )  # fmt: skip
    end, job, estimated, must, start, coming, listed = (np.zeros(size, np.int64) for _ in range(7))
    ends = Ends(end, job, estimated, run.run, run.row, run.chain, must, start, coming)
    running = Running(np.zeros(size, np.int64), np.zeros(size, np.int64))
    many = many_of(run, estimated, planning=one.mode.reservations > 1)
    ints, floats, fill, change = functions_of(run, order)
    ask = order.ask(run, ints, floats) if order.ask is not None else None
    memory = Memory(ints, floats, listed, np.zeros(size))
    waiting, desk = empty_queue(size, len(run.last)), empty_desk(jobs)
    state = np.zeros(_STATE, np.int64)
    state[FREE] = run.processors
    while (
        _walk(
            many, scheme, jobs, waiting, running, ends, desk, memory, fill, change, recorded, state
        )
        == _ASKING
    ):
        asked = memory.jobs[: waiting.size[WAITING]]
        assert ask is not None
        memory.values[: len(asked)] = ask(int(state[BEFORE]), asked, jobs.arrive)
    return recorded.sums


@compiled()
def _is_asked(
    scheme: Ints, jobs: Jobs, waiting: Waiting, memory: Memory, fill: FillCell, now: int
) -> bool:
    """Fill the priorities of the waiting jobs; return whether the caller has to do it."""
    list_waiting(waiting, memory.jobs)
    if scheme[KIND] == ASKED:
        return True
    count, seen = waiting.size[WAITING], now // scheme[REFRESH] * scheme[REFRESH]
    fill[0](memory.ints, memory.floats, seen, memory.jobs[:count], jobs.arrive,
            memory.values[:count])  # fmt: skip
    return False


@compiled_for_both()
def _walk(
    many: Many | None, scheme: Ints, jobs: Jobs, waiting: Waiting, running: Running, ends: Ends,
    desk: Desk, memory: Memory, fill: FillCell, change: ChangeCell, recorded: _Recorded,
    state: Ints,
) -> int:  # fmt: skip
    """Go through the moments of a record, until priorities are asked for or the end."""
    change_of = change[0]
    scheme, state, recorded = uncounted(scheme), uncounted(state), uncounted(recorded)
    jobs, waiting, running = uncounted(jobs), uncounted(waiting), uncounted(running)
    ends, desk, memory, own = uncounted(ends), uncounted(desk), uncounted(memory), uncounted(many)
    size, given, sums = len(jobs.arrive), scheme[KIND] >= FILLED, recorded.sums
    while state[STARTED] < size or state[PHASE] != _BEGIN:
        if state[PHASE] == _BEGIN:
            now = recorded.start[recorded.by_start[state[STARTED]]]
            if state[NEXT] < size:
                now = min(now, jobs.arrive[state[NEXT]])
            if state[RUNNING] > 0:
                now = min(now, ends.end[state[RUNNING] - 1])
            sums[IDLE] += (now - state[BEFORE]) * state[IDLE_JOBS]
            sums[WAITED] += (now - state[BEFORE]) * state[WAITING_JOBS]
            state[BEFORE], state[IDLE_JOBS], state[WAITING_JOBS] = now, 0, 0
            while state[RUNNING] > 0 and ends.end[state[RUNNING] - 1] == now:
                job = end_first(own, jobs, running, ends, state)
                complete(own, scheme, jobs, waiting, job, ends.run[job])
                if given:
                    change_of(memory.ints, memory.floats, now, job, -1)
            while state[NEXT] < size and jobs.arrive[state[NEXT]] == now:
                join(own, scheme, jobs, waiting, state[NEXT])
                state[NEXT] += 1
            state[MOMENT] += 1
            state[PHASE] = _STARTED
            if recorded.start[recorded.by_start[state[STARTED]]] == now:
                state[PHASE] = _BEFORE_STARTS
                state[STARTING] += 1
                asked = recorded.before[state[STARTING] - 1] == 1
                if asked and given and _is_asked(scheme, jobs, waiting, memory, fill, now):
                    return _ASKING
        now = state[BEFORE]
        if state[PHASE] == _BEFORE_STARTS:
            asked = recorded.before[state[STARTING] - 1] == 1
            if asked:
                if given:
                    set_values(waiting, memory.values)
                count = decide(
                    own, scheme, waiting, running, desk, now, state[FREE], state[RUNNING]
                )
                for i in range(count):
                    recorded.taken[desk.chosen[i]] = state[STARTING]
            others = waiting.size[WAITING] > 1
            while state[STARTED] < size:
                job = recorded.by_start[state[STARTED]]
                if recorded.start[job] > now:
                    break
                state[STARTED] += 1
                if asked and (others or jobs.arrive[job] < now):
                    sums[STARTS] += 1
                    sums[HITS] += recorded.taken[job] == state[STARTING]
                leave(scheme, jobs, waiting, job)
                place_recorded(own, job)
                start_job(own, jobs, running, ends, state, job, now)
                if given:
                    change_of(memory.ints, memory.floats, now, job, 1)
            state[PHASE] = _STARTED
        asked = recorded.after[state[MOMENT] - 1] == 1 and waiting.size[WAITING] > 0
        if state[PHASE] == _STARTED:
            state[PHASE] = _AFTER_STARTS
            if asked and given and _is_asked(scheme, jobs, waiting, memory, fill, now):
                return _ASKING
        if asked:
            if given:
                set_values(waiting, memory.values)
            state[WAITING_JOBS] = waiting.size[WAITING]
            state[IDLE_JOBS] = decide(
                own, scheme, waiting, running, desk, now, state[FREE], state[RUNNING]
            )
        state[PHASE] = _BEGIN
    return _DONE
