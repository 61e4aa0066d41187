"""Values that are known when the episode is over, learned from a replay: the agent of Liu et al.

    episode    explored with a rule as the guide (policies.papers.liu.rollouts); every choice
               gets its Monte-Carlo value at the end and goes to the replay
    then       `batches` mini-batches of `batch` rows of the replay, SGD on the squared error of
               the output of the chosen cluster
    explore    explore_first in episode 1, falling in a line to explore_last in `explore_episodes`

The improved epsilon-greedy strategy of the paper is random_share = .5 with the guide sf_e, the
plain one random_share = 1. The choice is the best of all applications of the pool times all
clusters.

A value is anything from -.1 (an undisturbed run) to some hundreds below zero (a streaming
application in a crowded cluster), and most of the differences between clusters are small: `targets`
says what is learned of it.

    raw            the value
    standardised   (value - mean) / deviation, of episodes in which every decision explores
    logarithm      log(1 + |value| / .1) with the value's sign, then standardised: the mean of a
                   logarithm is not the logarithm of a mean, but no single episode outweighs all

Source: Liu et al., see pipeline.scenarios.multicluster: section IV-C and algorithm 1. The paper
names neither step size nor activation nor scale; those are ours, and so are the constants by which
inputs are standardised. Difference: whole episodes leave the replay, not single rows.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.errors import RecipeError, unknown_name
from pipeline.recipes.settings import require_numbers
from pipeline.scenarios.multicluster.features import MOMENT
from pipeline.scenarios.multicluster.layout import APPLICATIONS
from pipeline.simulation.scenario import Instance
from pipeline.simulation.seeds import generator
from policies.heuristics.multicluster import HEURISTICS
from policies.networks.settings import Weights
from policies.online.problem import Problem
from policies.papers.liu.imitation import imitator
from policies.papers.liu.network import (
    ClustersNetwork,
    ClustersPolicy,
    ClustersSettings,
    clusters_network,
)
from policies.papers.liu.replay import EpisodeReplay
from policies.papers.liu.rollouts import GREEDY, GUIDED, RANDOM, Exploring, Valued, play_valued
from policies.papers.liu.torch_network import make_value_network, weights_of
from policies.training.learner import Criterion, Info, Learner, descend

_FITTED_WINDOWS = 16
_VALIDATED = 50  # windows, at most


@dataclass(frozen=True)
class Config:
    """Settings of `monte_carlo_value`; those of Liu et al. by default, where the paper has any.

    windows            episodes between two trainings, each of another window
    batches, batch     mini-batches after them, rows of each
    replay             rows that are kept
    learning_rate      of SGD, with `momentum`; with `decay` it falls to zero in a line
    targets            what is learned of a value, see above
    guide              the rule that leads a share of the exploration, by name
    random_share       of the exploration; the rest is the guide's
    explore_first, explore_last, explore_episodes
                       probability of exploring, in episode 1 and from that episode on
    """

    network: ClustersSettings = field(default_factory=ClustersSettings)
    windows: int = 1
    batches: int = 1
    batch: int = 1000
    replay: int = 50_000
    learning_rate: float = 0.01
    momentum: float = 0.9
    decay: bool = False
    targets: Literal["raw", "standardised", "logarithm"] = "logarithm"
    guide: str = "sf_e"
    random_share: float = 0.5
    explore_first: float = 0.8
    explore_last: float = 1e-5
    explore_episodes: int = 1900

    def __post_init__(self) -> None:
        require_numbers(
            self, "above 0", "windows", "batches", "batch", "replay", "learning_rate",
            "explore_episodes",
        )  # fmt: skip
        require_numbers(self, "from 0 to 1", "random_share", "explore_first", "explore_last")
        require_numbers(self, "from 0 to below 1", "momentum")
        if self.guide not in HEURISTICS:
            raise unknown_name("guide", self.guide, HEURISTICS)


@dataclass(frozen=True)
class Target:
    """What is learned of a value: (f(value) - mean) / deviation."""

    logarithm: bool
    mean: float
    deviation: float

    def of(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """Targets of values."""
        plain = _logarithm(values) if self.logarithm else values
        scaled: NDArray[np.float32] = ((plain - self.mean) / self.deviation).astype(np.float32)
        return scaled


def explore_at(config: Config, episode: int) -> float:
    """Probability of exploring in an episode, counted from 1."""
    if episode >= config.explore_episodes:
        return config.explore_last
    passed = (episode - 1) / (config.explore_episodes - 1)
    return config.explore_first + passed * (config.explore_last - config.explore_first)


def fit(problem: Problem, settings: ClustersSettings) -> ClustersNetwork:
    """The network's shape, standardised on what exploration meets in windows of the train split."""
    spec = problem.spec
    network = clusters_network(settings, spec.context, spec.candidates)
    if network.context.size != len(MOMENT) * settings.clusters:
        raise RecipeError(
            f"network.clusters is {settings.clusters}, but the context is that of "
            f"{network.context.size / len(MOMENT):g}"
        )
    seen = np.concatenate([v.inputs for v in _explored(problem, network, "sf_e")])
    own = network.candidates.size
    # The maps read raw columns: put what was seen back where it came from.
    rows = np.zeros((len(seen), len(spec.candidates)), np.float32)
    rows[:, network.candidates.columns] = seen[:, :own]
    return clusters_network(
        settings, spec.context, spec.candidates, (np.ascontiguousarray(seen[:, own:]), rows)
    )


