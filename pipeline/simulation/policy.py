"""Policies, which score candidates, and the one place that turns scores into a choice.

A policy gives one score per candidate; higher is better. It may ignore the mask. `choose` applies
the mask, breaks ties in favour of the first row, explores, and returns the propensity:

    epsilon > 0        with probability epsilon, uniform over the feasible rows
    temperature = 0    otherwise the first feasible row with the highest score
    temperature > 0    otherwise softmax(scores / temperature) over the feasible rows
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import HindcastError, PolicyFault
from hindcast.pipeline.simulation.draws import Draws, draws_of, uniform
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.kernel import Compiled, Floats, Mask, Rows, compiled
from hindcast.pipeline.simulation.spec import Spec

NO_PARAMETERS: Final = np.zeros(0)


class Drawing(NamedTuple):
    """Parameters and exploration of a rule that draws its choices, see `draw_choice`."""

    parameters: Floats
    temperature: float
    epsilon: float


Reading = Literal["feasible", "image"]


@runtime_checkable
class Policy(Protocol):
    """Any object that scores the candidates of an observation."""

    @property
    def name(self) -> str:
        """Name of the policy in tables and datasets."""

    def scores(self, observation: Observation) -> NDArray[np.float64]:
        """Return one score per candidate.

        Args:
            observation: The observation, with N candidates.

        Returns:
            Scores (N,), higher is better. The scores of infeasible rows are ignored.
        """


@runtime_checkable
class BatchPolicy(Policy, Protocol):
    """A policy that scores many observations at once, such as a network."""

    def batch_scores(
        self,
        context: NDArray[np.float64],
        candidates: NDArray[np.float64],
        offsets: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return the scores (sum of N,) of all candidates of B observations.

        context (B, C); candidates (sum of N, F), those of observation b in rows
        offsets[b]:offsets[b + 1]. A policy that needs more inputs names them in an attribute
        `reads`, any of "feasible" (sum of N,) and "image" (B, P) uint8, and receives them as
        keyword arguments.
        """


def readings(policy: BatchPolicy) -> tuple[Reading, ...]:
    """Return the further inputs of a policy: its attribute `reads`, if it has one."""
    return getattr(policy, "reads", ())


