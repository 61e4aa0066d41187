"""Compiled episodes of a candidate scorer, for recording, verification and evaluation.

NetworkRunner implements `hindcast.pipeline.simulation.players`: recording and verification need the
probability of every candidate, evaluation only the choice. Training also needs the probability of
the choice (hindcast.policies.rollouts.trajectories).
"""

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.simulation.arrays import EPISODE, STEPS, begin_episode, make_step_arrays
from hindcast.pipeline.simulation.functions import OBSERVE_CELL, STEP_CELL, cell
from hindcast.pipeline.simulation.kernel import (
    FLOATS,
    INFEASIBLE,
    INTS,
    MASK,
    RUNNING,
    TRUNCATED,
    compiled,
)
from hindcast.pipeline.simulation.players import EpisodeTrace, Probabilities, values_at_end
from hindcast.pipeline.simulation.policy import GENERATOR, draw_choice, fill_probabilities
from hindcast.pipeline.simulation.rollout import Episode, finished_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.simulation.uncounted import uncounted
from hindcast.policies.networks.forward import NETWORK, NetworkArrays
from hindcast.policies.networks.row_table import TABLE, looks_alone, make_table
from hindcast.policies.networks.rules import RULES, rule_buffers
from hindcast.policies.networks.scoring import score_candidates
from hindcast.policies.networks.settings import Network

_FIRST_ROOM: Final = 2048  # decisions; doubled for longer episodes
_NOT_A_NUMBER: Final = -2  # code of an episode, beside INFEASIBLE
_CHANCES: Final = types.Array(types.float32, 1, "C")

# members of the cursor: numbers of decisions and candidates written, status of the episode
_DECISIONS: Final = 0
_CANDIDATES: Final = 1
_STATUS: Final = 2

_NO_CHANCES: Final = np.empty(0, np.float32)


@compiled(types.boolean(FLOATS, MASK))
def _are_numbers(scores: Any, feasible: Any) -> bool:
    """Return whether the score of every feasible candidate is a number."""
    wrong = False
    for unsigned in range(np.uint64(len(feasible))):
        i = np.uint64(unsigned)
        wrong |= feasible[i] & (scores[i] != scores[i])
    return not wrong


@compiled(
    types.int64(
        OBSERVE_CELL, STEP_CELL, EPISODE, STEPS, NETWORK, RULES, types.boolean, TABLE,
        types.float64, types.float64, types.boolean, types.boolean, GENERATOR, INTS, _CHANCES, INTS,
    ))  # fmt: skip
