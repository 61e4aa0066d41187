"""Compiled counterfactual rollouts: one rollout from every candidate of a decision.

    played      s0 --c0-- s1 --c1-- s2 --c2-- s3 ...            `play_on`, choices kept
    branched              |-- a -- . -- . -- . | Q(s1, a)       `branch`: a copy of s1, the
                          |-- b -- . -- . -- . | Q(s1, b)       candidate, then `play_on`

A copy of the two arrays of an episode is a copy of the episode
(hindcast.pipeline.simulation.kernel). All candidates of a decision therefore meet the same future,
and their returns differ only because of the candidate. A rule or a network decides, in the episode
and in the rollouts. No Python runs between two decisions, and the GIL is released.

Candidates of a decision that are equal in the columns that the network reads count as one
candidate; only the first of them is tried.
"""

from typing import Any, Final

import numpy as np
from numba import types

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EPISODE, STEPS
from hindcast.pipeline.simulation.functions import OBSERVE_CELL, SCORE_CELL, STEP_CELL
from hindcast.pipeline.simulation.policy import GENERATOR, best_feasible
from hindcast.policies.networks.features import COLUMNS
from hindcast.policies.networks.rules import RULES, rule_buffers, widen
from hindcast.policies.rollouts.compiled import C_CANDIDATES, C_DECISIONS, C_ROWS, DECIDER, LOOKED
from hindcast.policies.rollouts.play_on import play_on, score_decision

C_PLAYED: Final = 3  # member of the cursor, beside those of `gather`: decisions of the rollouts


@k.compiled(types.int64(k.ROWS, types.int64, types.int64, k.ROWS, types.int64, COLUMNS))
def _find(rows: Any, first: Any, stop: Any, candidates: Any, i: Any, columns: Any) -> Any:
    """Return the first of rows[first:stop] equal to candidate i in these columns, else `stop`."""
    for row in range(first, stop):
        same = True
        for j in range(len(columns)):
            if rows[row, columns[j]] != candidates[i, columns[j]]:
                same = False
                break
        if same:
            return row
    return stop


@k.compiled(types.float64(k.FLOATS, k.MASK, types.int64, types.int64))
def _chance(scores: Any, feasible: Any, n: Any, chosen: Any) -> Any:
    """Return the probability of a candidate by the softmax over the feasible candidates."""
    total = 0.0
    for i in range(n):
        if feasible[i]:
            total += np.exp(scores[i] - scores[chosen])
    return 1.0 / total


@k.compiled(
    types.float64(
        OBSERVE_CELL, STEP_CELL, SCORE_CELL, DECIDER, RULES, EPISODE, EPISODE,
        STEPS, GENERATOR, types.int64, types.float64, k.INTS, k.INTS,
    ))  # fmt: skip
def try_candidate(
    observe: Any, step: Any, rule: Any, decider: Any, rules: Any, episode: Any, own: Any,
    arrays: Any, rng: Any, candidate: Any, until: Any, choices: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Return the sum of rewards of a candidate and its rollout; NaN for a forbidden choice.

    The rollout ends at the time `until`, and after as many decisions as `choices` (scratch) has
    places, unless it has none.
    """
    act = step[0]
    own.ints[:] = episode.ints
    own.floats[:] = episode.floats
    own.ints[k.FRESH] = 0  # the rollouts' buffers show another episode
    status = act(own.ints, own.floats, candidate, arrays.step_outputs)
    if status == k.INFEASIBLE:
        return np.nan
    value = arrays.step_outputs[k.REWARD]
    cursor[C_PLAYED] += 1
    if status == k.RUNNING:
        arrays.totals[:] = 0.0
        code = play_on(
            observe, step, rule, decider, rules, own, arrays, rng, 0.0, until, choices, 0
        )
        if code == k.INFEASIBLE:
            return np.nan
        value += arrays.totals[k.REWARD]
        cursor[C_PLAYED] += code // 4
    return value


@k.compiled(
    types.boolean(
        OBSERVE_CELL, STEP_CELL, SCORE_CELL, DECIDER, RULES, EPISODE, EPISODE,
        STEPS, GENERATOR, k.INTS, k.INTS, types.float64, types.float64, types.float64, LOOKED,
        k.FLOATS, k.INTS,
    ))  # fmt: skip
def branch(
    observe: Any, step: Any, rule: Any, decider: Any, rules: Any, episode: Any, own: Any,
    arrays: Any, rng: Any, choices: Any, asked: Any, horizon_s: Any, certain: Any, of_certain: Any,
    looked: Any, value: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Play the choices again; at the decisions `asked`, ascending, try every feasible candidate.

    value[u] is the sum of rewards after unique row u: of the candidate, then of greedy choices for
    `horizon_s` seconds or to the end. Two kinds of decisions are left out: those whose candidates
    are all equal, and those in which a softmax over the network's scores gives the greedy choice
    more than `certain`, except for a share `of_certain` drawn from `rng`. A rule's scores are no
    log-probabilities, so `certain` does not apply to a rule. The layout of `looked` is that of
    `hindcast.policies.rollouts.trajectories.NetworkInputs`, with the greedy choice as `chosen`. The
    rollouts are played in `own`. Returns False for a forbidden choice.
    """
    look, act = observe[0], step[0]
    columns, scores = decider.network.columns, arrays.scores
    ints, floats, context, image, candidates, feasible = episode
    rows, row_of, contexts, images, index, starts, chosen, which = looked
    wide, able, values = rule_buffers(rules, candidates)
    ruled = len(rules) > 0
    seen = wide if ruled else candidates
    speaks = np.empty(len(feasible), np.int64)  # the candidate that is tried for a unique row
    unlimited = np.empty(0, np.int64)
    t = m = u = next_asked = 0
    for at in range(asked[-1] + 1 if len(asked) > 0 else 0):
        n = look(ints, floats, context, image, candidates, feasible)
        if at == asked[next_asked]:
            next_asked += 1
            if ruled:
                widen(rules, context, candidates[:n], feasible[:n], scores[:n], wide, able, values)
            score_decision(rule, decider, rules, n, episode, wide, able, values, scores)
            best = best_feasible(scores[:n], feasible[:n])
            stop, last = u, m
            passed_over = False
            if certain < 1.0 and not decider.guided:
                likely = _chance(scores, feasible, n, best)
                passed_over = likely > certain and rng.random() >= of_certain
            for i in range(n):
                if passed_over or not feasible[i]:
                    continue
                row = _find(rows, u, stop, seen, i, columns)
                if row == stop:
                    speaks[stop - u] = i
                    rows[stop] = seen[i]
                    row_of[stop] = t
                    stop += 1
                if i == best:
                    chosen[t] = last
                index[last] = row
                last += 1
            if stop - u > 1:
                until = floats[k.TIME] + horizon_s
                for row in range(u, stop):
                    value[row] = try_candidate(
                        observe, step, rule, decider, rules, episode, own, arrays, rng,
                        speaks[row - u], until, unlimited, cursor,
                    )  # fmt: skip
                    if np.isnan(value[row]):
                        return False
                contexts[t] = context[: contexts.shape[1]]
                images[t] = image[: images.shape[1]]
                starts[t], which[t] = m, at
                t, m, u = t + 1, last, stop
        if act(ints, floats, choices[at], arrays.step_outputs) == k.INFEASIBLE:
            return False
    starts[t] = m
    cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS] = t, m, u
    return True
