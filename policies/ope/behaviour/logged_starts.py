"""The compiled pass over a log of `queue` that finds the candidates of every logged start.

At a start, jobs that ended are gone, jobs of the same second started in order of submission, and
the candidates are the waiting jobs whose processors are free; the started job is one of them even
where the log exceeds its machine. Predictions come from jobs that ended in the log before.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.instances import Log
from hindcast.pipeline.simulation.kernel import Ints, Rows, compiled

Array = NDArray[np.float64]

NEW_S: Final = 60  # seconds that a job counts as new
_NEVER_S: Final = 7 * 86_400  # since a user's last start, if there is none
FEATURES: Final = (
    "log_waited", "log_requested", "log_processors", "log_predicted", "user_running",
    "user_waiting", "safe", "share_of_free", "first_of_user", "new", "same_user",
    "log_since_user", "same_shape", "queue",
)  # fmt: skip


class LogArrays(NamedTuple):
    """The jobs of a log, as compiled code reads them."""

    submit: Ints
    cpu: Ints
    run: Ints
    requested: Ints
    user: Ints
    queue: Ints
    start: Ints
    by_start: Ints  # jobs in order of their start
    by_end: Ints  # jobs in order of their end


class StartArrays(NamedTuple):
    """The candidates of S starts."""

    rows: Rows  # (V, F), or (0, F) to count them
    offsets: Ints  # (S + 1,)
    chosen: Ints  # (S,) row of the started job
    place: Ints  # (S,) number of the start


@compiled()
def _pass(log: LogArrays, processors: int, wanted: Ints, starts: StartArrays) -> int:
    """Fill in the candidates of wanted starts, if there are rows; return the number of choices."""
    submit, cpu, run, requested, user, queue, start, by_start, by_end = log
    rows, offsets, chosen, place = starts
    fill = len(rows) > 0
    size = len(submit)
    users = 0
    for j in range(size):
        users = max(users, user[j] + 1)
    held, queued = np.zeros(users + 1, np.int64), np.zeros(users + 1, np.int64)
    last_start = np.full(users + 1, -(1 << 61))
    last_run, run_before = np.full(users + 1, -1), np.full(users + 1, -1)
    stamp = np.full(users + 1, -1)
    waiting, running = np.zeros(size, np.int64), np.zeros(size, np.int64)
    waits = runs = arrived = ended = found = row = at = 0
    free, last_user = processors, -1
    for k in range(size):
        job = by_start[k]
        now = start[job]
        while ended < size and start[by_end[ended]] + run[by_end[ended]] <= now:
            done = by_end[ended]
            free += cpu[done]
            for i in range(runs):
                if running[i] == done:
                    running[i] = running[runs - 1]
                    runs -= 1
                    break
            who = user[done]
            if who >= 0:
                held[who] -= cpu[done]
                run_before[who], last_run[who] = last_run[who], run[done]
            ended += 1
        while arrived < size and submit[arrived] <= now:
            waiting[waits] = arrived
            waits += 1
            if user[arrived] >= 0:
                queued[user[arrived]] += 1
            arrived += 1
        if at < len(wanted) and wanted[at] == k:
            at += 1
            fitting = 0
            for i in range(waits):
                if cpu[waiting[i]] <= free or waiting[i] == job:
                    fitting += 1
            if fitting > 1:
                if fill:
                    head = waiting[0]
                    shadow, spare = now, free - cpu[head]
                    if spare < 0:
                        ends = np.empty(runs, np.int64)
                        for i in range(runs):
                            ends[i] = max(start[running[i]] + requested[running[i]], now)
                        for i in np.argsort(ends):
                            spare += cpu[running[i]]
                            shadow = ends[i]
                            if spare >= 0:
                                break
                    for i in range(waits):
                        other = waiting[i]
                        who = user[other]
                        first = who >= 0 and stamp[who] != k
                        if who >= 0:
                            stamp[who] = k
                        if cpu[other] > free and other != job:
                            continue
                        waited = now - submit[other]
                        guess = float(requested[other])
                        if who >= 0 and last_run[who] >= 0:
                            guess = float(last_run[who])
                            if run_before[who] >= 0:
                                guess = (last_run[who] + run_before[who]) / 2.0
                            guess = min(guess, float(requested[other]))
                        rows[row, 0] = np.log(60.0 + waited)
                        rows[row, 1] = np.log(float(requested[other]))
                        rows[row, 2] = np.log(float(cpu[other]))
                        rows[row, 3] = np.log(max(guess, 10.0))
                        rows[row, 4] = held[who] / processors if who >= 0 else 0.0
                        rows[row, 5] = np.log(1.0 + queued[who]) if who >= 0 else 0.0
                        safe = other == head or cpu[other] <= spare
                        if not safe and shadow > now:
                            safe = now + requested[other] <= shadow
                        rows[row, 6] = 1.0 if safe else 0.0
                        rows[row, 7] = min(cpu[other] / max(free, 1), 2.0)
                        rows[row, 8] = 1.0 if first else 0.0
                        rows[row, 9] = 1.0 if waited < NEW_S else 0.0
                        rows[row, 10] = 1.0 if who >= 0 and who == last_user else 0.0
                        since = _NEVER_S
                        if who >= 0:
                            since = min(now - last_start[who], _NEVER_S)
                        rows[row, 11] = np.log(1.0 + since)
                        alike = k > 0 and cpu[other] == cpu[by_start[k - 1]]
                        if alike and requested[other] == requested[by_start[k - 1]]:
                            rows[row, 12] = 1.0
                        rows[row, 13] = queue[other]
                        if other == job:
                            chosen[found] = row
                        row += 1
                else:
                    row += fitting
                offsets[found + 1] = row
                place[found] = k
                found += 1
        for i in range(waits):
            if waiting[i] == job:
                for j in range(i, waits - 1):
                    waiting[j] = waiting[j + 1]
                waits -= 1
                break
        running[runs] = job
        runs += 1
        free -= cpu[job]
        last_user = user[job]
        if user[job] >= 0:
            held[user[job]] += cpu[job]
            queued[user[job]] -= 1
            last_start[user[job]] = now
    return found


def read_starts(log: Log, wanted: Ints) -> tuple[Array, Ints, Ints, Ints, Ints]:
    """Return the candidates of the wanted starts of a log.

    Args:
        log: The log, which says when jobs started.
        wanted: Numbers of starts in order of time, ascending.

    Returns:
        Rows (V, F) with the columns FEATURES, offsets (S + 1,), rows of the started jobs (S,),
        numbers of the starts (S,), and their seconds in the log (S,), for the S starts with at
        least two candidates.
    """
    by_start = np.argsort(log.start, kind="stable")
    jobs = LogArrays(
        log.submit, log.cpu, log.run, log.requested, log.user, log.queue, log.start, by_start,
        log.by_end,
    )  # fmt: skip
    given = jobs, log.processors, np.ascontiguousarray(wanted, np.int64)
    offsets = np.zeros(len(wanted) + 1, np.int64)
    chosen, place = np.zeros((2, len(wanted)), np.int64)
    found = _pass(*given, StartArrays(np.zeros((0, len(FEATURES))), offsets, chosen, place))
    rows = np.zeros((int(offsets[found]), len(FEATURES)))
    _pass(*given, StartArrays(rows, offsets, chosen, place))
    offsets, chosen, place = offsets[: found + 1], chosen[:found], place[:found]
    return rows, offsets, chosen, place, log.start[by_start[place]]
