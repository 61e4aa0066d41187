"""Compiled rules for `queue`: priorities of waiting jobs, with and without backfilling.

A rule is a priority, highest first; ties go to the job that arrived first. w is the time that a job
has waited, r its requested time, n its processors, s 1 + its submission since the first one (all in
s), p the predicted run time and u the run time of the last similar job. Columns are
logarithms. Waits, requests and sizes are whole numbers, and p and u are multiples of .5, so `exp`
and rounding give them back exactly. The priorities are those of the formulas, ties included. With
several resources, rules with an area have equivalent processors for n.

Most rules have three forms:

    NAME          strict: nobody starts before the job of the highest priority; waits in the closed
                  phase, which needs config.allow_wait
    NAME_easy     the job of the highest priority starts or holds the reservation, and then the
                  safe job of the highest priority starts: EASY backfilling
    NAME_greedy   the job of the highest priority among those that fit starts

`lxf`: largest slowdown first. `wfp3` and `unicef`: Tang et al., "Fault-aware, utility-based job
scheduling on Blue Gene/P systems", CLUSTER 2009. `f1` to `f4`: Carastan-Santos & de Camargo,
"Obtaining dynamic scheduling policies with simulation and machine learning", SC 2017; s counts from
the first job of the window here. `spf`, `sapf`: predictions of Tsafrir et al., "Backfilling using
system-generated predictions", TPDS 2007. `fcfs_easy_sjbf`: the same paper. `conservative`:
Mu'alem & Feitelson, TPDS 2001. `similar_area`, `aged_area`, `aged_similar`, `steady_area` and
`balanced_area` were chosen on the first parts of logs of the archive; they are ours.
`aged_expected` and `wsept` need config.run_times: v and e are learned from completed runs. `wsept`
is the rule of Rothkopf, "Scheduling with random service times", Management Science 1966 (with known
run times that of Smith, Naval Research Logistics Quarterly 1956), for processors x time, aged.

Some rules choose from the memory of an episode (hindcast.pipeline.simulation.memory_rules).
`conservative` knows no more than a real scheduler, but is not a score of a row. `NAME_clairvoyant`
is NAME_easy with run times instead of requested times, in the reservation too: it knows what no
scheduler knows. Jobs that already run when the window begins keep their requested times in it.
`recorded` starts jobs as the log did. These rules wait where config.allow_wait is false, too, but
can then not be recorded.
"""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue import layout as m
from hindcast.pipeline.scenarios.queue.dynamics import job_of, next_event, shown
from hindcast.pipeline.scenarios.queue.features import CLOSED, EQUIVALENT, MOMENT, ROW, RUN_TIMES
from hindcast.pipeline.scenarios.queue.priorities import (
    FIRST_LEARNED,
    NUMBER,
    RULES,
    priority,
    priority_of_asks,
)
from hindcast.pipeline.scenarios.queue.run_times import CONTEXTS, expect
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.scenarios.queue.several.transition import is_several
from hindcast.pipeline.simulation.kernel import (
    CHOOSE,
    FLOATS,
    INTS,
    ROWS,
    SCORE,
    Compiled,
    compiled,
)
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.heuristics.linear import RANDOM_LINEAR
from hindcast.policies.heuristics.queue_several import (
    choose_easy_in_pools,
    first_planned_in_pools,
    recorded_in_pools,
)

_LAST: Final = -1e300  # below every priority
_EASY, _STRICT, _GREEDY = range(3)


@compiled(types.float64(types.int64, ROWS, types.int64))
def _of_asks(rule, candidates, i):  # type: ignore[no-untyped-def]
    """Return the priority of a row with several resources."""
    width = candidates.shape[1]
    if rule >= FIRST_LEARNED:
        p, u = math.exp(candidates[i, width - 1]), math.exp(candidates[i, width - 2])
    else:
        p = np.rint(2.0 * np.exp(candidates[i, ROW.log_predicted])) / 2.0
        u = np.rint(2.0 * np.exp(candidates[i, ROW.log_similar])) / 2.0
    return priority_of_asks(
        rule,
        np.rint(np.exp(candidates[i, ROW.log_waited])) - 60.0,
        np.int64(np.rint(np.exp(candidates[i, ROW.log_requested]))),
        np.int64(np.rint(np.exp(candidates[i, ROW.log_processors]))),
        np.int64(np.rint(1000.0 * np.exp(candidates[i, EQUIVALENT]))),
        candidates[i, ROW.submitted],
        p,
        u,
    )


