"""Compiled counterfactual rollouts: one rollout from every candidate of a decision.

    played      s0 --c0-- s1 --c1-- s2 --c2-- s3 ...            `play`, choices kept
    branched              |-- a -- . -- . -- . | Q(s1, a)       `branch`: a copy of s1, the
                          |-- b -- . -- . -- . | Q(s1, b)       candidate, then `play`

A copy of the two arrays of an episode is a copy of the episode
(hindcast.pipeline.simulation.kernel). All candidates of a decision therefore meet the same future,
and their returns differ only because of the candidate. A rule or a network decides, in the episode
and in the rollouts (hindcast.policies.networks.player).

Candidates of a decision that are equal in the columns that the network reads count as one
candidate; only the first of them is tried.
"""

from typing import NamedTuple

import numpy as np

from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EpisodeArrays, StepArrays
from hindcast.pipeline.simulation.draws import Draws, uniform
from hindcast.pipeline.simulation.functions import ObserveCell, ScoreCell, StepCell
from hindcast.pipeline.simulation.kernel import Floats, Ints, Mask, Rows
from hindcast.pipeline.simulation.policy import best_feasible
from hindcast.policies.networks.player import DECISIONS, KeptArrays, play
from hindcast.policies.networks.row_table import Columns
from hindcast.policies.networks.rules import RuleList, rule_buffers, widen
from hindcast.policies.networks.scoring import DeciderArrays, score_candidates
from hindcast.policies.rollouts.gather import (
    C_CANDIDATES,
    C_DECISIONS,
    C_PLAYED,
    C_ROWS,
    InputArrays,
)


class Branching(NamedTuple):
    """The decisions at which every candidate is tried, and what follows each candidate."""

    decisions: Ints  # ascending
    horizon_s: float  # greedy choices follow for this time, or to the end
    certain: float  # probability of the greedy choice above which a decision is left out
    of_certain: float  # share of the certain decisions that are not left out
    value: Floats  # (U,) written, see `branch`
    kept: KeptArrays  # scratch


@k.compiled()
def _find(rows: Rows, first: int, stop: int, candidates: Rows, i: int, columns: Columns) -> int:
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


@k.compiled()
def _chance(scores: Floats, feasible: Mask, n: int, chosen: int) -> float:
    """Return the probability of a candidate by the softmax over the feasible candidates."""
    total = 0.0
    for i in range(n):
        if feasible[i]:
            total += np.exp(scores[i] - scores[chosen])
    return 1.0 / total


@k.compiled()
def try_candidate(
    observe: ObserveCell,
    step: StepCell,
    rule: ScoreCell,
    decider: DeciderArrays,
    rules: RuleList,
    episode: EpisodeArrays,
    copy: EpisodeArrays,
    arrays: StepArrays,
    draws: Draws,
    candidate: int,
    until: float,
    kept: KeptArrays,
) -> float:
    """Return the sum of rewards of a candidate and its rollout; NaN for a forbidden choice.

    It is tried in `copy`. The rollout ends at the time `until`, and as soon as `kept` is full; the
    cursor then has the number of its decisions.
    """
    cursor = kept.cursor
    copy.ints[:] = episode.ints
    copy.floats[:] = episode.floats
    copy.ints[k.FRESH] = 0  # the rollouts' buffers show another episode
    cursor[:] = 0
    status = step[0](copy.ints, copy.floats, candidate, arrays.step_outputs)
    if status == k.INFEASIBLE:
        return np.nan
    value = arrays.step_outputs[k.REWARD]
    if status == k.RUNNING:
        arrays.totals[:] = 0.0
        status = play(
            observe, step, rule, decider, rules, copy, arrays, draws, 0.0, 0.0, until, kept
        )
        if status < 0:
            return np.nan
        value += arrays.totals[k.REWARD]
    return value  # type: ignore[no-any-return]


@k.compiled()
def branch(
    observe: ObserveCell,
    step: StepCell,
    rule: ScoreCell,
    decider: DeciderArrays,
    rules: RuleList,
    episode: EpisodeArrays,
    copy: EpisodeArrays,
    arrays: StepArrays,
    draws: Draws,
    choices: Ints,
    branching: Branching,
    inputs: InputArrays,
) -> bool:
    """Play `choices` (T,) again; at `branching.decisions`, try every feasible candidate.

    branching.value[u] is the sum of rewards after unique row u: of the candidate, then of greedy
    choices, played in `copy`. A decision whose candidates are all equal is left out. So is one
    whose greedy choice has a probability above `certain` by the softmax over the network's scores,
    except for the share `of_certain`, drawn from `draws`. Scores of a rule are no
    log-probabilities: where a rule decides, no decision is left out for its probability. `inputs`
    is filled as `hindcast.policies.rollouts.trajectories.NetworkInputs`, with the greedy choice as
    `chosen`. Returns False for a forbidden choice.
    """
    look, act = observe[0], step[0]
    columns, scores = decider.network.candidates.columns, arrays.scores
    ints, floats, context, image, candidates, feasible = episode
    rows, row_of, contexts, images, index, starts, chosen, decision, cursor = inputs
    buffers = rule_buffers(rules, candidates)
    has_rule_columns = len(rules) > 0
    seen = buffers.widened if has_rule_columns else candidates
    value = branching.value
    tried = np.empty(len(feasible), np.int64)  # the candidate that is tried for a unique row
    t = m = u = following = 0  # decisions, candidates and unique rows so far, as in NetworkInputs
    for at in range(branching.decisions[-1] + 1 if len(branching.decisions) > 0 else 0):
        n = look(ints, floats, context, image, candidates, feasible)
        if at == branching.decisions[following]:
            following += 1
            if has_rule_columns:
                widen(rules, context, candidates[:n], feasible[:n], scores[:n], buffers)
            score_candidates(rule, decider, rules, n, episode, buffers, scores)
            best = best_feasible(scores[:n], feasible[:n])
            stop, last = u, m  # rows and candidates with those of this decision
            passed_over = False
            if branching.certain < 1.0 and not decider.guided:
                likely = _chance(scores, feasible, n, best)
                passed_over = likely > branching.certain and uniform(draws) >= branching.of_certain
            for i in range(n):
                if passed_over or not feasible[i]:
                    continue
                row = _find(rows, u, stop, seen, i, columns)
                if row == stop:
                    tried[stop - u] = i
                    rows[stop] = seen[i]
                    row_of[stop] = t
                    stop += 1
                if i == best:
                    chosen[t] = last
                index[last] = row
                last += 1
            if stop - u > 1:
                until = floats[k.TIME] + branching.horizon_s
                for row in range(u, stop):
                    value[row] = try_candidate(
                        observe,
                        step,
                        rule,
                        decider,
                        rules,
                        episode,
                        copy,
                        arrays,
                        draws,
                        tried[row - u],
                        until,
                        branching.kept,
                    )
                    if np.isnan(value[row]):
                        return False
                    cursor[C_PLAYED] += 1 + branching.kept.cursor[DECISIONS]
                contexts[t] = context[: contexts.shape[1]]
                images[t] = image[: images.shape[1]]
                starts[t], decision[t] = m, at
                t, m, u = t + 1, last, stop
        if act(ints, floats, choices[at], arrays.step_outputs) == k.INFEASIBLE:
            return False
    starts[t] = m
    cursor[C_DECISIONS], cursor[C_CANDIDATES], cursor[C_ROWS] = t, m, u
    return True
