"""An environment over a compiled scenario, for stepping through an episode in Python."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InfeasibleChoice
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.arrays import begin_episode
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.workloads.schema import Workload


@dataclass(frozen=True)
class Observation:
    """A decision as a policy sees it. The arrays are read-only copies.

    Attributes:
        time_s: Seconds since the start of the episode.
        context: Features of the moment, (C,) float64.
        candidates: Features of each choice, (N, F) float64.
        feasible: Which choices are allowed, (N,) bool.
        image: Image of the state, uint8 in the spec's image_shape, or None.
    """

    time_s: float
    context: NDArray[np.float64]
    candidates: NDArray[np.float64]
    feasible: NDArray[np.bool_]
    image: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Step:
    """The result of one choice.

    Attributes:
        observation: The next observation.
        reward: Reward of the step.
        elapsed_s: Simulated seconds that passed in the step.
        terminated: Whether the episode reached its end.
        truncated: Whether the episode was cut off at a limit.
        terms: The spec's reward terms, (K,).
    """

    observation: Observation
    reward: float
    elapsed_s: float
    terminated: bool
    truncated: bool
    terms: NDArray[np.float64]


class CompiledEnvironment:
    """One window of a scenario, played decision by decision."""

    def __init__(
        self, scenario: Scenario, config: Any, objective: str, workload: Workload, window: int
    ) -> None:
        self.spec = scenario.spec(config, objective)
        self._scenario = scenario
        self._problem = config, objective, workload, window
        self._observation: Observation | None = None
        self._over = False

    def reset(self, rng: np.random.Generator) -> Observation:
        """Begin an episode on a new instance of the window, drawn from `rng`."""
        return self.begin(self._scenario.instance(*self._problem, rng))

    def begin(self, instance: Instance) -> Observation:
        """Begin an episode on a given instance."""
        self._arrays = begin_episode(self.spec, instance)
        self._ints, self._floats = self._arrays[:2]
        self._step_outputs = np.zeros(k.TERMS + len(self.spec.reward_terms))
        self._over = False
        return self._observe()

    def step(self, choice: int) -> Step:
        """Apply the choice of a row of the last observation.

        An infeasible choice raises InfeasibleChoice and changes nothing.
        """
        if self._observation is None:
            raise InfeasibleChoice("the episode has not begun; call reset() first")
        if self._over:
            raise InfeasibleChoice("the episode is over; call reset() first")
        feasible = self._observation.feasible
        if not 0 <= choice < len(feasible) or not feasible[choice]:
            raise InfeasibleChoice(_why(choice, feasible))
        status = self._scenario.step(self._ints, self._floats, choice, self._step_outputs)
        if status == k.INFEASIBLE:
            raise InfeasibleChoice(_why(choice, feasible))
        self._over = status in {k.TERMINATED, k.TRUNCATED}
        return Step(
            self._observe(),
            reward=float(self._step_outputs[k.REWARD]),
            elapsed_s=float(self._step_outputs[k.ELAPSED]),
            terminated=status == k.TERMINATED,
            truncated=status == k.TRUNCATED,
            terms=self._step_outputs[k.TERMS :].copy(),
        )

    def outcome(self) -> dict[str, float]:
        """Return the outcomes so far by name."""
        values = np.zeros(len(self.spec.outcomes))
        self._scenario.outcome(self._ints, self._floats, values)
        return {o.name: float(v) for o, v in zip(self.spec.outcomes, values, strict=True)}

    def _observe(self) -> Observation:
        """Return the observation of the memory, whose arrays are read-only copies."""
        arrays = self._arrays
        n = self._scenario.observe(*arrays)
        self._observation = Observation(
            time_s=float(self._floats[k.TIME]),
            context=_frozen(arrays.context),
            candidates=_frozen(arrays.candidates[:n]),
            feasible=_frozen(arrays.feasible[:n]),
            image=_frozen(arrays.image).reshape(self.spec.image_shape)
            if self.spec.image_shape
            else None,
        )
        return self._observation


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _why(choice: int, feasible: NDArray[np.bool_]) -> str:
    allowed = np.flatnonzero(feasible)
    shown = ", ".join(str(i) for i in allowed[:10]) + (", ..." if len(allowed) > 10 else "")
    return (
        f"choice {choice} of {len(feasible)} candidates is not feasible; "
        f"feasible: {shown or 'none'}"
    )
