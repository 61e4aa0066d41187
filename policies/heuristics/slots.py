"""Rules for `slots`, compiled; candidates are the slots of the queue, then the row that moves on.

A rule moves on when it
wants no job. `_now` rules place only what starts at once, `_reserve` rules take any window of the
horizon. Among equal jobs the one with the larger total demand goes first, then the lowest slot;
in compat the lowest slot.

    sjf                 shortest job first
    packer              largest dot product of demand and resources that are free now
    sjf_packer          .2 packer + .8 sjf, each as a fraction of the best visible job
    fcfs                longest in the system first
    area_first          least length x largest demand first
    no_short_visible    sjf_now; a long job only while no short job is visible
    hold_Q              the same; and a long job only after Q time steps without an arrival, or
                        with every slot of the queue taken
    backfill            no_short_visible, but a long job may start beside short ones that wait,
                        where it moves none of their earliest windows
    hold_Q_backfill     the same of hold_Q
    random_reference    the papers' random: uniform over all rows, where an infeasible one moves on

A job is long where it is longer than a quarter of the horizon (5 of 20, 15 of 60): between the
short and the long ones of both presets. hold_8 is the better one up to a rate of about .4, hold_5
above; no rule sees the rate. Sources: Mao et al., HotNets 2016; packer is Grandl et al.,
"Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014; that what starts early delays nothing
that goes first is conservative backfilling, Mu'alem & Feitelson, IEEE TPDS 12(6), 2001.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numba import types

from pipeline.scenarios.slots.features import ROW, STEP
from pipeline.simulation.kernel import FLOATS, MASK, ROWS, SCORE, Compiled, compiled
from pipeline.simulation.policy import Heuristic

WEIGHT: Final = 0.2  # of packer in sjf_packer
_NEVER: Final = -np.inf
_LAST: Final = -1e300  # moving on: better than what a rule never takes, worse than all it takes
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
    """Take back what does not start at once."""
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
    """Whether the earliest window of the job in slot i ends where the other one starts now.

    Windows elsewhere stay where they are: what is taken makes no room.
    """
    first = int(candidates[i, ROW.offset])
    taken = min(int(candidates[i, ROW.length]), int(candidates[starting, ROW.length]) - first)
    for row in range(first, first + taken):
        for resource in range(2):
            asked = candidates[i, ROW.cpu + resource] + candidates[starting, ROW.cpu + resource]
            if context[len(STEP) * row + STEP.free_cpu + resource] < asked:
                return True
    return False


@compiled(types.void(FLOATS, ROWS, MASK, FLOATS, types.float64, types.boolean))
def _hold_back(context, candidates, feasible, scores, quiet, backfill):  # type: ignore[no-untyped-def]
    """sjf_now, but a long job waits for the short ones, and for `quiet` time steps or a full queue.

    With `backfill` it waits for those short ones alone whose earliest windows it would move. The
    context has len(STEP) numbers for each of H time steps and M slots, and one more.
    """
    _sjf_now(context, candidates, feasible, context, scores)
    queue = len(scores) - 1
    longest_short = ((len(context) - 1) // len(STEP) - queue) / 4.0
    short, full = False, True
    for i in range(queue):
        short = short or 0.0 < candidates[i, ROW.length] <= longest_short
        full = full and candidates[i, ROW.length] > 0.0
    held = not (full or candidates[queue, ROW.quiet] >= quiet)
    for i in range(queue if short or held else 0):
        if candidates[i, ROW.length] <= longest_short or candidates[i, ROW.fits_now] == 0.0:
            continue
        waits = held or not backfill
        for other in range(0 if waits else queue):
            if feasible[other] and candidates[other, ROW.length] <= longest_short:
                waits = waits or _moved(context, candidates, other, i)
        if waits:
            scores[i] = _NEVER


def _holding(quiet: float, *, backfill: bool) -> Compiled:
    """Return the rule `_hold_back` with these settings."""

    @compiled(SCORE)
    def score(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
        _hold_back(context, candidates, feasible, scores, quiet, backfill)

    return score


@compiled(SCORE)
def _random_reference(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Log-probabilities up to a constant (to be used with temperature 1)."""
    moving_on = 0
    for i in range(len(scores)):
        scores[i] = 0.0
        moving_on += not feasible[i] or candidates[i, ROW.move_on] == 1.0
    scores[-1] = np.log(moving_on)


HEURISTICS: Final[Mapping[str, Heuristic]] = {
    "sjf_now": Heuristic("sjf_now", _sjf_now),
    "sjf_reserve": Heuristic("sjf_reserve", _sjf_reserve),
    "packer_now": Heuristic("packer_now", _packer_now),
    "packer_reserve": Heuristic("packer_reserve", _packer_reserve),
    "sjf_packer_now": Heuristic("sjf_packer_now", _sjf_packer_now),
    "sjf_packer_reserve": Heuristic("sjf_packer_reserve", _sjf_packer_reserve),
    "fcfs_now": Heuristic("fcfs_now", _fcfs_now),
    "fcfs_reserve": Heuristic("fcfs_reserve", _fcfs_reserve),
    "area_first_reserve": Heuristic("area_first_reserve", _area_first_reserve),
    "no_short_visible": Heuristic("no_short_visible", _holding(0.0, backfill=False)),
    "hold_5": Heuristic("hold_5", _holding(5.0, backfill=False)),
    "hold_8": Heuristic("hold_8", _holding(8.0, backfill=False)),
    "backfill": Heuristic("backfill", _holding(0.0, backfill=True)),
    "hold_5_backfill": Heuristic("hold_5_backfill", _holding(5.0, backfill=True)),
    "hold_8_backfill": Heuristic("hold_8_backfill", _holding(8.0, backfill=True)),
    "random_reference": Heuristic("random_reference", _random_reference),
}