def _decide(
    observe: Any, step: Any, episode: Any, arrays: Any, network: Any, rules: Any, alone: Any,
    table: Any, temperature: Any, epsilon: Any, given: Any, recorded: Any, rng: Any, choices: Any,
    trace_probabilities: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Play until the episode is over or the arrays are full.

    Choices are drawn, or read from `choices` if `given`. The probabilities of all candidates are
    written if `recorded`. Returns RUNNING, INFEASIBLE for a forbidden choice, or _NOT_A_NUMBER if
    the score of a feasible candidate is not a number.
    """
    network, table = uncounted(network), uncounted(table)
    observe, step = observe[0], step[0]
    episode = uncounted(episode)
    ints, floats, context, image, candidates, feasible = episode
    scores, probabilities, step_outputs, totals = uncounted(arrays)
    wide, able, values = rule_buffers(rules, candidates)
    at, value, status = cursor[_DECISIONS], cursor[_CANDIDATES], cursor[_STATUS]
    while (
        status == RUNNING and at < len(choices)
        and (not recorded or value + len(scores) <= len(trace_probabilities))
    ):  # fmt: skip
        n = observe(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[:n], feasible[:n]
        score_candidates(n, episode, network, rules, alone, table, wide, able, values, scores)
        if not _are_numbers(shown, allowed):
            return _NOT_A_NUMBER
        if given:
            choice = choices[at]
        else:
            choice = draw_choice(shown, allowed, temperature, epsilon, rng, probabilities)
        if choice < 0 or choice >= n:
            return INFEASIBLE
        if recorded:
            fill_probabilities(shown, allowed, temperature, epsilon, probabilities)
            for i in range(n):
                trace_probabilities[value + i] = probabilities[i]
        status = step(ints, floats, choice, step_outputs)
        if status == INFEASIBLE:
            return INFEASIBLE
        for term in range(len(step_outputs)):
            totals[term] += step_outputs[term]
        choices[at] = choice
        at += 1
        value += n
    cursor[_DECISIONS], cursor[_CANDIDATES], cursor[_STATUS] = at, value, status
    return RUNNING


class NetworkRunner:
    """The EpisodeRunner (hindcast.pipeline.simulation.players) of a candidate scorer."""

    def __init__(
        self,
        name: str,
        network: Network,
        arrays: NetworkArrays,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        temperature: float = 0.0,
        epsilon: float = 0.0,
    ) -> None:
        alone = looks_alone(network)
        self._name = name
        self._scorer = (arrays, network.rules.scores, alone, make_table(network, used=alone))
        self._scenario, self._spec = scenario, spec
        self._drawing = (temperature, epsilon)
        self._capacity = instance.capacity
        self._memory = begin_episode(spec, instance)
        self._arrays = make_step_arrays(spec, instance)
        self._cursor = np.zeros(3, np.int64)
        self._cursor[_STATUS] = RUNNING

    def play(self, rng: np.random.Generator) -> EpisodeTrace:
        """Play the episode to its end; raise HindcastError for a forbidden choice."""
        choices = np.empty(_FIRST_ROOM, np.int64)
        trace_probabilities = np.empty(max(_FIRST_ROOM * 16, self._capacity), np.float32)
        while self._run(rng, choices, trace_probabilities):
            if self._cursor[_DECISIONS] == len(choices):
                choices = np.concatenate([choices, np.empty_like(choices)])
            if self._cursor[_CANDIDATES] + self._capacity > len(trace_probabilities):
                trace_probabilities = np.concatenate(
                    [trace_probabilities, np.empty_like(trace_probabilities)]
                )
        steps, candidates = self._cursor[:2]
        values = values_at_end(self._scenario, self._spec, *self._memory[:2], int(steps))
        return EpisodeTrace(choices[:steps].copy(), trace_probabilities[:candidates].copy(), values)

    def finish(self) -> Episode:
        """Play the episode to its end with the best candidates; return its summary.

        Raises HindcastError for a forbidden choice, and for a score that is not a number.
        """
        choices, steps, running = np.empty(_FIRST_ROOM, np.int64), 0, True
        rng = np.random.default_rng(0)  # for the signature: nothing is drawn
        while running:
            self._cursor[_DECISIONS] = 0
            running = self._run(rng, choices, _NO_CHANCES, recorded=False)
            steps += int(self._cursor[_DECISIONS])
        memory = self._memory
        return finished_episode(
            self._scenario.outcome, self._spec, memory.ints, memory.floats, self._arrays.totals,
            steps, truncated=bool(self._cursor[_STATUS] == TRUNCATED), blocks=self._scenario.blocks,
        )  # fmt: skip

    def follow(self, choices: NDArray[np.int64]) -> Probabilities:
        """Return the policy's probabilities at each of the next choices."""
        self._cursor[:2] = 0
        own = choices.astype(np.int64)
        trace_probabilities = np.empty(max(len(own), 1) * self._capacity, np.float32)
        self._run(np.random.default_rng(0), own, trace_probabilities, given=True)
        return trace_probabilities[: self._cursor[_CANDIDATES]]

    def _run(
        self,
        rng: np.random.Generator,
        choices: NDArray[np.int64],
        trace_probabilities: Probabilities,
        *,
        given: bool = False,
        recorded: bool = True,
    ) -> bool:
        """Play until the arrays are full; return whether the episode is still running."""
        code = _decide(
            cell(self._scenario.observe), cell(self._scenario.step), self._memory, self._arrays,
            *self._scorer, *self._drawing, given, recorded, rng, choices, trace_probabilities,
            self._cursor,
        )  # fmt: skip
        if code == _NOT_A_NUMBER:
            raise HindcastError(f"{self._name} gave a score that is not a number")
        if code == INFEASIBLE:
            raise HindcastError(f"{self._name}: infeasible choice in {self._scenario.name}")
        return bool(self._cursor[_STATUS] == RUNNING)
