"""REINFORCE with a baseline over trajectories of one window: the agent of DeepJS and DeepRM.

    gradient = mean over decisions t of   advantage_t * grad log pi(choice_t)

DeepJS takes one step of Adam per trajectory, on the mean over its decisions; DeepRM takes one step
per iteration. The settings choose between them, see the recipes binpack-deepjs and
slots-deeprm-online (slots-deeprm-natural is `natural_gradient` on the same job sets).

Sources: Williams, "Simple statistical gradient-following algorithms", 1992; Li & Hu, "DeepJS",
ICBDC 2019; Mao et al., "Resource Management with Deep Reinforcement Learning", HotNets 2016.
Differences from the papers: features are standardised; the network scores every candidate, while
DeepRM has an output per slot (the image can be read too, network.image = 20). A network per
candidate cannot make an infeasible choice and need not learn the meaning of a slot: at rate 0.7 it
reaches a slowdown of 2.40, a flat network 2.72.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights
from hindcast.policies.online.choices import entropy, log_softmax, policy_gain
from hindcast.policies.online.problem import Problem, Sampling, TrajectoryAdvantages, make_scorer
from hindcast.policies.rollouts.trajectories import Trajectory
from hindcast.policies.training.learner import Info, Learner


@dataclass(frozen=True)
class Config:
    """Settings of `reinforce`; the defaults are those of DeepJS, except `network.logs`.

    Attributes:
        network: Settings of the candidate scorer.
        sampling: Episodes of an iteration and their baseline.
        learning_rate: Step size of Adam, above 0.
        updates: Whether Adam takes a step per "trajectory" or per "iteration".
        entropy: Weight of the entropy per decision in the objective.
    """

    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(
            hidden=(3, 9, 6), activation="tanh", quadratic=False
        )
    )
    sampling: Sampling = field(default_factory=Sampling)
    learning_rate: float = number(1e-3, "above 0")
    updates: Literal["trajectory", "iteration"] = "trajectory"
    entropy: float = number(0.0, "any")

    def __post_init__(self) -> None:
        check_ranges(self)


def learner(
    problem: Problem,
    config: Config,
    network: Network,
    weights: Weights | None,
    device: torch.device,
) -> Learner:
    """Return a run from these weights, or from random ones; a step is an iteration."""
    rng = generator(problem.seed, "online weights")
    scorer = make_scorer(network, weights, rng, device)
    optimiser = torch.optim.Adam(scorer.parameters(), lr=config.learning_rate)

    def ascend(drawn: Sequence[TrajectoryAdvantages]) -> Tensor:
        decisions = sum(len(item.advantage) for item in drawn)
        optimiser.zero_grad()
        for batch in problem.policy_batches(drawn, network, device):
            log_pi = log_softmax(scorer, batch)
            gain = policy_gain(log_pi, batch)
            if config.entropy:
                gain = gain + config.entropy * entropy(log_pi)
            (gain / -decisions).backward()  # type: ignore[no-untyped-call]
        slopes = [p.grad.norm() for p in scorer.parameters() if p.grad is not None]
        optimiser.step()
        length: Tensor = torch.stack(slopes).norm()
        return length

    def step(iteration: int) -> Info:
        drawn = problem.draw(problem.acting(network, scorer.weights()), iteration, config.sampling)
        single = config.updates == "trajectory"
        groups = [[item] for item in drawn] if single else [drawn]
        norms = torch.stack([ascend(group) for group in groups])
        metrics = episode_metrics(problem, [item.trajectory for item in drawn])
        return {**metrics, "gradient_norm": norms.mean()}

    modules, optimisers = {"scorer": scorer}, {"adam": optimiser}
    return problem.learner(network, scorer.weights, modules, optimisers, rng, step)


def episode_metrics(problem: Problem, played: Sequence[Trajectory]) -> Info:
    """Return the curves of an iteration's episodes, which were played BEFORE its update.

    `surprise` is the mean of -log pi(choice), whose expectation is the entropy.
    """
    log_pi = np.concatenate([t.log_probability for t in played])
    return problem.metrics(
        (t.episode for t in played), surprise=float(-log_pi.mean()), decisions=float(len(log_pi))
    )
