"""Compiled continuation of an episode from any moment to a time or to its end.

A copy of the two arrays of an episode is a copy of the episode
(hindcast.pipeline.simulation.kernel), so continuing a copy is lookahead. A rule or a network
decides. No Python runs between two decisions, and the GIL is released.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import EPISODE, STEPS
from hindcast.pipeline.simulation.functions import OBSERVE_CELL, SCORE_CELL, STEP_CELL, cell
from hindcast.pipeline.simulation.policy import (
    GENERATOR,
    NO_PARAMETERS,
    Heuristic,
    draw_choice,
    no_score,
)
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.row_table import looks_alone, make_table
from hindcast.policies.networks.rules import RULES, rule_buffers
from hindcast.policies.networks.scoring import score_candidates
from hindcast.policies.networks.settings import NetworkSettings, make_network
from hindcast.policies.rollouts.compiled import DECIDER, DeciderArrays


@k.compiled(
    types.void(
        SCORE_CELL, DECIDER, RULES, types.int64, EPISODE, k.ROWS, k.INTS, k.FLOATS, k.FLOATS
    ))  # fmt: skip
def score_decision(
    rule: Any, decider: Any, rules: Any, n: Any, episode: Any, wide: Any, able: Any, values: Any,
    scores: Any,
) -> None:  # fmt: skip
    """Fill scores[:n] for the last observation of an episode, which has n candidates.

    A network reads the columns of `rules`. `wide`, `able` and `values` are the buffers for them,
    see `hindcast.policies.networks.rules.rule_buffers`.
    """
    decider, episode = uncounted(decider), uncounted(episode)
    if decider.guided:
        rule[0](
            episode.context, episode.candidates, episode.feasible, decider.parameters, scores[:n]
        )
    else:
        score_candidates(
            n, episode, decider.network, rules, decider.alone, decider.table,
            wide, able, values, scores,
        )  # fmt: skip


@k.compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, SCORE_CELL, DECIDER, RULES, EPISODE, STEPS,
        GENERATOR, types.float64, types.float64, k.INTS, types.int64,
    ))  # fmt: skip
def play_on(
    observe: Any, step: Any, rule: Any, decider: Any, rules: Any, episode: Any, arrays: Any,
    rng: Any, epsilon: Any, until: Any, choices: Any, first: Any,
) -> Any:  # fmt: skip
    """Play until the episode is over, its time reaches `until`, or `choices` are full.

    A choice is the best candidate, or a uniform one with probability `epsilon`. Choices are written
    to `choices` from place `first` on, unless that array is empty. Step outputs are added to
    totals. Returns 4 * decisions + status, with status RUNNING if the episode is not over; or
    INFEASIBLE for a forbidden choice.
    """
    observe, step = observe[0], step[0]
    episode, decider = uncounted(episode), uncounted(decider)
    ints, floats, context, image, candidates, feasible = episode
    scores, probabilities, step_outputs, totals = uncounted(arrays)
    at, status, kept = first, k.RUNNING, len(choices)
    wide, able, values = rule_buffers(rules, candidates)
    while status == k.RUNNING and floats[k.TIME] < until and (kept == 0 or at < kept):
        n = observe(ints, floats, context, image, candidates, feasible)
        score_decision(rule, decider, rules, n, episode, wide, able, values, scores)
        choice = draw_choice(scores[:n], feasible[:n], 0.0, epsilon, rng, probabilities)
        if choice < 0:
            return k.INFEASIBLE
        status = step(ints, floats, choice, step_outputs)
        if status == k.INFEASIBLE:
            return k.INFEASIBLE
        if kept > 0:
            choices[at] = choice
        for term in range(len(step_outputs)):
            totals[term] += step_outputs[term]
        at += 1
    return 4 * at + status


def require_scorer(policy: LearnedPolicy) -> None:
    """Raise InputError for a network that is no candidate scorer: compiled loops cannot play it."""
    if type(policy) is not LearnedPolicy:
        kind = policy.network.settings.kind
        raise InputError(f"{policy.name}: rollouts need a candidate scorer, not kind {kind!r}")


def decider_of_rule(rule: Heuristic, spec: Spec) -> "Decider":
    """Return the decider of a rule. It has a network, which scores nothing."""
    settings = NetworkSettings(quadratic=False, logs=False)
    network = make_network(spec.context, spec.candidates, settings)
    weights = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    unasked = LearnedPolicy(rule.name, network, weights, spec.context, spec.candidates)
    return Decider(unasked, rule)


@dataclass(frozen=True)
class Decider:
    """A network that plays and continues episodes, or a compiled rule in its place."""

    policy: LearnedPolicy
    rule: Heuristic | None = None

    def arrays(self, spec: Spec, rng: np.random.Generator) -> tuple[Any, DeciderArrays, Any]:
        """Return the arguments `rule`, `decider` and `rules` of `play_on`, for one episode."""
        alone, rule = looks_alone(self.policy.network), self.rule
        used = alone and rule is None  # a rule does not use the table
        network = self.policy.network
        table = make_table(network, used=used)
        parameters = NO_PARAMETERS if rule is None else rule.parameters(spec, rng)
        decider = DeciderArrays(rule is not None, parameters, alone, self.policy.arrays, table)
        return cell(no_score if rule is None else rule.score), decider, network.rules.scores
