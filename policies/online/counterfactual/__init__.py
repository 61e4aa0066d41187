"""Policy iteration from counterfactual rollouts: every candidate of a decision is tried.

    iteration   play -> ask some decisions -> recent ones -> `gradient_steps` minibatches -> average

    Q(s, a)     rewards after a in s, the policy playing on
    policies.online.counterfactual.rollouts A(s, a)     Q(s, a) - Q(s, the policy's choice), in
    units of what the best candidate of a
                decision is worth more than the choice in the mean of the iteration, within `clip`
    loss        - mean_s sum_a pi(a | s) A(s, a) - entropy * H(pi)
    policy      plays greedily; its weights are a moving average of those that are trained

What a policy gradient estimates from the rewards of the choices that were made, a simulator that
can be copied answers for all of them: the candidates of a decision meet the same future, so that
their differences have little variance, no choice has to be drawn to be tried, and no value has to
be learned. That takes as many decisions as only a compiled simulator plays.

The scores that a decision is trained on are those of all feasible candidates, and the advantage
of each is known: the gradient over choices is exact ("all-action", "expected" policy gradient).
As pi becomes certain, maximising sum_a pi A is the cost-sensitive classification of Lagoudakis &
Parr, whose classes are the candidates.

A first iteration may follow a rule in place of a network that knows nothing (`guide`); a network
that was imitated, or started from, plays from the beginning.

Sources: Lagoudakis & Parr, "Reinforcement Learning as Classification", ICML 2003; Fern, Yoon &
Givan, "Approximate Policy Iteration with a Policy Language Bias", NeurIPS 2003; Lazaric,
Ghavamzadeh & Munos, "Analysis of Classification-based Policy Iteration Algorithms", JMLR 2016;
Bertsekas, Tsitsiklis & Wu, "Rollout Algorithms for Combinatorial Optimization", Journal of
Heuristics 1997; all actions: Sutton et al., "Comparing Policy-Gradient Algorithms", 2001, and
Ciosek & Whiteson, "Expected Policy Gradients", AAAI 2018; the average: Polyak & Juditsky,
"Acceleration of Stochastic Approximation by Averaging", 1992.
Differences: candidates instead of classes, decisions of several iterations at once, a softmax and
its entropy instead of a classifier's loss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.errors import unknown_name
from pipeline.recipes.settings import require_numbers
from pipeline.simulation.policy import Heuristic
from pipeline.simulation.seeds import generator
from policies.networks.candidate_scorer import CandidateScorer
from policies.networks.settings import Network, NetworkSettings, Weights
from policies.online.choices import PolicyBatch, entropy, join, log_softmax, policy_batch
from policies.online.counterfactual.recent_buffer import RecentBuffer
from policies.online.counterfactual.rollouts import Counterfactuals, Rollouts, ask_episodes
from policies.online.decisions import places, subset
from policies.online.problem import Problem, Sampling, make_scorer
from policies.rollouts.play_on import Decider
from policies.training.learner import Info, Learner, descend, means

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Config:
    """Settings of `counterfactual`; of sampling, `baseline`, `normalise` and `discount` are unused.

    rollouts        which decisions are asked, and how far rollouts go
    guide           compiled rule that plays the first iteration, "" for the network
    keep            iterations whose decisions are learned from
    gradient_steps  per iteration
    minibatch       decisions of a gradient step, drawn from all that are kept
    learning_rate   of Adam; with `decay` it falls linearly to zero
    clip            largest advantage, in units of what the best candidate is worth more
    entropy         times the entropy of the choices is added to what is maximised, per decision;
                    falls with the learning rate. Without it a choice that was worth most in an
                    early iteration becomes certain, and what is certain is not unlearned
    average         share of the average that a gradient step leaves; less in the first ones
    """

    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False)
    )
    sampling: Sampling = field(
        default_factory=lambda: Sampling(trajectories=1, windows=100, stay=1, baseline="none")
    )
    rollouts: Rollouts = field(default_factory=Rollouts)
    guide: str = ""
    keep: int = 8
    gradient_steps: int = 300
    minibatch: int = 512
    learning_rate: float = 2e-3
    decay: bool = True
    clip: float = 4.0
    entropy: float = 0.1
    average: float = 0.998

    def __post_init__(self) -> None:
        require_numbers(self, "at least 1", "keep", "gradient_steps", "minibatch")
        require_numbers(self, "above 0", "learning_rate", "clip")
        require_numbers(self, "at least 0", "entropy")
        require_numbers(self, "from 0 to below 1", "average")


def learner(
    problem: Problem,
    config: Config,
    network: Network,
    weights: Weights | None,
    device: torch.device,
) -> Learner:
    """One run, from these weights or from ones drawn anew; a step is an iteration.

    Raises UnknownName for a guide that is no rule of the scenario.
    """
    rng = generator(problem.seed, "online weights")
    scorer = make_scorer(network, weights, rng, device)
    average = make_scorer(network, scorer.weights(), rng, device)
    optimiser = torch.optim.Adam(scorer.parameters(), lr=config.learning_rate)
    recent = RecentBuffer(config.keep)
    guide = find_guide(problem.spec.scenario, config.guide) if weights is None else None

    def step(iteration: int) -> Info:
        decider = Decider(
            problem.acting(network, average.weights()), guide if iteration == 1 else None
        )
        played = ask_episodes(problem, decider, iteration, config.sampling, config.rollouts)
        advantage = np.concatenate([one.advantage for one in played])
        missed = missing(played)
        advantage = np.clip(advantage / (missed or 1.0), -config.clip, config.clip)
        recent.add(iteration, join([one.looked for one in played]), advantage)
        looked, worth = recent.all()
        left = float(optimiser.param_groups[0]["lr"]) / config.learning_rate
        found = []
        for n in range(config.gradient_steps if len(looked.chosen) else 0):
            which = rng.integers(0, len(looked.chosen), config.minibatch)
            gain = worth[places(looked, which)]
            asked = policy_batch(subset(looked, which), gain, network, device)
            found.append(improve(scorer, optimiser, asked, config.entropy * left))
            follow(average, scorer, (iteration - 1) * config.gradient_steps + n, config.average)
        curves = problem.metrics(
            (one.episode for one in played),
            decisions=float(sum(one.episode.steps for one in played)),
            rolled_out=float(sum(one.rolled_out for one in played)),
            missed=missed,  # in the unit of the rewards
        )
        return {**curves, **means(found)}

    modules = {"scorer": scorer, "average": average, "recent": recent}
    optimisers = {"adam": optimiser}
    return problem.learner(
        network, average.weights, modules, optimisers, rng, step, decays=config.decay
    )


def find_guide(scenario: str, name: str) -> Heuristic | None:
    """The scenario's rule of that name, none for ""; UnknownName with the nearest one."""
    from policies.heuristics import heuristics

    known = heuristics(scenario)
    if name and name not in known:
        raise unknown_name(f"guide of {scenario}", name, known)
    return known.get(name)


