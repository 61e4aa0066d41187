"""What an online agent plays: windows of a recipe, one batch of trajectories per iteration.

    iteration    1 ......... stay | stay + 1 ......... 2 stay | ...
    windows      first `windows`  | the next ones             |      round and round

DeepJS slides over its chunks, one at a time and ten iterations on each; DeepRM takes several job
sets in every iteration. A trajectory's draws depend on the seed, the iteration and its number only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pipeline.errors import RecipeError
from pipeline.recipes.settings import require_numbers
from pipeline.simulation.rollout import Episode
from pipeline.simulation.scenario import Instance, Scenario
from pipeline.simulation.seeds import generator
from pipeline.simulation.spec import Spec
from policies.networks.candidate_scorer import CandidateScorer
from policies.networks.policy import LearnedPolicy
from policies.networks.settings import Network, NetworkSettings, Weights, make_network
from policies.online.advantages import Baseline, advantages
from policies.online.choices import PolicyBatch, merged, policy_batch
from policies.rollouts.trajectories import (
    NetworkInputs,
    Trajectory,
    network_inputs,
    sample_trajectories,
    sample_trajectory,
)
from policies.training.learner import Criterion, Info, Learner

PIECE = 1 << 17  # candidates of one call of the network in training
_PIXELS = 1 << 23  # of one call, 32 MB of numbers
_FITTED_WINDOWS = 16
_FITTED_ROWS = 1 << 18
_VALIDATED = 50  # windows, at most


@dataclass(frozen=True)
class Sampling:
    """How episodes are drawn, and what a choice is compared with.

    trajectories   per window and iteration
    windows        per iteration
    stay           iterations on the same windows
    baseline       see policies.online.advantages; `discount` and `normalise` too
    """

    trajectories: int = 12
    windows: int = 1
    stay: int = 10
    baseline: Baseline = "decision"
    normalise: bool = False
    discount: float = 1.0

    def __post_init__(self) -> None:
        require_numbers(self, "at least 1", "trajectories", "windows", "stay", table="sampling")
        require_numbers(self, "above 0, at most 1", "discount", table="sampling")


@dataclass(frozen=True)
class Drawn:
    """A trajectory and what each of its choices was worth, (T,)."""

    trajectory: Trajectory
    advantage: NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A scenario and the windows that are played and validated on.

    instance   of a window; asked once for each
    workers    threads that play; they change no result
    """

    scenario: Scenario
    spec: Spec
    instance: Callable[[int], Instance]
    train: Sequence[int]
    validation: Sequence[int] = ()
    seed: int = 0
    workers: int = 1
    _known: dict[int, Instance] = field(default_factory=dict)

    def instance_of(self, window: int) -> Instance:
        """The window as it starts; made once."""
        if window not in self._known:
            self._known[window] = self.instance(window)
        return self._known[window]

    def windows_of(self, iteration: int, sampling: Sampling) -> list[int]:
        """The windows that an iteration plays, counted from 1."""
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
        """The trajectories of an iteration, those of each window; see `sample_trajectory`."""
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

    def draw(self, policy: LearnedPolicy, iteration: int, sampling: Sampling) -> list[Drawn]:
        """The trajectories of an iteration, window by window, and what choices were worth."""
        drawn = []
        for group in self.play(policy, iteration, sampling):
            worth = advantages(
                [t.reward for t in group], [t.time_s for t in group], sampling.baseline,
                discount=sampling.discount, normalise=sampling.normalise,
            )  # fmt: skip
            drawn += [Drawn(t, a) for t, a in zip(group, worth, strict=True)]
        return drawn

    def policy_batches(
        self, drawn: Sequence[Drawn], network: Network, device: torch.device, every: int = 1
    ) -> Iterator[PolicyBatch]:
        """Every `every`-th decision of trajectories, in pieces; the next one is made meanwhile.

        Images are drawn anew as they are needed, as bytes; a piece of them is numbers at a time.
        """
        piece = min(PIECE, 4 * _PIXELS // max(network.pixels, 1))  # most decisions have 4 or more

        def looked(number: int) -> list[tuple[NetworkInputs, NDArray[np.float64]]]:
            one = drawn[number]
            # Trajectories begin at different decisions, so that none of a stretch is never seen.
            parts = network_inputs(
                self.scenario, self.spec, one.trajectory, network,
                every=every, offset=number % every, piece=piece,
            )  # fmt: skip
            return [(part, one.advantage[part.decision]) for part in parts]

        def parts() -> Iterator[tuple[NetworkInputs, NDArray[np.float64]]]:
            with ThreadPoolExecutor(1) as pool:
                coming = pool.submit(looked, 0)
                for number in range(1, len(drawn) + 1):
                    here = coming.result()
                    if number < len(drawn):
                        coming = pool.submit(looked, number)
                    yield from here

        for part, advantage in merged(parts(), piece):
            yield policy_batch(part, advantage, network, device)

    def acting(self, network: Network, weights: Weights) -> LearnedPolicy:
        """The network as it plays now."""
        return LearnedPolicy("online", network, weights, self.spec.context, self.spec.candidates)

    def validate(self, network: Network, weights: Weights) -> Mapping[str, float]:
        """Means of greedy episodes on (at most 50, evenly spaced) validation windows."""
        if not self.validation:
            return {}
        windows = self.validation[:: -(-len(self.validation) // _VALIDATED)]
        played = sample_trajectories(
            self.scenario, self.spec, [self.instance_of(w) for w in windows],
            self.acting(network, weights), [generator(self.seed, "greedy", w) for w in windows],
            temperature=0.0, workers=self.workers,
        )  # fmt: skip
        return {f"validation_{k}": v for k, v in self.summary(t.episode for t in played).items()}

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
        """The run of a candidate scorer; its best checkpoint has the best validation return."""
        return Learner(
            network, weights, modules, optimisers, rng, step,
            validate=lambda: self.validate(network, weights()),
            decays=decays,
            criterion=Criterion("validation_return"),
        )  # fmt: skip

    def metrics(self, played: Iterable[Episode], **numbers: float) -> Info:
        """Curves of an iteration: the means of `summary`, and other numbers."""
        return {k: torch.tensor(v) for k, v in {**self.summary(played), **numbers}.items()}

    def summary(self, played: Iterable[Episode], outcomes: Sequence[str] = ()) -> dict[str, float]:
        """Means over episodes: return, outcomes (by default the headline one), share cut off."""
        episodes, known = list(played), [o.name for o in self.spec.outcomes]
        return {
            "return": float(np.mean([e.total for e in episodes])),
            **{
                name: float(np.mean([e.outcomes[known.index(name)] for e in episodes]))
                for name in outcomes or known[:1]
            },
            "truncated": float(np.mean([e.truncated for e in episodes])),
        }


def fit_network(problem: Problem, settings: NetworkSettings) -> Network:
    """A network's shape, standardised on what uniform choices meet in windows of the train split.

    Raises RecipeError where it shall read an image and there is none.
    """
    spec = problem.spec
    if settings.image and not spec.image_shape:
        raise RecipeError(f"network.image is {settings.image}, but {spec.scenario} has no image")
    pixels = int(np.prod(spec.image_shape)) if settings.image else 0
    network = make_network(spec.context, spec.candidates, settings, pixels)
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
        np.concatenate(rows), np.concatenate(contexts),
    )  # fmt: skip


def make_scorer(
    network: Network, weights: Weights | None, rng: np.random.Generator, device: torch.device
) -> CandidateScorer:
    """A scorer with these weights, or with ones drawn anew."""
    scorer = CandidateScorer(network, rng)
    if weights is not None:
        scorer.set_weights(weights)
    return scorer.to(device)
