"""Evolution of a small scorer: CMA-ES on the return of its greedy choices, without gradients.

    individual i     weights w_i = mean + step * C^(1/2) z_i, z_i normal; plays greedily
    fitness          mean return over the iteration's windows, which all individuals share
    mean             moves to the weighted mean of the better half
    C, step          grow along directions taken repeatedly, shrink along the others

A return is credited to weights, not to choices: a cost that follows fifty decisions later is as
visible as an immediate one, and choices need not be random. This suits a scorer with some dozen
weights, not a large network: the number of iterations grows with the number of weights, the size of
C with its square (with "diagonal", C is one number per weight).

`sampling.trajectories` is the number of individuals. Ranks replace a baseline, so sampling's
`baseline`, `normalise` and `discount` are not used.

Sources: Hansen, "The CMA Evolution Strategy: A Tutorial", 2016 (its equations and its defaults);
Ros & Hansen, "A Simple Modification in CMA-ES Achieving Linear Time and Space Complexity", PPSN
2008 (diagonal).
"""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.estimators.selection import ranks
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks import AnyNetwork
from hindcast.policies.networks.rules import COLUMNS_PER_RULE, RANK
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights
from hindcast.policies.online.problem import Problem, Sampling, make_scorer
from hindcast.policies.rollouts.trajectories import Trajectory, sample_trajectories
from hindcast.policies.training.delivery.played import best_rule
from hindcast.policies.training.learner import Info, Learner

Vector = NDArray[np.float64]

_OF_THE_RULE = 10.0  # weight of a standardised rank, against individuals that are `step` apart
_MOST_WEIGHTS = 2000  # for a full C: 32 MB, and a second to factorise it


@dataclass(frozen=True)
class Config:
    """Settings of `evolution`.

    Attributes:
        network: Settings of the candidate scorer.
        sampling: Individuals (`trajectories`, at least 4) and windows of an iteration.
        step: Standard deviation of the first individuals, in weights of standardised features;
            above 0.
        covariance: "full", one number per pair of weights; "diagonal", one number per weight.
        fitness: "return", the mean over the windows, in which large windows weigh more; "rank", the
            mean over the windows of the rank among the individuals; "log", the mean over the
            windows of minus the logarithm of the cost, for returns that are minus a cost.
        order: Order of the train windows, "given" or "drawn" once at random, for a trace whose
            neighbouring windows are alike, so that an iteration's windows represent all.
        start: Weights of the first mean: "network", those of the network, which are zero without
            hidden layers; "best_rule", those that play the rule of `network.rules` with the highest
            mean return on train and validation windows. A checkpoint to start from takes
            precedence.
    """

    network: NetworkSettings = field(default_factory=NetworkSettings)
    sampling: Sampling = field(
        default_factory=lambda: Sampling(trajectories=24, windows=40, stay=1, baseline="none")
    )
    step: float = number(0.5, "above 0")
    covariance: Literal["full", "diagonal"] = "full"
    fitness: Literal["return", "rank", "log"] = "return"
    order: Literal["given", "drawn"] = "given"
    start: Literal["network", "best_rule"] = "network"

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.sampling.trajectories < 4:
            raise RecipeError(
                f"sampling.trajectories is {self.sampling.trajectories}, expected at least 4 "
                "individuals, of which the better half is kept"
            )
        if self.start == "best_rule" and (not self.network.rules or self.network.hidden):
            raise RecipeError(
                'evolution: start = "best_rule" needs network.rules, the rules to choose from, and '
                "a network without hidden layers"
            )


