"""Compiled rules for `slots`; candidates are the slots of the queue, then the row that moves on.

A rule moves on when it wants no job. `_now` rules place only jobs that start at once, `_reserve`
rules use any window of the horizon. Among equal jobs the one with the larger total demand goes
first, then the lowest slot; with compat, the lowest slot goes first.

A job is long if it is longer than a quarter of the horizon (5 of 20, 15 of 60), which lies between
the short and the long jobs of both presets. The number in `hold_5` and `hold_8` is the time steps
without an arrival for which a long job waits. hold_8 is better up to a rate of about 0.4, hold_5
above that; no rule can see the rate.

Sources: Mao et al., HotNets 2016; packer is from Grandl et al., "Multi-Resource Packing for Cluster
Schedulers", SIGCOMM 2014; starting a job early if it delays no job that goes first is conservative
backfilling, Mu'alem & Feitelson, IEEE TPDS 12(6), 2001.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numba import types

from hindcast.pipeline.scenarios.slots.features import ROW, STEP
from hindcast.pipeline.simulation.kernel import FLOATS, MASK, ROWS, SCORE, Compiled, compiled
from hindcast.pipeline.simulation.policy import Heuristic

WEIGHT: Final = 0.2  # of packer in sjf_packer
_NEVER: Final = -np.inf
_LAST: Final = -1e300  # moving on: above jobs that a rule never takes, below all others
_TIE: Final = 1e-6  # lengths, areas and dot products are whole numbers


@compiled(types.float64(ROWS, types.int64))
def _tie(candidates, i):  # type: ignore[no-untyped-def]
    return _TIE * candidates[i, ROW.tie]


@compiled(types.float64(FLOATS, ROWS, types.int64))
def _alignment(context, candidates, i):  # type: ignore[no-untyped-def]
    return (
        context[STEP.free_cpu] * candidates[i, ROW.cpu]
        + context[STEP.free_memory] * candidates[i, ROW.memory]
    )


@compiled(types.void(ROWS, FLOATS))
def _only_now(candidates, scores):  # type: ignore[no-untyped-def]
    """Exclude jobs that do not start at once."""
    for i in range(len(scores) - 1):
        if candidates[i, ROW.fits_now] == 0.0:
            scores[i] = _NEVER


@compiled(SCORE)
def _sjf_reserve(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = _tie(candidates, i) - candidates[i, ROW.length]
    scores[-1] = _LAST


@compiled(SCORE)
def _sjf_now(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    _sjf_reserve(context, candidates, feasible, parameters, scores)
    _only_now(candidates, scores)


@compiled(SCORE)
def _packer_reserve(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = _tie(candidates, i) + _alignment(context, candidates, i)
    scores[-1] = _LAST


@compiled(SCORE)
def _packer_now(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    _packer_reserve(context, candidates, feasible, parameters, scores)
    _only_now(candidates, scores)


@compiled(types.void(FLOATS, ROWS, MASK, FLOATS, types.boolean))
def _mix(context, candidates, feasible, scores, now):  # type: ignore[no-untyped-def]
    shortest, aligned = np.inf, 0.0
    for i in range(len(scores) - 1):
        if feasible[i] and (not now or candidates[i, ROW.fits_now] == 1.0):
            shortest = min(shortest, candidates[i, ROW.length])
            aligned = max(aligned, _alignment(context, candidates, i))
    for i in range(len(scores)):
        scores[i] = _tie(candidates, i)
        if aligned > 0.0:
            scores[i] += WEIGHT * _alignment(context, candidates, i) / aligned
        if feasible[i] and candidates[i, ROW.length] > 0.0:
            scores[i] += (1.0 - WEIGHT) * shortest / candidates[i, ROW.length]
    scores[-1] = _LAST


@compiled(SCORE)
def _sjf_packer_reserve(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    _mix(context, candidates, feasible, scores, False)  # noqa: FBT003


@compiled(SCORE)
def _sjf_packer_now(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    _mix(context, candidates, feasible, scores, True)  # noqa: FBT003
    _only_now(candidates, scores)


@compiled(SCORE)
def _fcfs_reserve(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = _tie(candidates, i) + candidates[i, ROW.waited]
    scores[-1] = _LAST


@compiled(SCORE)
def _fcfs_now(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    _fcfs_reserve(context, candidates, feasible, parameters, scores)
    _only_now(candidates, scores)


@compiled(SCORE)
def _area_first_reserve(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        area = candidates[i, ROW.length] * max(candidates[i, ROW.cpu], candidates[i, ROW.memory])
        scores[i] = _tie(candidates, i) - area
    scores[-1] = _LAST


@compiled(types.boolean(FLOATS, ROWS, types.int64, types.int64))
def _moved(context, candidates, i, starting):  # type: ignore[no-untyped-def]
    """Return whether the job in slot i loses its earliest window if job `starting` starts now.

    A window that is still free stays the earliest one, because starting a job frees no resources.
    """
    first = int(candidates[i, ROW.offset])
    overlap = min(int(candidates[i, ROW.length]), int(candidates[starting, ROW.length]) - first)
    for row in range(first, first + overlap):
        for resource in range(2):
            demanded = candidates[i, ROW.cpu + resource] + candidates[starting, ROW.cpu + resource]
            if context[len(STEP) * row + STEP.free_cpu + resource] < demanded:
                return True
    return False


@compiled(types.void(FLOATS, ROWS, MASK, FLOATS, types.float64, types.boolean))
def _hold_back(context, candidates, feasible, scores, quiet, backfill):  # type: ignore[no-untyped-def]
    """Score as sjf_now; long jobs wait for short ones and for `quiet` steps or a full queue.

    With `backfill`, a long job waits only for short jobs whose earliest windows it would move. The
    context has len(STEP) numbers for each of H time steps and M slots, and one more.
    """
    _sjf_now(context, candidates, feasible, context, scores)
    queue = len(scores) - 1
    longest_short = ((len(context) - 1) // len(STEP) - queue) / 4.0
    short, full = False, True
    for i in range(queue):
        short = short or 0.0 < candidates[i, ROW.length] <= longest_short
        full = full and candidates[i, ROW.length] > 0.0
    holds = not (full or candidates[queue, ROW.quiet] >= quiet)
    for i in range(queue if short or holds else 0):
        if candidates[i, ROW.length] <= longest_short or candidates[i, ROW.fits_now] == 0.0:
            continue
        waits = holds or not backfill
        for short_job in range(0 if waits else queue):
            if feasible[short_job] and candidates[short_job, ROW.length] <= longest_short:
                waits = waits or _moved(context, candidates, short_job, i)
        if waits:
            scores[i] = _NEVER


def _holding(quiet: float, *, backfill: bool) -> Compiled:
    """Return the rule that scores by `_hold_back` with these settings."""

    @compiled(SCORE)
    def score(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
        _hold_back(context, candidates, feasible, scores, quiet, backfill)

    return score


@compiled(SCORE)
def _random_reference(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Fill log-probabilities up to a constant, to be used with temperature 1."""
    moving_on = 0
    for i in range(len(scores)):
        scores[i] = 0.0
        moving_on += not feasible[i] or candidates[i, ROW.move_on] == 1.0
    scores[-1] = np.log(moving_on)


