"""Agent of Liu et al.: Monte-Carlo values of choices, learned from a replay of episodes.

    episode    played with exploration guided by a rule (module `rollouts`); at its end every
               choice gets a Monte-Carlo value and is added to the replay
    training   `batches` mini-batches of `batch` rows of the replay; SGD on the squared error of
               the output of the chosen cluster
    explore    probability explore_first in episode 1, decreasing linearly to explore_last in
               episode `explore_episodes`

The improved epsilon-greedy strategy of the paper is random_share = .5 with the guide sf_e; the
plain strategy is random_share = 1. A greedy choice is the best pair of an application of the pool
and a cluster.

Values range from -.1 (an undisturbed run) to some hundreds below zero (a streaming application in a
crowded cluster), and most differences between clusters are small. The setting `targets` selects the
function of the value that is learned:

    raw            the value
    standardised   (value - mean) / deviation, measured on episodes in which every decision explores
    logarithm      sign(value) log(1 + |value| / .1), then standardised; the mean of a logarithm is
                   not the logarithm of a mean, but no single episode dominates the loss

Source: Liu et al., see hindcast.pipeline.scenarios.multicluster: section IV-C and algorithm 1. The
    paper
states neither step size nor activation nor scale; those are ours, and so are the constants that
standardise inputs. Difference from the paper: whole episodes leave the replay, not single rows.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.flows.papers.timecritical.imitation import imitator
from hindcast.flows.papers.timecritical.network import (
    ClustersNetwork,
    ClustersPolicy,
    ClustersSettings,
    clusters_network,
)
from hindcast.flows.papers.timecritical.replay import EpisodeReplay
from hindcast.flows.papers.timecritical.rollouts import (
    GREEDY,
    GUIDED,
    RANDOM,
    Exploring,
    Valued,
    play_valued,
)
from hindcast.flows.papers.timecritical.torch_network import make_value_network, weights_of
from hindcast.pipeline.errors import RecipeError, unknown_name
from hindcast.pipeline.scenarios.multicluster.features import MOMENT
from hindcast.pipeline.scenarios.multicluster.layout import APPLICATIONS
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.scenario import Instance
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.heuristics.multicluster import HEURISTICS
from hindcast.policies.networks.settings import Weights
from hindcast.policies.online.problem import Problem
from hindcast.policies.training.learner import Criterion, Info, Learner, descend

_FITTED_WINDOWS = 16
_VALIDATED = 50  # windows, at most


@dataclass(frozen=True)
class Config:
    """Settings of `monte_carlo_value`; the defaults follow Liu et al. where the paper has any.

    Attributes:
        network: Architecture of the value network.
        windows: Episodes per iteration, each of another window, at least 1.
        batches: Mini-batches per iteration, at least 1.
        batch: Rows of a mini-batch, at least 1.
        replay: Rows that the replay keeps, at least 1.
        learning_rate: Step size of SGD, above 0.
        momentum: Momentum of SGD, 0 to below 1.
        decay: Whether the step size decreases linearly to zero.
        targets: Function of the value that is learned: "raw", "standardised" or "logarithm".
        guide: Name of the rule that guides a part of the exploration.
        random_share: Share of exploring choices that are uniformly random, 0 to 1; the guide makes
            the others.
        explore_first: Probability of exploring in episode 1, 0 to 1.
        explore_last: Probability of exploring from episode `explore_episodes` on, 0 to 1.
        explore_episodes: Episode in which the probability reaches `explore_last`, at least 1.
    """

    network: ClustersSettings = field(default_factory=ClustersSettings)
    windows: int = number(1, "from 1 to 1,000,000")
    batches: int = number(1, "from 1 to 1,000,000")
    batch: int = number(1000, "from 1 to 1,000,000")
    replay: int = number(50_000, "at least 1")
    learning_rate: float = number(0.01, "above 0")
    momentum: float = number(0.9, "from 0 to below 1")
    decay: bool = False
    targets: Literal["raw", "standardised", "logarithm"] = "logarithm"
    guide: str = "sf_e"
    random_share: float = number(0.5, "from 0 to 1")
    explore_first: float = number(0.8, "from 0 to 1")
    explore_last: float = number(1e-5, "from 0 to 1")
    explore_episodes: int = number(1900, "at least 1")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.guide not in HEURISTICS:
            raise unknown_name("guide", self.guide, HEURISTICS)


@dataclass(frozen=True)
class Target:
    """Target of the network for a value: (f(value) - mean) / deviation.

    Attributes:
        logarithm: Whether f is the signed logarithm; else f is the identity.
        mean: Mean of f(value).
        deviation: Standard deviation of f(value), above 0.
    """

    logarithm: bool
    mean: float
    deviation: float

    def of(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return the targets of values."""
        plain = _logarithm(values) if self.logarithm else values
        scaled: NDArray[np.float32] = ((plain - self.mean) / self.deviation).astype(np.float32)
        return scaled


