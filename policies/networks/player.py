"""Compiled episodes of a candidate scorer, or of a rule in its place: one loop for all uses.

    evaluation                 keeps nothing
    recording, verification    keep the probability of every candidate (NetworkRunner is an
                               EpisodeRunner of hindcast.pipeline.simulation.players)
    training                   keeps choices, their log-probabilities and rewards
                               (hindcast.policies.rollouts.trajectories)
    looking ahead              continues copies of an episode (hindcast.policies.rollouts)

No Python runs between two decisions, and the GIL is released.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import (
    EpisodeArrays,
    StepArrays,
    begin_episode,
    make_step_arrays,
)
from hindcast.pipeline.simulation.draws import Draws, draws_of
from hindcast.pipeline.simulation.functions import ObserveCell, ScoreCell, StepCell, cell
from hindcast.pipeline.simulation.kernel import Floats, Ints, Mask, Rows, Singles
from hindcast.pipeline.simulation.players import EpisodeTrace, Probabilities, values_at_end
from hindcast.pipeline.simulation.policy import (
    NO_PARAMETERS,
    Heuristic,
    draw_choice,
    fill_probabilities,
    no_score,
)
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Feature, Spec
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.forward import NetworkArrays
from hindcast.policies.networks.row_table import make_table, scores_rows_apart
from hindcast.policies.networks.rules import RuleList, rule_buffers
from hindcast.policies.networks.scoring import DeciderArrays, score_candidates
from hindcast.policies.networks.settings import Network

_FIRST_ROOM: Final = 2048  # decisions; doubled for longer episodes
NOT_DRAWN_FROM: Final = np.random.default_rng(0)  # a generator where nothing is drawn
_NOT_A_NUMBER: Final = -2  # code of an episode, beside INFEASIBLE

# rows of KeptArrays.numbers
N_LOG_PROBABILITY: Final = 0
N_REWARD: Final = 1
N_ELAPSED: Final = 2
N_TIME: Final = 3
NUMBERS: Final = 4

# members of KeptArrays.cursor
DECISIONS: Final = 0  # decisions written; the place of the next one
CANDIDATES: Final = 1  # probabilities written
STATUS: Final = 2  # of the episode
GIVEN: Final = 3  # decisions whose choices are given


class KeptArrays(NamedTuple):
    """Arrays that an episode of T decisions fills. An array of length 0 stays as it is."""

    choices: Ints  # (T,) rows of the choices; the first ones may be given
    numbers: Rows  # (NUMBERS, T)
    probabilities: Singles  # (V,) of all candidates, one decision after the other
    cursor: Ints  # (4,)


@k.compiled()
def _are_numbers(scores: Floats, feasible: Mask) -> bool:
    """Return whether the score of every feasible candidate is a number."""
    wrong = False
    for unsigned in range(np.uint64(len(feasible))):
        i = np.uint64(unsigned)
        wrong |= feasible[i] & (scores[i] != scores[i])
    return not wrong


@k.compiled()
def play(
    observe: ObserveCell,
    step: StepCell,
    rule: ScoreCell,
    decider: DeciderArrays,
    rules: RuleList,
    episode: EpisodeArrays,
    arrays: StepArrays,
    draws: Draws,
    temperature: float,
    epsilon: float,
    until: float,
    kept: KeptArrays,
) -> int:
    """Play until the episode is over, its time reaches `until`, or an array of `kept` is full.

    A network reads the columns of `rules`. A choice is drawn from softmax(scores / temperature), is
    the best candidate at temperature 0, and is uniform with probability `epsilon`. Step outputs are
    added to totals. Returns the status of the episode; INFEASIBLE for a forbidden choice; or
    _NOT_A_NUMBER if a network's score of a feasible candidate is not a number.
    """
    look, act = observe[0], step[0]
    episode, decider = uncounted(episode), uncounted(decider)
    ints, floats, context, image, candidates, feasible = episode
    scores, chances, step_outputs, totals = uncounted(arrays)
    choices, numbers, probabilities, cursor = uncounted(kept)
    buffers = rule_buffers(rules, candidates)
    recorded, measured = len(probabilities) > 0, numbers.shape[1] > 0
    drawn = temperature > 0.0 or epsilon > 0.0
    at, value, status, given = cursor[DECISIONS], cursor[CANDIDATES], cursor[STATUS], cursor[GIVEN]
    while (
        status == k.RUNNING
        and floats[k.TIME] < until
        and (len(choices) == 0 or at < len(choices))
        and (not recorded or value + len(scores) <= len(probabilities))
    ):
        time_s = floats[k.TIME]
        n = look(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[:n], feasible[:n]
        score_candidates(rule, decider, rules, n, episode, buffers, scores)
        if not decider.guided and not _are_numbers(shown, allowed):
            return _NOT_A_NUMBER
        if at < given:
            choice = choices[at]
        else:
            choice = draw_choice(shown, allowed, temperature, epsilon, draws, chances)
        if choice < 0 or choice >= n:
            return k.INFEASIBLE
        if recorded or (measured and epsilon > 0.0):  # draw_choice leaves epsilon out
            fill_probabilities(shown, allowed, temperature, epsilon, chances)
        status = act(ints, floats, choice, step_outputs)
        if status == k.INFEASIBLE:
            return k.INFEASIBLE
        if recorded:
            for i in range(n):
                probabilities[value + i] = chances[i]
        if measured:
            numbers[N_LOG_PROBABILITY, at] = np.log(chances[choice]) if drawn else 0.0
            numbers[N_REWARD, at] = step_outputs[k.REWARD]
            numbers[N_ELAPSED, at] = step_outputs[k.ELAPSED]
            numbers[N_TIME, at] = time_s
        if len(choices) > 0:
            choices[at] = choice
        for term in range(len(step_outputs)):
            totals[term] += step_outputs[term]
        at += 1
        value += n
    cursor[DECISIONS], cursor[CANDIDATES], cursor[STATUS] = at, value, status
    return status  # type: ignore[no-any-return]


def keep(
    decisions: int = 0, candidates: int = 0, *, numbers: bool = False, given: int = 0
) -> KeptArrays:
    """Return arrays for so many decisions and probabilities of candidates."""
    cursor = np.array([0, 0, k.RUNNING, given])
    return KeptArrays(
        np.empty(decisions, np.int64),
        np.empty((NUMBERS, decisions if numbers else 0)),
        np.empty(candidates, np.float32),
        cursor,
    )


class Scorer(Protocol):
    """The part of a LearnedPolicy that a decider reads: its network, with weights as arrays."""

    name: str
    network: Network
    features_candidates: tuple[Feature, ...]

    @property
    def arrays(self) -> NetworkArrays:
        """The weights."""


@dataclass(frozen=True)
class Decider:
    """A network that plays and continues episodes, or a compiled rule in its place."""

    policy: Scorer
    rule: Heuristic | None = None

    def arrays(self, spec: Spec, rng: np.random.Generator) -> tuple[Any, DeciderArrays, Any]:
        """Return the arguments `rule`, `decider` and `rules` of `play`, for one episode."""
        network, rule = self.policy.network, self.rule
        apart = scores_rows_apart(network)
        table = make_table(network, used=apart and rule is None)  # a rule does not use the table
        parameters = NO_PARAMETERS if rule is None else rule.parameters(spec, rng)
        decider = DeciderArrays(rule is not None, parameters, apart, self.policy.arrays, table)
        return cell(no_score if rule is None else rule.score), decider, network.rules.scores


class NetworkRunner:
    """An episode of a decider: the EpisodeRunner of a candidate scorer.

    Attributes:
        compiled: The first arguments of `play`: functions of the scenario and of the decider.
    """

    def __init__(
        self,
        decider: Decider,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        temperature: float = 0.0,
        epsilon: float = 0.0,
        rng: np.random.Generator = NOT_DRAWN_FROM,
    ) -> None:
        self.compiled = cell(scenario.observe), cell(scenario.step), *decider.arrays(spec, rng)
        self._name, self._scenario, self._spec = decider.policy.name, scenario, spec
        self._drawing = (temperature, epsilon)
        self._memory = begin_episode(spec, instance)
        self._arrays = make_step_arrays(spec, instance)
        self._status = k.RUNNING

    def play(self, rng: np.random.Generator) -> EpisodeTrace:
        """Play the episode to its end; raise HindcastError as `to_the_end` does."""
        kept, episode = self.to_the_end(rng, keep(_FIRST_ROOM, max(_FIRST_ROOM * 16, self._most)))
        values = values_at_end(self._scenario, self._spec, *self._memory[:2], episode.steps)
        probabilities = kept.probabilities[: kept.cursor[CANDIDATES]].copy()
        return EpisodeTrace(kept.choices[: episode.steps].copy(), probabilities, values)

    def follow(self, choices: NDArray[np.int64]) -> Probabilities:
        """Return the policy's probabilities at each of the next choices."""
        count = len(choices)
        kept = keep(count, max(count, 1) * self._most, given=count)
        kept.choices[:] = choices
        if count:
            self._play(NOT_DRAWN_FROM, kept)
        return kept.probabilities[: kept.cursor[CANDIDATES]]

    def finish(self) -> Episode:
        """Play the episode to its end, without draws; raise HindcastError as `to_the_end` does."""
        episode, blocks = (self.to_the_end(NOT_DRAWN_FROM, keep())[1], self._scenario.blocks)
        return episode if blocks is None else replace(episode, blocks=blocks(self._memory.ints))

    def to_the_end(self, rng: np.random.Generator, kept: KeptArrays) -> tuple[KeptArrays, Episode]:
        """Play the episode to its end; return what was kept, and its summary.

        Arrays that are full are doubled. Raises HindcastError for a forbidden choice, and for a
        score that is not a number.
        """
        while self._play(rng, kept) == k.RUNNING:
            at, value = kept.cursor[:2]
            if at == len(kept.choices):
                numbers = np.concatenate([kept.numbers, np.empty_like(kept.numbers)], axis=1)
                kept = kept._replace(choices=_doubled(kept.choices), numbers=numbers)
            if len(kept.probabilities) and value + self._most > len(kept.probabilities):
                kept = kept._replace(probabilities=_doubled(kept.probabilities))
        steps = int(kept.cursor[DECISIONS])
        ints, floats = self._memory[:2]
        return kept, finished_episode(
            self._scenario.outcome,
            self._spec,
            ints,
            floats,
            self._arrays.totals,
            steps,
            truncated=self._status == k.TRUNCATED,
        )

    @property
    def _most(self) -> int:
        return len(self._arrays.scores)

    def _play(self, rng: np.random.Generator, kept: KeptArrays) -> int:
        kept.cursor[STATUS] = self._status
        self._status = play(
            *self.compiled, self._memory, self._arrays, draws_of(rng), *self._drawing, np.inf, kept
        )
        require_played(self._status, self._name, self._scenario)
        return self._status


def require_played(status: int, name: str, scenario: Scenario) -> None:
    """Raise HindcastError if `play` returned no status of an episode."""
    if status == _NOT_A_NUMBER:
        raise HindcastError(f"{name} gave a score that is not a number")
    if status == k.INFEASIBLE:
        raise HindcastError(f"{name}: infeasible choice in {scenario.name}")


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.empty_like(array)])
