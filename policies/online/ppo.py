"""Proximal policy optimisation over candidates: several passes over the same decisions.

    iteration   play -> values -> advantages -> epochs x minibatches of decisions { policy, values }

    gain        clipped_gain + entropy * H(pi), mean over decisions     clipped_gain
    A           gae(reward, V, discount, lambda)                        advantages.gae
                less its baseline over the trajectories of a window     sampling.baseline
    target      A of gae + V, for V                                     policies.online.state_value

`reinforce` uses a baseline over the trajectories of a window. Here it is subtracted in addition to
the values: it removes the effect of future arrivals, which no value can predict and which are the
same for all trajectories of a window. With `values = false` it is the only baseline.

The objective is the return that evaluations report, so no value follows the end of an episode, even
if it is truncated; the value network reads the time.

Sources: Schulman et al., "Proximal Policy Optimization Algorithms", 2017; Mao et al., "Variance
Reduction for Reinforcement Learning in Input-Driven Environments", ICLR 2019 (the baseline).
Differences: two networks and two optimisers; values are not clipped; a minibatch has decisions of
any trajectory; only every n-th decision is learned from if there are many.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.statistics.returns import step_discounts
from hindcast.policies.networks.candidate_scorer import CandidateScorer
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights
from hindcast.policies.online.advantages import against_group, gae
from hindcast.policies.online.choices import PolicyBatch, entropy, log_softmax, policy_batch
from hindcast.policies.online.decision_batches import Numbers, gathered, subset
from hindcast.policies.online.problem import Problem, Sampling, make_scorer
from hindcast.policies.online.reinforce import episode_metrics
from hindcast.policies.online.state_value import PopArtValue, summaries, summary_size
from hindcast.policies.rollouts.trajectories import Trajectory
from hindcast.policies.training.learner import Info, Learner

Floats = NDArray[np.float64]

_FAR = 1.5  # multiple of max_kl at which an iteration's policy steps end


@dataclass(frozen=True)
class Config:
    """Settings of `ppo`.

    Attributes:
        network: Settings of the candidate scorer.
        sampling: Episodes of an iteration and their baseline.
        learning_rate: Step size of Adam for the policy, above 0.
        value_learning_rate: Step size of Adam for the value network, above 0.
        decay: Whether both step sizes fall linearly to zero.
        lam: Lambda of the advantages, 0 to 1.
        discount_per: Exponent of sampling.discount: 1 per "decision", or the "second"s that passed.
        clip: Largest change of the ratio of probabilities, above 0.
        epochs: Passes over the decisions of an iteration, at least 1.
        minibatch: Approximate number of decisions of a step, at least 1.
        decisions: Approximate maximum of decisions per iteration to learn from, evenly spaced, at
            least 1; decisions with a single candidate train only the values.
        entropy: Weight of the entropy per decision in the objective, at least 0.
        max_kl: KL divergence at which the policy steps of an iteration end, at least 0; 0 for no
            limit.
        standardise: Whether advantages are scaled to mean 0 and deviation 1.
        clip_gradient: Largest norm of the gradient of a step of either network, above 0.
        values: Whether to learn a value baseline. If False, `lam` simply multiplies the discount.
        value_hidden: Widths of the hidden layers of the value network.
    """

    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False)
    )
    sampling: Sampling = field(
        default_factory=lambda: Sampling(trajectories=20, windows=10, stay=1, baseline="time")
    )
    learning_rate: float = number(3e-3, "above 0")
    value_learning_rate: float = number(1e-3, "above 0")
    decay: bool = False
    lam: float = number(0.95, "from 0 to 1")
    discount_per: Literal["decision", "second"] = "decision"
    clip: float = number(0.2, "above 0")
    epochs: int = number(4, "from 1 to 1,000,000")
    minibatch: int = number(512, "at least 1")
    decisions: int = number(16384, "at least 1")
    entropy: float = number(0.0, "at least 0")
    max_kl: float = number(0.0, "at least 0")
    standardise: bool = True
    clip_gradient: float = number(0.5, "above 0")
    values: bool = True
    value_hidden: tuple[int, ...] = number((64, 64), "from 1 to 65,536")

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
    modules: dict[str, nn.Module] = {"scorer": scorer}
    optimisers: dict[str, torch.optim.Optimizer] = {
        "policy": torch.optim.Adam(scorer.parameters(), lr=config.learning_rate)
    }
    critic: PopArtValue | None = None
    if config.values:
        critic = PopArtValue(summary_size(problem), config.value_hidden, rng).to(device)
        modules["critic"] = critic
        rate = config.value_learning_rate
        optimisers["critic"] = torch.optim.Adam(critic.parameters(), lr=rate)

    def step(iteration: int) -> Info:
        acting = problem.acting(network, scorer.weights())
        groups = problem.play(acting, iteration, config.sampling)
        played = [t for group in groups for t in group]
        value = np.zeros(sum(len(t.reward) for t in played))
        inputs = torch.empty(0)
        if critic is not None:
            inputs = torch.from_numpy(summaries(problem, played, network)).to(device)
            critic.meet(inputs)
            value = critic.values(inputs).double().cpu().numpy()
        advantage, target = advantages_and_targets(groups, value, config)
        every = max(1, len(advantage) // config.decisions)
        decisions, number = gathered(problem, played, network, every)
        free = np.flatnonzero(np.diff(decisions.starts) > 1)  # one candidate: nothing to learn
        gain = advantage[number[free]]
        if config.standardise:
            gain = standardised(gain)
        played_log_pi = np.concatenate([t.log_probability for t in played])
        old = torch.from_numpy(played_log_pi[number[free]].astype(np.float32))

        def policy_minibatch(rows: Numbers) -> tuple[PolicyBatch, Tensor]:
            drawn = subset(decisions, free[rows])
            return policy_batch(drawn, gain[rows], network, device), old[rows].to(device)

        batches = minibatches(len(free), config, rng)
        info = dict(
            policy_step(scorer, optimisers["policy"], map(policy_minibatch, batches), config)
        )
        if critic is not None:
            place = torch.from_numpy(number).to(device)
            targets = torch.from_numpy(target.astype(np.float32)).to(device)
            critic.retarget(targets)
            batches = minibatches(len(number), config, rng)
            chosen = (place[torch.from_numpy(rows).to(device)] for rows in batches)
            pairs = ((inputs[at], targets[at]) for at in chosen)
            info |= value_step(critic, optimisers["critic"], pairs, config)
            info["explained"] = torch.tensor(explained(value, target))
        return {**episode_metrics(problem, played), **info}

    return problem.learner(
        network, scorer.weights, modules, optimisers, rng, step, decays=config.decay
    )


def advantages_and_targets(
    groups: Sequence[Sequence[Trajectory]], value: Floats, config: Config
) -> tuple[Floats, Floats]:
    """Return advantages and targets of the values, (T,) over all decisions in order.

    groups are the trajectories of each window, value (T,) the predicted values.
    """
    sampling = config.sampling
    advantage, target, at = [], [], 0
    for group in groups:
        gaes = []
        for trajectory in group:
            values = value[at : at + len(trajectory.reward)]
            discount = step_discounts(
                trajectory.elapsed_s, sampling.discount, per_second=config.discount_per == "second"
            )
            gaes.append(gae(trajectory.reward, values, discount, config.lam, 0.0))
            target.append(gaes[-1] + values)
            at += len(values)
        times = [trajectory.time_s for trajectory in group]
        advantage += against_group(gaes, times, sampling.baseline, normalise=sampling.normalise)
    return np.concatenate(advantage), np.concatenate(target)


def standardised(advantage: Floats) -> Floats:
    """Return advantages with mean 0 and deviation 1; unchanged if they are constant."""
    deviation = float(advantage.std()) if len(advantage) else 0.0
    return (advantage - advantage.mean()) / deviation if deviation > 0.0 else advantage


def minibatches(count: int, config: Config, rng: np.random.Generator) -> Iterator[Numbers]:
    """Yield minibatches of about equal size; each epoch is a random partition of all decisions."""
    n_batches = -(-count // config.minibatch)
    for _ in range(config.epochs if count else 0):
        yield from np.array_split(rng.permutation(count), n_batches)


def policy_step(
    scorer: CandidateScorer,
    optimiser: torch.optim.Optimizer,
    batches: Iterable[tuple[PolicyBatch, Tensor]],
    config: Config,
) -> Mapping[str, Tensor]:
    """Take a policy step per minibatch until the divergence is too large.

    `batches` come with the log-probabilities (T,) of the playing policy. Returns the mean norm of
    the gradients, the last divergence and the number of steps.
    """
    norms: list[Tensor] = []
    kl = torch.zeros(())
    for batch, old in batches:
        loss, kl = surrogate(scorer, batch, old, config)
        if norms and config.max_kl and float(kl) > _FAR * config.max_kl:
            break
        norms.append(_move(scorer, optimiser, loss, config))
    return {
        "gradient_norm": torch.stack(norms).mean() if norms else torch.zeros(()),
        "kl": kl,
        "steps_taken": torch.tensor(float(len(norms))),
    }


def surrogate(
    scorer: CandidateScorer, batch: PolicyBatch, old: Tensor, config: Config
) -> tuple[Tensor, Tensor]:
    """Return the loss of a minibatch and the mean KL divergence from the policy that played it."""
    log_pi = log_softmax(scorer, batch)
    now = log_pi.index_select(0, batch.chosen)
    gain = clipped_gain(now, old, batch.advantage, config.clip).mean()
    if config.entropy:
        gain = gain + config.entropy * entropy(log_pi) / len(batch)
    return -gain, divergence(now, old).mean()  # of the minibatch, before the step


def value_step(
    critic: PopArtValue,
    optimiser: torch.optim.Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
    config: Config,
) -> Mapping[str, Tensor]:
    """Take a step per minibatch of inputs and targets; return the mean squared error."""
    losses = []
    for inputs, target in batches:
        loss = critic.loss(inputs, target)
        _move(critic, optimiser, loss, config)
        losses.append(loss.detach())
    return {"value_loss": torch.stack(losses).mean()}


def explained(value: Floats, target: Floats) -> float:
    """Return the share of the targets' variance that the values explain; it may be negative."""
    spread = float(target.var())
    return 1.0 - float((target - value).var()) / spread if spread > 0.0 else 0.0


