"""Compiled transition of `queue`. The problem is described in hindcast.pipeline.scenarios.queue."""

import math

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.config import LONG_S, STARVED_S, WIDE
from hindcast.pipeline.scenarios.queue.features import OUT, TERM
from hindcast.pipeline.scenarios.queue.fitting import NOWHERE
from hindcast.pipeline.scenarios.queue.run_times import CONTEXTS, learn
from hindcast.pipeline.scenarios.queue.several.transition import (
    can_wait_in_pools,
    compiled_for_both,
    count_asked,
    fill_utilisations,
    hold,
    is_several,
    list_rows,
    open_pools,
    place_job,
    placement_of,
    reserve_in_pool,
)
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, OUTCOME, STEP, compiled


@compiled(types.int64(INTS))
def shown(ints):  # type: ignore[no-untyped-def]
    """Return the number of waiting jobs that an observation shows."""
    if is_several(ints):
        return ints[m.ROWS]
    return min(ints[m.WAITING], ints[m.VISIBLE])


@compiled(types.int64(INTS, types.int64))
def job_of(ints, row):  # type: ignore[no-untyped-def]
    """Return the job of a row of an observation."""
    return ints[ints[m.ROWS_AT if is_several(ints) else m.WAITING_AT] + row]


@compiled(types.boolean(INTS))
def can_wait(ints):  # type: ignore[no-untyped-def]
    """Return whether a release or an arrival is still to come."""
    if is_several(ints):
        return can_wait_in_pools(ints)
    return ints[m.RUNNING] > 0 or ints[m.NEXT] < ints[m.JOBS]


@compiled(types.int64(INTS))
def next_event(ints):  # type: ignore[no-untyped-def]
    """Return the time of the next release or arrival, LATER if there is none."""
    at = m.LATER
    if ints[m.NEXT] < ints[m.JOBS]:
        at = ints[ints[m.SUBMIT_AT] + ints[m.NEXT]]
    if ints[m.RUNNING] > 0:
        at = min(at, ints[ints[m.END_AT] + ints[ints[m.BY_END_AT] + ints[m.RUNNING] - 1]])
    return at


@compiled_for_both(types.boolean, INTS, types.int64)
def is_safe(several, ints, job):  # type: ignore[no-untyped-def]
    """Return whether a job can start now: in a closed phase without delaying the reservation."""
    if several is not None:
        return placement_of(ints, job) != NOWHERE
    cpu = ints[ints[m.CPU_AT] + job]
    if cpu > ints[m.FREE]:
        return False
    if ints[m.CLOSED] == 0 or cpu <= ints[m.SPARE]:
        return True
    return ints[m.NOW] + ints[ints[m.REQUESTED_AT] + job] <= ints[m.SHADOW]


@compiled_for_both(types.boolean, INTS, types.int64)
def is_closed(several, ints, job):  # type: ignore[no-untyped-def]
    """Return whether a reservation is held where the job waits."""
    if several is not None:
        return ints[ints[m.CLOSED_AT] + ints[ints[m.POOL_AT] + job]] == 1
    return ints[m.CLOSED] == 1


@compiled_for_both(types.boolean, INTS)
def can_start(several, ints):  # type: ignore[no-untyped-def]
    """Return whether a visible job can start now."""
    if several is not None:
        return list_rows(ints) > 0
    waiting = ints[m.WAITING_AT]
    for i in range(min(ints[m.WAITING], ints[m.VISIBLE])):
        if is_safe(several, ints, ints[waiting + i]):
            return True
    return False


@compiled_for_both(types.void, INTS, types.int64)
def reserve(several, ints, job):  # type: ignore[no-untyped-def]
    """Close the phase: give the reservation to a job that does not fit."""
    if several is not None:
        reserve_in_pool(ints, job)
        return
    now, cpu = ints[m.NOW], ints[ints[m.CPU_AT] + job]
    free, shadow = ints[m.FREE], m.LATER
    for i in range(ints[m.RUNNING]):
        other = ints[ints[m.BY_REQUEST_AT] + i]
        end = max(ints[ints[m.START_AT] + other] + ints[ints[m.REQUESTED_AT] + other], now)
        if free >= cpu and end > shadow:
            break
        free += ints[ints[m.CPU_AT] + other]
        if free >= cpu and shadow == m.LATER:
            shadow = end
    ints[m.CLOSED] = 1
    ints[m.SHADOW] = shadow
    ints[m.SPARE] = free - cpu


