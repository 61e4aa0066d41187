"""The part of a `queue` episode that a policy which looks ahead may know.

A copy of an episode holds what a scheduler does not know: the jobs to come, and the run times of
those that wait or run. Before a policy plays the copy on,

    jobs to come      are removed, also from the submissions that an observation counts by the hour
    counted jobs      become all jobs that have been seen, since a scheduler cannot tell them apart
    run times         become predictions, as in `log_similar`: the last completed run of the same
                      user, processors and requested time, else the mean of the user's last two
                      runs, else the requested time
    running jobs      that have run for longer than predicted end after their requested time, and in
                      the next second if that is over too
"""

import math

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.dynamics import enter_by_end, next_event
from hindcast.pipeline.simulation.kernel import FLOATS, FORGET, INTS, compiled


@compiled(types.int64(INTS, FLOATS, types.int64))
def predicted_run(ints, floats, job):  # type: ignore[no-untyped-def]
    """Return the predicted run time of a job in s, from 1 to its requested time."""
    requested, user = ints[ints[m.REQUESTED_AT] + job], ints[ints[m.USER_AT] + job]
    if user < 0:
        return requested
    ln = floats[ints[m.LN_SIMILAR_AT] + ints[ints[m.KEY_AT] + job]]
    if ln == np.inf:
        ln = floats[ints[m.LN_PREDICTED_AT] + user]
    if ln == np.inf or ln >= math.log(float(requested)):
        return requested
    return max(int(np.rint(math.exp(ln))), 1)


@compiled(types.void(INTS, FLOATS, types.int64, types.int64))
def set_run(ints, floats, job, seconds):  # type: ignore[no-untyped-def]
    """Set the run time of a job."""
    ints[ints[m.RUN_AT] + job] = seconds
    floats[ints[m.WEIGHT_AT] + job] = 1.0 / max(seconds, m.TAU)


@compiled(types.void(INTS))
def _forget_submissions(ints):  # type: ignore[no-untyped-def]
    """Remove the submissions after now from the block of the last hour."""
    last, stop = ints[m.HOUR_LAST], ints[m.HOUR_AT] + ints[m.HOURS]
    while last < stop and ints[last] <= ints[m.NOW]:
        last += 1
    ints[m.HOURS] = last - ints[m.HOUR_AT]


@compiled(types.void(INTS))
def hide_arrivals(ints):  # type: ignore[no-untyped-def]
    """Remove the jobs to come, and count all that have been seen."""
    ints[m.JOBS] = ints[m.NEXT]
    _forget_submissions(ints)
    ints[m.COUNTED] = ints[m.NEXT] - ints[m.FIRST_COUNTED]
    ints[m.COUNTED_STARTED] = ints[m.COUNTED] - ints[m.WAITING]


@compiled(types.void(INTS, FLOATS, types.int64, types.int64))
def run_until(ints, floats, i, seconds):  # type: ignore[no-untyped-def]
    """Set the run time of the running job at place i of `by_end`, and sort it in before there."""
    job = ints[ints[m.BY_END_AT] + i]
    set_run(ints, floats, job, seconds)
    ints[ints[m.END_AT] + job] = ints[ints[m.START_AT] + job] + seconds
    enter_by_end(ints, job, i)


@compiled(FORGET)
def forget(ints, floats):  # type: ignore[no-untyped-def]
    """Remove or predict what a scheduler does not know; return the time of the next event."""
    now, after = ints[m.NOW], next_event(ints)
    hide_arrivals(ints)
    for i in range(ints[m.WAITING]):
        job = ints[ints[m.WAITING_AT] + i]
        set_run(ints, floats, job, predicted_run(ints, floats, job))
    for i in range(ints[m.RUNNING]):
        job = ints[ints[m.BY_END_AT] + i]
        elapsed = now - ints[ints[m.START_AT] + job]
        seconds = predicted_run(ints, floats, job)
        if seconds <= elapsed:
            seconds = max(ints[ints[m.REQUESTED_AT] + job], elapsed + 1)
        run_until(ints, floats, i, seconds)
    return np.inf if after == m.LATER else float(after)
