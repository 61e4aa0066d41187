"""Decisions for a real machine: a policy, a guard that may overrule it, and the reasons.

A decision of a moment is made as in an episode: the policy scores the rows that the scenario's
`observe` gives, and the highest feasible score is chosen. All decisions of the moment follow, until
no waiting job can start. Before the policy's choice is taken, the guard looks in this order:

    longest_wait   a feasible job has waited too long: the first of them is chosen
    range          a feature of the moment or of the policy's choice is far from those in training
    margin         the best and the second score are too close
    probability    the softmax of the scores gives the policy's choice too little

In the last three cases a rule decides. Every decision says who made it.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError, InputError
from hindcast.pipeline.plugins import import_module
from hindcast.pipeline.scenarios import LIVE_STATES, load_scenario
from hindcast.pipeline.scenarios.queue.features import RUN_TIMES
from hindcast.pipeline.settings.ranges import check_ranges, number, range_of
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.memory_rules import MemoryRule
from hindcast.pipeline.simulation.policy import (
    NO_PARAMETERS,
    BatchPolicy,
    Behaviour,
    Heuristic,
    best_feasible,
    fill_probabilities,
    readings,
)
from hindcast.pipeline.simulation.rollout import Planner
from hindcast.pipeline.simulation.spec import Feature, Spec
from hindcast.policies.heuristics.needs import require_columns
from hindcast.policies.networks.features import FeatureMap, input_names
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.registry import resolve

Floats = NDArray[np.float64]
Scorer = Callable[[Floats, Floats, NDArray[np.bool_]], Floats]  # context, candidates, feasible

POLICY: Final = "policy"  # who decides if the guard does not
LONGEST_WAIT, RANGE, MARGIN, PROBABILITY = "longest_wait", "range", "margin", "probability"
DECIDERS: Final = (POLICY, LONGEST_WAIT, RANGE, MARGIN, PROBABILITY)


@dataclass(frozen=True)
class Guard:
    """Limits beyond which a policy does not decide.

    Attributes:
        longest_wait: Wait from which a job goes first, the one that arrived first before others; 0
            for no limit.
        range: Standard deviations of the training data by which a feature may differ from its
            mean there; 0 for no limit. Features that were constant in training are not looked at.
        margin: Least difference between the best and the second score, in the unit of the scores;
            0 for no limit.
        probability: Least probability of the best candidate under a softmax of the scores at
            temperature 1; 0 for no limit.
        rule: Rule that decides instead.
    """

    longest_wait: float = number(0.0, "from 0 to 1,000,000", "h")
    range: float = number(0.0, "from 0 to 1,000,000")
    margin: float = number(0.0, "from 0 to 1e9")
    probability: float = number(0.0, "from 0 to 1")
    rule: str = "fcfs_easy"


class Decider:
    """A policy that decides for states of a real machine, with its guard.

    Attributes:
        name: Name of the policy.
        formula: Formula of a rule, empty for another policy.
        guard: Limits beyond which the policy does not decide.
        made: Numbers of decisions by who made them, since the decider was made.
    """

    def __init__(
        self, behaviour: Behaviour, scenario: str, config: Any, guard: Guard, rows: int
    ) -> None:
        self._live = import_module(LIVE_STATES[scenario])
        self._config = config
        self._spec: Spec = load_scenario(scenario).spec(config, self._live.OBJECTIVES[0])
        self._policy = behaviour.policy
        self._score = _scorer(self._policy)
        fallback = resolve(guard.rule, scenario, self._spec)
        _require_certain(guard.rule, fallback)
        self._rule = _scorer(fallback.policy)
        self._rows = rows
        self.name, self.guard = behaviour.name, guard
        self.formula = getattr(self._policy, "formula", "")
        self.made = Counter(dict.fromkeys(DECIDERS, 0))
        self._linear = _linear(self._policy)
        self._ranges = _ranges(self._policy, self._spec) if guard.range > 0 else None

    def decide(
        self, state: dict[str, Any], *, first: bool = False, where: str = "state"
    ) -> dict[str, Any]:
        """Return the decisions of a moment as JSON.

        Args:
            state: The state of the machine, see docs/how-to/decide.md.
            first: Whether to make the first decision alone.
            where: What messages call the state, such as a file and line.

        Returns:
            An object with `start`, the ids of the jobs to start in this order; `reservation`, that
            of the job for which the machine is kept free, or None; and `decisions`, each with the
            choice, who made it, its score, the margin to the second score, and the best rows. If
            something is wrong with a waiting job alone, such as a missing requested time, the
            others are decided about: `set_aside` then has its id and the reason.

        Raises:
            InputError: The state is not valid.
            HindcastError: The policy gave a score that is not a number.
        """
        live = self._live
        aside: list[dict[str, Any]] = []
        try:
            moment = live.read_moment(state, self._config, where)
        except InputError:
            sound, aside = live.set_aside(state)
            if not aside:
                raise
            moment = live.read_moment(sound, self._config, where)
        decisions, started = [], []
        while live.open_for_decisions(moment):
            decision, row = self._decide(moment, where)
            action = live.take(moment, row)
            decision["action"] = action
            self.made[decision["by"]] += 1
            decisions.append(decision)
            if action == "start":
                started.append(decision["choice"])
            if first or action == "wait":
                break
        return {
            **{key: state[key] for key in ("id", "now") if key in state},
            "start": started,
            "reservation": live.reservation(moment),
            "decisions": decisions,
            **({"set_aside": aside} if aside else {}),
        }

    def _decide(self, moment: Any, where: str) -> tuple[dict[str, Any], int]:
        """Return the next decision and its row."""
        n = self._live.observe_moment(moment)
        arrays = moment.arrays
        context, candidates, feasible = arrays.context, arrays.candidates[:n], arrays.feasible[:n]
        scores = self._score(context, candidates, feasible)
        if np.isnan(scores[feasible]).any():
            raise HindcastError(f"{where}: {self.name} gave a score that is not a number")
        best = int(best_feasible(scores, feasible))
        others = np.flatnonzero(feasible)
        others = others[others != best]
        second = float(scores[others].max()) if len(others) else None
        by, row, outside = self._guarded(moment, best, second, scores)
        name = self._live.name_of_row
        decision: dict[str, Any] = {
            "choice": name(moment, row),
            "action": "",
            "by": by,
            "score": float(scores[row]),
            "margin": None if second is None else float(scores[best]) - second,
            "feasible": len(others) + 1,
            "candidates": n,
        }
        if by != POLICY:
            decision["policy_choice"] = name(moment, best)
        if outside:
            decision["outside"] = outside
        if self._rows:
            shown = np.concatenate([[best], others[np.argsort(-scores[others], kind="stable")]])
            shown = shown[: self._rows].tolist()
            if row not in shown:
                shown[-1] = row
            decision["context"] = _named(self._spec.context, context)
            seen = self._seen(context, candidates, feasible)
            decision["rows"] = [
                {
                    "id": name(moment, i),
                    "score": float(scores[i]),
                    "features": _named(self._spec.candidates, candidates[i]),
                    **self._contributions(seen[i : i + 1]),
                }
                for i in shown
            ]
        return decision, row

    def _guarded(
        self, moment: Any, best: int, second: float | None, scores: Floats
    ) -> tuple[str, int, list[str]]:
        """Return who decides, the row, and the features that are out of range."""
        guard, arrays, n = self.guard, moment.arrays, len(scores)
        context, candidates, feasible = arrays.context, arrays.candidates[:n], arrays.feasible[:n]
        if guard.longest_wait > 0:
            waited = self._live.waited_s(moment)
            late = np.flatnonzero((waited > guard.longest_wait * 3600) & feasible[: len(waited)])
            if len(late):
                return LONGEST_WAIT, int(late[0]), []
        by, outside = POLICY, list[str]()
        if self._ranges is not None:
            outside = _outside(self._ranges, context, candidates[best], guard.range)
        if outside:
            by = RANGE
        elif second is not None and scores[best] - second < guard.margin:
            by = MARGIN
        elif guard.probability > 0:
            chances = np.empty(n)
            fill_probabilities(scores, feasible, 1.0, 0.0, chances)
            if chances[best] < guard.probability:
                by = PROBABILITY
        if by == POLICY:
            return by, best, []
        ruled = self._rule(context, candidates, feasible)
        return by, int(best_feasible(ruled, feasible)), outside

    def _seen(self, context: Floats, candidates: Floats, feasible: NDArray[np.bool_]) -> Floats:
        """Return the candidates with the columns of the rules that the network reads, if any."""
        if self._linear is None:
            return candidates
        offsets = np.array([0, len(candidates)])
        seen: Floats = self._policy.widened(context[None], candidates, offsets, feasible)
        return seen

    def _contributions(self, row: Floats) -> dict[str, Any]:
        """Return the terms of a linear score by input, without what is equal for all rows."""
        if self._linear is None:
            return {}
        names, weights, candidates = self._linear
        terms = weights * candidates.expand(row)[0]
        return {"contributions": dict(zip(names, terms.tolist(), strict=True))}


def load_decider(
    policy: Any,
    scenario: str = "queue",
    config: Any = None,
    guard: Guard | None = None,
    rows: int = 3,
) -> Decider:
    """Return a decider; see `hindcast.load_decider`."""
    require_live_state(scenario)
    guard = guard or Guard()
    _check_guard(guard)
    if type(rows) is not int or rows < 0:
        raise InputError(f"rows is {rows!r}, expected a whole number of at least 0")
    loaded = load_scenario(scenario)
    if not isinstance(policy, str) and hasattr(policy, "scores"):
        behaviour = Behaviour(policy.name, policy)
        config = config or _settings_of(loaded, behaviour.policy)
        spec = loaded.spec(config, loaded.objectives[0])
        require_columns(behaviour.name, getattr(policy, "needs", ()), spec)
        if isinstance(policy, LearnedPolicy):
            policy.check(spec)
    else:
        behaviour, config = _resolved(str(policy), loaded, config)
    _require_certain(str(getattr(policy, "name", policy)), behaviour)
    return Decider(behaviour, scenario, config, guard, rows)


def _check_guard(guard: Guard) -> None:
    """Raise InputError for a limit that is no number or out of its range."""
    for field in dataclasses.fields(guard):
        value = getattr(guard, field.name)
        if field.name == "rule":
            if not isinstance(value, str):
                raise InputError(f"guard.rule is {value!r}, expected the name of a rule")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(
                f"guard.{field.name} is {value!r}, expected a number {range_of(field)}"
            )
    check_ranges(guard, "guard")


def require_live_state(scenario: str) -> None:
    """Raise InputError unless decisions can be made for states of the scenario."""
    load_scenario(scenario)  # raises UnknownName
    if scenario not in LIVE_STATES:
        raise InputError(
            f"scenario {scenario} has no live states, so no decisions can be made for a real "
            f"machine; scenarios that have: {', '.join(LIVE_STATES)}"
        )


def _resolved(name: str, scenario: Any, config: Any) -> tuple[Behaviour, Any]:
    """Return the behaviour of a name, and settings under which it can act.

    Without settings, those of the scenario, with the columns that the policy needs.
    """
    if config is not None:
        return resolve(name, scenario.name, scenario.spec(config, scenario.objectives[0])), config
    error: InputError | None = None
    for run_times, allow_wait in itertools.product((False, True), repeat=2):
        settings = scenario.config(allow_wait=allow_wait, run_times=run_times)
        try:
            spec = scenario.spec(settings, scenario.objectives[0])
            return resolve(name, scenario.name, spec), settings
        except InputError as found:
            error = error or found
    assert error is not None
    raise error


def _settings_of(scenario: Any, policy: Any) -> Any:
    """Return settings under which a policy can act, with the columns that it needs."""
    read = [f.name for f in getattr(policy, "features_candidates", ())]
    needed = {*read, *getattr(policy, "needs", ())}
    run_times = not needed.isdisjoint(column.name for column in RUN_TIMES)
    return scenario.config(allow_wait="is_wait" in needed, run_times=run_times)


def _require_certain(name: str, behaviour: Behaviour) -> None:
    """Raise InputError for a policy that draws, that plans, or that reads a simulator's memory."""
    if isinstance(behaviour.policy, MemoryRule):
        reason = "chooses from the memory of the simulator"
    elif isinstance(behaviour.policy, Planner) and not isinstance(behaviour.policy, Heuristic):
        reason = "plays episodes ahead in the simulator"
    elif behaviour.stochastic:
        reason = "draws its choices"
    else:
        return
    raise InputError(
        f"{name}: this policy {reason}, which a state of a real machine does not allow; expected "
        "a rule such as saf_easy, or the folder of a checkpoint"
    )