@compiled(types.void(INTS, FLOATS, types.int64, types.int64))
def _count_waiting(ints, floats, job, change):  # type: ignore[no-untyped-def]
    """Change the number of waiting jobs of the user of a job."""
    user = ints[ints[m.USER_AT] + job]
    if user >= 0:
        ints[ints[m.USER_WAITING_AT] + user] += change
        count = ints[ints[m.USER_WAITING_AT] + user]
        floats[ints[m.LN_USER_WAITING_AT] + user] = math.log(1.0 + count)


@compiled_for_both(types.void, INTS, FLOATS, types.int64)
def arrive(several, ints, floats, job):  # type: ignore[no-untyped-def]
    """Put a job at the end of the queue."""
    ints[ints[m.WAITING_AT] + ints[m.WAITING]] = job
    ints[m.WAITING] += 1
    if several is not None:
        count_asked(ints, job, 1)
    else:
        ints[m.WAITING_AREA] += ints[ints[m.CPU_AT] + job] * ints[ints[m.REQUESTED_AT] + job]
    _count_waiting(ints, floats, job, 1)


@compiled(types.void(INTS, types.int64, types.int64))
def enter_by_end(ints, job, at):  # type: ignore[no-untyped-def]
    """Insert a job into the order of ends, of which the first `at` places are in use.

    The job that ends last is first; of equal ends, the one that arrived last.
    """
    by_end, ends = ints[m.BY_END_AT], ints[m.END_AT]
    end = ints[ends + job]
    while at > 0:
        other = ints[by_end + at - 1]
        if ints[ends + other] > end or (ints[ends + other] == end and other > job):
            break
        ints[by_end + at] = other
        at -= 1
    ints[by_end + at] = job


@compiled_for_both(types.void, INTS, types.int64, types.int64)
def run(several, ints, job, start):  # type: ignore[no-untyped-def]
    """Start a job at a time in s.

    It gets what it asks for, and stands among the running jobs by its end, and by the end that it
    requested.
    """
    end = start + ints[ints[m.RUN_AT] + job]
    requested_end = start + ints[ints[m.REQUESTED_AT] + job]
    cpu = ints[ints[m.CPU_AT] + job]
    ints[ints[m.START_AT] + job] = start
    ints[ints[m.END_AT] + job] = end
    ints[m.FREE] -= cpu
    if several is not None:
        hold(ints, job, 1)
    user = ints[ints[m.USER_AT] + job]
    if user >= 0:
        ints[ints[m.HELD_AT] + user] += cpu
    i = ints[m.RUNNING]
    ints[m.RUNNING] += 1
    enter_by_end(ints, job, i)
    by_request, starts, requested = ints[m.BY_REQUEST_AT], ints[m.START_AT], ints[m.REQUESTED_AT]
    at = i
    while at > 0:
        other = ints[by_request + at - 1]
        if ints[starts + other] + ints[requested + other] <= requested_end:
            break
        ints[by_request + at] = other
        at -= 1
    ints[by_request + at] = job


@compiled(types.void(INTS, FLOATS, types.int64, types.int64, types.int64))
def remember(ints, floats, user, key, seconds):  # type: ignore[no-untyped-def]
    """Enter a completed run into the histories of its user and of its key."""
    if user >= 0:
        before = ints[ints[m.LAST_AT] + user]
        ints[ints[m.BEFORE_AT] + user] = before
        ints[ints[m.LAST_AT] + user] = seconds
        mean = seconds if before < 0 else (before + seconds) / 2.0
        floats[ints[m.LN_PREDICTED_AT] + user] = math.log(mean)
        floats[ints[m.LN_SIMILAR_AT] + key] = math.log(float(seconds))


