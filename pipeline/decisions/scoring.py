"""Probabilities of a policy that scores the features of a dataset of decisions."""

from typing import Any, Final

import numpy as np

from hindcast.pipeline.decisions.encoding import encode
from hindcast.pipeline.decisions.log import Array, DecisionLog, Flags
from hindcast.pipeline.estimators.decisions import LoggedDecisions, best
from hindcast.pipeline.estimators.decisions.estimated import softmax
from hindcast.pipeline.estimators.decisions.logged import Ints, offsets_of
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.policy import BatchPolicy, readings
from hindcast.pipeline.simulation.spec import Spec

_CHUNK: Final = 1 << 14  # decisions that are scored at once


def scored(
    policy: Any, spec: Spec, log: DecisionLog, logged: LoggedDecisions, temperature: float = 0.0,
    *, missing: bool = False, used: Flags | None = None,
) -> Array:  # fmt: skip
    """Return the probabilities (C,) of a policy over the candidates of all decisions.

    Args:
        policy: A policy that scores observations.
        spec: Names of the features, in the order in which the policy reads them.
        log: The log.
        logged: The same log as arrays.
        temperature: Of the softmax over the scores; 0 takes the best score.
        missing: True if the policy sees NaN where a number is missing. Learners see 0, as in
            their training.
        used: (D,) the decisions that are scored; the first candidate is taken in others.
    """
    encoded, scores = encode(log), np.zeros(len(logged.owner))
    decisions = np.arange(len(log)) if used is None else np.flatnonzero(used)
    for begin in range(0, len(decisions), _CHUNK):
        rows = decisions[begin : begin + _CHUNK]
        at = log.rows_of(rows)
        offsets = offsets_of(log.lengths[rows])
        context = _matrix([encoded.of_context(f.name, rows) for f in spec.context], len(rows))
        candidates = _matrix([encoded.candidate(f.name, at) for f in spec.candidates], len(at))
        if not missing:
            context, candidates = np.nan_to_num(context), np.nan_to_num(candidates)
        scores[at] = _scores(policy, context, candidates, logged.feasible[at], offsets)
    return softmax(logged, scores / temperature) if temperature > 0.0 else best(logged, scores)


def _matrix(columns: list[Any], height: int) -> Array:
    stacked = np.stack(columns, axis=1) if columns else np.zeros((height, 0))
    return np.asarray(stacked, np.float64)


def _scores(
    policy: Any, context: Array, candidates: Array, feasible: Flags, offsets: Ints
) -> Array:
    """Return the scores of all candidates of D decisions, (sum of N,), at once if it can be."""
    if isinstance(policy, BatchPolicy):
        more = {"feasible": feasible} if "feasible" in readings(policy) else {}
        return np.asarray(policy.batch_scores(context, candidates, offsets, **more), np.float64)
    found = []
    for d in range(len(context)):
        inside = slice(offsets[d], offsets[d + 1])
        found.append(
            policy.scores(Observation(0.0, context[d], candidates[inside], feasible[inside]))
        )
    return np.concatenate(found).astype(np.float64)