@dataclass(frozen=True)
class Heuristic:
    """A compiled rule: a function of the observation and of parameters drawn per episode.

    Attributes:
        name: Name of the rule in recipes and tables.
        score: Compiled function with the signature `hindcast.pipeline.simulation.kernel.SCORE`,
            which fills the scores (N,) of one observation.
        draw: Function (spec, rng) -> parameters (P,) of one episode, or None for a rule without
            parameters.
        description: One line that says which candidate the rule chooses.
        formula: One line with the score, in names of the spec's features.
        needs: Columns of the candidates that the rule cannot do without, for scenarios whose
            settings leave out columns.
        exploration: Epsilon and temperature of the rule where only its name is given.
    """

    name: str
    score: Compiled
    draw: Callable[[Spec, np.random.Generator], NDArray[np.float64]] | None = None
    description: str = ""
    formula: str = ""
    needs: tuple[str, ...] = ()
    exploration: tuple[float, float] = (0.0, 0.0)

    def parameters(self, spec: Spec, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the parameters of one episode, (P,), drawn from `rng`."""
        return NO_PARAMETERS if self.draw is None else self.draw(spec, rng)

    def scores(
        self, observation: Observation, parameters: NDArray[np.float64] = NO_PARAMETERS
    ) -> NDArray[np.float64]:
        """Return the scores of one observation, (N,), for the given parameters (P,)."""
        scores = np.empty(len(observation.feasible))
        self.score(
            np.array(observation.context, np.float64),  # compiled code takes no read-only arrays
            np.array(observation.candidates, np.float64),
            np.array(observation.feasible),
            parameters,
            scores,
        )
        return scores


@dataclass(frozen=True)
class Behaviour:
    """A policy and its exploration: the unit that is run, recorded and evaluated.

    Attributes:
        name: Name of the behaviour in datasets and tables.
        policy: A Heuristic or a Policy.
        epsilon: Probability of a uniform choice among the feasible rows, 0 to 1.
        temperature: Temperature of the softmax over scores; 0 takes the highest score.
    """

    name: str
    policy: Any  # not a type: Protocols with properties do not mix with frozen fields
    epsilon: float = 0.0
    temperature: float = 0.0

    def drawing(self, parameters: NDArray[np.float64]) -> Drawing:
        """Return how compiled code draws the choices, with these parameters of the rule."""
        return Drawing(parameters, float(self.temperature), float(self.epsilon))

    @property
    def stochastic(self) -> bool:
        """True if two episodes on one instance can differ."""
        drawn = isinstance(self.policy, Heuristic) and self.policy.draw is not None
        return self.epsilon > 0 or self.temperature > 0 or drawn


@contextmanager
def faults_of(behaviour: Behaviour) -> Iterator[None]:
    """Turn an error that a compiled rule raises, such as one of the user's, into a PolicyFault."""
    try:
        yield
    except HindcastError:
        raise
    except Exception as error:  # compiled code can raise anything
        raise PolicyFault(
            f"{behaviour.name}: its compiled code raised {type(error).__name__}: "
            f"{' '.join(str(error).split())[:300]}, in an episode"
        ) from error


@compiled()
def best_feasible(scores: Floats, feasible: Mask) -> int:
    """Return the first feasible row with the highest score, or -1 if no row is feasible."""
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


@compiled()
def fill_probabilities(
    scores: Floats, feasible: Mask, temperature: float, epsilon: float, probabilities: Floats
) -> int:
    """Fill the probability of every candidate; return the number of feasible rows."""
    best = best_feasible(scores, feasible)
    n_feasible = 0
    total = 0.0
    for i in range(len(scores)):
        probabilities[i] = 0.0
        if feasible[i]:
            n_feasible += 1
            if temperature > 0.0:
                weight = 1.0  # also if both are infinite, whose difference is not a number
                if scores[i] != scores[best]:
                    weight = np.exp((scores[i] - scores[best]) / temperature)
                probabilities[i] = weight
                total += weight
    if n_feasible == 0:
        return 0
    if temperature <= 0.0:
        probabilities[best] = total = 1.0
    for i in range(len(scores)):
        if feasible[i]:
            probabilities[i] = (1.0 - epsilon) * probabilities[i] / total + epsilon / n_feasible
    return n_feasible


@compiled()
def choose_with(
    scores: Floats,
    feasible: Mask,
    temperature: float,
    epsilon: float,
    u: float,
    probabilities: Floats,
) -> int:
    """Return the choice for a uniform number `u` in [0, 1), or -1 if no row is feasible.

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
    return last  # the probabilities can sum to slightly less than 1


@compiled()
def draw_choice(
    scores: Floats,
    feasible: Mask,
    temperature: float,
    epsilon: float,
    draws: Draws,
    probabilities: Floats,
) -> int:
    """Draw a choice as `choose` does; return -1 if no row is feasible.

    Overwrites `probabilities`. A stochastic policy draws one uniform number per decision and any
    other policy draws none, so the choices are the same whether the episode is recorded or not.
    """
    if epsilon <= 0.0 and temperature <= 0.0:
        return best_feasible(scores, feasible)
    return choose_with(scores, feasible, temperature, epsilon, uniform(draws), probabilities)


def choose(
    scores: NDArray[np.float64],
    feasible: NDArray[np.bool_],
    rng: np.random.Generator,
    temperature: float = 0.0,
    epsilon: float = 0.0,
) -> tuple[int, float]:
    """Choose a row; return it and its propensity, the probability of that choice.

    scores (N,), feasible (N,). Raises HindcastError if no row is feasible, or if the score of a
    feasible row is not a number.
    """
    scores = np.array(scores, np.float64)
    feasible = np.array(feasible, np.bool_)
    if not feasible.any():
        raise HindcastError("no candidate is feasible, so no choice can be made")
    if np.isnan(scores[feasible]).any():
        raise HindcastError("the policy gave a score that is not a number")
    buffer = np.empty(len(scores))
    index = int(draw_choice(scores, feasible, temperature, epsilon, draws_of(rng), buffer))
    fill_probabilities(scores, feasible, temperature, epsilon, buffer)
    return index, float(buffer[index])


@compiled()
def no_score(
    context: Floats, candidates: Rows, feasible: Mask, parameters: Floats, scores: Floats
) -> None:
    """Leave the scores unchanged: the rule of a behaviour whose policy is not known."""
