"""What decides: scores of candidates; and the one place that turns scores into a choice.

A policy gives one score per candidate, higher is better; the mask is not its business. `choose`
masks, breaks ties (the first of the best), explores and knows the propensity:

    epsilon > 0        with probability epsilon, uniform over the feasible
    temperature = 0    else the first feasible row with the highest score
    temperature > 0    else softmax(scores / temperature) over the feasible
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np
from numba import types
from numpy.typing import NDArray

from pipeline.errors import HindcastError
from pipeline.simulation.environment import Observation
from pipeline.simulation.kernel import FLOATS, MASK, SCORE, Compiled, compiled
from pipeline.simulation.spec import Spec

NO_PARAMETERS: Final = np.zeros(0)
GENERATOR: Final = types.npy_rng

Reading = Literal["feasible", "image"]


@runtime_checkable
class Policy(Protocol):
    """Anything that scores the candidates of an observation."""

    @property
    def name(self) -> str:
        """What it is called in tables and datasets."""

    def scores(self, observation: Observation) -> NDArray[np.float64]:
        """One score per candidate, (N,); higher is better, infeasible rows may hold anything."""


@runtime_checkable
class BatchPolicy(Policy, Protocol):
    """A policy that scores many observations at once (a network)."""

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Scores of all candidates of B observations.

        context (B, C); candidates (sum of N, F), observation b in rows offsets[b]:offsets[b+1];
        returns (sum of N,).

        A policy that needs more says so in an attribute `reads`, any of "feasible" (sum of N,) and
        "image" (B, P) uint8; it is then given those as keyword arguments.
        """


def readings(policy: BatchPolicy) -> tuple[Reading, ...]:
    """What `batch_scores` of this policy wants besides context, candidates and offsets."""
    return getattr(policy, "reads", ())


@dataclass(frozen=True)
class Heuristic:
    """A compiled rule: a function of the observation and of parameters drawn per episode.

    score   compiled with the signature pipeline.simulation.kernel.SCORE
    draw    (spec, rng) -> parameters of one episode; None for a rule without parameters
    """

    name: str
    score: Compiled
    draw: Callable[[Spec, np.random.Generator], NDArray[np.float64]] | None = None
    description: str = ""  # one line: which candidate the rule chooses
    formula: str = ""  # one line: the score, in names of the spec's features

    def parameters(self, spec: Spec, rng: np.random.Generator) -> NDArray[np.float64]:
        """The parameters of one episode, (P,)."""
        return NO_PARAMETERS if self.draw is None else self.draw(spec, rng)

    def scores(
        self, observation: Observation, parameters: NDArray[np.float64] = NO_PARAMETERS
    ) -> NDArray[np.float64]:
        """Scores of one observation, (N,)."""
        scores = np.empty(len(observation.feasible))
        self.score(
            np.array(observation.context, np.float64),  # copies: compiled code takes no read-only
            np.array(observation.candidates, np.float64),
            np.array(observation.feasible),
            parameters,
            scores,
        )
        return scores


@dataclass(frozen=True)
class Behaviour:
    """A policy and how it explores: what is run, recorded and evaluated.

    `name` identifies it in datasets and tables; epsilon and temperature as in `choose`.
    """

    name: str
    policy: Any  # a Heuristic or a Policy; Protocols with properties do not mix with frozen fields
    epsilon: float = 0.0
    temperature: float = 0.0

    @property
    def stochastic(self) -> bool:
        """Whether two episodes on one instance can differ."""
        drawn = isinstance(self.policy, Heuristic) and self.policy.draw is not None
        return self.epsilon > 0 or self.temperature > 0 or drawn


@compiled(types.int64(FLOATS, MASK))
def best_feasible(scores, feasible):  # type: ignore[no-untyped-def]
    """The first feasible row with the highest score; -1 where nothing is feasible."""
    best = 0
    while best < len(scores) and not feasible[best]:
        best += 1
    if best == len(scores):
        return -1
    highest = scores[best]
    for i in range(best + 1, len(scores)):
        if scores[i] > highest and feasible[i]:
            best = i
            highest = scores[i]
    return best