@compiled_for_both(types.void, INTS, FLOATS)
def _release(several, ints, floats):  # type: ignore[no-untyped-def]
    """End the running job with the first end."""
    ints[m.RUNNING] -= 1
    running = ints[m.RUNNING]
    job = ints[ints[m.BY_END_AT] + running]
    cpu = ints[ints[m.CPU_AT] + job]
    ints[m.FREE] += cpu
    if several is not None:
        hold(ints, job, -1)
    by_request = ints[m.BY_REQUEST_AT]
    i = 0
    while ints[by_request + i] != job:
        i += 1
    while i < running:
        ints[by_request + i] = ints[by_request + i + 1]
        i += 1
    user = ints[ints[m.USER_AT] + job]
    if user >= 0:
        ints[ints[m.HELD_AT] + user] -= cpu
    remember(ints, floats, user, ints[ints[m.KEY_AT] + job], ints[ints[m.RUN_AT] + job])


@compiled(types.void(INTS, FLOATS, types.int64))
def _learn_run_times(ints, floats, running):  # type: ignore[no-untyped-def]
    """Learn from the jobs that ended since `running` jobs were running.

    They stand behind the running ones in `by_end`, where they are sorted by end and row.
    """
    begin = ints[m.BY_END_AT] + ints[m.RUNNING]
    ends, rows = ints[m.END_AT], ints[m.ROW_AT]
    for i in range(begin, ints[m.BY_END_AT] + running):
        job, at = ints[i], i
        while at > begin:
            other = ints[at - 1]
            if ints[ends + other] < ints[ends + job] or (
                ints[ends + other] == ints[ends + job] and ints[rows + other] < ints[rows + job]
            ):
                break
            ints[at] = other
            at -= 1
        ints[at] = job
    for i in range(begin, ints[m.BY_END_AT] + running):
        job = ints[i]
        learn(
            ints, ints[m.PLACES_AT] + CONTEXTS * job, floats, ints[m.SUMS_AT],
            ints[ints[m.RUN_AT] + job], ints[ints[m.REQUESTED_AT] + job],
        )  # fmt: skip


@compiled_for_both(types.void, INTS, FLOATS)
def happen(several, ints, floats):  # type: ignore[no-untyped-def]
    """Let every release and then every arrival of this time happen, and open the phase."""
    now, running = ints[m.NOW], ints[m.RUNNING]
    ints[m.CLOSED] = 0
    if several is not None:
        open_pools(ints)
    while ints[m.RUNNING] > 0:
        last = ints[ints[m.BY_END_AT] + ints[m.RUNNING] - 1]
        if ints[ints[m.END_AT] + last] > now:
            break
        _release(several, ints, floats)
    if ints[m.RUN_TIMES] == 1:
        _learn_run_times(ints, floats, running)
    while ints[m.NEXT] < ints[m.JOBS] and ints[ints[m.SUBMIT_AT] + ints[m.NEXT]] <= now:
        arrive(several, ints, floats, ints[m.NEXT])
        ints[m.NEXT] += 1


@compiled(types.float64(INTS, FLOATS, types.int64))
def _growth(ints, floats, until):  # type: ignore[no-untyped-def]
    """Return the growth of the bounded slowdowns of waiting counted jobs until a time."""
    now, last = ints[m.NOW], ints[m.FIRST_COUNTED] + ints[m.COUNTED]
    waiting, weights, runs = ints[m.WAITING_AT], ints[m.WEIGHT_AT], ints[m.RUN_AT]
    total = 0.0
    for i in range(ints[m.WAITING]):
        job = ints[waiting + i]
        if job >= last:
            break
        seconds = ints[runs + job]
        since = now
        if seconds < m.TAU:  # its bounded slowdown is 1 at first
            queued = max(ints[ints[m.SUBMIT_AT] + job], 0)
            since = min(max(now, queued + m.TAU - seconds), until)
        total += (until - since) * floats[weights + job]
    return total


@compiled_for_both(types.void, INTS, FLOATS, FLOATS)
def pass_time(several, ints, floats, terms):  # type: ignore[no-untyped-def]
    """Let time pass to the next event at which a job can start; add to the two reward terms."""
    jobs = ints[m.COUNTED]
    slowdown, waited = 0.0, 0
    while True:
        at = next_event(ints)
        slowdown += _growth(ints, floats, at)
        arrived = min(ints[m.NEXT], ints[m.FIRST_COUNTED] + jobs) - ints[m.FIRST_COUNTED]
        waited += (at - ints[m.NOW]) * (arrived - ints[m.COUNTED_STARTED])
        ints[m.NOW] = at
        happen(several, ints, floats)
        if can_start(several, ints):
            break
    ints[m.WAITED] += waited
    terms[TERM.bounded_slowdown] -= slowdown / jobs
    terms[TERM.wait_h] -= waited / jobs / 3600.0
    floats[k.TIME] = ints[m.NOW]