class Distribution(nn.Module):
    """The normal distribution of the individuals and its update rule.

    Its float64 buffers are mean (N,), step (), c (N, N) or (N,), path_step (N,) and path_c (N,);
    generation () is an integer.
    """

    mean: torch.Tensor
    step: torch.Tensor
    c: torch.Tensor
    path_step: torch.Tensor
    path_c: torch.Tensor
    generation: torch.Tensor

    def __init__(self, mean: Vector, step: float, population: int, *, diagonal: bool) -> None:
        super().__init__()
        n = len(mean)
        start = torch.from_numpy(mean.astype(np.float64))
        self.register_buffer("mean", start)
        self.register_buffer("step", torch.tensor(step, dtype=torch.float64))
        ones = torch.ones(n, dtype=torch.float64)
        self.register_buffer("c", ones if diagonal else torch.diag(ones))
        for name in ("path_step", "path_c"):
            self.register_buffer(name, torch.zeros(n, dtype=torch.float64))
        self.register_buffer("generation", torch.tensor(0))
        self.diagonal = diagonal
        half = population // 2
        share = np.log((population + 1) / 2) - np.log(np.arange(1, half + 1))
        self.share: Vector = share / share.sum()
        m = 1.0 / float((self.share**2).sum())  # effective individuals of the mean
        self.mu = m
        self.rate_step = (m + 2) / (n + m + 5)
        self.damping = 1 + 2 * max(0.0, math.sqrt((m - 1) / (n + 1)) - 1) + self.rate_step
        self.rate_path = (4 + m / n) / (n + 4 + 2 * m / n)
        faster = (n + 2) / 3 if diagonal else 1.0  # fewer numbers to learn
        self.rate_one = min(1.0, faster * 2 / ((n + 1.3) ** 2 + m))
        rate_rank = faster * 2 * (m - 2 + 1 / m) / ((n + 2) ** 2 + m)
        self.rate_rank = min(1 - self.rate_one, rate_rank)
        self.length = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))  # of a normal vector

    def _axes(self) -> tuple[Vector, Vector]:
        """Return directions (N, N) and standard deviations (N,); no directions if diagonal."""
        c = self.c.numpy()
        if self.diagonal:
            return np.empty((0, 0)), np.sqrt(c)
        squared, directions = np.linalg.eigh(c)
        return directions, np.sqrt(np.maximum(squared, 1e-20))

    def draw(self, count: int, rng: np.random.Generator) -> Vector:
        """Draw steps y (count, N); individuals are mean + step * y."""
        directions, deviation = self._axes()
        z: Vector = rng.standard_normal((count, len(deviation))) * deviation
        return z if self.diagonal else z @ directions.T

    def move(self, y: Vector) -> None:
        """Update the distribution from the steps (mu, N) of the better half, best first."""
        n, c = len(self.mean), self.c.numpy()
        step, path_step, path_c = float(self.step), self.path_step.numpy(), self.path_c.numpy()
        directions, deviation = self._axes()
        mean_step = self.share @ y
        if self.diagonal:
            whitened = mean_step / deviation
        else:
            whitened = directions @ ((directions.T @ mean_step) / deviation)
        a, b = self.rate_step, self.rate_path
        path_step = (1 - a) * path_step + math.sqrt(a * (2 - a) * self.mu) * whitened
        size = float(np.linalg.norm(path_step))
        age = int(self.generation) + 1
        bound = (1.4 + 2 / (n + 1)) * self.length * math.sqrt(1 - (1 - a) ** (2 * age))
        moving = size < bound  # if not, the step grows at once and C stays
        path_c = (1 - b) * path_c + moving * math.sqrt(b * (2 - b) * self.mu) * mean_step
        if self.diagonal:
            rank_one, rank_mu = path_c**2, self.share @ y**2
        else:
            rank_one, rank_mu = np.outer(path_c, path_c), (y.T * self.share) @ y
        rate_kept = 1 - self.rate_one - self.rate_rank + (not moving) * self.rate_one * b * (2 - b)
        c = rate_kept * c + self.rate_one * rank_one + self.rate_rank * rank_mu
        self.mean += torch.from_numpy(step * mean_step)
        self.step.fill_(step * math.exp(min(1.0, a / self.damping * (size / self.length - 1))))
        self.generation.fill_(age)
        for buffer, value in ((self.c, c), (self.path_step, path_step), (self.path_c, path_c)):
            buffer.copy_(torch.from_numpy(np.ascontiguousarray(value)))


