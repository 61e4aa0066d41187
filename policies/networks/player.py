"""Episodes of a candidate scorer in compiled code, with the probability of every candidate.

What `pipeline.simulation.players` asks for: a recording and its verification need whole
distributions, where training (policies.rollouts.trajectories) needs the choice's only.
"""

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.simulation.environment import ObservationBuffers
from pipeline.simulation.kernel import (
    FLOATS,
    IMAGE,
    INFEASIBLE,
    INTS,
    MASK,
    OBSERVE,
    ROWS,
    RUNNING,
    STEP,
    TERMS,
    compiled,
)
from pipeline.simulation.players import Chances, Played, values_at_end
from pipeline.simulation.policy import GENERATOR, draw_choice, fill_probabilities
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.spec import Spec
from policies.networks.features import COLUMNS, CONSTANTS, FLAGS, INPUTS
from policies.networks.forward import score_sets

_FIRST_ROOM: Final = 2048  # decisions; doubled where an episode is longer
_MAP: Final = (COLUMNS, FLAGS, types.boolean, CONSTANTS, CONSTANTS)
_CHANCES: Final = types.Array(types.float32, 1, "C")

# what has been written, and how the episode stands
_DECISIONS: Final = 0
_CANDIDATES: Final = 1
_STATUS: Final = 2


@compiled(
    types.boolean(
        types.FunctionType(OBSERVE), types.FunctionType(STEP), INTS, FLOATS,
        *_MAP, *_MAP, COLUMNS, types.boolean, types.int64, types.int64, types.boolean,
        types.int64, types.float64, INPUTS,
        types.float64, types.float64, types.boolean, GENERATOR,
        FLOATS, IMAGE, ROWS, MASK, FLOATS, FLOATS, FLOATS, INTS, _CHANCES, INTS,
    ))  # fmt: skip
def _decide(
    observe: Any, step: Any, ints: Any, floats: Any,
    c_columns: Any, c_heavy: Any, c_quadratic: Any, c_mean: Any, c_inverse: Any,
    columns: Any, heavy: Any, quadratic: Any, mean: Any, inverse: Any,
    widths: Any, tanh: Any, kind: Any, heads: Any, norm: Any, seen: Any, threshold: Any, flat: Any,
    temperature: Any, epsilon: Any, given: Any, rng: Any,
    context: Any, image: Any, candidates: Any, feasible: Any,
    scores: Any, probabilities: Any, booked: Any, choices: Any, chances: Any, cursor: Any,
) -> Any:  # fmt: skip
    """Play on until the episode is over or the arrays are full; False for a forbidden choice.

    Choices are drawn, or where `given` read from `choices`.
    """
    moment, picture = context.reshape((1, len(context))), image.reshape((1, len(image)))
    span = np.zeros(2, np.int64)
    at, value, status = cursor[_DECISIONS], cursor[_CANDIDATES], cursor[_STATUS]
    while status == RUNNING and at < len(choices) and value + len(scores) <= len(chances):
        n = observe(ints, floats, context, image, candidates, feasible)
        shown, allowed = scores[:n], feasible[:n]
        span[1] = n
        score_sets(
            moment, candidates[:n], allowed, picture, span,
            c_columns, c_heavy, c_quadratic, c_mean, c_inverse,
            columns, heavy, quadratic, mean, inverse, widths, tanh, kind, heads, norm, seen,
            threshold, flat, shown,
        )  # fmt: skip
        if given:
            choice = choices[at]
        else:
            choice = draw_choice(shown, allowed, temperature, epsilon, rng, probabilities)
        if choice < 0 or choice >= n:
            return False
        fill_probabilities(shown, allowed, temperature, epsilon, probabilities)
        for i in range(n):
            chances[value + i] = probabilities[i]
        status = step(ints, floats, choice, booked)
        if status == INFEASIBLE:
            return False
        choices[at] = choice
        at += 1
        value += n
    cursor[_DECISIONS], cursor[_CANDIDATES], cursor[_STATUS] = at, value, status
    return True


class NetworkPlayer:
    """The Player (pipeline.simulation.players) of a candidate scorer."""

    def __init__(
        self,
        name: str,
        arrays: tuple[Any, ...],
        scenario: Scenario,
        spec: Spec,
        instance: Instance,
        temperature: float,
        epsilon: float,
    ) -> None:
        self._name, self._arrays = name, arrays
        self._scenario, self._spec = scenario, spec
        self._drawing = (temperature, epsilon)
        self._capacity = instance.capacity
        self._ints, self._floats = instance.ints.copy(), instance.floats.copy()
        self._buffers = ObservationBuffers(spec, instance.capacity)
        self._scores, self._probabilities = np.empty((2, instance.capacity))
        self._booked = np.zeros(TERMS + len(spec.reward_terms))
        self._cursor = np.zeros(3, np.int64)
        self._cursor[_STATUS] = RUNNING

    def play(self, rng: np.random.Generator) -> Played:
        """Play it to its end; HindcastError for a forbidden choice."""
        choices = np.empty(_FIRST_ROOM, np.int64)
        chances = np.empty(max(_FIRST_ROOM * 16, self._capacity), np.float32)
        while self._run(rng, choices, chances, given=False):
            if self._cursor[_DECISIONS] == len(choices):
                choices = np.concatenate([choices, np.empty_like(choices)])
            if self._cursor[_CANDIDATES] + self._capacity > len(chances):
                chances = np.concatenate([chances, np.empty_like(chances)])
        steps, candidates = self._cursor[:2]
        values = values_at_end(self._scenario, self._spec, self._ints, self._floats, int(steps))
        return Played(choices[:steps].copy(), chances[:candidates].copy(), values)

    def follow(self, choices: NDArray[np.int64]) -> Chances:
        """The policy's probabilities at each of the next choices."""
        self._cursor[:2] = 0
        own = choices.astype(np.int64)
        chances = np.empty(max(len(own), 1) * self._capacity, np.float32)
        self._run(np.random.default_rng(0), own, chances, given=True)
        return chances[: self._cursor[_CANDIDATES]]

    def _run(
        self,
        rng: np.random.Generator,
        choices: NDArray[np.int64],
        chances: Chances,
        *,
        given: bool,
    ) -> bool:
        """Whether the episode goes on."""
        if not _decide(
            self._scenario.observe, self._scenario.step, self._ints, self._floats, *self._arrays,
            *self._drawing, given, rng, *self._buffers.arrays, self._scores, self._probabilities,
            self._booked, choices, chances, self._cursor,
        ):  # fmt: skip
            raise HindcastError(f"{self._name}: infeasible choice in {self._scenario.name}")
        return bool(self._cursor[_STATUS] == RUNNING)