def _scorer(policy: Any) -> Scorer:
    """Return the function that scores rows as an evaluation does."""

    def rule(context: Floats, candidates: Floats, feasible: NDArray[np.bool_]) -> Floats:
        scores = np.empty(len(candidates))
        policy.score(context, candidates, feasible, NO_PARAMETERS, scores)
        return scores

    def batch(context: Floats, candidates: Floats, feasible: NDArray[np.bool_]) -> Floats:
        more = {"feasible": feasible} if reads else {}
        offsets = np.array([0, len(candidates)])
        scores = policy.batch_scores(context[None], candidates, offsets, **more)
        return np.ascontiguousarray(scores, np.float64)

    def single(context: Floats, candidates: Floats, feasible: NDArray[np.bool_]) -> Floats:
        seen = Observation(0.0, context.copy(), candidates.copy(), feasible.copy())
        return np.ascontiguousarray(policy.scores(seen), np.float64)

    if isinstance(policy, Heuristic):
        return rule
    if not isinstance(policy, BatchPolicy):
        return single
    reads = "feasible" in readings(policy)
    return batch


def _named(features: Sequence[Feature], values: Floats) -> dict[str, float]:
    return dict(zip([f.name for f in features], values.tolist(), strict=True))


def _linear(policy: Any) -> tuple[list[str], NDArray[np.float32], FeatureMap] | None:
    """Return names and weights of the inputs of a row, and its map; None if no layer is hidden."""
    if type(policy) is not LearnedPolicy:
        return None
    network = policy.network
    settings = network.settings
    if settings.hidden or settings.kind != "mlp" or settings.places or network.outputs != 1:
        return None
    features = network.rules.widened(policy.features_candidates)
    names = input_names(features, network.candidates)
    return names, policy.weights["layer0.weight"][0, : len(names)], network.candidates