@compiled_for_both(types.void, INTS, FLOATS, types.int64)
def _leave_queue(several, ints, floats, place):  # type: ignore[no-untyped-def]
    """Remove the job in a place of the queue."""
    waiting = ints[m.WAITING_AT]
    job = ints[waiting + place]
    ints[m.WAITING] -= 1
    for i in range(waiting + place, waiting + ints[m.WAITING]):
        ints[i] = ints[i + 1]
    if several is not None:
        count_asked(ints, job, -1)
    else:
        ints[m.WAITING_AREA] -= ints[ints[m.CPU_AT] + job] * ints[ints[m.REQUESTED_AT] + job]
    _count_waiting(ints, floats, job, -1)


@compiled_for_both(types.void, INTS, FLOATS, types.int64)
def start_row(several, ints, floats, row):  # type: ignore[no-untyped-def]
    """Start the job of a row, which is safe; it may use up spare processors."""
    now, job = ints[m.NOW], job_of(ints, row)
    if several is not None:
        place_job(ints, job)
        while ints[ints[m.WAITING_AT] + row] != job:  # rows may leave out jobs of the queue
            row += 1
    elif ints[m.CLOSED] == 1 and now + ints[ints[m.REQUESTED_AT] + job] > ints[m.SHADOW]:
        ints[m.SPARE] -= ints[ints[m.CPU_AT] + job]
    _leave_queue(several, ints, floats, row)
    run(several, ints, job, now)


