"""A problem of two decisions that can be enumerated, and small real problems."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hindcast.pipeline.recipes.workload_source import load_source
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.features import unscaled_map
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Network, NetworkSettings
from hindcast.policies.online.problem import Problem
from hindcast.policies.rollouts.trajectories import NetworkInputs
from hindcast.policies.training.delivery.played import windows_of


class ToyProblem(SimpleNamespace):
    """Problem with only the attributes that the agent under test reads."""

    learner, metrics = Problem.learner, Problem.metrics


SPEC = Spec(
    scenario="toy",
    objective="gain",
    context=(Feature("stage", "index", 0, 1, "which decision"),),
    candidates=(
        Feature("gain", "units", -3, 3, "what it says it pays"),
        Feature("door", "flag", 0, 1, "what it says it opens"),
    ),
    reward_terms=(),
    outcomes=(Outcome("cost", "units", "minus the return"),),
)

# Two decisions. The candidates and rewards of the second depend on the first choice.
FIRST = np.array([[1.0, 0.0], [-0.5, 1.0], [0.3, 0.4]])
SECOND = {
    0: np.array([[0.2, 0.1], [0.7, -1.0]]),
    1: np.array([[2.0, 0.0], [0.1, 0.9], [-1.0, 0.5]]),
    2: np.array([[0.0, 0.3], [0.5, 0.5]]),
}
PAYS = {0: (1.0, -0.3), 1: (3.0, 0.5, -2.0), 2: (0.4, 0.8)}
ENTERS = (1.0, 0.0, 0.3)


def looked(first: int, second: int) -> NetworkInputs:
    """Return the network's inputs of one way through the problem."""
    rows = np.concatenate([FIRST, SECOND[first]])
    n = len(FIRST)
    return NetworkInputs(
        rows=rows,
        row_of=np.repeat([0, 1], [n, len(SECOND[first])]),
        context=np.zeros((2, 0)),
        image=np.zeros((2, 0), np.uint8),
        index=np.arange(len(rows)),
        starts=np.array([0, n, len(rows)]),
        chosen=np.array([first, n + second]),
        decision=np.arange(2),
    )


def ways() -> list[tuple[int, int]]:
    """Return all trajectories, as choices."""
    return [(a, b) for a in range(len(FIRST)) for b in range(len(SECOND[a]))]


def rewards(first: int, second: int) -> np.ndarray:
    return np.array([ENTERS[first], PAYS[first][second]])


def network_of(spec: Spec, settings: NetworkSettings) -> Network:
    """Return a network with plain features."""
    columns = tuple(range(len(spec.context))) if settings.context else ()
    return Network(
        settings,
        unscaled_map(spec.candidates, spec.learned_candidates, settings.quadratic),
        unscaled_map(spec.context, columns, quadratic=False),
        pixels=int(np.prod(spec.image_shape)) if settings.image else 0,
    )


@pytest.fixture
def toy():
    """Return the enumerable problem with a small tanh network, in float64 to compare exactly."""
    network = network_of(SPEC, NetworkSettings(hidden=(4,), activation="tanh", quadratic=False))
    scorer = CandidateScorer(network, np.random.default_rng(3)).double()
    return SimpleNamespace(
        network=network, scorer=scorer, ways=ways(), rewards=rewards, looked=looked
    )


def some_weights(network: Network, seed: int = 0, size: float = 0.3):
    rng = np.random.default_rng(seed)
    return {
        name: (size * rng.normal(size=shape)).astype(np.float32)
        for name, shape in network.shapes.items()
    }


@pytest.fixture(scope="session")
def play_problem():
    """Return the Problem of a recipe."""

    def make(recipe, workers=1, seed=0):
        windows = windows_of(recipe, load_source(recipe), seed, workers)
        return Problem(**{**vars(windows), "further": ()})

    return make


@pytest.fixture(scope="session")
def policy_of():
    """Return a function from Problem and settings to a policy with small random weights."""

    def make(problem, settings, size=0.05):
        network = network_of(problem.spec, settings)
        spec = problem.spec
        weights = some_weights(network, size=size)
        return LearnedPolicy("drawn", network, weights, spec.context, spec.candidates)

    return make


CPU = torch.device("cpu")