def missing(played: Sequence[Counterfactuals]) -> float:
    """What the best candidate was worth more than the policy's choice, mean over decisions."""
    found = [
        np.maximum.reduceat(one.advantage, one.looked.starts[:-1])
        for one in played
        if len(one.looked.chosen)
    ]
    return float(np.concatenate(found).mean()) if found else 0.0


def improve(
    scorer: CandidateScorer, optimiser: torch.optim.Optimizer, asked: PolicyBatch, weight: float
) -> Mapping[str, Tensor]:
    """One step on decisions with an advantage (M,) of every candidate; what it was taken on."""
    log_pi = log_softmax(scorer, asked)
    gain = (log_pi.exp() @ asked.advantage) / len(asked)
    spread = entropy(log_pi) / len(asked)
    descend(optimiser, -gain - weight * spread)
    return {"gain": gain.detach(), "entropy": spread.detach()}


@torch.no_grad()
def follow(average: CandidateScorer, scorer: CandidateScorer, steps: int, share: float) -> None:
    """Move the average towards the scorer; after few steps it is the mean of about a quarter."""
    kept = min(share, (steps + 1) / (steps + 5))
    for mean, value in zip(average.parameters(), scorer.parameters(), strict=True):
        mean.mul_(kept).add_(value, alpha=1.0 - kept)