@compiled_for_both(types.int64, INTS, FLOATS, types.int64, FLOATS)
def _step(several, ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Apply a choice as `step` does."""
    rows = shown(ints)
    allowed = ints[m.ALLOW_WAIT] == 1 or ints[m.MAY_WAIT] == 1
    waits = choice == rows and allowed and can_wait(ints)
    if not waits and (choice < 0 or choice >= rows):
        return k.INFEASIBLE
    job = -1 if waits else job_of(ints, choice)
    starts = not waits and is_safe(several, ints, job)
    if not waits and not starts and (is_closed(several, ints, job) or ints[m.RESERVE] == 0):
        return k.INFEASIBLE
    step_outputs[:] = 0.0
    terms = step_outputs[k.TERMS :]
    began = ints[m.NOW]
    if ints[m.DECISIONS] == 0:
        terms[TERM.bounded_slowdown] = floats[m.FIRST_SLOWDOWN]
        terms[TERM.wait_h] = floats[m.FIRST_WAIT]
        step_outputs[k.ELAPSED] = floats[m.FIRST_ELAPSED]
    ints[m.DECISIONS] += 1
    status = k.RUNNING
    if starts:
        start_row(several, ints, floats, choice)
        ints[m.STARTS] += 1
        if job < ints[m.FIRST_COUNTED] + ints[m.COUNTED]:
            ints[m.COUNTED_STARTED] += 1
            terms[TERM.bounded_slowdown] -= 1.0 / ints[m.COUNTED]
            if ints[m.COUNTED_STARTED] == ints[m.COUNTED]:
                status = k.TERMINATED
                if several is not None:
                    list_rows(ints)  # of the last observation
    elif not waits:
        reserve(several, ints, job)
    if status == k.RUNNING and (waits or not can_start(several, ints)):
        pass_time(several, ints, floats, terms)
    step_outputs[k.ELAPSED] += ints[m.NOW] - began
    step_outputs[k.REWARD] = terms[ints[m.OBJECTIVE]]
    floats[m.SLOWDOWN] += terms[TERM.bounded_slowdown]
    return status


@compiled(STEP)
def step(ints, floats, choice, step_outputs):  # type: ignore[no-untyped-def]
    """Start or reserve the job of a row, or wait; pass time if no further job can start."""
    if is_several(ints):
        return _step(True, ints, floats, choice, step_outputs)  # noqa: FBT003
    return _step(None, ints, floats, choice, step_outputs)


@compiled(types.float64(INTS, FLOATS))
def _user_fairness(ints, slowdowns):  # type: ignore[no-untyped-def]
    """Return Jain's index of the mean slowdowns of the users; slowdowns (J,) of the counted jobs.

    Jain, Chiu & Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", DEC TR-301, 1984.
    """
    users = ints[m.BEFORE_AT] - ints[m.LAST_AT]
    jobs, sums = np.zeros(users), np.zeros(users)
    for i in range(len(slowdowns)):
        user = ints[ints[m.USER_AT] + ints[m.FIRST_COUNTED] + i]
        if user >= 0:
            jobs[user] += 1.0
            sums[user] += slowdowns[i]
    users_with_jobs, total, squares = 0, 0.0, 0.0
    for user in range(users):
        if jobs[user] > 0.0:
            mean = sums[user] / jobs[user]
            users_with_jobs += 1
            total += mean
            squares += mean * mean
    return total * total / (users_with_jobs * squares) if users_with_jobs > 0 else 1.0


@compiled(OUTCOME)
def outcome(ints, floats, outcomes):  # type: ignore[no-untyped-def]
    """Fill the outcomes. A counted job that has not started waits until now."""
    first, counted, now = ints[m.FIRST_COUNTED], ints[m.COUNTED], ints[m.NOW]
    waits, slowdowns = np.empty(counted), np.empty(counted)
    wide, wide_sum, long, long_sum, end, starved = 0, 0.0, 0, 0.0, 0, 0
    for i in range(counted):
        job = first + i
        start = ints[ints[m.START_AT] + job]
        queued = max(ints[ints[m.SUBMIT_AT] + job], 0)
        if start == m.NEVER:
            start = max(now, queued)
        else:
            end = max(end, start)
        waits[i] = start - queued
        starved += waits[i] > STARVED_S
        seconds = ints[ints[m.RUN_AT] + job]
        slowdown = max(1.0, (waits[i] + seconds) / max(seconds, m.TAU))
        slowdowns[i] = slowdown
        is_wide = ints[ints[m.CPU_AT] + job] >= WIDE * ints[m.PROCESSORS]
        if is_several(ints):
            is_wide = ints[ints[m.WIDE_AT] + job] == 1
        if is_wide:
            wide += 1
            wide_sum += slowdown
        if ints[ints[m.REQUESTED_AT] + job] >= LONG_S:
            long += 1
            long_sum += slowdown
    waits.sort()
    processor_s = 0
    for job in range(ints[m.JOBS]):
        start = ints[ints[m.START_AT] + job]
        if start != m.NEVER and start < end:
            stop = min(ints[ints[m.END_AT] + job], end)
            # With `kill`, a job that ran at time 0 in the log can have ended before it.
            processor_s += ints[ints[m.CPU_AT] + job] * max(stop - max(start, 0), 0)
    outcomes[OUT.mean_bounded_slowdown] = -floats[m.SLOWDOWN]
    outcomes[OUT.mean_wait_s] = ints[m.WAITED] / counted
    outcomes[OUT.max_wait_s] = waits[counted - 1]
    outcomes[OUT.p95_wait_s] = waits[(95 * counted + 99) // 100 - 1]
    outcomes[OUT.p99_wait_s] = waits[(99 * counted + 99) // 100 - 1]
    outcomes[OUT.starved_share] = starved / counted
    outcomes[OUT.user_fairness] = _user_fairness(ints, slowdowns)
    outcomes[OUT.mean_slowdown_wide] = wide_sum / max(wide, 1)
    outcomes[OUT.mean_slowdown_long] = long_sum / max(long, 1)
    outcomes[OUT.utilisation] = processor_s / (ints[m.PROCESSORS] * max(end, 1))
    outcomes[OUT.starts] = ints[m.STARTS]
    outcomes[OUT.follow_starts] = ints[m.STARTS] - ints[m.COUNTED_STARTED]
    outcomes[OUT.carried] = ints[m.CARRIED]
    outcomes[OUT.bounded_slowdown_lower_bound] = floats[m.SLOWDOWN_BOUND]
    outcomes[OUT.wait_lower_bound] = floats[m.WAIT_BOUND]
    if is_several(ints):
        fill_utilisations(ints, end, outcomes[len(OUT) :])
