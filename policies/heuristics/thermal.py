"""Compiled rules for `thermal`; the candidates are the six servers.

Several rules break ties in favour of the farthest server, which gives off the least heat:
`max_usage` is far worse if ties go to the first row.
"""

from collections.abc import Mapping
from typing import Final

from hindcast.pipeline.scenarios.thermal.features import MOMENT, ROW
from hindcast.pipeline.simulation.kernel import SCORE, compiled
from hindcast.pipeline.simulation.policy import Heuristic

TIE: Final = 1e-3  # per grid step: below any difference in usage, 1 / 40
BUSY: Final = 10.0  # larger than any distance
DELAY_IN_GRID_STEPS: Final = 0.7  # price of a step of delay in busy_first_far
DELAY_IN_OBJECTIVE: Final = 0.02  # the same in window_greedy
AHEAD_IN_OBJECTIVE: Final = 0.3  # price of a step of full use ahead in window_short
DELAY_BESIDE_AHEAD: Final = 0.2  # price of a step of delay in window_short


@compiled(SCORE)
def _max_usage(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.usage] + TIE * candidates[i, ROW.distance]


@compiled(SCORE)
def _max_distance(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.distance]


@compiled(SCORE)
def _min_heat(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.heat] + 1e-9 * candidates[i, ROW.distance]


@compiled(SCORE)
def _earliest_start(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.delay] + TIE * candidates[i, ROW.distance]


@compiled(SCORE)
def _spread(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.usage]


@compiled(SCORE)
def _greedy(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = (
            -context[MOMENT.alpha] * candidates[i, ROW.now_inefficiency]
            - context[MOMENT.beta] * candidates[i, ROW.now_heat]
        )


@compiled(SCORE)
def _busy_first_far(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.distance] - DELAY_IN_GRID_STEPS * candidates[i, ROW.delay]
        if candidates[i, ROW.usage] > 0.0:
            scores[i] += BUSY


@compiled(SCORE)
def _window_greedy(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    for i in range(len(scores)):
        scores[i] = (
            -context[MOMENT.alpha] * candidates[i, ROW.window_inefficiency]
            - context[MOMENT.beta] * candidates[i, ROW.window_heat]
            - DELAY_IN_OBJECTIVE * candidates[i, ROW.delay]
        )


@compiled(SCORE)
def _window_short(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Neither in the report nor in the spec's prototype; beats window_greedy at k = 1 and 10."""
    for i in range(len(scores)):
        scores[i] = (
            -context[MOMENT.alpha] * candidates[i, ROW.window_inefficiency]
            - context[MOMENT.beta] * candidates[i, ROW.window_heat]
            - AHEAD_IN_OBJECTIVE * candidates[i, ROW.ahead]
            - DELAY_BESIDE_AHEAD * candidates[i, ROW.delay]
        )


_RULES: Final = (
    Heuristic(
        "max_usage", _max_usage,
        description="the server with the highest usage; of equally used servers the farthest",
        formula=f"usage + {TIE} * distance",
    ),
    Heuristic(
        "max_distance", _max_distance,
        description="the server farthest from the centre",
        formula="distance",
    ),
    Heuristic(
        "min_heat", _min_heat,
        description="the server that gives off the least heat now; of equals the farthest",
        formula="-heat + 1e-9 * distance",
    ),
    Heuristic(
        "earliest_start", _earliest_start,
        description="the server on which the job can start first; of equals the farthest",
        formula=f"-delay + {TIE} * distance",
    ),
    Heuristic(
        "spread", _spread,
        description="the server with the lowest usage",
        formula="-usage",
    ),
    Heuristic(
        "greedy", _greedy,
        description="the server with the highest reward of this step, whenever the job starts "
            "there",
        formula="-alpha * now_inefficiency - beta * now_heat",
    ),
    Heuristic(
        "busy_first_far", _busy_first_far,
        description="servers in use before idle ones, then the farthest, at a price per step of "
            "delay",
        formula=f"distance - {DELAY_IN_GRID_STEPS} * delay, + {BUSY:g} if usage > 0",
    ),
    Heuristic(
        "window_greedy", _window_greedy,
        description="the server on which inefficiency and heat rise least while the job runs, at "
            "a price per step of delay",
        formula=f"-alpha * window_inefficiency - beta * window_heat - {DELAY_IN_OBJECTIVE} * "
            "delay",
    ),
    Heuristic(
        "window_short", _window_short,
        description="as window_greedy, with a higher price of delay and a price of the work "
            "already given to the server",
        formula=f"-alpha * window_inefficiency - beta * window_heat - {AHEAD_IN_OBJECTIVE} * "
            f"ahead - {DELAY_BESIDE_AHEAD} * delay",
    ),
)  # fmt: skip
HEURISTICS: Final[Mapping[str, Heuristic]] = {rule.name: rule for rule in _RULES}
