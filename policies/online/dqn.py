"""Online double DQN: epsilon-greedy episodes into a ring buffer, steps on minibatches of it.

    iteration   play some windows -> ring buffer -> `gradient_steps` minibatches
    y           r + gamma * r' + ... + gamma^n * Q_target(s_n, argmax_c Q(s_n, c))
    loss        mean huber(Q(s, choice) - y)

Values, loss, step and the names of the settings are those of the offline double_dqn
(hindcast.policies.offline.q_learning.masked_q), so that the two can be compared on equal terms:
give both the same `network`, `minibatch`, `learning_rate`, `discount` and `target_update_interval`,
and the offline agent `baseline = "none"` and iterations * `gradient_steps` steps. They then differ
only in the policy that played. There is no baseline of a window's mean return here, because it
would change with every iteration.

The state after the last decision of a truncated episode was never observed. Such a decision serves
as the successor of others but is not learned from.

Sources: Mnih et al., "Human-level control through deep reinforcement learning", Nature 2015; van
Hasselt, Guez & Silver, "Deep Reinforcement Learning with Double Q-Learning", AAAI 2016; n-step
targets: Hessel et al., "Rainbow", AAAI 2018.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from hindcast.pipeline.settings.ranges import check_ranges, number
from hindcast.pipeline.simulation.seeds import generator
from hindcast.policies.networks.settings import Network, NetworkSettings, Weights
from hindcast.policies.online.dqn_replay import Replay
from hindcast.policies.online.problem import Problem, Sampling
from hindcast.policies.rollouts.trajectories import Trajectory, network_inputs
from hindcast.policies.training.learner import Info, Learner, means
from hindcast.policies.training.values import ValueUnit


@dataclass(frozen=True)
class Config:
    """Settings of `dqn_online`; settings that double_dqn also has mean the same.

    Attributes:
        network: Settings of the Q network.
        sampling: Episodes of an iteration; its baseline and discount are not used.
        gradient_steps: Gradient steps per iteration, at least 1.
        minibatch: Transitions per gradient step, at least 1.
        replay: Decisions that the ring buffer keeps, at least 1.
        epsilon: Probability of a uniform choice in the first iteration, 0 to 1.
        epsilon_last: Probability of a uniform choice after `epsilon_iterations`, 0 to 1.
        epsilon_iterations: Iterations over which epsilon falls linearly, at least 1.
        n_steps: Number of rewards before the value in a target, at least 1.
        discount: Discount gamma, above 0, at most 1; None for the discount of the objective.
        discount_per: Whether gamma is per "decision" or per "second".
        reward_scale: Factor of the rewards; 0 for one over the mean size of the first iteration's
            returns.
        monte_carlo: Weight of the played return in the targets, 0 to 1.
        learning_rate: Step size of Adam, above 0.
        target_update_interval: Gradient steps between two copies of Q into Q_target, at least 1.
    """

    network: NetworkSettings = field(
        default_factory=lambda: NetworkSettings(hidden=(32, 32), quadratic=False, context=True)
    )
    sampling: Sampling = field(
        default_factory=lambda: Sampling(trajectories=1, windows=10, stay=1, baseline="none")
    )
    gradient_steps: int = number(100, "at least 1")
    minibatch: int = number(256, "from 1 to 1,000,000")
    replay: int = number(50_000, "at least 1")
    epsilon: float = number(1.0, "from 0 to 1")
    epsilon_last: float = number(0.05, "from 0 to 1")
    epsilon_iterations: int = number(20, "at least 1")
    n_steps: int = number(1, "at least 1")
    discount: float | None = number(None, "above 0, at most 1")
    discount_per: Literal["decision", "second"] = "decision"
    reward_scale: float = number(0.0, "at least 0")
    monte_carlo: float = number(0.0, "from 0 to 1")
    learning_rate: float = number(1e-3, "above 0")
    target_update_interval: int = number(100, "at least 1")

    def __post_init__(self) -> None:
        check_ranges(self)

    def exploring(self, iteration: int) -> float:
        """Return epsilon of an iteration, counted from 1."""
        progress = min((iteration - 1) / self.epsilon_iterations, 1.0)
        return self.epsilon + progress * (self.epsilon_last - self.epsilon)


class _Scale(nn.Module):
    """Factor of the rewards, part of the training state; 0 until the first iteration."""

    value: Tensor

    def __init__(self, value: float) -> None:
        super().__init__()
        self.register_buffer("value", torch.tensor(value, dtype=torch.float64))


def learner(
    problem: Problem,
    config: Config,
    network: Network,
    weights: Weights | None,
    device: torch.device,
) -> Learner:
    """Return a run from these weights, or from random ones; a step is an iteration."""
    from hindcast.policies.offline.q_learning import masked_q  # first: it silences d3rlpy

    from d3rlpy.algos import DoubleDQNConfig  # isort: skip

    spec = problem.spec
    discount = spec.discount if config.discount is None else config.discount
    rng = generator(problem.seed, "online replay")
    k = max(problem.instance_of(window).capacity for window in problem.train)
    algorithm = partial(
        DoubleDQNConfig,
        gamma=discount, batch_size=config.minibatch, learning_rate=config.learning_rate,
    )  # fmt: skip
    impl = masked_q.create(algorithm, network, k, problem.seed, device=device).impl
    scorer = impl.q_function[0].encoder.scorer
    if weights is not None:
        scorer.set_weights(weights)
        impl.update_target()
    replay, scale = Replay(config.replay, k, spec, network), _Scale(config.reward_scale)

    def keep(t: Trajectory) -> None:
        passed = t.elapsed_s if config.discount_per == "second" else np.ones(len(t.reward))
        parts = list(network_inputs(problem.scenario, spec, t, network))
        replay.add(parts, t.reward, passed, discount, config.n_steps, truncated=t.episode.truncated)

    def step(iteration: int) -> Info:
        epsilon = config.exploring(iteration)
        windows = problem.play(
            problem.acting(network, scorer.weights()), iteration, config.sampling,
            temperature=0.0, epsilon=epsilon,
        )  # fmt: skip
        played = [t for window in windows for t in window]
        for t in played:
            keep(t)
        if not scale.value:
            scale.value.fill_(_scale(played, discount))
        # Intervals are counted when decisions are kept: per decision or per second alike.
        unit = ValueUnit(float(scale.value), discount, True, monte_carlo=config.monte_carlo)  # noqa: FBT003
        infos = []
        for n in range(config.gradient_steps):
            rows = replay.draw(config.minibatch, rng)
            if not len(rows):
                break
            batch = masked_q.d3rlpy_batch(replay.transitions(rows, network, device), unit)
            number = (iteration - 1) * config.gradient_steps + n + 1
            interval = config.target_update_interval
            infos.append(masked_q.update(impl, batch, number, interval, unit))
        curves = problem.metrics(
            (t.episode for t in played),
            epsilon=epsilon,
            decisions=float(sum(len(t.choices) for t in played)),
        )
        return {**curves, **means(infos)}

    modules = {"q": impl.q_function, "target": impl.modules.targ_q_funcs}
    modules |= {"replay": replay, "scale": scale}
    optimisers = {"q": impl.q_function_optim}
    return problem.learner(network, scorer.weights, modules, optimisers, rng, step)


def _scale(played: Sequence[Trajectory], discount: float) -> float:
    """Return one over the mean size of a return, or of a discounted sum of rewards if smaller."""
    size = float(np.mean([abs(trajectory.reward.sum()) for trajectory in played]))
    if discount < 1.0:
        reward = np.concatenate([trajectory.reward for trajectory in played])
        size = min(size, float(np.abs(reward).mean()) / (1.0 - discount))
    return 1.0 / size if size > 0.0 else 1.0
