"""Compiled playing on from any moment of an episode, until a time or its end.

A copy of the two arrays of an episode is a copy of the episode (pipeline.simulation.kernel): what
plays on in a copy looks ahead. What decides is a rule or a network; no Python runs between two
decisions, and the GIL is free.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import types

from pipeline.simulation.kernel import (
    FLOATS,
    IMAGE,
    INFEASIBLE,
    INTS,
    MASK,
    OBSERVE,
    ROWS,
    RUNNING,
    SCORE,
    STEP,
    TIME,
    compiled,
)
from pipeline.simulation.policy import GENERATOR, NO_PARAMETERS, Heuristic, draw_choice, no_score
from pipeline.simulation.spec import Spec
from policies.networks.forward import score_sets
from policies.networks.policy import LearnedPolicy
from policies.rollouts import compiled as play
from policies.rollouts.compiled import KEYS, NETWORK, SCRATCH, score_alone
from policies.rollouts.trajectories import looks_alone

RULE: Final = types.FunctionType(SCORE)
# whether the rule decides, its parameters; whether a score is of its row alone, the network, its
# table and scratch of `policies.rollouts.compiled`
_tuple: Final[Any] = types.Tuple
DECIDER: Final = _tuple((
    types.boolean, FLOATS, types.boolean, _tuple(NETWORK), _tuple((KEYS, INTS, FLOATS, *SCRATCH)),
))  # fmt: skip
BUFFERS: Final = _tuple((FLOATS, IMAGE, ROWS, MASK))


@compiled(types.void(RULE, DECIDER, types.int64, BUFFERS, FLOATS))
def score_decision(rule: Any, decider: Any, n: Any, buffers: Any, scores: Any) -> None:
    """Fill scores[:n] of the observation in the buffers."""
    guided, parameters, alone, network, table = decider
    context, image, candidates, feasible = buffers
    shown, allowed = scores[:n], feasible[:n]
    if guided:
        rule(context, candidates, feasible, parameters, shown)
    elif alone:
        score_alone(
            candidates, candidates.view(np.uint64), allowed, *network[5:12], network[17], *table,
            shown,
        )  # fmt: skip
    else:
        span = np.array([0, n])
        moment, picture = context.reshape((1, len(context))), image.reshape((1, len(image)))
        score_sets(  # type: ignore[call-arg]
            moment, candidates[:n], allowed, picture, span, *network, shown
        )


@compiled(
    types.int64(
        types.FunctionType(OBSERVE), types.FunctionType(STEP), RULE, DECIDER, INTS, FLOATS, BUFFERS,
        FLOATS, FLOATS, GENERATOR, FLOATS, FLOATS, types.float64, types.float64, INTS, types.int64,
    ))  # fmt: skip
def play_on(
    observe: Any, step: Any, rule: Any, decider: Any, ints: Any, floats: Any, buffers: Any,
    scores: Any, probabilities: Any, rng: Any, booked: Any, totals: Any,
    epsilon: Any, until: Any, choices: Any, first: Any,
) -> Any:  # fmt: skip
    """Play until the episode is over, or its time is `until`, or `choices` are full.

    The best choices, with probability `epsilon` uniform ones, are written to `choices` from place
    `first` on; an empty array keeps none. totals += booked. Returns 4 * decisions + status, RUNNING
    where the episode goes on, or INFEASIBLE where a choice is forbidden.
    """
    at, status, kept = first, RUNNING, len(choices)
    while status == RUNNING and floats[TIME] < until and (kept == 0 or at < kept):
        n = observe(ints, floats, *buffers)
        score_decision(rule, decider, n, buffers, scores)
        choice = draw_choice(scores[:n], buffers[3][:n], 0.0, epsilon, rng, probabilities)
        if choice < 0:
            return INFEASIBLE
        status = step(ints, floats, choice, booked)
        if status == INFEASIBLE:
            return INFEASIBLE
        if kept > 0:
            choices[at] = choice
        for k in range(len(booked)):
            totals[k] += booked[k]
        at += 1
    return 4 * at + status


@dataclass(frozen=True)
class Decider:
    """What plays and plays on: a network, or in its place a compiled rule."""

    policy: LearnedPolicy
    rule: Heuristic | None = None

    def arrays(self, spec: Spec, rng: np.random.Generator) -> tuple[Any, ...]:
        """Rule and decider of `play_on`, for one episode."""
        alone, network = looks_alone(self.policy.network), self.policy.arrays
        places = play.TABLE if alone and self.rule is None else 1  # a rule looks nothing up
        table = (
            np.empty((places, len(spec.candidates)), np.uint64), np.full(places, -1, np.int64),
            np.empty(places), *play.make_scratch(network[5], network[8], network[10]),
        )  # fmt: skip
        if self.rule is None:
            return no_score, (False, NO_PARAMETERS, alone, network, table)
        return self.rule.score, (True, self.rule.parameters(spec, rng), alone, network, table)
