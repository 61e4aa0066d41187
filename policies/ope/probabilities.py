"""Probabilities of a policy on logged observations, and the propensities of the log.

Several behaviours wrote a log, and an episode that is rare for one of them may be common for
another. So the probability of a logged choice is by default not that of the behaviour which made
the choice, but that of the mixture of all n episodes of the window (the balance heuristic of Veach
& Guibas 1995; for several loggers Agarwal et al. 2017):

    m(o_0, c_0 .. o_t, c_t)   mean over the window's n episodes of b_1(c_0|o_0) .. b_n(c_t|o_t)
    behaviour at t            m(.. c_t) / m(.. c_(t-1))

Every estimate stays unbiased, since exactly one episode was drawn from each component, and no
weight is larger than n times the smallest weight of a single component. A rule that draws
parameters per episode (`random_linear`) is one component per drawn set, which the dataset keeps.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError, InputError, PolicyFault
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.functions import SCORE_CELL, cell
from hindcast.pipeline.simulation.kernel import FLOATS, INTS, MASK, ROWS, compiled
from hindcast.pipeline.simulation.policy import (
    NO_PARAMETERS,
    BatchPolicy,
    Behaviour,
    Heuristic,
    fill_probabilities,
    readings,
)
from hindcast.policies.ope.episodes import WholeEpisodes

Array = NDArray[np.float64]

_CHUNK: Final = 1 << 14  # decisions that are scored at once, as doubles
_EQUAL: Final = 1e-4


@compiled(
    types.void(
        SCORE_CELL, ROWS, ROWS, MASK, INTS, FLOATS, types.float64, types.float64,
        FLOATS,
    )
)  # fmt: skip
def _score_rule(score, context, candidates, feasible, rows, parameters, temperature, epsilon, out):  # type: ignore[no-untyped-def]
    """Fill out (V,) with the probabilities of a compiled rule on every decision."""
    score = score[0]
    for d in range(len(rows) - 1):
        start, stop = rows[d], rows[d + 1]
        scores = np.empty(stop - start)
        score(context[d], candidates[start:stop], feasible[start:stop], parameters, scores)
        fill_probabilities(scores, feasible[start:stop], temperature, epsilon, out[start:stop])


@compiled(types.void(FLOATS, MASK, INTS, types.float64, types.float64, FLOATS))
def _spread(scores, feasible, rows, temperature, epsilon, out):  # type: ignore[no-untyped-def]
    """Fill out (V,) with the probabilities that follow from scores (V,)."""
    for d in range(len(rows) - 1):
        start, stop = rows[d], rows[d + 1]
        fill_probabilities(
            scores[start:stop], feasible[start:stop], temperature, epsilon, out[start:stop]
        )


def policy_probabilities(
    behaviour: Behaviour,
    log: WholeEpisodes,
    parameters: NDArray[np.float64] = NO_PARAMETERS,
    decisions: slice = slice(None),
) -> Array:
    """Return the probability of every candidate (V,) under a policy and its exploration.

    `decisions` restricts the result to a range of decisions. Raises InputError for a rule that
    draws its parameters if `parameters` are not given, since its probabilities are then not known,
    and DatasetError for a value that a compiled rule cannot read.
    """
    policy = behaviour.policy
    if isinstance(policy, Heuristic) and policy.draw is not None and not len(parameters):
        raise InputError(
            f"{behaviour.name} draws its parameters for every episode, so the probability of a "
            "single choice is not known; evaluate another policy"
        )
    start, stop, _step = decisions.indices(log.decisions)
    out = np.zeros(int(log.rows[stop] - log.rows[start]))
    base = int(log.rows[start])
    for at in range(start, stop, _CHUNK):
        end = min(at + _CHUNK, stop)
        first, last = int(log.rows[at]), int(log.rows[end])
        rows = log.rows[at : end + 1] - first
        candidates = log.candidates[first:last].astype(np.float64)
        context = log.context[at:end].astype(np.float64)
        feasible = log.feasible[first:last]
        chunk = out[first - base : last - base]
        if isinstance(policy, Heuristic):
            if log.limits is not None:
                log.limits.require(context, candidates)
            _score_rule(
                cell(policy.score), context, candidates, feasible, rows, parameters,
                behaviour.temperature, behaviour.epsilon, chunk,
            )  # fmt: skip
            continue
        image = None if log.image is None else log.image[at:end]
        try:
            scores = _scores(policy, context, candidates, feasible, rows, image)
        except PolicyFault as fault:
            raise PolicyFault(f"{fault}, at decision {at + fault.place} of the log") from fault
        if np.isnan(scores).any():
            raise HindcastError(f"{behaviour.name} gave a score that is not a number")
        _spread(scores, feasible, rows, behaviour.temperature, behaviour.epsilon, chunk)
    return out


def _scores(
    policy: Any, context: Array, candidates: Array, feasible: NDArray[np.bool_],
    rows: NDArray[np.int64], image: NDArray[np.uint8] | None,
) -> Array:  # fmt: skip
    if isinstance(policy, BatchPolicy):
        optional = {"feasible": feasible, "image": image}
        more = {name: optional[name] for name in readings(policy)}
        scores = policy.batch_scores(context, candidates, rows, **more)
        return np.ascontiguousarray(scores, np.float64)
    of_decisions = []
    for d in range(len(rows) - 1):
        inside = slice(rows[d], rows[d + 1])
        observation = Observation(0.0, context[d], candidates[inside], feasible[inside])
        of_decisions.append(policy.scores(observation))
    return np.concatenate(of_decisions).astype(np.float64)


@dataclass(frozen=True)
class Propensities:
    """Probabilities of the logged choices, and the choices that the log could have made.

    Attributes:
        behaviour: (D,) probability of the logged choice.
        possible: (V,) True if the log could have made the choice.
        kind: "mixture" of the window's behaviours, or "logged".
        note: A remark for the user, or "".
        without: `behaviour` (D,) if the mixture lacked the behaviour of this name. It means nothing
            at decisions that this behaviour made itself.
    """

    behaviour: Array
    possible: NDArray[np.bool_]
    kind: str
    note: str = ""
    without: Mapping[str, Array] = field(default_factory=dict)


def logged_propensities(log: WholeEpisodes) -> Propensities:
    """Return the propensities that the dataset holds."""
    return Propensities(log.propensity, log.probabilities > 0.0, "logged")


def mixture_propensities(
    log: WholeEpisodes, behaviours: Mapping[str, Behaviour], left_out: Collection[str] = ()
) -> Propensities:
    """Return conditional probabilities of the mixture of each window's behaviours.

    `behaviours` are those of the log by name. If one of them is missing, or propensities are, the
    result is the logged propensities and a note with the reason. If a rule's probabilities
    differ from the logged ones, each episode keeps the logged ones for its own behaviour, with a
    note. `left_out` are names of behaviours that mixtures are also needed without.
    """
    names = log.table["behaviour"].to_list()
    missing = sorted(set(names) - set(behaviours))
    if missing or np.isnan(log.propensity).any():
        reason = f"{missing[0]} is not a known behaviour" if missing else "propensities are missing"
        return replace(logged_propensities(log), note=f"no mixture: {reason}")
    possible = log.probabilities > 0.0
    behaviour = np.empty(log.decisions)
    without = {name: np.ones(log.decisions) for name in left_out}
    strange = compared = 0
    parameters = [
        np.array(p or [], np.float64) for p in log.table["behaviour_parameters"].to_list()
    ]
    order = np.argsort(log.group, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(log.group[order])) + 1):
        components: dict[tuple[str, bytes], int] = {}
        for e in members:
            key = (names[e], parameters[e].tobytes())
            components[key] = components.get(key, 0) + 1
        for e in members:
            first, stop = int(log.offsets[e]), int(log.offsets[e + 1])
            component = (names[e], parameters[e].tobytes())
            logs = np.empty((len(components), stop - first))
            for i, (name, raw) in enumerate(components):
                values = np.frombuffer(raw, np.float64).copy()
                every = policy_probabilities(behaviours[name], log, values, slice(first, stop))
                possible[log.rows[first] : log.rows[stop]] |= every > 0.0
                likely = every[log.chosen[first:stop] - log.rows[first]]
                if (name, raw) == component:
                    strange += int((np.abs(likely - log.propensity[first:stop]) > _EQUAL).sum())
                    compared += stop - first
                    likely = log.propensity[first:stop]
                with np.errstate(divide="ignore"):
                    logs[i] = np.cumsum(np.log(likely))
            counts = np.array(list(components.values()))
            behaviour[first:stop] = _conditional(logs, counts)
            for left in {*without} - {names[e]}:
                others = np.array([name != left for name, _raw in components])
                without[left][first:stop] = _conditional(logs[others], counts[others])
    note = ""
    if strange > 0.001 * compared:
        note = (
            f"{strange:,} of {compared:,} logged propensities differ from those of their rule on "
            "the stored (float32) observation; each episode keeps its logged propensities"
        )
    return Propensities(behaviour, possible, "mixture", note, without)


def _conditional(logs: Array, counts: NDArray[np.int64]) -> Array:
    """Return the probability (T,) of each choice given earlier ones, from log-products (J, T)."""
    highest = logs.max(axis=0)  # the episode's own component is always above -inf
    shares = counts[:, None] / counts.sum()
    mixed = highest + np.log((shares * np.exp(logs - highest)).sum(axis=0))
    return np.asarray(np.minimum(np.exp(np.diff(mixed, prepend=0.0)), 1.0), np.float64)