def _ranges(policy: Any, spec: Spec) -> list[tuple[list[str], FeatureMap]]:
    """Return the names and maps of context and candidates, which hold statistics of training.

    Columns of rules are left out: their range is 0 to 1.
    """
    if not isinstance(policy, LearnedPolicy):
        raise InputError(
            f"{policy.name}: a limit of the range needs a checkpoint, because only a training "
            "sees data; leave it out"
        )
    network = policy.network
    if not network.candidates.mean.any() and (network.candidates.inverse == 1.0).all():
        raise InputError(
            f"{policy.name}: the checkpoint has no statistics of the features in its training, so "
            "no range is known; leave out the limit"
        )
    found = []
    for features, one in (
        (spec.context, network.context), (spec.candidates, network.candidates),
    ):  # fmt: skip
        own = one.columns[one.columns < len(features)]
        found.append(([features[c].name for c in own], one._replace(columns=own)))
    return found


def _outside(
    ranges: Sequence[tuple[list[str], FeatureMap]],
    context: Floats,
    row: Floats,
    limit: float,
) -> list[str]:
    """Return the features that differ from their mean by more than `limit` deviations."""
    found = []
    for (names, one), values in zip(ranges, (context, row), strict=True):
        n = len(one.columns)
        far = np.abs((values[one.columns] - one.mean[:n]) * one.inverse[:n]) > limit
        found += [names[i] for i in np.flatnonzero(far)]
    return found


def agreement(answer: Mapping[str, Any], done: Any, where: str = "state") -> dict[str, Any]:
    """Return what was done at a moment and whether the same jobs would have been started.

    Args:
        answer: What `Decider.decide` returned.
        done: The `done` of the state: the id of a job, a list of ids, or None for no job.
        where: What messages call the state.

    Raises:
        InputError: `done` is something else.
    """
    jobs = done if isinstance(done, list) else [] if done is None else [done]
    if not set(map(type, jobs)) <= {str, int}:
        raise InputError(
            f"{where}: done is {done!r}, expected the id of a job that was started, a list of ids, "
            "or null"
        )
    start = answer["start"]
    return {
        "done": jobs,
        "agrees": set(start) == set(jobs),
        "same": len(set(start) & set(jobs)),
    }
