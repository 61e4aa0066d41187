"""Trajectory preference by several linear scorers at once, averaged into one.

    w_m   minimises the loss of trajectory preference over pairs from its own bootstrap sample of
          the windows, m = 1 .. members
    w     = mean over the members of the mean of w_m over the last `average` of the steps

A log has a few hundred windows. The choice of those windows affects a scorer more than the choice
of pairs. Scores are linear in the weights, so the mean of the weights is the scorer of the mean of
the scores: the ensemble is one checkpoint, and acts as fast as one scorer. Sources: Breiman,
"Bagging Predictors", Machine Learning 1996; for the mean over steps see
`hindcast.policies.offline.preference.weight_averaging`.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hindcast.pipeline.errors import RecipeError
from hindcast.pipeline.settings.ranges import number
from hindcast.policies.networks.candidate_scorer import CandidateScorer, fit_network
from hindcast.policies.networks.settings import Weights
from hindcast.policies.offline.preference import trajectory_preference as single
from hindcast.policies.offline.preference.trajectory_preference import Ranking
from hindcast.policies.offline.preference.weight_averaging import TailAverage, mean_weights
from hindcast.policies.training.learner import (
    LOWEST_LOSS,
    Info,
    Learner,
    Task,
    descend,
    validation_of,
)
from hindcast.policies.training.minibatches import Batches


@dataclass(frozen=True)
class Config(single.Config):
    """Settings of the ensemble, in addition to those of trajectory preference.

    The network must be linear.

    Attributes:
        members: Number of scorers, at least 1.
        average: Share of the steps, from the end, over which weights are averaged, 0 to 1; 0 takes
            the last weights.
    """

    members: int = number(5, "from 1 to 10,000")
    average: float = number(0.5, "from 0 to 1")


def resampled(ranking: Ranking, rng: np.random.Generator) -> Ranking:
    """Return a ranking of as many windows, drawn with replacement."""
    drawn: NDArray[np.int64] = rng.integers(0, len(ranking.size), len(ranking.size))
    return replace(ranking, start=ranking.start[drawn], size=ranking.size[drawn])


def learner(task: Task, config: Config) -> Learner:
    """Return one training run, see `hindcast.policies.training.learner`.

    Raises RecipeError for a network with hidden layers.
    """
    if config.members < 1 or not 0.0 <= config.average <= 1.0:
        raise RecipeError(
            f"preference_ensemble: members is {config.members} and average {config.average}, "
            "expected at least 1 member and an average from 0 to 1"
        )
    if config.network.hidden:
        raise RecipeError(
            "preference_ensemble: network.hidden is not empty, but the mean of several networks' "
            "weights is no mean of their scores; use trajectory_preference"
        )
    start_rng, rng = np.random.default_rng(task.seed).spawn(2)
    ranking_of_all = single.rank(task.decisions, task.spec, config)
    rankings = [resampled(ranking_of_all, start_rng) for _ in range(config.members)]
    network = fit_network(task.decisions, task.spec, config.network)
    scorers = [CandidateScorer(network, start_rng).to(task.device) for _ in rankings]
    first_step = task.steps + 1 - round(config.average * task.steps)
    averages = [TailAverage(scorer, first_step).to(task.device) for scorer in scorers]
    optimiser = torch.optim.AdamW(
        [weight for scorer in scorers for weight in scorer.parameters()],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
    )
    batches = Batches(task.decisions, network, task.device)

    def step(number: int) -> Info:
        infos = []
        for scorer, ranking in zip(scorers, rankings, strict=True):
            pairs = single.draw_pairs(ranking, config.pairs, rng)
            loss, info = single.pair_loss(scorer, batches, ranking, config, pairs, rng)
            infos.append({"loss": loss, **info})
        metrics = {name: torch.stack([i[name] for i in infos]).mean() for name in infos[0]}
        descend(optimiser, torch.stack([i["loss"] for i in infos]).sum())
        for scorer, average in zip(scorers, averages, strict=True):
            average.add(number, scorer)
        return {name: value.detach() for name, value in metrics.items()}

    def weights() -> Weights:
        return mean_weights([a.weights(s) for a, s in zip(averages, scorers, strict=True)])

    averaged = CandidateScorer(network, np.random.default_rng(0)).to(task.device)

    def acting() -> CandidateScorer:
        averaged.set_weights(weights())
        return averaged

    return Learner(
        network=network,
        weights=weights,
        modules={"scorers": nn.ModuleList(scorers), "averages": nn.ModuleList(averages)},
        optimisers={"scorers": optimiser},
        rng=rng,
        step=step,
        validate=validation_of(single.validation_loss(task, config, network, acting)),
        criterion=LOWEST_LOSS,
    )
