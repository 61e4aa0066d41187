"""Policy iteration from counterfactual rollouts, which try every candidate of a decision.

    iteration   play -> roll out some decisions -> recent buffer -> `gradient_steps` minibatches
                -> average of the weights

    Q(s, a)     rewards after a in s if the policy continues, by rollouts
    A(s, a)     Q(s, a) - Q(s, the policy's choice), in units of the iteration's mean of
                max_a A(s, a), clipped to +-`clip`
    loss        - mean_s sum_a pi(a | s) A(s, a) - entropy * H(pi)
    policy      plays greedily; its weights are a moving average of the trained weights

A policy gradient estimates advantages from the rewards of the choices that were made. A simulator
that can be copied computes them for all candidates: the candidates of a decision meet the same
future, so their differences have little variance, no choice must be random and no value must be
learned. This needs so many decisions that the simulator must be compiled.

A decision is trained on the scores and advantages of all its feasible candidates, so the gradient
over choices is exact ("all-action" or "expected" policy gradient). As pi becomes deterministic,
maximising sum_a pi A is the cost-sensitive classification of Lagoudakis & Parr with the candidates
as classes.

The first iteration may follow a rule instead of a random network (`guide`). A network that was
imitated or loaded plays from the beginning.

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

from hindcast.pipeline.errors import unknown_name
from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.policy import Heuristic
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.player import Decider
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights
from hindcast.policies.online.choices import PolicyBatch, entropy, join, log_softmax, policy_batch
from hindcast.policies.online.counterfactual.recent_buffer import RecentBuffer
from hindcast.policies.online.counterfactual.rollouts import Counterfactuals, Rollouts, ask_episodes
from hindcast.policies.online.decision_batches import places, subset
from hindcast.policies.online.problem import Problem, Sampling, make_scorer
from hindcast.policies.training.learner import Info, Learner, descend, means

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Config:
    """Settings of `counterfactual`.

    Attributes:
        network: Settings of the candidate scorer.
        sampling: Episodes of an iteration; its baseline, normalise and discount are not used.
        rollouts: Decisions that are rolled out, and length of the rollouts.
        guide: Compiled rule that plays the first iteration; "" for the network.
        keep: Iterations whose decisions are learned from, at least 1.
        gradient_steps: Gradient steps per iteration, at least 1.
        minibatch: Decisions of a gradient step, drawn from all kept decisions; at least 1.
        learning_rate: Step size of Adam, above 0.
        decay: Whether the step size falls linearly to zero.
        clip: Largest advantage, in units of the mean advantage of the best candidates; above 0.
        entropy: Weight of the entropy per decision in the objective, at least 0; it falls with the
            learning rate. Without it, a choice that was best in an early iteration becomes certain
            and can no longer be unlearned.
        average: Weight of the old average in a gradient step, 0 to below 1; smaller in the first
            steps.
    """

    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False)
    )
    sampling: Sampling = field(
        default_factory=lambda: Sampling(trajectories=1, windows=100, stay=1, baseline="none")
    )
    rollouts: Rollouts = field(default_factory=Rollouts)
    guide: str = ""
    keep: int = number(8, "at least 1")
    gradient_steps: int = number(300, "at least 1")
    minibatch: int = number(512, "from 1 to 1,000,000")
    learning_rate: float = number(2e-3, "above 0")
    decay: bool = True
    clip: float = number(4.0, "above 0")
    entropy: float = number(0.1, "at least 0")
    average: float = number(0.998, "from 0 to below 1")

    def __post_init__(self) -> None:
        check_ranges(self)


def learner(
    problem: Problem,
    config: Config,
    network: Network,
    weights: Weights | None,
    device: torch.device,
) -> Learner:
    """Return a run from these weights, or from random ones; a step is an iteration.

    Raises UnknownName if the guide is not a rule of the scenario.
    """
    rng = generator(problem.seed, "online weights")
    scorer = make_scorer(network, weights, rng, device)
    average = make_scorer(network, scorer.weights(), rng, device)
    optimiser = torch.optim.Adam(scorer.parameters(), lr=config.learning_rate)
    recent = RecentBuffer(config.keep)
    guide = find_guide(problem.spec, config.guide) if weights is None else None

    def step(iteration: int) -> Info:
        decider = Decider(
            problem.acting(network, average.weights()), guide if iteration == 1 else None
        )
        played = ask_episodes(problem, decider, iteration, config.sampling, config.rollouts)
        advantage = np.concatenate([item.advantage for item in played])
        missed = best_gain(played)
        advantage = np.clip(advantage / (missed or 1.0), -config.clip, config.clip)
        recent.add(iteration, join([item.inputs for item in played]), advantage)
        inputs, advantages = recent.all()
        decay = float(optimiser.param_groups[0]["lr"]) / config.learning_rate
        infos = []
        for n in range(config.gradient_steps if len(inputs.chosen) else 0):
            drawn = rng.integers(0, len(inputs.chosen), config.minibatch)
            gain = advantages[places(inputs, drawn)]
            batch = policy_batch(subset(inputs, drawn), gain, network, device)
            infos.append(improve(scorer, optimiser, batch, config.entropy * decay))
            follow(average, scorer, (iteration - 1) * config.gradient_steps + n, config.average)
        curves = problem.metrics(
            (item.episode for item in played),
            decisions=float(sum(item.episode.steps for item in played)),
            rolled_out=float(sum(item.rolled_out for item in played)),
            missed=missed,  # in the unit of the rewards
        )
        return {**curves, **means(infos)}

    modules = {"scorer": scorer, "average": average, "recent": recent}
    optimisers = {"adam": optimiser}
    return problem.learner(
        network, average.weights, modules, optimisers, rng, step, decays=config.decay
    )


def find_guide(spec: Spec, name: str) -> Heuristic | None:
    """Return the scenario's rule of that name, None for "".

    Raises UnknownName if there is none, InputError if it needs columns that are not there.
    """
    from hindcast.policies.heuristics import heuristics
    from hindcast.policies.heuristics.needs import require_columns

    by_name = heuristics(spec.scenario)
    if not name:
        return None
    if name not in by_name:
        raise unknown_name(f"guide of {spec.scenario}", name, by_name)
    require_columns(name, by_name[name].needs, spec)
    return by_name[name]


def best_gain(played: Sequence[Counterfactuals]) -> float:
    """Return the mean over decisions of the best candidate's advantage over the policy's choice."""
    best = [
        np.maximum.reduceat(item.advantage, item.inputs.starts[:-1])
        for item in played
        if len(item.inputs.chosen)
    ]
    return float(np.concatenate(best).mean()) if best else 0.0


def improve(
    scorer: CandidateScorer, optimiser: torch.optim.Optimizer, batch: PolicyBatch, weight: float
) -> Mapping[str, Tensor]:
    """Take one step on decisions with advantages (M,) of all candidates; return its curves."""
    log_pi = log_softmax(scorer, batch)
    gain = (log_pi.exp() @ batch.advantage) / len(batch)
    spread = entropy(log_pi) / len(batch)
    descend(optimiser, -gain - weight * spread)
    return {"gain": gain.detach(), "entropy": spread.detach()}


@torch.no_grad()
def follow(average: CandidateScorer, scorer: CandidateScorer, steps: int, share: float) -> None:
    """Move the average towards the scorer; in early steps it covers about the last quarter."""
    weight = min(share, (steps + 1) / (steps + 5))
    for mean, value in zip(average.parameters(), scorer.parameters(), strict=True):
        mean.mul_(weight).add_(value, alpha=1.0 - weight)
