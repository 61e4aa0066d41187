"""Compiled rules for `deferrable`.

`fifo`, `sjf` and `tetris` are the published baselines: they order the startable jobs and start the
longest prefix that fits (hindcast.pipeline.scenarios.deferrable.slotwise_action). The other rules
are ours and skip jobs that do not fit. Every rule is a function of one decision's observation.

Source of tetris: Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014,
which with one resource is "the largest request first".
"""

from collections.abc import Mapping
from typing import Final

from numba import types

from hindcast.pipeline.scenarios.deferrable.features import MOMENT, ROW
from hindcast.pipeline.scenarios.deferrable.grid.features import MOMENT as GRID_MOMENT
from hindcast.pipeline.scenarios.deferrable.grid.features import ROW as HOUR
from hindcast.pipeline.scenarios.deferrable.slotwise_action import stop_at_misfit
from hindcast.pipeline.simulation.kernel import FLOATS, ROWS, SCORE, compiled
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.policies.heuristics.knapsack import choose_set, feasible_jobs
from hindcast.policies.heuristics.prices import RANDOM_PRICES

LATER_SLOT: Final = 0.3  # worth of a slot after the first in knapsack_patient; the first is worth 1
WAITING: Final = 0.5  # share of the pay in the next slot that is subtracted if a job can wait


@compiled(types.float64(FLOATS, ROWS, types.int64), forceinline=True)
def _gain(context, candidates, i):  # type: ignore[no-untyped-def]
    """Return the reward for starting the job of row i now: c d - w1 (t - e)."""
    pay = candidates[i, ROW.cores] * candidates[i, ROW.duration]
    return pay + context[MOMENT.delay_weight] * min(candidates[i, ROW.until_earliest], 0.0)


@compiled(SCORE)
def _fifo(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.since_submission]
    stop_at_misfit(candidates, feasible, scores)


@compiled(SCORE)
def _sjf(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.duration]
    stop_at_misfit(candidates, feasible, scores)


@compiled(SCORE)
def _tetris(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.cores]
    stop_at_misfit(candidates, feasible, scores)


