"""Rules for `thermal`, compiled; candidates are the six servers.

Where nothing else is said, ties go to the farthest
server, which gives off the least heat: with ties to the first row max_usage is far worse.
"""

from collections.abc import Mapping
from typing import Final

from pipeline.scenarios.thermal.features import MOMENT, ROW
from pipeline.simulation.kernel import SCORE, compiled
from pipeline.simulation.policy import Heuristic

TIE: Final = 1e-3  # per grid step: below any difference in usage, 1 / 40
BUSY: Final = 10.0  # above any distance
DELAY_IN_GRID_STEPS: Final = 0.7  # price of a step of delay, for busy_first_far
DELAY_IN_OBJECTIVE: Final = 0.02  # the same for window_greedy
AHEAD_IN_OBJECTIVE: Final = 0.3  # price of a step of full use ahead, for window_short
DELAY_BESIDE_AHEAD: Final = 0.2  # price of a step of delay there


@compiled(SCORE)
def _max_usage(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The busiest server: consolidation."""
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.usage] + TIE * candidates[i, ROW.distance]


@compiled(SCORE)
def _max_distance(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The farthest server."""
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.distance]


@compiled(SCORE)
def _min_heat(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The server that gives off the least heat now."""
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.heat] + 1e-9 * candidates[i, ROW.distance]


@compiled(SCORE)
def _earliest_start(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The server that can start the job first."""
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.delay] + TIE * candidates[i, ROW.distance]


@compiled(SCORE)
def _spread(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The least used server, the first of equals."""
    for i in range(len(scores)):
        scores[i] = -candidates[i, ROW.usage]


@compiled(SCORE)
def _greedy(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The highest reward of this step, the first of equals; a later start changes nothing in it."""
    for i in range(len(scores)):
        scores[i] = (
            -context[MOMENT.alpha] * candidates[i, ROW.now_inefficiency]
            - context[MOMENT.beta] * candidates[i, ROW.now_heat]
        )


@compiled(SCORE)
def _busy_first_far(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Servers that are on before those that are off, then the farthest, at a price on delay."""
    for i in range(len(scores)):
        scores[i] = candidates[i, ROW.distance] - DELAY_IN_GRID_STEPS * candidates[i, ROW.delay]
        if candidates[i, ROW.usage] > 0.0:
            scores[i] += BUSY


@compiled(SCORE)
def _window_greedy(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """The least rise of inefficiency and heat while the job runs, at a price on delay."""
    for i in range(len(scores)):
        scores[i] = (
            -context[MOMENT.alpha] * candidates[i, ROW.window_inefficiency]
            - context[MOMENT.beta] * candidates[i, ROW.window_heat]
            - DELAY_IN_OBJECTIVE * candidates[i, ROW.delay]
        )


@compiled(SCORE)
def _window_short(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """As window_greedy, at a higher price on delay, and rather where little work lies ahead.

    Not in the report nor in the spec's prototype; better than window_greedy at k = 1 and k = 10.
    """
    for i in range(len(scores)):
        scores[i] = (
            -context[MOMENT.alpha] * candidates[i, ROW.window_inefficiency]
            - context[MOMENT.beta] * candidates[i, ROW.window_heat]
            - AHEAD_IN_OBJECTIVE * candidates[i, ROW.ahead]
            - DELAY_BESIDE_AHEAD * candidates[i, ROW.delay]
        )


HEURISTICS: Final[Mapping[str, Heuristic]] = {
    "max_usage": Heuristic("max_usage", _max_usage),
    "max_distance": Heuristic("max_distance", _max_distance),
    "min_heat": Heuristic("min_heat", _min_heat),
    "earliest_start": Heuristic("earliest_start", _earliest_start),
    "spread": Heuristic("spread", _spread),
    "greedy": Heuristic("greedy", _greedy),
    "busy_first_far": Heuristic("busy_first_far", _busy_first_far),
    "window_greedy": Heuristic("window_greedy", _window_greedy),
    "window_short": Heuristic("window_short", _window_short),
}
