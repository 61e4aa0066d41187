"""Compiled counterfactual rollouts: what every candidate of a decision would have led to.

    played      s0 --c0-- s1 --c1-- s2 --c2-- s3 ...            `play_on`, choices kept
    asked                 |-- a -- . -- . -- . | Q(s1, a)       `branch`: a copy of s1, the
                          |-- b -- . -- . -- . | Q(s1, b)       candidate, then `play_on`

A copy of the two arrays of an episode is a copy of the episode (pipeline.simulation.kernel): all
candidates of a decision meet the same future, so that what differs is their doing. What decides, in
the episode and in the rollouts, is a rule or a network; no Python runs between two decisions, and
the GIL is free.

Candidates of one decision that are equal in what the network reads are one candidate to it: the
first of them speaks for all.
"""

from typing import Any, Final

import numpy as np
from numba import types

from pipeline.simulation.kernel import (
    FLOATS,
    FRESH,
    INFEASIBLE,
    INTS,
    MASK,
    OBSERVE,
    REWARD,
    ROWS,
    RUNNING,
    STEP,
    TIME,
    compiled,
)
from pipeline.simulation.policy import GENERATOR, best_feasible
from policies.networks.features import COLUMNS
from policies.rollouts.play_on import BUFFERS, DECIDER, RULE, play_on, score_decision

# what `branch` has written: decisions, candidates, unique rows; and decisions of its rollouts
C_DECISIONS: Final = 0
C_CANDIDATES: Final = 1
C_ROWS: Final = 2
C_PLAYED: Final = 3

_IMAGES: Final = types.Array(types.uint8, 2, "C")


@compiled(types.int64(ROWS, types.int64, types.int64, ROWS, types.int64, COLUMNS))
def _find(rows: Any, first: Any, stop: Any, candidates: Any, i: Any, columns: Any) -> Any:
    """The first of rows[first:stop] that equals the candidate in these columns; `stop` if none."""
    for row in range(first, stop):
        same = True
        for j in range(len(columns)):
            if rows[row, columns[j]] != candidates[i, columns[j]]:
                same = False
                break
        if same:
            return row
    return stop


@compiled(types.float64(FLOATS, MASK, types.int64, types.int64))
def _chance(scores: Any, feasible: Any, n: Any, chosen: Any) -> Any:
    """Probability of a candidate by the softmax over those that are feasible."""
    total = 0.0
    for i in range(n):
        if feasible[i]:
            total += np.exp(scores[i] - scores[chosen])
    return 1.0 / total


@compiled(
    types.float64(
        types.FunctionType(OBSERVE), types.FunctionType(STEP), RULE, DECIDER, INTS, FLOATS,
        INTS, FLOATS, BUFFERS, FLOATS, FLOATS, GENERATOR, FLOATS, FLOATS,
        types.int64, types.float64, INTS,
    ))  # fmt: skip
def _try(
    observe: Any, step: Any, rule: Any, decider: Any, ints: Any, floats: Any,
    own_ints: Any, own_floats: Any, own_buffers: Any,
    scores: Any, probabilities: Any, rng: Any, booked: Any, totals: Any,
    candidate: Any, until: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Sum of the rewards of a candidate and of what follows it; NaN where a choice is forbidden."""
    own_ints[:] = ints
    own_floats[:] = floats
    own_ints[FRESH] = 0  # the rollouts' buffers show another episode
    status = step(own_ints, own_floats, candidate, booked)
    if status == INFEASIBLE:
        return np.nan
    value = booked[REWARD]
    cursor[C_PLAYED] += 1
    if status == RUNNING:
        totals[:] = 0.0
        code = play_on(
            observe, step, rule, decider, own_ints, own_floats, own_buffers,
            scores, probabilities, rng, booked, totals, 0.0, until, np.empty(0, np.int64), 0,
        )  # fmt: skip
        if code == INFEASIBLE:
            return np.nan
        value += totals[REWARD]
        cursor[C_PLAYED] += code // 4
    return value


@compiled(
    types.boolean(
        types.FunctionType(OBSERVE), types.FunctionType(STEP), RULE, DECIDER, INTS, FLOATS, BUFFERS,
        INTS, FLOATS, BUFFERS, FLOATS, FLOATS, GENERATOR, FLOATS, FLOATS, INTS, INTS, types.float64,
        types.float64, types.float64, ROWS, INTS, ROWS, _IMAGES, INTS, INTS, INTS, INTS, FLOATS,
        INTS,
    ))  # fmt: skip
def branch(
    observe: Any, step: Any, rule: Any, decider: Any, ints: Any, floats: Any, buffers: Any,
    own_ints: Any, own_floats: Any, own_buffers: Any,
    scores: Any, probabilities: Any, rng: Any, booked: Any, totals: Any,
    choices: Any, asked: Any, horizon_s: Any, certain: Any, of_certain: Any,
    rows: Any, row_of: Any, contexts: Any, images: Any,
    index: Any, starts: Any, chosen: Any, which: Any, value: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Play the choices again; at the decisions `asked`, ascending, try every feasible candidate.

    value[u] is the sum of rewards after unique row u: of the candidate, and of greedy choices for
    `horizon_s` seconds or to the end. Left out are decisions whose candidates are all alike, and,
    but for a share `of_certain` drawn from `rng`, those in which a softmax over the scores gives
    the greedy choice more than `certain`; a rule's scores say nothing of the kind. Layout in
    `policies.rollouts.trajectories.Looked`, `chosen` being the greedy choice; False where a choice
    is forbidden. `own_` is the memory of the rollouts.
    """
    columns = decider[3][5]
    context, image, candidates, feasible = buffers
    speaks = np.empty(len(feasible), np.int64)  # candidate that is tried for a unique row
    t = m = u = next_asked = 0
    for at in range(asked[-1] + 1 if len(asked) > 0 else 0):
        n = observe(ints, floats, context, image, candidates, feasible)
        if at == asked[next_asked]:
            next_asked += 1
            score_decision(rule, decider, n, buffers, scores)
            best = best_feasible(scores[:n], feasible[:n])
            stop, last = u, m
            passed_over = False
            if certain < 1.0 and not decider[0]:
                likely = _chance(scores, feasible, n, best)
                passed_over = likely > certain and rng.random() >= of_certain
            for i in range(n):
                if passed_over or not feasible[i]:
                    continue
                row = _find(rows, u, stop, candidates, i, columns)
                if row == stop:
                    speaks[stop - u] = i
                    rows[stop] = candidates[i]
                    row_of[stop] = t
                    stop += 1
                if i == best:
                    chosen[t] = last
                index[last] = row
                last += 1
            if stop - u > 1:
                until = floats[TIME] + horizon_s
                for row in range(u, stop):
                    value[row] = _try(
                        observe, step, rule, decider, ints, floats, own_ints, own_floats,
                        own_buffers, scores, probabilities, rng, booked, totals,
                        speaks[row - u], until, cursor,
                    )  # fmt: skip
                    if np.isnan(value[row]):
                        return False
                contexts[t] = context[: contexts.shape[1]]
                images[t] = image[: images.shape[1]]
                starts[t], which[t] = m, at
                t, m, u = t + 1, last, stop
        if step(ints, floats, choices[at], booked) == INFEASIBLE:
            return False
    starts[t] = m
    cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS] = t, m, u
    return True