@compiled(types.int64(FLOATS, MASK, types.float64, types.float64, FLOATS))
def fill_probabilities(scores, feasible, temperature, epsilon, probabilities):  # type: ignore[no-untyped-def]
    """Fill the probability of every candidate; return the number of feasible ones."""
    best = best_feasible(scores, feasible)
    n_feasible = 0
    total = 0.0
    for i in range(len(scores)):
        probabilities[i] = 0.0
        if feasible[i]:
            n_feasible += 1
            if temperature > 0.0:
                probabilities[i] = np.exp((scores[i] - scores[best]) / temperature)
                total += probabilities[i]
    if n_feasible == 0:
        return 0
    if temperature <= 0.0:
        probabilities[best] = total = 1.0
    for i in range(len(scores)):
        if feasible[i]:
            probabilities[i] = (1.0 - epsilon) * probabilities[i] / total + epsilon / n_feasible
    return n_feasible


@compiled(types.int64(FLOATS, MASK, types.float64, types.float64, types.float64, FLOATS))
def choose_with(scores, feasible, temperature, epsilon, u, probabilities):  # type: ignore[no-untyped-def]
    """The choice that a uniform number `u` in [0, 1) makes; -1 where nothing is feasible.

    Overwrites `probabilities`.
    """
    if u < epsilon:
        n_feasible = 0
        for i in range(len(scores)):
            n_feasible += feasible[i]
        left = min(int(u / epsilon * n_feasible), n_feasible - 1)
        for i in range(len(scores)):
            if feasible[i]:
                if left == 0:
                    return i
                left -= 1
        return -1
    if temperature <= 0.0:
        return best_feasible(scores, feasible)
    if fill_probabilities(scores, feasible, temperature, 0.0, probabilities) == 0:
        return -1
    u = (u - epsilon) / (1.0 - epsilon)
    last = -1
    for i in range(len(scores)):
        if feasible[i] and probabilities[i] > 0.0:
            last = i
            u -= probabilities[i]
            if u < 0.0:
                return i
    return last  # rounding: the probabilities sum to a hair less than 1


@compiled(types.int64(FLOATS, MASK, types.float64, types.float64, GENERATOR, FLOATS))
def draw_choice(scores, feasible, temperature, epsilon, rng, probabilities):  # type: ignore[no-untyped-def]
    """Choose a row as `choose` says, -1 where nothing is feasible; overwrites `probabilities`.

    One uniform number is drawn per decision of a stochastic policy and none otherwise, so the
    choices do not depend on whether the episode is recorded.
    """
    if epsilon <= 0.0 and temperature <= 0.0:
        return best_feasible(scores, feasible)
    return choose_with(scores, feasible, temperature, epsilon, rng.random(), probabilities)


def choose(
    scores: NDArray[np.float64],
    feasible: NDArray[np.bool_],
    rng: np.random.Generator,
    temperature: float = 0.0,
    epsilon: float = 0.0,
) -> tuple[int, float]:
    """The index chosen and its propensity, the probability with which it was chosen.

    scores (N,), feasible (N,). Raises HindcastError where nothing is feasible or a feasible
    score is not a number.
    """
    scores = np.array(scores, np.float64)
    feasible = np.array(feasible, np.bool_)
    if not feasible.any():
        raise HindcastError("nothing is feasible: there is no choice to make")
    if np.isnan(scores[feasible]).any():
        raise HindcastError("a policy gave a score that is not a number")
    buffer = np.empty(len(scores))
    index = int(draw_choice(scores, feasible, temperature, epsilon, rng, buffer))
    fill_probabilities(scores, feasible, temperature, epsilon, buffer)
    return index, float(buffer[index])


@compiled(SCORE)
def no_score(context, candidates, feasible, parameters, scores):  # type: ignore[no-untyped-def]
    """Leave the scores as they are, for behaviours whose rule is not known."""
