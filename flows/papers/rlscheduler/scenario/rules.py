"""Scores of the rules of RLScheduler's program, and an episode of a rule in one compiled call.

The program takes the job with the least key. Its keys, with s the submission on the clock of the
LOG, r the requested seconds (-1 can stay), n the processors:

    fcfs      s                                  f1   log10(r) n + 870 log10(s), r .1 where r <= 0
    sjf       r, then s                          f2   sqrt(r) n + 25600 log10(s)
    smallest  n, then s                          f3   r n + 6860000 log10(s)
    saf       r n                                f4   r sqrt(n) + 530000 log10(s)
    wfp       -((w / r)^3) n                     w = -1 - s: a job's start is -1 until it starts
    uni       -(w + 1e-15) / (log2(n + 1e-15) r)      so the signs of both rules are turned
    wfp3      as wfp                             w = time of the decision - s
    unicef    -(w + 1e-15) / (max(log2 n, 1) r)       as they are meant; r at least 1

s is large late in a log, so the age of a job hardly counts in f1 to f4 there.
"""

import math
from typing import Final

from numba import types

from hindcast.flows.papers.rlscheduler.scenario import layout as m
from hindcast.flows.papers.rlscheduler.scenario.dynamics import commit
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, compiled

NAMES: Final = (
    "fcfs", "sjf", "smallest", "f1", "f2", "f3", "f4", "wfp", "uni", "wfp3", "unicef", "saf",
)  # fmt: skip
FCFS, SJF, SMALLEST, F1, F2, F3, F4, WFP, UNI, WFP3, UNICEF, SAF = range(len(NAMES))
_TINY: Final = 1e-15


@compiled(types.float64(types.int64, types.float64, types.float64, types.float64, types.float64))
def key(rule, submit, requested, cpu, now):  # type: ignore[no-untyped-def]
    """Return the key of a waiting job, of which the least is chosen; the first of equals."""
    if rule == FCFS:
        return submit
    if rule == SJF:
        return requested
    if rule == SMALLEST:
        return cpu
    if rule == SAF:
        return requested * cpu
    if rule == F1:
        shown = requested if requested > 0.0 else 0.1
        return math.log10(shown) * cpu + 870.0 * math.log10(submit)
    if rule == F2:
        return math.sqrt(requested) * cpu + 25600.0 * math.log10(submit)
    if rule == F3:
        return requested * cpu + 6860000.0 * math.log10(submit)
    if rule == F4:
        return requested * math.sqrt(cpu) + 530000.0 * math.log10(submit)
    waited = -1.0 - submit if rule in (WFP, UNI) else now - submit
    if rule == WFP:
        return -math.pow(waited / requested, 3.0) * cpu
    if rule == WFP3:
        return -math.pow(waited / max(requested, 1.0), 3.0) * cpu
    if rule == UNI:
        return -(waited + _TINY) / (math.log2(cpu + _TINY) * requested)
    return -(waited + _TINY) / (max(math.log2(cpu), 1.0) * max(requested, 1.0))


@compiled(types.void(INTS, FLOATS))
def _order_equal_submissions(ints, keys):  # type: ignore[no-untyped-def]
    """Sort waiting jobs of one second by their keys, stably: backfilling takes them in that order.

    The published program sorts its whole list by the keys at every decision, and by submission
    before it backfills.
    """
    submit, waiting = ints[m.SUBMIT_AT], ints[m.WAITING_AT]
    for i in range(1, ints[m.WAITING]):
        job = ints[waiting + i]
        at = i
        while at > 0:
            before = ints[waiting + at - 1]
            if ints[submit + before] != ints[submit + job] or not keys[job] < keys[before]:
                break
            ints[waiting + at] = before
            at -= 1
        ints[waiting + at] = job


@compiled(types.int64(INTS, FLOATS, types.int64, FLOATS))
def play(ints, floats, rule, keys):  # type: ignore[no-untyped-def]
    """Play an episode by a rule to its end; return the number of decisions.

    `keys` is a buffer (N,). Keys that do not change with time are computed once.
    """
    submit, requested, cpu = ints[m.SUBMIT_AT], ints[m.REQUESTED_AT], ints[m.CPU_AT]
    waiting = ints[m.WAITING_AT]
    ages = rule in (WFP3, UNICEF)
    if not ages:
        for i in range(ints[m.JOBS]):
            keys[i] = key(
                rule, float(ints[submit + i]), float(ints[requested + i]), float(ints[cpu + i]), 0.0
            )
    decisions = 0
    while True:
        if ages:
            for place in range(ints[m.WAITING]):
                i = ints[waiting + place]
                keys[i] = key(
                    rule, float(ints[submit + i]), float(ints[requested + i]),
                    float(ints[cpu + i]), float(ints[m.NOW]),
                )  # fmt: skip
        best = 0
        if ints[m.BACKFILL] == 1:
            _order_equal_submissions(ints, keys)
        if rule != FCFS:
            least = keys[ints[waiting]]
            for place in range(1, ints[m.WAITING]):
                other = keys[ints[waiting + place]]
                if other < least:
                    least = other
                    best = place
        decisions += 1
        if commit(ints, floats, best) != k.RUNNING:
            floats[k.TIME] = ints[m.NOW] - ints[submit]
            return decisions