_RULES: Final = (
    Heuristic(
        "sjf_now", _sjf_now,
        description="the shortest job that can start now",
        formula=f"{_TIE} * tie - length if fits_now",
    ),
    Heuristic(
        "sjf_reserve", _sjf_reserve,
        description="the shortest job, in its earliest window",
        formula=f"{_TIE} * tie - length",
    ),
    Heuristic(
        "packer_now", _packer_now,
        description="of the jobs that can start now, the one whose demand matches the free "
            "resources best",
        formula=f"{_TIE} * tie + free_cpu_00 * cpu + free_memory_00 * memory if fits_now",
    ),
    Heuristic(
        "packer_reserve", _packer_reserve,
        description="the job whose demand matches the free resources best, in its earliest window",
        formula=f"{_TIE} * tie + free_cpu_00 * cpu + free_memory_00 * memory",
    ),
    Heuristic(
        "sjf_packer_now", _sjf_packer_now,
        description=f"{WEIGHT} packer + {1.0 - WEIGHT} sjf among the jobs that can start now, "
            "each relative to the best visible job",
        formula=f"{_TIE} * tie + {WEIGHT} * a / max(a) + {1.0 - WEIGHT} * min(length) / length if "
            "fits_now; a = free_cpu_00 * cpu + free_memory_00 * memory",
    ),
    Heuristic(
        "sjf_packer_reserve", _sjf_packer_reserve,
        description=f"{WEIGHT} packer + {1.0 - WEIGHT} sjf, each relative to the best visible "
            "job, in the earliest window",
        formula=f"{_TIE} * tie + {WEIGHT} * a / max(a) + {1.0 - WEIGHT} * min(length) / length; a "
            "= free_cpu_00 * cpu + free_memory_00 * memory",
    ),
    Heuristic(
        "fcfs_now", _fcfs_now,
        description="of the jobs that can start now, the one that has waited longest",
        formula=f"{_TIE} * tie + waited if fits_now",
    ),
    Heuristic(
        "fcfs_reserve", _fcfs_reserve,
        description="the job that has waited longest, in its earliest window",
        formula=f"{_TIE} * tie + waited",
    ),
    Heuristic(
        "area_first_reserve", _area_first_reserve,
        description="the job with the smallest length times larger demand, in its earliest window",
        formula=f"{_TIE} * tie - length * max(cpu, memory)",
    ),
    Heuristic(
        "no_short_visible", _holding(0.0, backfill=False),
        description="as sjf_now, but a long job waits while a short job is visible",
        formula="as sjf_now; a long job (length > horizon / 4) that waits has -infinity",
    ),
    Heuristic(
        "hold_5", _holding(5.0, backfill=False),
        description="as no_short_visible, and a long job also waits for 5 time steps without an "
            "arrival or a full queue",
        formula="as no_short_visible; a long job also needs quiet >= 5 or a full queue",
    ),
    Heuristic(
        "hold_8", _holding(8.0, backfill=False),
        description="as no_short_visible, and a long job also waits for 8 time steps without an "
            "arrival or a full queue",
        formula="as no_short_visible; a long job also needs quiet >= 8 or a full queue",
    ),
    Heuristic(
        "backfill", _holding(0.0, backfill=True),
        description="as no_short_visible, but a long job may start if it moves no short job's "
            "earliest window",
        formula="as no_short_visible; a long job waits only if it would move the window (offset, "
            "length) of a short one",
    ),
    Heuristic(
        "hold_5_backfill", _holding(5.0, backfill=True),
        description="as backfill, and a long job also waits for 5 time steps without an arrival "
            "or a full queue",
        formula="as backfill; a long job also needs quiet >= 5 or a full queue",
    ),
    Heuristic(
        "hold_8_backfill", _holding(8.0, backfill=True),
        description="as backfill, and a long job also waits for 8 time steps without an arrival "
            "or a full queue",
        formula="as backfill; a long job also needs quiet >= 8 or a full queue",
    ),
    Heuristic(
        "random_reference", _random_reference,
        description="the papers' random rule: uniform over all rows, where an infeasible one "
            "means moving on",
        formula="0; moving on: log(number of infeasible rows + 1), for temperature 1",
        exploration=(0.0, 1.0),
    ),
)  # fmt: skip
HEURISTICS: Final[Mapping[str, Heuristic]] = {rule.name: rule for rule in _RULES}
