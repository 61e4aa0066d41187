"""Priorities of waiting jobs under the rules of `queue`, and their compiled formulas.

w is the time that a job has waited, r its requested time, n its processors, s 1 + its submission
since the first one (all in s), p the predicted run time and u the run time of the last similar job.
The expected weight v, of 10 s / max(run, 10 s), and the expected run time e are learned from the
runs that have completed, see hindcast.pipeline.scenarios.queue.run_times. With several resources,
rules with an area have equivalent processors for n: the dominant share of the job times the
processors of the machine.
hindcast.policies.heuristics.queue has the sources.
"""

import math
from collections.abc import Mapping
from typing import Final

from numba import types

from hindcast.pipeline.simulation.kernel import compiled

RULES: Final[Mapping[str, tuple[str, str]]] = {
    "fcfs": ("the job that arrived first", "-s"),
    "sjf": ("the shortest requested time", "-r"),
    "ljf": ("the longest requested time", "r"),
    "smallest": ("the fewest processors", "-n"),
    "largest": ("the most processors", "n"),
    "saf": ("the smallest area, requested time x processors", "-r n"),
    "laf": ("the largest area, requested time x processors", "r n"),
    "lxf": (
        "the largest slowdown if it started now, (wait + requested time) / requested time",
        "(w + r) / r",
    ),
    "wfp3": ("the largest (wait / requested time)^3 x processors, WFP3", "(w / r)^3 n"),
    "unicef": (
        "the largest wait / (requested time x log2(processors)), UNICEF",
        "w / (r log2(max(n, 2)))",
    ),
    "f1": (
        "F1: the least log10(requested time) x processors + 870 log10(submission)",
        "-(log10(r) n + 870 log10(s))",
    ),
    "f2": (
        "F2: the least sqrt(requested time) x processors + 25600 log10(submission)",
        "-(sqrt(r) n + 25600 log10(s))",
    ),
    "f3": (
        "F3: the least requested time x processors + 6860000 log10(submission)",
        "-(r n + 6860000 log10(s))",
    ),
    "f4": (
        "F4: the least requested time x sqrt(processors) + 530000 log10(submission)",
        "-(r sqrt(n) + 530000 log10(s))",
    ),
    "spf": ("the shortest predicted run time", "-p"),
    "sapf": ("the smallest area, predicted run time x processors", "-p n"),
    "similar_area": (
        "the largest (wait + 1 min) / (requested time x processors x run time of similar jobs)",
        "(w + 60) / (u r n)",
    ),
    "aged_area": (
        "the largest (wait + 1 day) / (requested time x processors x sqrt(predicted run time))",
        "(w + 86400) / (sqrt(p) r n)",
    ),
    "aged_similar": (
        "the largest (wait + 1 day) / (requested time x processors x sqrt(run time of similar))",
        "(w + 86400) / (sqrt(u) r n)",
    ),
    "steady_area": (
        "the largest (wait + 1 h) / (requested time x sqrt(run time of similar jobs))",
        "(w + 3600) / (sqrt(u) r)",
    ),
    "balanced_area": (
        "the largest (wait + 1 h) / sqrt(requested time x processors x run time of similar jobs)",
        "(w + 3600) / sqrt(u r n)",
    ),
    "aged_expected": (
        "the largest (wait + 1 day) x sqrt(expected weight) / (expected run time x processors)",
        "(w + 86400) sqrt(v) / (e n)",
    ),
    "wsept": (
        "the largest (wait + 1 day) x expected weight / (expected run time x processors), WSEPT",
        "(w + 86400) v / (e n)",
    ),
}  # rule: what it prefers, priority
NUMBER: Final = {name: i for i, name in enumerate(RULES)}
FIRST_LEARNED: Final = NUMBER["aged_expected"]  # from here on rules have e and v for p and u


@compiled(
    types.float64(types.int64, types.float64, types.float64, types.float64, types.float64,
                  types.float64, types.float64)
)  # fmt: skip
def priority(rule, w, r, n, s, p, u):  # type: ignore[no-untyped-def]
    """Return the priority of a job under a rule, given by its place in the table of rules.

    p and u are e and v for the rules of learned run times.
    """
    if rule == 0:
        return -s
    if rule == 1:
        return -r
    if rule == 2:
        return r
    if rule == 3:
        return -n
    if rule == 4:
        return n
    if rule == 5:
        return -(r * n)
    if rule == 6:
        return r * n
    if rule == 7:
        return (w + r) / r
    if rule == 8:
        ratio = w / r
        return ratio * ratio * ratio * n
    if rule == 9:
        return w / (r * math.log2(max(n, 2.0)))
    if rule == 10:
        return -(math.log10(r) * n + 870.0 * math.log10(s))
    if rule == 11:
        return -(math.sqrt(r) * n + 25600.0 * math.log10(s))
    if rule == 12:
        return -(r * n + 6860000.0 * math.log10(s))
    if rule == 13:
        return -(r * math.sqrt(n) + 530000.0 * math.log10(s))
    if rule == 14:
        return -p
    if rule == 15:
        return -(p * n)
    if rule == 16:
        return (w + 60.0) / (u * r * n)
    if rule == 17:
        return (w + 86400.0) / (math.sqrt(p) * r * n)
    if rule == 18:
        return (w + 86400.0) / (math.sqrt(u) * r * n)
    if rule == 19:
        return (w + 3600.0) / (math.sqrt(u) * r)
    if rule == 20:
        return (w + 3600.0) / math.sqrt(u * r * n)
    if rule == 21:
        return (w + 86400.0) * math.sqrt(u) / (p * n)
    return (w + 86400.0) * u / (p * n)


@compiled(
    types.float64(types.int64, types.float64, types.int64, types.int64, types.int64, types.float64,
                  types.float64, types.float64)
)  # fmt: skip
def priority_of_asks(rule, w, r, n, equivalent, s, p, u):  # type: ignore[no-untyped-def]
    """Return the priority of a job that asks for several resources.

    `equivalent` are thousandths of processors. The area of requested time is a product of whole
    numbers, so that equal areas are ties.
    """
    if rule == 5:
        return -(float(r * equivalent) / 1000.0)
    if rule == 6:
        return float(r * equivalent) / 1000.0
    if (15 <= rule <= 18) or rule >= 20:
        return priority(rule, w, float(r), equivalent / 1000.0, s, p, u)
    return priority(rule, w, float(r), float(n), s, p, u)
