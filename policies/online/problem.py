"""Problem of an online agent: windows of a recipe, a batch of trajectories per iteration.

    iteration    1 ......... stay | stay + 1 ......... 2 stay | ...
    windows      first `windows`  | the next ones             |      cyclically

DeepJS slides over its chunks, ten iterations on each; DeepRM plays several job sets in every
iteration. The random draws of a trajectory depend only on the seed, the iteration and its number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.rollout import Episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.policy import LearnedPolicy
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights, make_network
from hindcast.policies.online.advantages import Baseline, advantages
from hindcast.policies.online.choices import PolicyBatch, merged, policy_batch
from hindcast.policies.online.guard import GuardEpisodes
from hindcast.policies.rollouts.trajectories import (
    NetworkInputs,
    Trajectory,
    network_inputs,
    sample_trajectories,
    sample_trajectory,
)
from hindcast.policies.training.delivery.played import Windows
from hindcast.policies.training.learner import Criterion, Info, Learner

PIECE = 1 << 17  # largest number of candidates per call of the network in training
_PIXELS = 1 << 23  # largest number of pixels per call, 32 MB as float32
_FITTED_WINDOWS = 16
_FITTED_ROWS = 1 << 18
_VALIDATED = 50  # largest number of validation windows


@dataclass(frozen=True)
class Sampling:
    """Settings of the episodes of an iteration and of the baseline of their advantages.

    Attributes:
        trajectories: Trajectories per window and iteration, at least 1.
        windows: Windows per iteration, at least 1.
        stay: Iterations on the same windows, at least 1.
        baseline: Baseline of the returns-to-go, "decision", "time" or "none", see
            hindcast.policies.online.advantages.
        normalise: Whether advantages are divided by their standard deviation over the window.
        discount: Discount of the returns-to-go, above 0, at most 1.
    """

    trajectories: int = number(12, "from 1 to 1,000,000")
    windows: int = number(1, "from 1 to 1,000,000")
    stay: int = number(10, "at least 1")
    baseline: Baseline = "decision"
    normalise: bool = False
    discount: float = number(1.0, "above 0, at most 1")

    def __post_init__(self) -> None:
        check_ranges(self, "sampling")


@dataclass(frozen=True)
class TrajectoryAdvantages:
    """A trajectory and the advantage of each of its choices, (T,)."""

    trajectory: Trajectory
    advantage: NDArray[np.float64]


@dataclass(frozen=True)
class Problem(Windows):
    """Windows of which an agent plays those for training.

    Attributes:
        guard: Episodes on which the selected checkpoint must keep up, if there are any.
        sources: Names and SHA-256 of the files that the workload was read from; empty if it was
            drawn.
    """

    guard: GuardEpisodes | None = None
    sources: Sequence[tuple[str, str]] = ()

    def windows_of(self, iteration: int, sampling: Sampling) -> list[int]:
        """Return the windows of an iteration, counted from 1."""
        first = (iteration - 1) // sampling.stay * sampling.windows
        return [self.train[(first + k) % len(self.train)] for k in range(sampling.windows)]

    def play(
        self,
        policy: LearnedPolicy,
        iteration: int,
        sampling: Sampling,
        *,
        temperature: float = 1.0,
        epsilon: float = 0.0,
    ) -> list[list[Trajectory]]:
        """Play an iteration; return the trajectories by window. See `sample_trajectory`."""
        n = sampling.trajectories
        windows = self.windows_of(iteration, sampling)
        instances = [self.instance_of(w) for w in windows for _ in range(n)]
        rngs = [
            generator(self.seed, "online trajectory", iteration, i) for i in range(len(instances))
        ]
        played = sample_trajectories(
            self.scenario, self.spec, instances, policy, rngs,
            temperature=temperature, epsilon=epsilon, workers=self.workers,
        )  # fmt: skip
        return [played[first : first + n] for first in range(0, len(played), n)]

    def draw(
        self, policy: LearnedPolicy, iteration: int, sampling: Sampling
    ) -> list[TrajectoryAdvantages]:
        """Play an iteration; return its trajectories with advantages, window by window."""
        drawn = []
        for group in self.play(policy, iteration, sampling):
            advantage = advantages(
                [t.reward for t in group], [t.time_s for t in group], sampling.baseline,
                discount=sampling.discount, normalise=sampling.normalise,
            )  # fmt: skip
            drawn += [TrajectoryAdvantages(t, a) for t, a in zip(group, advantage, strict=True)]
        return drawn

    def policy_batches(
        self,
        drawn: Sequence[TrajectoryAdvantages],
        network: Network,
        device: torch.device,
        every: int = 1,
    ) -> Iterator[PolicyBatch]:
        """Yield minibatches of every `every`-th decision of trajectories, with their advantages.

        A thread prepares the next trajectory. Images are computed again when they are needed and
        stored as bytes; only those of one minibatch are expanded to float32 at a time.
        """
        # Candidates of a minibatch. A decision has one image and, mostly, 4 candidates or more.
        piece = min(PIECE, 4 * _PIXELS // max(network.pixels, 1))

        def inputs_of(number: int) -> list[tuple[NetworkInputs, NDArray[np.float64]]]:
            item = drawn[number]
            # Trajectories begin at different decisions, so that none is left out in all of them.
            parts = network_inputs(
                self.scenario, self.spec, item.trajectory, network,
                every=every, offset=number % every, piece=piece,
            )  # fmt: skip
            return [(part, item.advantage[part.decision]) for part in parts]

        def parts() -> Iterator[tuple[NetworkInputs, NDArray[np.float64]]]:
            with ThreadPoolExecutor(1) as pool:
                next_inputs = pool.submit(inputs_of, 0)
                for number in range(1, len(drawn) + 1):
                    ready = next_inputs.result()
                    if number < len(drawn):
                        next_inputs = pool.submit(inputs_of, number)
                    yield from ready

        for part, advantage in merged(parts(), piece):
            yield policy_batch(part, advantage, network, device)

    def acting(self, network: Network, weights: Weights) -> LearnedPolicy:
        """Return the policy of a network with these weights."""
        return LearnedPolicy("online", network, weights, self.spec.context, self.spec.candidates)

    def validate(self, network: Network, weights: Weights) -> Mapping[str, float]:
        """Return means of greedy episodes on at most 50 evenly spaced validation windows.

        With a guard, its metrics are among them.
        """
        if not self.validation:
            return {}
        windows = self.validation[:: -(-len(self.validation) // _VALIDATED)]
        played = sample_trajectories(
            self.scenario, self.spec, [self.instance_of(w) for w in windows],
            self.acting(network, weights), [generator(self.seed, "greedy", w) for w in windows],
            temperature=0.0, workers=self.workers,
        )  # fmt: skip
        metrics = {f"validation_{k}": v for k, v in self.summary(t.episode for t in played).items()}
        if self.guard is not None:
            metrics |= self.guard.measure(self.acting(network, weights))
        return metrics

    def learner(
        self,
        network: Network,
        weights: Callable[[], Weights],
        modules: Mapping[str, nn.Module],
        optimisers: Mapping[str, torch.optim.Optimizer],
        rng: np.random.Generator,
        step: Callable[[int], Info],
        *,
        decays: bool = False,
    ) -> Learner:
        """Return the run of a candidate scorer, selected by its validation return."""
        return Learner(
            network, weights, modules, optimisers, rng, step,
            validate=lambda: self.validate(network, weights()),
            decays=decays,
            criterion=Criterion("validation_return"),
        )  # fmt: skip

    def metrics(self, played: Iterable[Episode], **numbers: float) -> Info:
        """Return the curves of an iteration: the means of `summary` and other numbers."""
        return {k: torch.tensor(v) for k, v in {**self.summary(played), **numbers}.items()}

    def summary(self, played: Iterable[Episode], outcomes: Sequence[str] = ()) -> dict[str, float]:
        """Return means over episodes: return, outcomes (default: the first), share truncated."""
        episodes, outcome_names = list(played), [o.name for o in self.spec.outcomes]
        return {
            "return": float(np.mean([e.total for e in episodes])),
            **{
                name: float(np.mean([e.outcomes[outcome_names.index(name)] for e in episodes]))
                for name in outcomes or outcome_names[:1]
            },
            "truncated": float(np.mean([e.truncated for e in episodes])),
        }


def fit_network(problem: Problem, settings: NetworkSettings) -> Network:
    """Return a network, standardised on observations of random play in the train windows.

    Raises RecipeError if the settings have an image and the scenario has none.
    """
    spec = problem.spec
    if settings.image and not spec.image_shape:
        raise RecipeError(f"network.image is {settings.image}, but {spec.scenario} has no image")
    pixels = int(np.prod(spec.image_shape)) if settings.image else 0
    network = make_network(spec.context, spec.candidates, settings, pixels, scenario=spec.scenario)
    zeros = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    uniform = problem.acting(network, zeros)
    rows, contexts = [], []
    for window in problem.train[:: -(-len(problem.train) // _FITTED_WINDOWS)]:
        rng = generator(problem.seed, "online features", window)
        instance = problem.instance_of(window)
        played = sample_trajectory(problem.scenario, spec, instance, uniform, rng)
        every = 1 + len(played.choices) * instance.capacity // (_FITTED_ROWS // _FITTED_WINDOWS)
        for part in network_inputs(problem.scenario, spec, played, network, every=every):
            rows.append(part.rows[part.index])
            contexts.append(part.context)
    return make_network(
        spec.context, spec.candidates, settings, pixels,
        np.concatenate(rows), np.concatenate(contexts), spec.scenario,
    )  # fmt: skip


def make_scorer(
    network: Network, weights: Weights | None, rng: np.random.Generator, device: torch.device
) -> CandidateScorer:
    """Return a scorer with these weights, or with random ones."""
    scorer = CandidateScorer(network, rng)
    if weights is not None:
        scorer.set_weights(weights)
    return scorer.to(device)