@compiled(types.void(types.int64, types.int64, FLOATS, ROWS, FLOATS))
def _fill(rule, form, context, candidates, scores):  # type: ignore[no-untyped-def]
    """Fill the scores of a rule in a form."""
    several, pooled = len(context) > len(MOMENT), False
    # The last two columns are those of learned run times, if there is an even number more.
    waits = (candidates.shape[1] - ROW.is_wait) % 2 == 1
    closed = all_closed = context[MOMENT.closed] > 0.0
    if several and 0.0 < context[MOMENT.closed] < 1.0:  # some pools are closed: see the rows
        pooled = True
        for i in range(len(scores)):
            if candidates[i, ROW.submitted] > 0.0 and candidates[i, CLOSED] == 0.0:
                all_closed = False
    for i in range(len(scores)):
        if pooled:
            closed = candidates[i, CLOSED] > 0.0
        if (several and candidates[i, ROW.submitted] == 0.0) or (  # a job has 1 or more
            not several and waits and candidates[i, ROW.is_wait] > 0.0
        ):
            scores[i] = 0.0 if form == _STRICT and all_closed else _LAST
        elif (form == _STRICT and closed) or (form == _GREEDY and candidates[i, ROW.fits] == 0.0):
            scores[i] = _LAST
        elif rule == 0:
            scores[i] = -candidates[i, ROW.submitted]
        elif rule == 1:
            scores[i] = -candidates[i, ROW.log_requested]
        elif several:
            scores[i] = _of_asks(rule, candidates, i)
        elif rule == 5:
            scores[i] = -candidates[i, ROW.log_area]
        elif rule >= FIRST_LEARNED:
            scores[i] = priority(
                rule,
                np.rint(np.exp(candidates[i, ROW.log_waited])) - 60.0,
                np.rint(np.exp(candidates[i, ROW.log_requested])),
                np.rint(np.exp(candidates[i, ROW.log_processors])),
                candidates[i, ROW.submitted],
                math.exp(candidates[i, candidates.shape[1] - 1]),
                math.exp(candidates[i, candidates.shape[1] - 2]),
            )
        else:
            scores[i] = priority(
                rule,
                np.rint(np.exp(candidates[i, ROW.log_waited])) - 60.0,
                np.rint(np.exp(candidates[i, ROW.log_requested])),
                np.rint(np.exp(candidates[i, ROW.log_processors])),
                candidates[i, ROW.submitted],
                np.rint(2.0 * np.exp(candidates[i, ROW.log_predicted])) / 2.0,
                np.rint(2.0 * np.exp(candidates[i, ROW.log_similar])) / 2.0,
            )


