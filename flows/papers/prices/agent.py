"""CMA-ES of the prices of coming slots: an agent for `deferrable` that is not from a paper.

An individual is a set of weights of hindcast.flows.papers.prices.network. Its fitness is the
mean return of the knapsack with these weights over the windows of the iteration, which all
individuals play. Credit goes to weights rather than to single decisions, since the jobs that
decisions start compete for the same cores. A dozen weights need a few dozen generations.
hindcast.policies.online.evolution describes the search distribution and its update.

`sampling.trajectories` is the number of individuals; `baseline`, `normalise` and `discount` are not
used.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from hindcast.flows.papers.prices.imitation import imitator
from hindcast.flows.papers.prices.network import PricesNetwork, PricesSettings, prices_network
from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.policy import Behaviour, Heuristic
from hindcast.pipeline.simulation.rollout import Episode, run_episode
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.heuristics.prices import WEIGHTS, score_by_prices
from hindcast.policies.networks.features import fit_map
from hindcast.policies.networks.settings import Weights
from hindcast.policies.online.evolution import Distribution, Vector, as_weights
from hindcast.policies.online.problem import Problem, Sampling
from hindcast.policies.training.learner import Criterion, Info, Learner

_FITTED = 16  # windows, at most
_VALIDATED = 50


@dataclass(frozen=True)
class Config:
    """Settings of `price_evolution`.

    Attributes:
        network: Architecture of the network.
        sampling: Individuals (`trajectories`, at least 4) and windows of an iteration.
        step: Standard deviation of the first individuals, above 0.
    """

    network: PricesSettings = field(default_factory=PricesSettings)
    sampling: Sampling = field(
        default_factory=lambda: Sampling(trajectories=16, windows=40, stay=1, baseline="none")
    )
    step: float = number(0.5, "above 0")

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.sampling.trajectories < 4:
            raise RecipeError(
                f"sampling.trajectories is {self.sampling.trajectories}, expected at least 4 "
                "individuals, of which the better half is kept"
            )


def fit(problem: Problem, settings: PricesSettings) -> PricesNetwork:
    """Return the network, whose level is the mean capacity of the train windows."""
    spec = problem.spec
    plain = prices_network(settings, spec.context, spec.candidates)
    at = [o.name for o in spec.outcomes].index("capacity")
    windows = problem.train[:: -(-len(problem.train) // _FITTED)]
    played = play(problem, plain, np.zeros(WEIGHTS), windows)
    slots = spec.context[[f.name for f in spec.context].index("slots_left")].high
    level = np.mean([e.outcomes[at] for e in played]) / slots
    rows = np.zeros((1, len(spec.context)))
    rows[0, 0] = level
    return replace(plain, context=fit_map(spec.context, (0,), quadratic=False, rows=rows))


def learner(
    problem: Problem,
    config: Config,
    network: PricesNetwork,
    weights: Weights | None,
    device: torch.device,  # noqa: ARG001 - all work is done on the CPU
) -> Learner:
    """Return the learner of one run, from these weights or zeros; a step is a generation."""
    rng = generator(problem.seed, "online weights")
    start = np.zeros(WEIGHTS) if weights is None else network.parameters(weights)[1:]
    count = config.sampling.trajectories
    drawn_from = Distribution(start, config.step, count, diagonal=False)

    def step(iteration: int) -> Info:
        y = drawn_from.draw(count, rng)
        mean, size = drawn_from.mean.numpy(), float(drawn_from.step)
        windows = problem.windows_of(iteration, config.sampling)
        played = [play(problem, network, mean + size * one, windows) for one in y]
        fitness = np.array([np.mean([e.total for e in some]) for some in played])
        order = np.argsort(-fitness, kind="stable")
        drawn_from.move(y[order[: len(drawn_from.share)]])
        numbers = {
            **problem.summary(e for some in played for e in some),
            "best_return": float(fitness.max()),
            "step": float(drawn_from.step),
        }
        return {name: torch.tensor(value) for name, value in numbers.items()}

    def validate() -> Mapping[str, float]:
        if not problem.validation:
            return {}
        windows = problem.validation[:: -(-len(problem.validation) // _VALIDATED)]
        episodes = play(problem, network, drawn_from.mean.numpy(), windows)
        return {f"validation_{k}": v for k, v in problem.summary(episodes).items()}

    return Learner(
        network=network,
        weights=lambda: as_weights(network, drawn_from.mean.numpy()),
        modules={"distribution": drawn_from},
        optimisers={},
        rng=rng,
        step=step,
        validate=validate,
        decays=False,
        criterion=Criterion("validation_return"),
    )


def play(
    problem: Problem, network: PricesNetwork, flat: Vector, windows: Sequence[int]
) -> list[Episode]:
    """Return an episode of each window, played with these weights in a checkpoint's precision."""
    parameters = network.parameters(as_weights(network, flat))
    rule = Heuristic("prices", score_by_prices, lambda _spec, _rng: parameters)
    behaviour = Behaviour("prices", rule)

    def one(window: int) -> Episode:
        instance = problem.instance_of(window)
        rng = generator(problem.seed, "online evolution", window)  # nothing is drawn
        return run_episode(problem.scenario, problem.spec, instance, behaviour, rng)

    if problem.workers == 1:
        return [one(w) for w in windows]
    with ThreadPoolExecutor(problem.workers) as pool:
        return list(pool.map(one, windows))


__all__ = ["Config", "fit", "imitator", "learner", "play"]
