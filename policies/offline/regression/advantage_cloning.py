"""Advantage cloning: imitates the best behaviours' probabilities, tilted towards high advantages.

    target(c)  proportional to  b(c) * exp(improvement * f(c) / spread)
    loss       = mean over decisions of KL(target || softmax of the scores)

b are the logged probabilities of the best behaviours (`share` of the episodes). f are their
advantages and `spread` is the deviation of f over their choices, both of
`hindcast.policies.offline.regression.advantages`.

With an improvement of 0 this is behaviour cloning from whole distributions instead of single
choices, so the scorer need not learn to separate exploration from intent. A larger improvement
moves choices towards high advantages, and no farther from the log than the behaviours explored: f
alone is linear, and unreliable where no behaviour has been. The scorer may read more inputs than f
does, the other candidates and the context, and so can imitate rules that look at them. The target
is the improved policy of Peters, Mulling & Altun, "Relative Entropy Policy Search", AAAI 2010, and
of Abdolmaleki et al., "Maximum a Posteriori Policy Optimisation", ICLR 2018, with the advantages
and the prior read from a log with propensities.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hindcast.pipeline.dataset.decisions import Decisions
from hindcast.pipeline.errors import DatasetError, RecipeError
from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import CandidateScorer, fit_network
from hindcast.policies.networks.settings import NetworkSettings
from hindcast.policies.offline.regression.advantage_regression import fit_maps, logs_of
from hindcast.policies.offline.regression.advantages import (
    AdvantageSettings,
    Maps,
    Solution,
    fit_advantages,
)
from hindcast.policies.training.learner import Info, Learner, Task, descent
from hindcast.policies.training.losses import drawn_loss, imitation_loss, spaced_loss
from hindcast.policies.training.returns import best_behaviours, of_behaviours

_VALIDATED: Final = 4096  # decisions
_BLOCK: Final = 1 << 14  # decisions whose candidates are expanded at a time
_IMPOSSIBLE: Final = -1e9  # logarithm of a probability of 0


@dataclass(frozen=True)
class Config(AdvantageSettings):
    """Settings of advantage cloning, in addition to those of the advantages.

    Attributes:
        share: Share of the episodes to learn from, as in AdvantageSettings; above 0, at most 1.
        improvement: Distance from the behaviours, in deviations of f; 0 or more, where 0 is pure
            imitation.
        minibatch: Decisions per step, at least 1.
        learning_rate: Step size of AdamW, above 0.
        weight_decay: Weight decay of AdamW, 0 or more.
        phi: Features of the linear advantages: the map of a linear network.
        network: Shape of the scorer.
    """

    share: float = number(0.3, "above 0, at most 1")
    improvement: float = number(0.3, "at least 0")
    minibatch: int = number(512, "from 1 to 1,000,000")
    learning_rate: float = number(5e-3, "above 0")
    weight_decay: float = number(0.0, "at least 0")
    phi: NetworkSettings = field(default_factory=NetworkSettings)
    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), kind="deepsets")
    )


def improved(
    decisions: Decisions, maps: Maps, solution: Solution, improvement: float
) -> NDArray[np.float32]:
    """Return the targets (D, K), 0 where the mask forbids.

    Raises DatasetError if the decisions came without the behaviours' probabilities.
    """
    if decisions.probabilities is None:
        raise DatasetError("these decisions came without the probabilities of their candidates")
    targets = np.zeros_like(decisions.probabilities)
    theta = (improvement / max(solution.spread, 1e-12) * solution.theta).astype(np.float32)
    for start in range(0, len(decisions), _BLOCK):
        rows = slice(start, start + _BLOCK)
        mask, b = decisions.mask[rows], decisions.probabilities[rows]
        log_target = np.full(mask.shape, _IMPOSSIBLE)
        tilt = maps.candidates.expand(decisions.candidates[rows][mask]) @ theta
        log_target[mask] = np.where(b[mask] > 0.0, np.log(np.maximum(b[mask], 1e-30)) + tilt, -1e9)
        target = np.where(mask, np.exp(log_target - log_target.max(axis=1, keepdims=True)), 0.0)
        targets[rows] = target / target.sum(axis=1, keepdims=True)
    return targets


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`."""
    if config.improvement < 0.0:
        raise RecipeError(f"improvement is {config.improvement}, expected 0 or more")
    if config.phi.rules not in ((), config.network.rules):
        raise RecipeError(
            f"advantage_cloning: phi.rules is {list(config.phi.rules)}, expected those of network, "
            f"{list(config.network.rules)}, or none"
        )
    logs = logs_of(task.decisions, task.validation, task.logs)
    names = best_behaviours(logs.train.episodes, config.share)
    maps = fit_maps(task.decisions, task.spec, logs, config.phi)
    best = of_behaviours(logs.train.episodes, names)
    solution = fit_advantages(logs.train, best, maps, config)
    for _ in range(1, config.rounds):
        solution = fit_advantages(logs.train, best, maps, config, solution.theta)

    def imitated(d: Decisions) -> tuple[Decisions, NDArray[np.float32]]:
        rows = np.flatnonzero(of_behaviours(d.episodes, names)[d.episode] & (d.mask.sum(1) > 1))
        chosen = d.take(rows)
        return chosen, improved(chosen, maps, solution, config.improvement)

    weights_rng, rng = np.random.default_rng(task.seed).spawn(2)
    train, targets = imitated(task.decisions)
    if len(train) == 0:
        raise DatasetError(
            "advantage_cloning: the best behaviours never had more than one feasible candidate"
        )
    network = fit_network(train, task.spec, config.network)
    scorer = CandidateScorer(network, weights_rng).to(task.device)
    optimiser = torch.optim.AdamW(
        scorer.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )

    r2 = torch.tensor(solution.r2)
    train_loss = imitation_loss(scorer, network, train, targets, task.device)
    minibatch_loss = drawn_loss(train_loss, len(train), config.minibatch, rng)

    def loss() -> tuple[Tensor, Info]:
        value, info = minibatch_loss()
        return value, {"advantage_r2": r2, **info}

    held_out = None
    if task.validation is not None and len(task.validation):
        validation, expected = imitated(task.validation)
        if len(validation):
            validation_loss = imitation_loss(scorer, network, validation, expected, task.device)
            held_out = spaced_loss(validation_loss, len(validation), _VALIDATED)
    return descent(network, scorer, scorer.weights, optimiser, rng, loss, held_out)
