"""Looking ahead: policies that play copies of the episode before they decide.

A copy must not show what the episode has not shown, so a future replaces it
(hindcast.pipeline.simulation.scenario.Future). There are two kinds:

    no arrivals   the scenario forgets the jobs to come. Of several members, the one with the
                  highest return in the copy acts until the next arrival (RolloutPolicy)
    drawn         an instance draws the jobs to come, or the run times of the others. The candidate
                  with the best mean return in such copies acts, and a base policy continues
                  (ImaginedRollouts)

RolloutPolicy. The members are a policy and variants of it, deterministic rules, both, or rules and
linear priorities with drawn weights. A copy has only the jobs that have been submitted, their
durations and the end times of running jobs. It does not show whether more jobs will come, and no
member may wait for them on an idle cluster. Once no more jobs arrive, the acting member does at
least as well as every other member.

ImaginedRollouts. Every candidate is chosen in SCREENED copies, and the base policy continues for
HORIZON decisions. The KEPT candidates with the highest sums of rewards and the base policy's own
choice meet the other futures. The candidate with the highest mean difference from the base policy's
choice, less its standard error, acts if that is above 0; otherwise the base policy's choice. All
candidates meet the same futures, so differences are paired. The standard error keeps the noise of a
few futures from overruling the base policy. In futures without arrivals, the base policy continues
until all jobs have started, and a candidate needs a difference above two standard errors. The
candidates can be limited to those that the base policy scores highest (a simplified rollout,
Bertsekas, "Rollout, Policy Iteration, and Distributed Reinforcement Learning", 2020): a decision in
a queue of 230 jobs takes .9 s of CPU without a limit. A name may give the numbers of futures,
candidates, decisions and standard errors (hindcast.policies.registry).

Sources: Chang, Givan & Chong, "Parallel Rollout for Online Solution of Partially Observable Markov
Decision Processes", Discrete Event Dynamic Systems 2004; Bertsekas & Castanon, "Rollout Algorithms
for Stochastic Scheduling Problems", Journal of Heuristics 1999; Tesauro & Galperin, "On-line Policy
Improvement using Monte-Carlo Search", NIPS 1996.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError, InputError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import (
    EpisodeArrays,
    StepArrays,
    begin_episode,
    make_step_arrays,
)
from hindcast.pipeline.simulation.draws import Draws, draws_of
from hindcast.pipeline.simulation.functions import ObserveCell, ScoreCell, StepCell, cell
from hindcast.pipeline.simulation.kernel import Compiled, Floats, Ints
from hindcast.pipeline.simulation.policy import Heuristic, best_feasible
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Future, Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Feature, Spec
from hindcast.policies.heuristics.linear import RANDOM_LINEAR, draw_weights
from hindcast.policies.networks.player import (
    DECISIONS,
    NOT_DRAWN_FROM,
    Decider,
    KeptArrays,
    keep,
    play,
    require_played,
)
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.rules import RuleList, rule_buffers
from hindcast.policies.networks.scoring import DeciderArrays, score_candidates
from hindcast.policies.networks.settings import NetworkSettings, make_network
from hindcast.policies.rollouts.branches import try_candidate

VARIANTS: Final = 8
SPREAD: Final = 0.3  # distance of a variant from the policy, per norm of each weight tensor
FUTURES: Final = 8
SCREENED: Final = 2
KEPT: Final = 4
HORIZON: Final = 40
_DECISIONS: Final = 1024  # that a member makes before Python goes on


@dataclass(frozen=True)
class RolloutPolicy:
    """A policy that acts by rollouts of its members; a `pipeline.simulation.rollout.Planner`."""

    name: str
    members: tuple[Decider, ...]

    @property
    def features_candidates(self) -> tuple[Feature, ...]:
        """Columns of the candidates that the members read."""
        return self.members[0].policy.features_candidates

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """Play one episode; raise HindcastError without `forget` or for a forbidden choice."""
        return _Members(scenario, spec, instance, self).play()

    def choices(self, scenario: Scenario, spec: Spec, instance: Instance) -> NDArray[np.int64]:
        """Return the rows that an episode chooses, (T,); raise HindcastError as `episode` does."""
        return _chosen(_Members(scenario, spec, instance, self))


@dataclass(frozen=True)
class ImaginedRollouts:
    """A policy that looks ahead in drawn futures; a `pipeline.simulation.rollout.Planner`.

    Its futures are drawn from the memory of the instance, so an episode is the same in every call.
    """

    name: str
    base: Decider
    horizon: int = HORIZON  # decisions of the base policy; 0 to the end
    errors: float = 1.0  # standard errors that a difference has to exceed
    futures: int = FUTURES  # at least SCREENED
    candidates: int = 0  # that are tried, the base policy's own among them; 0 for all

    @property
    def features_candidates(self) -> tuple[Feature, ...]:
        """Columns of the candidates that the base policy reads."""
        return self.base.policy.features_candidates

    def episode(self, scenario: Scenario, spec: Spec, instance: Instance) -> Episode:
        """Play one episode.

        Raises InputError for an instance without futures, HindcastError for a forbidden choice.
        """
        return self._begin(scenario, spec, instance).play()

    def choices(self, scenario: Scenario, spec: Spec, instance: Instance) -> NDArray[np.int64]:
        """Return the rows that an episode chooses, (T,); raise errors as `episode` does."""
        return _chosen(self._begin(scenario, spec, instance))

    def _begin(self, scenario: Scenario, spec: Spec, instance: Instance) -> "_Candidates":
        if instance.futures is None:
            raise InputError(
                f"{self.name}: lookahead draws the jobs to come from the settings of a recipe, but "
                f"these windows of {scenario.name} are not drawn from its settings"
            )
        seed = int(np.abs(instance.ints).sum() % (1 << 31))
        rng = generator(seed, "imagined futures")
        futures = [instance.futures(rng) for _ in range(self.futures)]
        return _Candidates(scenario, spec, instance, self, futures)


def _chosen(played: "_Members | _Candidates") -> NDArray[np.int64]:
    """Play an episode; return the rows that it chose, (T,)."""
    played.play()
    return np.array(played.choices, np.int64)


def rollouts_of(policy: LearnedPolicy, rules: Iterable[Heuristic], spec: Spec) -> RolloutPolicy:
    """Return rollouts of a candidate scorer, VARIANTS variants of it, and deterministic rules.

    The variants are the same in every call. Raises InputError for a network of another
    architecture.
    """
    require_scorer(policy)
    rng = generator(0, "rollout variants")
    varied = [_variant(policy, rng) for _ in range(VARIANTS)]
    learned = [Decider(one) for one in (policy, *varied)]
    return RolloutPolicy(policy.name, (*learned, *_deciders(rules, spec)))


def rollouts_of_rules(
    name: str, rules: Iterable[Heuristic], spec: Spec, drawn: int = 0
) -> RolloutPolicy:
    """Return rollouts of deterministic rules, and of so many linear priorities with drawn weights.

    The weights are the same in every call.
    """
    return RolloutPolicy(name, _deciders([*rules, *map(_drawn_rule, range(drawn))], spec))


def imagined_rollouts_of(policy: LearnedPolicy) -> ImaginedRollouts:
    """Return lookahead in drawn futures with a candidate scorer as the base policy.

    Raises InputError for a network of another architecture.
    """
    require_scorer(policy)
    return ImaginedRollouts(policy.name, Decider(policy))


def imagined_rollouts_of_rule(
    name: str, rule: Heuristic, spec: Spec, *, arrivals: bool = True
) -> ImaginedRollouts:
    """Return lookahead in drawn futures with a deterministic rule as the base policy.

    Without arrivals it plays futures to the end and needs two standard errors.
    """
    (base,) = _deciders([rule], spec)
    return ImaginedRollouts(name, base) if arrivals else ImaginedRollouts(name, base, 0, 2.0)


def require_scorer(policy: LearnedPolicy) -> None:
    """Raise InputError for a network that is no candidate scorer: compiled loops cannot play it."""
    if type(policy) is not LearnedPolicy:
        kind = policy.network.settings.kind
        raise InputError(f"{policy.name}: rollouts need a candidate scorer, not kind {kind!r}")


def _deciders(rules: Iterable[Heuristic], spec: Spec) -> tuple[Decider, ...]:
    """Return the deciders of rules. They have a network, which scores nothing."""
    settings = NetworkSettings(quadratic=False, logs=False)
    network = make_network(spec.context, spec.candidates, settings)
    weights = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}

    def unasked(name: str) -> LearnedPolicy:
        return LearnedPolicy(name, network, weights, spec.context, spec.candidates)

    return tuple(Decider(unasked(rule.name), rule) for rule in rules)


def _drawn_rule(number: int) -> Heuristic:
    """Return `random_linear` with weights that are the same in all episodes."""

    def draw(spec: Spec, _rng: np.random.Generator) -> NDArray[np.float64]:
        return draw_weights(spec, generator(number, "drawn members of rollouts"))

    return replace(RANDOM_LINEAR, name=f"{RANDOM_LINEAR.name}-{number}", draw=draw)


def _variant(policy: LearnedPolicy, rng: np.random.Generator) -> LearnedPolicy:
    """Return a scorer with each weight tensor moved by SPREAD of its norm, in a drawn direction."""
    moved = {}
    for key, weight in policy.weights.items():
        step = rng.standard_normal(weight.shape)
        length = SPREAD * np.linalg.norm(weight) / np.linalg.norm(step)
        moved[key] = (weight + length * step).astype(np.float32)
    return LearnedPolicy(
        policy.name, policy.network, moved, policy.features_context, policy.features_candidates
    )


class _Copied:
    """An episode, and a copy of it with a future in place of what it has not shown."""

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        futures: Sequence[Future],
    ) -> None:
        self.name, self.scenario, self.spec = name, scenario, spec
        room, float_room = (max(getattr(f, r) for f in futures) for r in ("room", "float_room"))
        self.larger = Instance(
            np.concatenate([instance.ints, np.zeros(room, np.int64)]),
            np.concatenate([instance.floats, np.zeros(float_room)]),
            max(instance.capacity, *(one.capacity for one in futures)),
        )
        self.memory, self.arrays = begin_episode(spec, instance), make_step_arrays(spec, instance)
        self.copy = begin_episode(spec, self.larger)
        self.copy_arrays = make_step_arrays(spec, self.larger)
        self.steps, self.status = 0, k.RUNNING
        self.choices: list[int] = []

    def imagine(self, future: Future) -> None:
        """Make the copy one of the present moment with this future."""
        memory, copy = self.memory, self.copy
        copy.ints[: len(memory.ints)] = memory.ints
        copy.floats[: len(memory.floats)] = memory.floats
        copy.ints[k.FRESH] = 0  # the buffers hold another episode
        future.replace(copy.ints, copy.floats)

    def finished(self) -> Episode:
        """Return the summary of the episode."""
        memory = self.memory
        return finished_episode(
            self.scenario.outcome,
            self.spec,
            memory.ints,
            memory.floats,
            self.arrays.totals,
            self.steps,
            truncated=self.status == k.TRUNCATED,
            blocks=self.scenario.blocks,
        )


@dataclass
class _NoArrivals:
    """The future in which no job arrives.

    Attributes:
        forget: Function of the scenario.
        capacity: Largest number of candidates of the instance.
        until: Time of the arrival that was forgotten first.
    """

    forget: Compiled
    capacity: int
    room: int = 0
    float_room: int = 0
    until: float = field(default=np.inf)

    def replace(self, ints: NDArray[np.int64], floats: NDArray[np.float64]) -> None:
        """Forget the jobs to come."""
        self.until = self.forget(ints, floats)


class _Members(_Copied):
    """An episode of a RolloutPolicy."""

    def __init__(
        self, scenario: Scenario, spec: Spec, instance: Instance, policy: RolloutPolicy
    ) -> None:
        if scenario.forget is None:
            raise HindcastError(
                f"{policy.name}: scenario {scenario.name} cannot hide future arrivals"
            )
        self.future = _NoArrivals(scenario.forget, instance.capacity)
        super().__init__(policy.name, scenario, spec, instance, [self.future])
        self.deciders = [member.arrays(spec, NOT_DRAWN_FROM) for member in policy.members]

    def play(self) -> Episode:
        """Play the episode to its end."""
        totals = self.copy_arrays.totals
        while self.status == k.RUNNING:
            best, highest = 0, -np.inf
            for number, decider in enumerate(self.deciders):
                self.imagine(self.future)
                totals[:] = 0.0
                self._play_on(decider, self.copy, self.copy_arrays, np.inf, keep())
                if totals[k.REWARD] > highest:
                    best, highest = number, totals[k.REWARD]
            self._act(self.deciders[best])
        return self.finished()

    def _act(self, decider: tuple[Any, DeciderArrays, Any]) -> None:
        """Continue the episode until the arrival that was forgotten first."""
        while self.status == k.RUNNING and self.memory.floats[k.TIME] < self.future.until:
            kept = keep(_DECISIONS)
            played, self.status = self._play_on(
                decider, self.memory, self.arrays, self.future.until, kept
            )
            self.choices += kept.choices[:played].tolist()
            self.steps += played

    def _play_on(
        self,
        decider: tuple[Any, DeciderArrays, Any],
        memory: EpisodeArrays,
        arrays: StepArrays,
        until: float,
        kept: KeptArrays,
    ) -> tuple[int, int]:
        """Continue an episode; return the number of decisions and the status."""
        status = play(
            cell(self.scenario.observe),
            cell(self.scenario.step),
            *decider,
            memory,
            arrays,
            draws_of(NOT_DRAWN_FROM),
            0.0,
            0.0,
            until,
            kept,
        )
        require_played(status, self.name, self.scenario)
        return int(kept.cursor[DECISIONS]), status


@k.compiled()
def _try_all(
    observe: ObserveCell,
    step: StepCell,
    rule: ScoreCell,
    decider: DeciderArrays,
    rules: RuleList,
    episode: EpisodeArrays,
    copy: EpisodeArrays,
    arrays: StepArrays,
    draws: Draws,
    candidates: Ints,
    kept: KeptArrays,
    sums: Floats,
) -> None:
    """Fill `sums` (T,) for T candidates, see `try_candidate`.

    One call per future and not per candidate: numba takes as long to recognise the arguments of a
    call from Python as to play ten decisions.
    """
    for t in range(len(candidates)):
        sums[t] = try_candidate(
            observe,
            step,
            rule,
            decider,
            rules,
            episode,
            copy,
            arrays,
            draws,
            candidates[t],
            np.inf,
            kept,
        )


class _Candidates(_Copied):
    """An episode of ImaginedRollouts."""

    def __init__(
        self,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        policy: ImaginedRollouts,
        futures: Sequence[Future],
    ) -> None:
        super().__init__(policy.name, scenario, spec, instance, futures)
        self.futures = futures
        self.decider = policy.base.arrays(spec, NOT_DRAWN_FROM)
        self.trying = policy.base.arrays(spec, NOT_DRAWN_FROM)
        self.tried = begin_episode(spec, self.larger)  # the copy in which a candidate is tried
        self.kept, self.errors = keep(policy.horizon), policy.errors
        self.most = policy.candidates

    def play(self) -> Episode:
        """Play the episode to its end."""
        memory, arrays, scenario = self.memory, self.arrays, self.scenario
        while self.status == k.RUNNING:
            n = scenario.observe(*memory)
            choice = self._choice(self._scored(n), memory.feasible[:n])
            self.choices.append(choice)
            self.status = scenario.step(memory.ints, memory.floats, choice, arrays.step_outputs)
            require_played(self.status, self.name, scenario)
            arrays.totals[:] += arrays.step_outputs
            self.steps += 1
        return self.finished()

    def _scored(self, n: int) -> NDArray[np.float64]:
        """Return the base policy's scores of the n candidates of the last observation."""
        memory, scores, (rule, decider, rules) = self.memory, self.arrays.scores, self.decider
        buffers = rule_buffers(rules, memory.candidates)
        score_candidates(rule, decider, rules, n, memory, buffers, scores)
        return scores[:n]

    def _choice(self, scores: NDArray[np.float64], feasible: NDArray[np.bool_]) -> int:
        """Return the row of the candidate that acts."""
        own = int(best_feasible(scores, feasible))
        others = np.flatnonzero(feasible)
        others = others[others != own]
        if self.most and len(others) >= self.most:
            best = np.argsort(-scores[others], kind="stable")[: self.most - 1]
            others = others[np.sort(best)]
        if len(others) == 0:
            return own
        rows = np.array([own, *others])
        values = np.full((len(self.futures), len(rows)), np.nan)
        tried = np.arange(len(rows))
        for number, future in enumerate(self.futures):
            self.imagine(future)
            values[number, tried] = self._try(rows[tried])
            if number + 1 == SCREENED:
                means = values[:SCREENED].mean(axis=0)
                best = np.argsort(-means, kind="stable")[:KEPT]
                tried = np.array([0, *(column for column in best if column > 0)])
        better = values[:, tried] - values[:, :1]
        error = better.std(axis=0, ddof=1) / np.sqrt(len(values))
        return int(rows[tried[np.argmax(better.mean(axis=0) - self.errors * error)]])

    def _try(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return sums of rewards (T,) of T candidates, each with HORIZON decisions of the base."""
        sums = np.empty(len(rows))
        _try_all(
            cell(self.scenario.observe),
            cell(self.scenario.step),
            *self.trying,
            self.copy,
            self.tried,
            self.copy_arrays,
            draws_of(NOT_DRAWN_FROM),
            rows,
            self.kept,
            sums,
        )
        if np.isnan(sums).any():
            raise HindcastError(f"{self.name}: infeasible choice in {self.scenario.name}")
        return sums
