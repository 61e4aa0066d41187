"""RLScheduler's simulator as it was published: one job is chosen, and is waited for.

A decision chooses any waiting job. If the job fits it starts. Otherwise it is committed: nothing
else is chosen until it has started, and events pass one by one until it fits. The next arrival goes
before the next end if their times are equal. After a start nothing moves while a job is waiting.
Of several jobs that arrive in one second, a decision may therefore see the first alone.

With backfilling, the start of a committed job is estimated once: the first requested end at which
enough processors are free. Before every event, each waiting job that fits and whose requested end
lies before that estimate starts too, in order of arrival. The estimate stays as it is when jobs end
early, and processors that the committed job will not need are not used.

The program sorts its list of waiting jobs by the scores at every decision, by submission before it
backfills, and always stably. Where job numbers and submissions have the same order, which the
reader requires, two things remain of these sorts. Equal scores are in order of arrival, so the list
is kept in that order and a rule takes the first of the best. And jobs of one second are backfilled
in the order that the last rule gave them (hindcast.flows.papers.rlscheduler.scenario.rules).

Running jobs that end in the same second are released one by one, with backfilling between. Their
order is that of their requested ends when a start was last estimated, then that of their starts.
"""

from numba import types

from hindcast.flows.papers.rlscheduler.scenario import layout as m
from hindcast.flows.papers.rlscheduler.scenario.features import OUT, TERM
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OUTCOME, STEP, compiled


@compiled(types.int64(INTS, types.int64))
def _end(ints, job):  # type: ignore[no-untyped-def]
    return ints[ints[m.START_AT] + job] + ints[ints[m.RUN_AT] + job]


@compiled(types.int64(INTS, types.int64))
def _requested_end(ints, job):  # type: ignore[no-untyped-def]
    return ints[ints[m.START_AT] + job] + ints[ints[m.REQUESTED_AT] + job]


@compiled(types.void(INTS, FLOATS, types.int64))
def _start(ints, floats, job):  # type: ignore[no-untyped-def]
    """Start a job now, and add it to both lists of running jobs behind its equals."""
    now, cpu, run = ints[m.NOW], ints[ints[m.CPU_AT] + job], ints[ints[m.RUN_AT] + job]
    ints[ints[m.START_AT] + job] = now
    ints[m.FREE] -= cpu
    by_end, by_request = ints[m.BY_END_AT], ints[m.BY_REQUEST_AT]
    end, at = now + run, ints[m.RUNNING]
    while at > 0 and _end(ints, ints[by_end + at - 1]) > end:
        ints[by_end + at] = ints[by_end + at - 1]
        at -= 1
    ints[by_end + at] = job
    requested_end, at = now + ints[ints[m.REQUESTED_AT] + job], ints[m.RUNNING]
    while at > 0 and _requested_end(ints, ints[by_request + at - 1]) > requested_end:
        ints[by_request + at] = ints[by_request + at - 1]
        at -= 1
    ints[by_request + at] = job
    ints[m.RUNNING] += 1
    waited = now - ints[ints[m.SUBMIT_AT] + job]
    ints[m.STARTED] += 1
    ints[m.WAITED] += waited
    ints[m.WORK] += run * cpu
    ints[m.LAST_START] = max(ints[m.LAST_START], now)
    ints[m.LAST_END] = max(ints[m.LAST_END], end)
    floats[m.SLOWDOWN] += max(1.0, (waited + run) / max(run, m.TAU_S))


@compiled(types.void(INTS))
def _release(ints):  # type: ignore[no-untyped-def]
    """Release the running job that ends first."""
    by_end, by_request = ints[m.BY_END_AT], ints[m.BY_REQUEST_AT]
    job = ints[by_end]
    ints[m.NOW] = max(ints[m.NOW], _end(ints, job))
    ints[m.FREE] += ints[ints[m.CPU_AT] + job]
    ints[m.RUNNING] -= 1
    for i in range(by_end, by_end + ints[m.RUNNING]):
        ints[i] = ints[i + 1]
    at = by_request
    while ints[at] != job:
        at += 1
    for i in range(at, by_request + ints[m.RUNNING]):
        ints[i] = ints[i + 1]


@compiled(types.void(INTS))
def _pass_event(ints):  # type: ignore[no-untyped-def]
    """Let the next event pass: an arrival, or the end of one job if that is earlier."""
    submit, following = ints[m.SUBMIT_AT], ints[m.NEXT]
    arrives = following < ints[m.JOBS]
    if arrives and ints[m.RUNNING] > 0:
        arrives = ints[submit + following] <= _end(ints, ints[ints[m.BY_END_AT]])
    if arrives:
        ints[m.NOW] = max(ints[m.NOW], ints[submit + following])
        ints[ints[m.WAITING_AT] + ints[m.WAITING]] = following
        ints[m.WAITING] += 1
        ints[m.NEXT] += 1
    else:
        _release(ints)


