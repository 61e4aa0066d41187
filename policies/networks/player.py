"""Compiled episodes of a candidate scorer, with the probability of every candidate.

NetworkRunner implements `pipeline.simulation.players`: recording and verification need whole
distributions, training (policies.rollouts.trajectories) only the probability of the choice.
"""

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.simulation.arrays import EPISODE, STEPS, begin_episode, make_step_arrays
from pipeline.simulation.functions import OBSERVE_CELL, STEP_CELL, cell
from pipeline.simulation.kernel import INFEASIBLE, INTS, RUNNING, compiled
from pipeline.simulation.players import EpisodeTrace, Probabilities, values_at_end
from pipeline.simulation.policy import GENERATOR, draw_choice, fill_probabilities
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.spec import Spec
from pipeline.simulation.uncounted import uncounted
from policies.networks.forward import NETWORK, NetworkArrays, score_sets
from policies.networks.rules import RULES, RuleColumns, rule_buffers, widen

_FIRST_ROOM: Final = 2048  # decisions; doubled for longer episodes
_CHANCES: Final = types.Array(types.float32, 1, "C")

# members of the cursor: numbers of decisions and candidates written, status of the episode
_DECISIONS: Final = 0
_CANDIDATES: Final = 1
_STATUS: Final = 2


@compiled(
    types.boolean(
        OBSERVE_CELL, STEP_CELL, EPISODE, STEPS, NETWORK, RULES,
        types.float64, types.float64, types.boolean, GENERATOR, INTS, _CHANCES, INTS,
    ))  # fmt: skip
def _decide(
    observe: Any, step: Any, episode: Any, arrays: Any, network: Any, rules: Any, temperature: Any,
    epsilon: Any, given: Any, rng: Any, choices: Any, trace_probabilities: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Play until the episode is over or the arrays are full; return False for a forbidden choice.

    Choices are drawn, or read from `choices` if `given`.
    """
    network = uncounted(network)
    observe, step = observe[0], step[0]
    ints, floats, context, image, candidates, feasible = uncounted(episode)
    scores, probabilities, step_outputs, _totals = uncounted(arrays)
    moment, picture = context.reshape((1, len(context))), image.reshape((1, len(image)))
    span = np.zeros(2, np.int64)
    wide, able, values = rule_buffers(rules, candidates)
    ruled = len(rules) > 0
    rows = wide if ruled else candidates
    at, value, status = cursor[_DECISIONS], cursor[_CANDIDATES], cursor[_STATUS]
    while (
        status == RUNNING and at < len(choices) and value + len(scores) <= len(trace_probabilities)
    ):
        n = observe(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[:n], feasible[:n]
        if ruled:
            widen(rules, context, candidates[:n], allowed, shown, wide, able, values)
        span[1] = n
        score_sets(moment, rows[:n], allowed, picture, span, network, shown)
        if given:
            choice = choices[at]
        else:
            choice = draw_choice(shown, allowed, temperature, epsilon, rng, probabilities)
        if choice < 0 or choice >= n:
            return False
        fill_probabilities(shown, allowed, temperature, epsilon, probabilities)
        for i in range(n):
            trace_probabilities[value + i] = probabilities[i]
        status = step(ints, floats, choice, step_outputs)
        if status == INFEASIBLE:
            return False
        choices[at] = choice
        at += 1
        value += n
    cursor[_DECISIONS], cursor[_CANDIDATES], cursor[_STATUS] = at, value, status
    return True


class NetworkRunner:
    """The EpisodeRunner (pipeline.simulation.players) of a candidate scorer."""

    def __init__(
        self,
        name: str,
        network: NetworkArrays,
        rules: RuleColumns,
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        temperature: float,
        epsilon: float,
    ) -> None:
        self._name, self._network, self._rules = name, network, rules.scores
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
        while self._run(rng, choices, trace_probabilities, given=False):
            if self._cursor[_DECISIONS] == len(choices):
                choices = np.concatenate([choices, np.empty_like(choices)])
            if self._cursor[_CANDIDATES] + self._capacity > len(trace_probabilities):
                trace_probabilities = np.concatenate(
                    [trace_probabilities, np.empty_like(trace_probabilities)]
                )
        steps, candidates = self._cursor[:2]
        values = values_at_end(self._scenario, self._spec, *self._memory[:2], int(steps))
        return EpisodeTrace(choices[:steps].copy(), trace_probabilities[:candidates].copy(), values)

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
        given: bool,
    ) -> bool:
        """Play until the arrays are full; return whether the episode is still running."""
        if not _decide(
            cell(self._scenario.observe), cell(self._scenario.step), self._memory, self._arrays,
            self._network, self._rules, *self._drawing, given, rng, choices, trace_probabilities,
            self._cursor,
        ):  # fmt: skip
            raise HindcastError(f"{self._name}: infeasible choice in {self._scenario.name}")
        return bool(self._cursor[_STATUS] == RUNNING)