def _move(
    module: nn.Module, optimiser: torch.optim.Optimizer, loss: Tensor, config: Config
) -> Tensor:
    """Take one step down the clipped gradient; return the norm before clipping."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm: Tensor = clip_grad_norm_(module.parameters(), config.clip_gradient)
    optimiser.step()
    return norm.detach()


def clipped_gain(log_probability: Tensor, old: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return the clipped gain (T,) of T decisions.

        ratio = pi(a) / pi_old(a)
        gain  = min(ratio A, clip(ratio, 1 - clip, 1 + clip) A)        per decision

    Log-probabilities, or log-densities of continuous actions, now and when drawn are (T,). At ratio
    1 the gradient is the policy gradient, A grad log pi(a). If a step has made a good choice
    likelier, or a bad one less likely, by more than `clip`, the gradient is zero. If a step has
    done the opposite, the gradient is not clipped, so that it can be undone. Source: Schulman et
    al., "Proximal Policy Optimization Algorithms", 2017, equation 7.
    """
    ratio = (log_probability - old).exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


@torch.no_grad()
def divergence(log_probability: Tensor, old: Tensor) -> Tensor:
    """Return non-negative estimates (T,) of KL(old || now): ratio - 1 - log ratio.

    Their mean over choices drawn by `old` is the divergence.
    """
    change = log_probability - old
    return change.exp() - 1.0 - change