def explore_at(config: Config, episode: int) -> float:
    """Return the probability of exploring in an episode, counted from 1."""
    if episode >= config.explore_episodes:
        return config.explore_last
    passed = (episode - 1) / (config.explore_episodes - 1)
    return config.explore_first + passed * (config.explore_last - config.explore_first)


def fit(problem: Problem, settings: ClustersSettings) -> ClustersNetwork:
    """Return the network, standardised on exploring episodes of windows of the train split.

    Raises RecipeError if the number of clusters is not that of the scenario.
    """
    spec = problem.spec
    network = clusters_network(settings, spec.context, spec.candidates)
    if network.context.size != len(MOMENT) * settings.clusters:
        raise RecipeError(
            f"network.clusters is {settings.clusters}, but the scenario has "
            f"{network.context.size / len(MOMENT):g} clusters"
        )
    seen = np.concatenate([v.inputs for v in _explored(problem, network, "sf_e")])
    own = network.candidates.size
    # The maps read raw columns, so the features go back to their columns.
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
    """Return the learner of one run, from these weights or random ones.

    A step plays `windows` episodes and trains on `batches` mini-batches. Raises RecipeError if the
    replay can never hold a mini-batch.
    """
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
    if config.batch > replay.capacity:  # no step would train, and nothing would say so
        raise RecipeError(
            f"online.settings: batch is {config.batch}, but with replay = {config.replay} the "
            f"replay holds whole episodes of {room} rows, at most {replay.capacity} rows; expected "
            "a smaller batch or a larger replay"
        )
    optimiser = torch.optim.SGD(
        scorer.parameters(), lr=config.learning_rate, momentum=config.momentum
    )

    def acting() -> ClustersPolicy:
        spec = problem.spec
        return ClustersPolicy("online", network, weights_of(scorer), spec.context, spec.candidates)

    def play(iteration: int) -> list[Valued]:
        """Play the training windows of an iteration, from 1, and remember the trajectories."""
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
    """Return the target, with the mean and deviation of values in exploring episodes."""
    if config.targets == "raw":
        return Target(logarithm=False, mean=0.0, deviation=1.0)
    logarithm = config.targets == "logarithm"
    values = np.concatenate([v.values for v in _explored(problem, network, config.guide)])
    seen = _logarithm(values) if logarithm else values
    return Target(logarithm, float(seen.mean()), float(seen.std()) or 1.0)


def _summary(problem: Problem, played: list[Valued]) -> dict[str, float]:
    """Return means over episodes: return, 1 / Eval, TMDL, AJDR and the truncated share."""
    return problem.summary((v.episode for v in played), ("eval_cost", "tmdl", "ajdr_percent"))


def _told(problem: Problem, played: list[Valued]) -> dict[str, Tensor]:
    """Return metrics of exploring episodes: their means, and the share of each kind of choice."""
    source = np.concatenate([one.source for one in played])
    values = np.concatenate([one.values for one in played])
    numbers = {**_summary(problem, played), "value": float(values.mean())}
    for name, kind in (("greedy", GREEDY), ("random", RANDOM), ("guided", GUIDED)):
        numbers[name] = float(np.mean(source == kind))
    return {name: torch.tensor(value) for name, value in numbers.items()}


def _explored(problem: Problem, network: ClustersNetwork, guide: str) -> list[Valued]:
    """Return episodes in which every decision explores, half of them at random."""
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
    """Return one episode per window, played on the problem's threads with separate generators."""

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
    """Return the maximal number of decisions: every application is deployed once."""
    return int(instance.ints[APPLICATIONS])


def _logarithm(values: NDArray[np.floating]) -> NDArray[np.floating]:
    logarithm: NDArray[np.floating] = np.sign(values) * np.log1p(np.abs(values) / 0.1)
    return logarithm


__all__ = ["Config", "Target", "explore_at", "fit", "fit_target", "imitator", "learner"]