def _score(rule: int, form: int) -> Compiled:
    """Return the compiled score of a rule in a form."""

    @compiled(SCORE)
    def score(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
        _fill(rule, form, context, candidates, scores)

    return score


@compiled(SCORE)
def _fcfs_sjbf(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    share = context[MOMENT.closed]
    _fill(1 if share == 1.0 else 0, _EASY, context, candidates, scores)
    if 0.0 < share < 1.0:  # rows of an open pool stand first, in order of arrival
        for i in range(len(scores)):
            if candidates[i, CLOSED] > 0.0 and scores[i] > _LAST:
                scores[i] = -candidates[i, ROW.log_requested]


@compiled(types.int64(INTS, types.int64))
def _or_wait(ints, row):  # type: ignore[no-untyped-def]
    """Return a row, or for -1 the row that waits."""
    if row < 0:
        ints[m.MAY_WAIT] = 1
        return shown(ints)
    return row


@compiled(types.int64(INTS, FLOATS, types.int64, types.boolean))
def choose_easy(ints, floats, rule, clairvoyant):  # type: ignore[no-untyped-def]
    """Return the row that a rule with EASY backfilling chooses; the last row waits.

    If the job of the highest priority fits, it starts. Else it gets the reservation: from `shadow`
    (s) on it has enough processors, and `spare` ones are left then. The job of the highest priority
    that fits and does not delay the reservation starts. `clairvoyant` takes run times in place of
    requested times. The reservation is computed anew at every decision; the phase stays open.
    """
    if is_several(ints):
        return _or_wait(ints, choose_easy_in_pools(ints, rule, clairvoyant))
    now, rows = ints[m.NOW], shown(ints)
    times_at = ints[m.RUN_AT] if clairvoyant else ints[m.REQUESTED_AT]
    shadow, spare = m.LATER, ints[m.FREE]
    for attempt in range(2):
        best, highest = -1, -np.inf
        for i in range(rows):
            job = ints[ints[m.WAITING_AT] + i]
            cpu, time = ints[ints[m.CPU_AT] + job], ints[times_at + job]
            if attempt == 1 and (cpu > ints[m.FREE] or (cpu > spare and now + time > shadow)):
                continue
            submit = ints[ints[m.SUBMIT_AT] + job]
            predicted = max(time, 10)
            since = 1 + submit - ints[m.FIRST_SUBMIT]
            score = priority(rule, now - submit, time, cpu, since, predicted, predicted)
            if score > highest:
                best, highest = i, score
        if best < 0:
            break
        head = ints[ints[m.CPU_AT] + ints[ints[m.WAITING_AT] + best]]
        if attempt == 1 or head <= ints[m.FREE]:
            return best
        running = ints[m.RUNNING]
        ends = np.empty(running, np.int64)
        for i in range(running):
            running_job = ints[ints[m.BY_REQUEST_AT] + i]
            # Jobs that ran when the window began keep their requested times.
            counted = running_job >= ints[m.FIRST_COUNTED]
            estimate = ints[(times_at if counted else ints[m.REQUESTED_AT]) + running_job]
            ends[i] = max(ints[ints[m.START_AT] + running_job] + estimate, now)
        for i in np.argsort(ends):
            if spare >= head and ends[i] > shadow:
                break
            spare += ints[ints[m.CPU_AT] + ints[ints[m.BY_REQUEST_AT] + i]]
            if spare >= head and shadow == m.LATER:
                shadow = ends[i]
        spare -= head
    ints[m.MAY_WAIT] = 1
    return rows


def _clairvoyant(rule: int) -> Compiled:
    @compiled(CHOOSE)
    def choose(ints, floats):  # type: ignore[no-untyped-def]
        return choose_easy(ints, floats, rule, True)  # noqa: FBT003

    return choose


@compiled(types.void(INTS, FLOATS, types.int64, FLOATS))
def _fill_learned(ints, floats, rule, scores):  # type: ignore[no-untyped-def]
    """Fill the priorities of the visible jobs under a rule of learned run times."""
    for i in range(len(scores)):
        job = job_of(ints, i)
        r, n = ints[ints[m.REQUESTED_AT] + job], ints[ints[m.CPU_AT] + job]
        submit, at = ints[ints[m.SUBMIT_AT] + job], ints[m.PLACES_AT] + CONTEXTS * job
        v, e = expect(ints, at, floats, ints[m.SUMS_AT], r)
        s = 1 + submit - ints[m.FIRST_SUBMIT]
        if is_several(ints):
            equivalent = ints[ints[m.EQUIVALENT_AT] + job]
            scores[i] = priority_of_asks(
                rule, ints[m.NOW] - submit, r, n, equivalent, s, math.exp(e), math.exp(v)
            )
            continue
        scores[i] = priority(rule, ints[m.NOW] - submit, r, n, s, math.exp(e), math.exp(v))


@compiled(types.int64(INTS, FLOATS, types.int64))
def _first_planned(ints, floats, rule):  # type: ignore[no-untyped-def]
    """Return the first job whose earliest slot, with all jobs before it in theirs, is now.

    The order is that of a rule of learned run times, or that of arrival.
    """
    now, rows = ints[m.NOW], shown(ints)
    order, scores = np.arange(rows), np.zeros(rows)
    if rule >= FIRST_LEARNED:
        _fill_learned(ints, floats, rule, scores)
        order = np.argsort(-scores, kind="mergesort")
    if is_several(ints):
        return _or_wait(ints, first_planned_in_pools(ints, order))
    times = np.empty(ints[m.RUNNING] + 2 * rows + 2, np.int64)
    free = np.empty(len(times), np.int64)  # from times[i] to times[i + 1]
    times[0], free[0], size = now, ints[m.FREE], 1
    for i in range(ints[m.RUNNING]):
        job = ints[ints[m.BY_REQUEST_AT] + i]
        end = max(ints[ints[m.START_AT] + job] + ints[ints[m.REQUESTED_AT] + job], now + 1)
        if times[size - 1] < end:
            times[size], free[size] = end, free[size - 1]
            size += 1
        free[size - 1] += ints[ints[m.CPU_AT] + job]
    for i in order:
        job = ints[ints[m.WAITING_AT] + i]
        n, r = ints[ints[m.CPU_AT] + job], ints[ints[m.REQUESTED_AT] + job]
        first = at = 0
        while at < size and times[at] < times[first] + r:
            if free[at] < n:
                first = at + 1
            at += 1
        if first == 0:
            return i
        end = times[first] + r
        at = first
        while at < size and times[at] < end:
            at += 1
        if at == size or times[at] > end:
            for j in range(size, at, -1):
                times[j], free[j] = times[j - 1], free[j - 1]
            times[at], free[at] = end, free[at - 1]
            size += 1
        for j in range(first, at):
            free[j] -= n
    ints[m.MAY_WAIT] = 1
    return rows


def _conservative(rule: int) -> Compiled:
    @compiled(CHOOSE)
    def choose(ints, floats):  # type: ignore[no-untyped-def]
        return _first_planned(ints, floats, rule)

    return choose


@compiled(CHOOSE)
def _recorded(ints, floats):  # type: ignore[no-untyped-def]
    """Return the job with the least start in the log, if it is before the next event and fits."""
    if is_several(ints):
        return _or_wait(ints, recorded_in_pools(ints))
    until, rows = next_event(ints), shown(ints)
    best, least = rows, until
    for i in range(rows):
        job = ints[ints[m.WAITING_AT] + i]
        start = ints[ints[m.LOGGED_AT] + job]
        if start < least and ints[ints[m.CPU_AT] + job] <= ints[m.FREE]:
            best, least = i, start
    if best == rows:
        ints[m.MAY_WAIT] = 1
    return best


def _check_starts(instance: Instance) -> None:
    """Raise InputError if the log does not say when jobs started."""
    if (read_schedule(instance.ints).logged == m.NEVER).any():
        raise InputError(
            "recorded is what the log's scheduler did, but this log does not say when jobs started "
            "(all waits are -1); leave the policy out"
        )


def _check_run_times(instance: Instance) -> None:
    """Raise InputError if run times are not learned."""
    if instance.ints[m.RUN_TIMES] == 0:
        raise InputError(
            "this rule needs run times that are learned as jobs complete; set config.run_times = "
            "true"
        )


_SYMBOLS: Final[Mapping[str, str]] = {
    "w": "exp(log_waited) - 60",
    "r": "exp(log_requested)",
    "n": "exp(log_processors)",
    "s": "submitted",
    "p": "exp(log_predicted)",
    "u": "exp(log_similar)",
    "v": "exp(log_weight)",
    "e": "exp(log_expected)",
}
_RUN_TIMES: Final = tuple(column.name for column in RUN_TIMES)


def _in_columns(formula: str) -> str:
    """Return a formula followed by the columns that its letters stand for."""
    letters = [f"{a} = {b}" for a, b in _SYMBOLS.items() if re.search(rf"\b{a}\b", formula)]
    return f"{formula}; {', '.join(letters)}"


def _of_rule(name: str) -> tuple[Heuristic, ...]:
    """Return the three forms of a rule."""
    number = NUMBER[name]
    needs = _RUN_TIMES if number >= FIRST_LEARNED else ()
    chosen, formula = RULES[name][0], _in_columns(RULES[name][1])
    return (
        Heuristic(
            name, _score(number, _STRICT), needs=("is_wait", *needs),
            description=f"{chosen}; nobody else starts before it",
            formula=f"{formula}; the row is_wait while a job holds the reservation",
        ),
        Heuristic(
            f"{name}_easy", _score(number, _EASY), needs=needs,
            description=f"{chosen}; it starts or gets a reservation, then the next that does not "
                "delay it (EASY backfilling)",
            formula=formula,
        ),
        Heuristic(
            f"{name}_greedy", _score(number, _GREEDY), needs=needs,
            description=f"{chosen}, of those that fit",
            formula=f"{formula}; jobs whose fits is 0 lie below",
        ),
    )  # fmt: skip


_SJBF: Final = Heuristic(
    "fcfs_easy_sjbf",
    _fcfs_sjbf,
    description="the job that arrived first; beside its reservation, the shortest requested time",
    formula="-submitted; -log_requested while a job holds the reservation",
)
_LOGS: Final = ("log_waited", "log_requested", "log_predicted", "log_similar", "log_processors")


def _draw_logs(spec: Spec, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the parameters of one episode: a column, 0 and a normal weight for each logarithm.

    (15,), or (21,) with config.run_times.
    """
    columns = [f.name for f in spec.candidates]
    drawn = [n for n in (*_LOGS, *_RUN_TIMES) if n in columns]
    return np.array([(columns.index(n), 0.0, rng.standard_normal()) for n in drawn]).ravel()


_RANDOM_LOGS: Final = dataclasses.replace(
    RANDOM_LINEAR, name="random_logs", draw=_draw_logs,
    description="the highest linear priority of the logarithms of a job, with weights drawn per "
        "episode",
    formula=f"sum of w * x over {', '.join(_LOGS)}, and with config.run_times over "
        f"{' and '.join(_RUN_TIMES)}; w ~ normal(0, 1)",
)  # fmt: skip
HEURISTICS: Final[Mapping[str, Heuristic]] = {
    rule.name: rule
    for rule in (*(form for name in RULES for form in _of_rule(name)), _SJBF, _RANDOM_LOGS)
}

_MEMORY_RULES: Final = (
    MemoryRule(
        "conservative", _conservative(NUMBER["fcfs"]), needs=("is_wait",),
        description="in order of arrival, every job gets the earliest slot that delays no older "
            "one; the first whose slot is now starts (conservative backfilling)",
        formula="computed from the memory, by requested times",
    ),
    *(
        MemoryRule(
            f"{name}_conservative", _conservative(NUMBER[name]),
            needs=("is_wait", *_RUN_TIMES), check=_check_run_times,
            description="in order of priority, every job gets the earliest slot that delays none "
                f"before it; the first whose slot is now starts. First is {RULES[name][0]}",
            formula=f"{RULES[name][1]}; computed from the memory",
        )
        for name in list(RULES)[FIRST_LEARNED:]
    ),
    *(
        MemoryRule(
            f"{name}_clairvoyant", _clairvoyant(NUMBER[name]), kind="knows run times",
            needs=("is_wait",),
            description=f"{name}_easy with run times instead of requested times: no scheduler "
                "knows them",
            formula=f"{RULES[name][1]} with r the run time",
        )
        for name in ("sjf", "saf", "lxf")
    ),
    MemoryRule(
        "recorded", _recorded, kind="recorded", needs=("is_wait",), check=_check_starts,
        description="what the log's scheduler did: the job that started first in the log, if it "
            "did before the next event here",
        formula="recorded start; waits where no such job fits",
    ),
)  # fmt: skip
MEMORY_RULES: Final[Mapping[str, MemoryRule]] = {rule.name: rule for rule in _MEMORY_RULES}