def learner(
    problem: Problem,
    config: Config,
    network: Network,
    weights: Weights | None,
    device: torch.device,
) -> Learner:
    """Return a run from these weights, or from random or zero ones; a step is a generation.

    Raises RecipeError if the network is too large for a full covariance. All computation runs on
    the CPU.
    """
    rng = generator(problem.seed, "online weights")
    if weights is None and config.start == "best_rule":
        weights = weights_of_best_rule(problem, network)
    initial = weights or make_scorer(network, None, rng, device).weights()
    start = np.concatenate([initial[name].ravel() for name in network.shapes]).astype(np.float64)
    diagonal = config.covariance == "diagonal"
    if len(start) > _MOST_WEIGHTS and not diagonal:
        raise RecipeError(
            f"evolution: the network has {len(start)} weights, but a full covariance supports "
            f'{_MOST_WEIGHTS}; use a smaller network, or covariance = "diagonal"'
        )
    count = config.sampling.trajectories
    drawn_from = Distribution(start, config.step, count, diagonal=diagonal)
    playing = problem
    if config.order == "drawn":
        places = generator(problem.seed, "evolution windows").permutation(len(problem.train))
        playing = replace(problem, train=[problem.train[i] for i in places])

    def acting() -> Weights:
        return as_weights(network, drawn_from.mean.numpy())

    def step(iteration: int) -> Info:
        y = drawn_from.draw(count, rng)
        mean, size = drawn_from.mean.numpy(), float(drawn_from.step)
        windows = playing.windows_of(iteration, config.sampling)
        played = [greedy(problem, network, mean + size * y_i, windows, iteration) for y_i in y]
        returns = np.array([[t.episode.total for t in trajectories] for trajectories in played])
        means = _means(returns)
        fitness = {"return": _means, "rank": mean_ranks, "log": _log_costs}[config.fitness](returns)
        order = np.argsort(-fitness, kind="stable")
        drawn_from.move(y[order[: len(drawn_from.share)]])
        all_played = [t for trajectories in played for t in trajectories]
        return problem.metrics(
            (t.episode for t in all_played),
            best_return=float(means.max()),
            step=float(drawn_from.step),
            decisions=float(sum(len(t.choices) for t in all_played)),
        )

    return problem.learner(network, acting, {"distribution": drawn_from}, {}, rng, step)


def weights_of_best_rule(problem: Problem, network: Network) -> Weights:
    """Return weights of a linear network that play the best of its rules.

    Raises RecipeError for a rule that ranked all candidates of the train windows alike, whose
    column was constant.
    """
    names = list(network.rules.names)
    best = best_rule(problem, names)
    columns = network.candidates.columns
    place = len(columns) - network.rules.width + COLUMNS_PER_RULE * names.index(best) + RANK
    if network.candidates.inverse[place] == 0.0:
        raise RecipeError(f"evolution: rule {best!r} ranks all candidates alike; leave it out")
    weights = {name: np.zeros(shape, np.float32) for name, shape in network.shapes.items()}
    weights["layer0.weight"][0, place] = _OF_THE_RULE
    return weights


def greedy(
    problem: Problem, network: Network, weights: Vector, windows: list[int], iteration: int
) -> list[Trajectory]:
    """Play greedy episodes by these weights; all individuals share the random draws."""
    return sample_trajectories(
        problem.scenario, problem.spec, [problem.instance_of(w) for w in windows],
        problem.acting(network, as_weights(network, weights)),
        [generator(problem.seed, "online evolution", iteration, w) for w in windows],
        temperature=0.0, workers=problem.workers,
    )  # fmt: skip


def mean_ranks(returns: Vector) -> Vector:
    """Return the mean rank (K,) over windows of returns (K, W); equal returns share a rank."""
    rank: Vector = np.mean([ranks(column) for column in returns.T], axis=0)
    return rank


def _means(returns: Vector) -> Vector:
    mean: Vector = returns.mean(axis=1)
    return mean


def _log_costs(returns: Vector) -> Vector:
    """Return the mean (K,) of -ln(-return) over windows; a return above 0 counts as a tiny cost."""
    score: Vector = -np.log(np.maximum(-returns, 1e-12)).mean(axis=1)
    return score


def as_weights(network: AnyNetwork, flat: Vector) -> Weights:
    """Return a vector (N,) as the weights of a network."""
    weights, at = {}, 0
    for name, shape in network.shapes.items():
        size = math.prod(shape)
        weights[name] = flat[at : at + size].reshape(shape).astype(np.float32)
        at += size
    return weights