def learner(
    problem: Problem,
    config: Config,
    network: ClustersNetwork,
    weights: Weights | None,
    device: torch.device,
) -> Learner:
    """One run, from these weights or from ones drawn anew; a step is `windows` episodes."""
    rng = generator(problem.seed, "online weights")
    target = fit_target(problem, config, network)
    scorer = make_value_network(network, weights, rng).to(device)
    guide = HEURISTICS[config.guide]

    def again(window: int, choices: NDArray[np.int64]) -> Valued:
        exploring, instance = Exploring(0.0, 0.0, guide), problem.instance(window)
        unused = np.random.default_rng(0)
        return play_valued(
            problem.scenario, problem.spec, instance, acting(), exploring, unused,
            len(choices), given=choices,
        )  # fmt: skip

    room = _room(problem.instance(problem.train[0]))
    replay = EpisodeReplay(config.replay, room, network.widths[0], again)
    optimiser = torch.optim.SGD(
        scorer.parameters(), lr=config.learning_rate, momentum=config.momentum
    )

    def acting() -> ClustersPolicy:
        spec = problem.spec
        return ClustersPolicy("online", network, weights_of(scorer), spec.context, spec.candidates)

    def play(iteration: int) -> list[Valued]:
        first, each = (iteration - 1) * config.windows, range(config.windows)
        windows = [problem.train[(first + k) % len(problem.train)] for k in each]
        exploring = [
            Exploring(explore_at(config, first + k + 1), config.random_share, guide) for k in each
        ]
        rngs = [generator(problem.seed, "online trajectory", iteration, k) for k in each]
        played = _play_all(problem, acting(), windows, exploring, rngs, inputs=True)
        for window, valued in zip(windows, played, strict=True):
            replay.add(window, valued)
        return played

    def step(iteration: int) -> Info:
        played = play(iteration)
        told = _told(problem, played)
        if len(replay) < config.batch:
            return told
        losses = []
        for _ in range(config.batches):
            inputs, clusters, values = replay.draw(config.batch, rng)
            guess = scorer(torch.from_numpy(inputs).to(device))
            chosen = guess.gather(1, torch.from_numpy(clusters).to(device)[:, None])[:, 0]
            loss = (chosen - torch.from_numpy(target.of(values)).to(device)).square().mean()
            descend(optimiser, loss)
            losses.append(loss.detach())
        return {**told, "loss": torch.stack(losses).mean()}

    def validate() -> Mapping[str, float]:
        if not problem.validation:
            return {}
        windows = problem.validation[:: -(-len(problem.validation) // _VALIDATED)]
        greedy = [Exploring(0.0, 0.0, guide)] * len(windows)
        rngs = [generator(problem.seed, "greedy", w) for w in windows]
        played = _play_all(problem, acting(), windows, greedy, rngs, inputs=False)
        return {f"validation_{name}": value for name, value in _summary(problem, played).items()}

    return Learner(
        network=network,
        weights=lambda: weights_of(scorer),
        modules={"scorer": scorer, "replay": replay},
        optimisers={"sgd": optimiser},
        rng=rng,
        step=step,
        validate=validate,
        decays=config.decay,
        criterion=Criterion("validation_eval_cost", "lower"),
    )


def fit_target(problem: Problem, config: Config, network: ClustersNetwork) -> Target:
    """Mean and deviation of what exploration is worth; 0 and 1 for raw targets."""
    if config.targets == "raw":
        return Target(logarithm=False, mean=0.0, deviation=1.0)
    logarithm = config.targets == "logarithm"
    values = np.concatenate([v.values for v in _explored(problem, network, config.guide)])
    seen = _logarithm(values) if logarithm else values
    return Target(logarithm, float(seen.mean()), float(seen.std()) or 1.0)


def _summary(problem: Problem, played: list[Valued]) -> dict[str, float]:
    """Means over episodes: return, 1 / Eval, TMDL, AJDR, how many were cut off."""
    return problem.summary((v.episode for v in played), ("eval_cost", "tmdl", "ajdr_percent"))


def _told(problem: Problem, played: list[Valued]) -> dict[str, Tensor]:
    """Curves: what episodes came to as they were explored, and how their choices came about."""
    source = np.concatenate([one.source for one in played])
    values = np.concatenate([one.values for one in played])
    numbers = {**_summary(problem, played), "value": float(values.mean())}
    for name, kind in (("greedy", GREEDY), ("random", RANDOM), ("guided", GUIDED)):
        numbers[name] = float(np.mean(source == kind))
    return {name: torch.tensor(value) for name, value in numbers.items()}


def _explored(problem: Problem, network: ClustersNetwork, guide: str) -> list[Valued]:
    """Episodes in which every decision explores, half at random."""
    windows = list(problem.train[:: -(-len(problem.train) // _FITTED_WINDOWS)])
    zeros = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    spec = problem.spec
    policy = ClustersPolicy("unlearned", network, zeros, spec.context, spec.candidates)
    exploring = [Exploring(1.0, 0.5, HEURISTICS[guide])] * len(windows)
    rngs = [generator(problem.seed, "online features", window) for window in windows]
    return _play_all(problem, policy, windows, exploring, rngs, inputs=True)


def _play_all(
    problem: Problem,
    policy: ClustersPolicy,
    windows: Sequence[int],
    exploring: Sequence[Exploring],
    rngs: Sequence[np.random.Generator],
    *,
    inputs: bool,
) -> list[Valued]:
    """An episode per window, on the problem's threads; each has a generator of its own."""

    def one(k: int) -> Valued:
        instance = problem.instance(windows[k])
        return play_valued(
            problem.scenario, problem.spec, instance, policy, exploring[k], rngs[k],
            _room(instance), inputs=inputs,
        )  # fmt: skip

    if problem.workers == 1 or len(windows) == 1:
        return [one(k) for k in range(len(windows))]
    with ThreadPoolExecutor(problem.workers) as pool:
        return list(pool.map(one, range(len(windows))))


def _room(instance: Instance) -> int:
    """The most decisions of an episode: every application is deployed once."""
    return int(instance.ints[APPLICATIONS])


def _logarithm(values: NDArray[np.floating]) -> NDArray[np.floating]:
    logarithm: NDArray[np.floating] = np.sign(values) * np.log1p(np.abs(values) / 0.1)
    return logarithm


__all__ = ["Config", "Target", "explore_at", "fit", "fit_target", "imitator", "learner"]