@compiled(types.int64(INTS, types.int64))
def _estimated_start(ints, cpu):  # type: ignore[no-untyped-def]
    """Return the first requested end at which `cpu` processors are free."""
    free, by_request = ints[m.FREE], ints[m.BY_REQUEST_AT]
    at = ints[m.NOW]
    for i in range(ints[m.RUNNING]):
        job = ints[by_request + i]
        free += ints[ints[m.CPU_AT] + job]
        at = _requested_end(ints, job)
        if free >= cpu:
            break
    return at


@compiled(types.void(INTS))
def _order_equal_ends(ints):  # type: ignore[no-untyped-def]
    """Sort running jobs that end in the same second by their requested ends, stably."""
    by_end = ints[m.BY_END_AT]
    for i in range(1, ints[m.RUNNING]):
        job = ints[by_end + i]
        end, requested_end = _end(ints, job), _requested_end(ints, job)
        at = i
        while at > 0:
            before = ints[by_end + at - 1]
            if _end(ints, before) != end or _requested_end(ints, before) <= requested_end:
                break
            ints[by_end + at] = before
            at -= 1
        ints[by_end + at] = job


@compiled(types.void(INTS, FLOATS, types.int64))
def _backfill(ints, floats, estimated_start):  # type: ignore[no-untyped-def]
    """Start the waiting jobs that fit and should end before the estimated start."""
    if ints[m.FREE] <= 0:
        return
    waiting, kept = ints[m.WAITING_AT], 0
    for i in range(ints[m.WAITING]):
        job = ints[waiting + i]
        if (
            ints[ints[m.CPU_AT] + job] <= ints[m.FREE]
            and ints[m.NOW] + ints[ints[m.REQUESTED_AT] + job] < estimated_start
        ):
            _start(ints, floats, job)
        else:
            ints[waiting + kept] = job
            kept += 1
    ints[m.WAITING] = kept


@compiled(types.int64(INTS, FLOATS, types.int64))
def commit(ints, floats, place):  # type: ignore[no-untyped-def]
    """Start the waiting job at a place of the list, and go on to the next decision.

    Events pass until the job fits. Returns RUNNING, or TERMINATED if no job is left.
    """
    waiting = ints[m.WAITING_AT]
    job = ints[waiting + place]
    ints[m.DECISIONS] += 1
    cpu = ints[ints[m.CPU_AT] + job]
    ints[m.WAITING] -= 1
    for i in range(waiting + place, waiting + ints[m.WAITING]):
        ints[i] = ints[i + 1]
    if cpu > ints[m.FREE]:
        estimated_start = m.NOT_STARTED
        if ints[m.BACKFILL] == 1:
            estimated_start = _estimated_start(ints, cpu)
            _order_equal_ends(ints)
        while cpu > ints[m.FREE]:
            if ints[m.BACKFILL] == 1:
                _backfill(ints, floats, estimated_start)
            _pass_event(ints)
    _start(ints, floats, job)
    while ints[m.WAITING] == 0:
        if ints[m.NEXT] == ints[m.JOBS]:
            return k.TERMINATED
        _pass_event(ints)
    return k.RUNNING


@compiled(STEP)
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Commit the job of row `choice`; pay for every job that starts until the next decision."""
    place = choice
    if ints[m.PUBLISHED] == 1:
        if choice < 0 or choice >= ints[m.SHOWN]:
            return k.INFEASIBLE
        place = ints[ints[m.SHOWN_AT] + choice]
    if place < 0 or place >= ints[m.WAITING]:
        return k.INFEASIBLE
    slowdown, waited, now = floats[m.SLOWDOWN], ints[m.WAITED], ints[m.NOW]
    status = commit(ints, floats, place)
    jobs = ints[m.JOBS]
    step_outputs[k.ELAPSED] = ints[m.NOW] - now
    step_outputs[k.TERMS + TERM.bounded_slowdown] = (slowdown - floats[m.SLOWDOWN]) / jobs
    step_outputs[k.TERMS + TERM.wait_h] = (waited - ints[m.WAITED]) / jobs / 3600.0
    step_outputs[k.REWARD] = step_outputs[k.TERMS + ints[m.OBJECTIVE]]
    floats[k.TIME] = ints[m.NOW] - ints[ints[m.SUBMIT_AT]]
    return status


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes in the order of the spec, over the jobs that have started."""
    first, started = ints[ints[m.SUBMIT_AT]], max(ints[m.STARTED], 1)
    span = max(ints[m.LAST_START] - first, 1) * ints[m.PROCESSORS]
    outcomes[OUT.average_bounded_slowdown] = floats[m.SLOWDOWN] / started
    outcomes[OUT.mean_wait_s] = ints[m.WAITED] / started
    outcomes[OUT.makespan_s] = ints[m.LAST_END] - first
    outcomes[OUT.last_start_s] = ints[m.LAST_START] - first
    outcomes[OUT.utilisation] = ints[m.WORK] / span
    outcomes[OUT.decisions] = ints[m.DECISIONS]
