"""Playing a run: every event of a machine under a policy, compiled, without observations.

At a moment all jobs end whose time is over, then jobs arrive, then the policy starts jobs. The next
moment is the next end or arrival. The starts are those of scenario `queue` under the same rule.

The compiled loop works in slices, so it can be interrupted and says how far it is.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import types
from numba.typed import List
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue.layout import LATER, NEVER
from hindcast.pipeline.scenarios.queue.run_times import CONTEXTS, learn, learned
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.pipeline.whatif.deciding import decide
from hindcast.pipeline.whatif.desk import WORK as DESK_WORK
from hindcast.pipeline.whatif.desk import Desk, Running, empty_desk
from hindcast.pipeline.whatif.orders import (
    ASKED,
    CHANGE,
    FILL,
    FILLED,
    GIVEN,
    HANDICAP,
    Mode,
    Order,
)
from hindcast.pipeline.whatif.record import Array
from hindcast.pipeline.whatif.resources.several import (
    Many,
    compiled_for_both,
    kinds_of,
    many_of,
    take,
)
from hindcast.pipeline.whatif.run import UNPLANNED, Run
from hindcast.pipeline.whatif.waiting import (
    BEHIND,
    DEPTH,
    FIRST,
    KIND,
    OF_ALL,
    PREDICTS,
    PREDICTS_FROM,
    REFRESH,
    RESERVATIONS,
    RULE,
    SCHEME,
    STALE,
    WAITING,
    Jobs,
    Waiting,
    complete,
    empty_queue,
    expect_again,
    join,
    leave,
    list_waiting,
    set_values,
)

_SLICE: Final = 1 << 24  # slots, segments and moments that one call of the loop handles
_QUESTION: Final = 1 << 14  # the same, of a question to a Python function
# Places in `state`. A play goes no further than the moment UNTIL.
NOW, FREE, NEXT, LEFT, RUNNING, BEGUN, WORK, PLANNED, UNTIL = range(9)
STATE: Final = 9
_DONE, GOING, _ASKING, _STUCK = range(4)  # what the loop returns

FillCell: TypeAlias = Annotated[Any, types.ListType(types.FunctionType(FILL))]
ChangeCell: TypeAlias = Annotated[Any, types.ListType(types.FunctionType(CHANGE))]


class Ends(NamedTuple):
    """The running jobs in the order of their ends, last end first, and columns of all N jobs."""

    end: Ints  # (N,)
    job: Ints  # (N,)
    estimated: Ints  # (N,) jobs in the order of Running.end
    run: Ints  # (N,) run time of each job
    row: Ints  # (N,)
    chain: Ints  # (N,)
    must: Ints  # (N,) 1: the run goes on until the job has started
    start: Ints  # (N,) start of each job
    coming: Ints  # (N,) parts of chains that arrive at this moment


class Memory(NamedTuple):
    """Memory of compiled priorities, and the waiting jobs whose priorities are asked for."""

    ints: Ints
    floats: Floats
    jobs: Ints  # (N,)
    values: Floats  # (N,)


@compiled_for_both(_nrt=False)
def start_job(
    many: Many | None, jobs: Jobs, running: Running, ends: Ends, state: Ints, job: int, start: int
) -> None:
    """Give a job what it takes and enter it in both orders of the running jobs."""
    size = state[RUNNING]
    if many is not None:
        take(many, job, many.free, 0, many.kind[job], 1)
    ends.start[job] = start
    state[FREE] -= jobs.cpu[job]
    end = start + ends.run[job]
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if ends.end[middle] > end or (ends.end[middle] == end and ends.job[middle] > job):
            low = middle + 1
        else:
            high = middle
    for at in range(size, low, -1):
        ends.end[at], ends.job[at] = ends.end[at - 1], ends.job[at - 1]
    ends.end[low], ends.job[low] = end, job
    estimate = start + jobs.request[job]
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if running.end[middle] <= estimate:
            low = middle + 1
        else:
            high = middle
    for at in range(size, low, -1):
        running.end[at], running.cpu[at] = running.end[at - 1], running.cpu[at - 1]
        ends.estimated[at] = ends.estimated[at - 1]
    running.end[low], running.cpu[low], ends.estimated[low] = estimate, jobs.cpu[job], job
    state[RUNNING] = size + 1


@compiled_for_both(_nrt=False)
def end_first(many: Many | None, jobs: Jobs, running: Running, ends: Ends, state: Ints) -> int:
    """End the running job with the first end; return it."""
    state[RUNNING] -= 1
    size = state[RUNNING]
    job = ends.job[size]
    state[FREE] += jobs.cpu[job]
    if many is not None:
        take(many, job, many.free, 0, many.kind[job], -1)
    estimate = ends.start[job] + jobs.request[job]
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if running.end[middle] < estimate:
            low = middle + 1
        else:
            high = middle
    while ends.estimated[low] != job:
        low += 1
    for at in range(low, size):
        running.end[at], running.cpu[at] = running.end[at + 1], running.cpu[at + 1]
        ends.estimated[at] = ends.estimated[at + 1]
    return job  # type: ignore[no-any-return]


@compiled(_nrt=False)
def _next_moment(jobs: Jobs, ends: Ends, state: Ints) -> int:
    """Return the next end or arrival, LATER if there is none."""
    moment = LATER
    if state[NEXT] < state[PLANNED]:
        moment = jobs.arrive[state[NEXT]]
    if state[RUNNING] > 0:
        moment = min(moment, ends.end[state[RUNNING] - 1])
    return moment


@compiled(_nrt=False)
def _sort_coming(ends: Ends, coming: int) -> None:
    """Sort the parts of chains that arrive by the rows of their chains."""
    for i in range(1, coming):
        job, at = ends.coming[i], i
        while at > 0 and ends.row[ends.coming[at - 1]] > ends.row[job]:
            ends.coming[at] = ends.coming[at - 1]
            at -= 1
        ends.coming[at] = job


@compiled(_nrt=False)
def _learn(jobs: Jobs, ends: Ends, running: int, before: int) -> None:
    """Enter the runs that ended at a moment into their contexts, in the order of their rows.

    `before` jobs ran before the moment; those that ended stand behind the running ones.
    """
    for i in range(running, before):
        job, end, at = ends.job[i], ends.end[i], i
        while at > running:
            other = ends.job[at - 1]
            if ends.end[at - 1] < end or (
                ends.end[at - 1] == end and ends.row[other] < ends.row[job]
            ):
                break
            ends.job[at], ends.end[at] = other, ends.end[at - 1]
            at -= 1
        ends.job[at], ends.end[at] = job, end
    for i in range(running, before):
        job = ends.job[i]
        learn(jobs.places, CONTEXTS * job, jobs.sums, 0, ends.run[job], jobs.request[job])


@compiled_for_both()
def advance(
    many: Many | None, scheme: Ints, jobs: Jobs, waiting: Waiting, running: Running, ends: Ends,
    desk: Desk, memory: Memory, fill: FillCell, change: ChangeCell, state: Ints,
) -> int:  # fmt: skip
    """Play moments until all jobs that must have started, the time or the slice is over."""
    fill_of, change_of = fill[0], change[0]
    jobs, waiting, running = uncounted(jobs), uncounted(waiting), uncounted(running)
    ends, desk, memory, own = uncounted(ends), uncounted(desk), uncounted(memory), uncounted(many)
    filled = scheme[KIND] >= FILLED
    while state[LEFT] > 0 and state[WORK] < _SLICE:
        if state[BEGUN] < 2:
            if state[BEGUN] == 1:
                state[NOW] = _next_moment(jobs, ends, state)
                if state[NOW] > state[UNTIL]:
                    return _DONE
                if state[NOW] == LATER:
                    return _STUCK
            now, coming, before = state[NOW], 0, state[RUNNING]
            while state[RUNNING] > 0 and ends.end[state[RUNNING] - 1] <= now:
                job = end_first(own, jobs, running, ends, state)
                complete(own, scheme, jobs, waiting, job, ends.run[job])
                if filled:
                    change_of(memory.ints, memory.floats, now, job, -1)
                part = ends.chain[job]
                if part >= 0:
                    jobs.arrive[part], ends.coming[coming] = now, part
                    coming += 1
            if scheme[PREDICTS] == OF_ALL and state[RUNNING] < before:
                _learn(jobs, ends, state[RUNNING], before)
                waiting.size[STALE] = 1
            while state[NEXT] < state[PLANNED] and jobs.arrive[state[NEXT]] <= now:
                join(own, scheme, jobs, waiting, state[NEXT])
                state[NEXT] += 1
            _sort_coming(ends, coming)
            for i in range(coming):
                join(own, scheme, jobs, waiting, ends.coming[i])
            if scheme[PREDICTS] == OF_ALL:
                expect_again(own, scheme, jobs, waiting, state[FREE])
                state[WORK] += waiting.size[WAITING]
            if scheme[KIND] >= FILLED and state[FREE] > 0 and waiting.size[WAITING] > 0:
                count = list_waiting(waiting, memory.jobs)
                state[WORK] += 8 * count
                if scheme[KIND] == ASKED:
                    state[BEGUN] = 2
                    state[WORK] += _QUESTION
                    return _ASKING
                seen = now // scheme[REFRESH] * scheme[REFRESH]
                fill_of(memory.ints, memory.floats, seen, memory.jobs[:count], jobs.arrive,
                        memory.values[:count])  # fmt: skip
                set_values(waiting, memory.values)
        else:
            set_values(waiting, memory.values)
        state[BEGUN], now, desk.state[DESK_WORK] = 1, state[NOW], 0
        count = decide(own, scheme, waiting, running, desk, now, state[FREE], state[RUNNING])
        for i in range(count):
            job = desk.chosen[i]
            leave(scheme, jobs, waiting, job)
            start_job(own, jobs, running, ends, state, job, now)
            if filled:
                change_of(memory.ints, memory.floats, now, job, 1)
            if ends.must[job] == 1:
                state[LEFT] -= 1
                if state[LEFT] == 0:
                    break
        state[WORK] += 16 + desk.state[DESK_WORK] + 64 * count
    state[WORK] = 0
    return _DONE if state[LEFT] == 0 else GOING


@compiled(FILL)
def _fill_nothing(ints, floats, now, jobs, arrive, priorities):  # type: ignore[no-untyped-def]
    pass


@compiled(CHANGE)
def _change_nothing(ints, floats, now, job, sign):  # type: ignore[no-untyped-def]
    pass


@compiled_for_both()
def _begin(
    many: Many | None, scheme: Ints, jobs: Jobs, running: Running, ends: Ends, memory: Memory,
    change: ChangeCell, state: Ints, first: int,
) -> None:  # fmt: skip
    """Start the jobs that run at the beginning."""
    for job in range(first):
        start_job(many, jobs, running, ends, state, job, ends.start[job])
        if scheme[KIND] >= FILLED:
            change[0](memory.ints, memory.floats, state[NOW], job, 1)
    state[NEXT] = first


@compiled([
    types.ListType(types.FunctionType(signature))(types.FunctionType(signature))  # type: ignore[no-untyped-call]
    for signature in (FILL, CHANGE)
])  # fmt: skip
def _cell(function: Any) -> Any:
    """Return the cell of a function, see hindcast.pipeline.simulation.functions."""
    found = List()
    found.append(function)
    return found


def scheme_of(run: Run, order: Order, mode: Mode) -> Array:
    """Return what orders the jobs of a run and who may start, as the compiled functions read it."""
    scheme = np.zeros(SCHEME, np.int64)
    arrived = run.arrive[run.running :]
    scheme[KIND], scheme[RULE], scheme[BEHIND] = order.kind, order.rule, order.behind
    scheme[REFRESH] = order.refresh_s
    scheme[FIRST] = arrived.min(initial=LATER)
    scheme[PREDICTS] = PREDICTS_FROM.get(order.rule, 0)
    scheme[RESERVATIONS], scheme[DEPTH] = mode.reservations, mode.depth
    return scheme


def functions_of(run: Run, order: Order) -> tuple[Array, NDArray[np.float64], Any, Any]:
    """Return the memory of compiled priorities, and the cells of `fill` and `change`."""
    if order.priorities is None:
        nothing = _cell(_fill_nothing), _cell(_change_nothing)
        return np.zeros(1, np.int64), np.zeros(1), *nothing
    ints, floats = order.priorities.begin(run)
    return ints, floats, _cell(order.priorities.fill), _cell(order.priorities.change)


def jobs_of(run: Run, order: Order) -> Jobs:
    """Return what a scheduler knows about the jobs of a run. The arrays are copies."""
    request = run.requested.copy()
    if order.minutes:
        request = -(-request // 60) * 60
    if order.clairvoyant:
        request[run.running :] = run.run[run.running :]
    number = np.zeros(0)
    if order.kind in {GIVEN, HANDICAP}:
        assert order.numbers is not None
        number = np.ascontiguousarray(order.numbers(run), np.float64)
    places, contexts = np.zeros(0, np.int64), np.zeros(0)
    if PREDICTS_FROM.get(order.rule) == OF_ALL:
        past = run.past
        places, contexts = learned(past.log, past.now, run.user, run.cpu, run.requested)
    return Jobs(
        arrive=run.arrive.copy(), cpu=np.ascontiguousarray(run.cpu), request=request,
        user=np.ascontiguousarray(run.user), key=np.ascontiguousarray(run.key), number=number,
        last=run.last.copy(), before=run.before.copy(), similar=run.similar.copy(), places=places,
        sums=contexts,
    )  # fmt: skip


def play(run: Run, order: Order, mode: Mode, tell: Callable[[float], None] | None = None) -> Array:
    """Return the start of every job of a run under a policy, (N,); NEVER if it did not start.

    See `play_placed`.
    """
    return play_placed(run, order, mode, tell)[0]


def play_placed(
    run: Run, order: Order, mode: Mode, tell: Callable[[float], None] | None = None
) -> tuple[Array, Array]:
    """Return the start and the placement of every job of a run under a policy, (N,) each.

    The start is NEVER if the job did not start. Jobs after the counted ones start until all counted
    jobs have started. The starts of running jobs are the recorded ones. Placements are those of
    hindcast.pipeline.whatif.resources.several. `tell` is given the share of the counted jobs that
    have started, after every slice.

    Raises InputError for a job that is wider than the machine and does not run already.
    """
    size = len(run.arrive)
    if (widest := int(run.cpu[run.running :].max(initial=0))) > run.processors:
        raise InputError(
            f"a job needs {widest:,} processors and can never start, expected at most the "
            f"{run.processors:,} of the machine"
        )
    scheme, jobs, waiting = scheme_of(run, order, mode), jobs_of(run, order), _queue(run)
    running, desk = Running(*(np.zeros(size, np.int64) for _ in range(2))), empty_desk(jobs)
    starts = np.full(size, NEVER)
    starts[: run.running] = run.start[: run.running]
    must = _must(run)
    end, job, estimated, coming = np.zeros((4, size), np.int64)
    ends = Ends(
        end, job, estimated, np.ascontiguousarray(run.run), np.ascontiguousarray(run.row),
        np.ascontiguousarray(run.chain), must, starts, coming,
    )  # fmt: skip
    many = many_of(run, estimated, planning=mode.reservations > 1)
    ints, floats, fill, change = functions_of(run, order)
    ask = order.ask(run, ints, floats) if order.ask is not None else None
    memory = Memory(ints, floats, np.zeros(size, np.int64), np.zeros(size))
    state = np.zeros(STATE, np.int64)
    state[NOW], state[FREE], state[LEFT] = run.now, run.processors, must.sum()
    state[PLANNED], state[UNTIL] = (run.arrive != UNPLANNED).sum(), LATER
    _begin(many, scheme, jobs, running, ends, memory, change, state, run.running)
    whole = max(int(state[LEFT]), 1)
    while (
        status := advance(
            many, scheme, jobs, waiting, running, ends, desk, memory, fill, change, state
        )
    ) != _DONE:
        assert status != _STUCK, "a counted job can never start"
        if status == _ASKING:
            asked = memory.jobs[: waiting.size[WAITING]]
            assert ask is not None
            memory.values[: len(asked)] = ask(int(state[NOW]), asked, jobs.arrive)
        elif tell is not None:
            tell(1.0 - int(state[LEFT]) / whole)
    return starts, kinds_of(run, many)


def _queue(run: Run) -> Waiting:
    return empty_queue(len(run.arrive), len(run.last))


def _must(run: Run) -> Array:
    """Return 1 for the counted jobs and the parts of their chains, (N,)."""
    must = run.counted.astype(np.int64)
    part = run.chain[run.counted]
    while (part := part[part >= 0]).size:
        must[part] = 1
        part = run.chain[part]
    return must