@compiled(SCORE)
def _fifo_skip(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        startable = candidates[i, ROW.is_startable] == 1.0
        scores[i] = 1.0 - candidates[i, ROW.until_earliest] if startable else 0.0


@compiled(SCORE)
def _largest_skip(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        startable = candidates[i, ROW.is_startable] == 1.0
        scores[i] = _gain(context, candidates, i) if startable else 0.0


@compiled(SCORE)
def _knapsack(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    jobs = feasible_jobs(feasible, scores)
    for i in jobs:
        scores[i] = _gain(context, candidates, i)
    choose_set(max(0, int(context[MOMENT.free_cores])), candidates, jobs, scores)


@compiled(SCORE)
def _knapsack_patient(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Solve the knapsack with lower gains for long jobs and for jobs that can wait.

    A job pays the same per core-slot however long it runs. A later slot may be wanted by another
    job, so it counts LATER_SLOT. If a job could also start in the next slot, WAITING times its
    reward for starting then is subtracted.
    """
    jobs = feasible_jobs(feasible, scores)
    for i in jobs:
        cores, later = candidates[i, ROW.cores], candidates[i, ROW.duration] - 1.0
        gain = _gain(context, candidates, i) - (1.0 - LATER_SLOT) * cores * later
        if candidates[i, ROW.until_latest] > 0.0:
            gain -= WAITING * max(0.0, gain - context[MOMENT.delay_weight])
        scores[i] = gain
    choose_set(max(0, int(context[MOMENT.free_cores])), candidates, jobs, scores)


@compiled(types.float64(ROWS, types.int64), forceinline=True)
def _earlier(candidates, i):  # type: ignore[no-untyped-def]
    """Return a number above 0 for a job that can start, larger for an earlier start."""
    return candidates[i, ROW.is_startable] / (2.0 + max(candidates[i, ROW.until_earliest], -1.0))


@compiled(SCORE)
def _now(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = _earlier(candidates, i)


@compiled(SCORE)
def _latest(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.is_startable]
        scores[i] *= 1.0 if candidates[i, ROW.until_latest] <= 0.0 else -_earlier(candidates, i)


@compiled(SCORE)
def _lowest_window(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Prefer a start now if none is cheaper, or the cheapest one; the close row is 0."""
    grid = candidates.shape[1] > len(ROW)
    for i in range(len(scores)):
        scores[i] = _earlier(candidates, i)
        if grid and candidates[i, HOUR.cost_now] > candidates[i, HOUR.cost_least]:
            scores[i] = -candidates[i, ROW.is_startable] * candidates[i, HOUR.cost_rank]


@compiled(SCORE)
def _lowest_slot(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    grid = candidates.shape[1] > len(ROW)
    for i in range(len(scores)):
        scores[i] = _earlier(candidates, i)
        if grid and candidates[i, HOUR.hour_rank] > 0.0:
            scores[i] = -candidates[i, ROW.is_startable] * candidates[i, HOUR.hour_rank]


@compiled(SCORE)
def _carbon_time(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Score the saving per hour until completion; slot by slot, only a start now saves nothing."""
    if candidates.shape[1] == len(ROW) or candidates[len(scores) - 1, ROW.closes] == 1.0:
        _lowest_window(context, candidates, feasible, parameters, scores)
        return
    for i in range(len(scores)):
        run = candidates[i, HOUR.run_h]
        hours = candidates[i, HOUR.wait_h] - candidates[0, HOUR.wait_h] + run
        saved = (candidates[0, HOUR.cost_now] - candidates[i, HOUR.cost_now]) * run
        scores[i] = saved / max(hours, 1e-9)


@compiled(SCORE)
def _reserved_first(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Prefer a start on reserved cores, but none after that of carbon_time."""
    _carbon_time(context, candidates, feasible, parameters, scores)
    best = 0
    for i in range(len(scores)):
        if feasible[i] and (not feasible[best] or scores[i] > scores[best]):
            best = i
    starts_are_rows = candidates[len(scores) - 1, ROW.closes] == 0.0
    most, reserved = scores[best], candidates.shape[1] > HOUR.on_reserved
    for i in range(best if starts_are_rows else len(scores)):
        if reserved and candidates[i, HOUR.on_reserved] == 1.0:
            scores[i] = most + _earlier(candidates, i)


@compiled(SCORE)
def _lowest_window_priced(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    priced = candidates.shape[1] > HOUR.priced_least
    for i in range(len(scores)):
        scores[i] = _earlier(candidates, i)
        if priced and candidates[i, HOUR.priced_now] > candidates[i, HOUR.priced_least]:
            above = candidates[i, HOUR.priced_now] - candidates[i, HOUR.priced_least]
            scores[i] = -candidates[i, ROW.is_startable] * above


@compiled(SCORE)
def _pause_lowest(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Compare the number of cheaper slots before the due end with those of the work left."""
    grid = candidates.shape[1] > len(ROW)
    for i in range(len(scores)):
        scores[i] = _earlier(candidates, i)
        slots = candidates[i, ROW.duration]
        due = max(candidates[i, ROW.until_latest], 0.0) + slots
        if grid and candidates[i, HOUR.hour_rank] * due > slots - 0.5:
            scores[i] = -scores[i]


@compiled(SCORE)
def _ecovisor(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    ahead = len(context) > GRID_MOMENT.cost_low_next_24
    low = not ahead or context[GRID_MOMENT.cost] < context[GRID_MOMENT.cost_low_next_24]
    for i in range(len(scores)):
        scores[i] = _earlier(candidates, i) if low else -_earlier(candidates, i)


@compiled(SCORE)
def _threshold(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    grid = candidates.shape[1] > len(ROW)
    low = not grid or context[GRID_MOMENT.cost] <= context[GRID_MOMENT.cost_low_24]
    for i in range(len(scores)):
        scores[i] = _earlier(candidates, i) if low else -_earlier(candidates, i)


_GRID: Final = ("cost_now",)  # a column that candidates have on a grid
_PAUSABLE: Final = (*_GRID, "ran_last")
_RULES: Final = (
    Heuristic(
        "fifo", _fifo,
        description="the job submitted first; the slot ends when that job does not fit",
        formula="since_submission",
    ),
    Heuristic(
        "sjf", _sjf,
        description="the job with the shortest duration; the slot ends when that job does not fit",
        formula="-duration",
    ),
    Heuristic(
        "tetris", _tetris,
        description="the job with the most cores; the slot ends when that job does not fit",
        formula="cores",
    ),
    Heuristic(
        "fifo_skip", _fifo_skip,
        description="of the jobs that fit, the one with the earliest possible start",
        formula="1 - until_earliest if is_startable, else 0",
    ),
    Heuristic(
        "largest_skip", _largest_skip,
        description="of the jobs that fit, the one that pays most if it starts now",
        formula="cores * duration + delay_weight * min(until_earliest, 0) if is_startable, else 0",
    ),
    Heuristic(
        "knapsack", _knapsack,
        description="the set of jobs that together pays most now and fits (exact 0/1 knapsack)",
        formula="g = cores * duration + delay_weight * min(until_earliest, 0) in the set, else "
            "-1; ending the slot 0",
    ),
    Heuristic(
        "knapsack_patient", _knapsack_patient,
        description=f"as knapsack, but slots after the first count {LATER_SLOT}, and jobs that "
            "can wait count less",
        formula=f"as knapsack with h = g - {1.0 - LATER_SLOT} * cores * (duration - 1), less "
            f"{WAITING} * max(0, h - delay_weight) if until_latest > 0",
    ),
    Heuristic(
        "now", _now,
        description="every job at once, if it fits",
        formula="1 / (2 + until_earliest) if is_startable, else 0",
    ),
    Heuristic(
        "latest", _latest,
        description="every job in the last slot of its wait",
        formula="1 if until_latest <= 0, else below 0; ending the slot 0",
    ),
    Heuristic(
        "lowest_window", _lowest_window, needs=_GRID,
        description="on a grid: the start of least forecast over the run",
        formula="as now if cost_now <= cost_least, else -cost_rank; ending the slot 0",
    ),
    Heuristic(
        "lowest_slot", _lowest_slot, needs=_GRID,
        description="on a grid: the start in the hour of least forecast",
        formula="as now if hour_rank = 0, else -hour_rank; ending the slot 0",
    ),
    Heuristic(
        "carbon_time", _carbon_time, needs=_GRID,
        description="on a grid where a start is chosen: the most saved per hour until completion; "
            "elsewhere as lowest_window",
        formula="as lowest_window; where a start is chosen (cost_now of the first start - "
            "cost_now) * run_h / (hours from it + run_h)",
    ),
    Heuristic(
        "threshold_24", _threshold, needs=_GRID,
        description="on a grid: all jobs in hours at or below the .2-quantile of the last 24 h",
        formula="as now if cost <= cost_low_24, else less than 0; ending the slot 0",
    ),
    Heuristic(
        "lowest_window_priced", _lowest_window_priced, needs=(*_GRID, "priced_now"),
        description="on a grid: the start of least forecast over the run, with a price of promised "
            "cores",
        formula="as now if priced_now <= priced_least, else priced_least - priced_now; ending the "
            "slot 0",
    ),
    Heuristic(
        "reserved_first", _reserved_first, needs=(*_GRID, "on_reserved"),
        description="with reserved cores: the earliest start on them, as carbon_time without one",
        formula="max(carbon_time) + 1 / (2 + until_earliest) if on_reserved, but where a start is "
            "chosen not after that of carbon_time; else as carbon_time",
    ),
    Heuristic(
        "pause_lowest", _pause_lowest, needs=_PAUSABLE,
        description="pausable: the job runs if fewer slots before its end are forecast cheaper "
            "than it still needs",
        formula="as now if hour_rank * (until_latest + duration) < duration, else less than 0; "
            "ending the slot 0",
    ),
    Heuristic(
        "wait_awhile", _pause_lowest, needs=_PAUSABLE,
        description="as pause_lowest, by the name that it has where the forecast is perfect",
        formula="as pause_lowest",
    ),
    Heuristic(
        "pause_ecovisor", _ecovisor, needs=_PAUSABLE,
        description="pausable: all jobs in hours below the forecast .3-quantile of the next 24 h, "
            "which Ecovisor in GAIA knows (forecast = perfect)",
        formula="as now if cost < cost_low_next_24, else less than 0; ending the slot 0",
    ),
)  # fmt: skip
HEURISTICS: Final[Mapping[str, Heuristic]] = {r.name: r for r in (*_RULES, RANDOM_PRICES)}
