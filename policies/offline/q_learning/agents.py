"""Six agents that learn values with d3rlpy's algorithms over masked candidates.

    y    = r + gamma * V(s')
    loss = mean huber(Q(s, choice) - y)

    dqn          V(s') = max_c Q_target(s', c)                    over the candidates c of s'
    double_dqn   V(s') = Q_target(s', argmax_c Q(s', c))
    nfq          V(s') = max_c Q(s', c)       Q before this step, not differentiated
    cql          as double_dqn; the loss adds alpha * mean (logsumexp_c Q(s, c) - Q(s, choice))
    qr_dqn       dqn with quantiles theta_i of the return, i = 1 .. N, whose mean is Q:
                 y_j  = r + gamma * theta_j of Z_target(s', argmax_c Q_target(s', c))
                 loss = mean over j, sum over i of |tau_i - 1[y_j < theta_i]| * huber(y_j - theta_i)
                 at tau_i = (2 i - 1) / 2 N
    qr_dqn_cql   qr_dqn whose targets choose as double_dqn does, with the added term of cql

Q_target is a copy of Q, taken every `target_update_interval` steps. The paper of NFQ fits a network
to convergence between two rounds of targets; here a round is one gradient step. qr_dqn_cql is the
first of the two agents that Offline-LD trains on logs of job-shop scheduling, there over a graph
network. `hindcast.policies.offline.q_learning.masked_q` explains masks for quantiles.

Sources: Mnih et al., "Human-level control through deep reinforcement learning", Nature 2015 (dqn);
van Hasselt, Guez & Silver, "Deep Reinforcement Learning with Double Q-Learning", AAAI 2016;
Riedmiller, "Neural Fitted Q Iteration", ECML 2005; Kumar, Zhou, Tucker & Levine, "Conservative
Q-Learning for Offline Reinforcement Learning", NeurIPS 2020, the variant CQL(H); Dabney, Rowland,
Bellemare & Munos, "Distributional Reinforcement Learning with Quantile Regression", AAAI 2018
(qr_dqn); van Remmerden, Bukhsh & Zhang, "Offline reinforcement learning for learning to dispatch
for job shop scheduling", Machine Learning 2025 (qr_dqn_cql).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hindcast.pipeline.settings.ranges import number
from hindcast.policies.training.learner import Learner, Task
from hindcast.policies.training.values import ValueSettings


@dataclass(frozen=True)
class DqnConfig(ValueSettings):
    """Settings of DQN and double DQN, in addition to those of ValueSettings.

    Attributes:
        target_update_interval: Steps between two copies of Q into Q_target, at least 1.
    """

    target_update_interval: int = number(100, "at least 1")


@dataclass(frozen=True)
class CqlConfig(DqnConfig):
    """Settings of CQL, in addition to those of double DQN.

    Attributes:
        alpha: Weight of the conservative term, 0 or more. Rewards are scaled so that values are of
            order one, and candidates of one decision then differ by about one over the length of an
            episode. A weight above that order turns CQL into cloning.
    """

    alpha: float = number(1e-3, "at least 0")


@dataclass(frozen=True)
class QuantileConfig(DqnConfig):
    """Settings of QR-DQN, in addition to those of DQN.

    Attributes:
        quantiles: Number N of quantiles, at least 1.
    """

    quantiles: int = number(32, "from 1 to 65,536")


@dataclass(frozen=True)
class QuantileCqlConfig(QuantileConfig):
    """Settings of QR-DQN with conservative values, in addition to those of QR-DQN.

    Attributes:
        alpha: Weight of the conservative term, see CqlConfig. The quantile loss is a sum over
            quantiles, so the same weight counts for less here.
    """

    alpha: float = number(1e-2, "at least 0")


@dataclass(frozen=True)
class QLearning:
    """An agent of this module; it has `Config` and `learner`, as the module of any other agent.

    Attributes:
        Config: The agent's settings.
        algorithm: Name of d3rlpy's config of the algorithm.
        stacks: True if several runs can be one program
            (hindcast.policies.offline.stacked_training).
    """

    Config: type[ValueSettings]
    algorithm: str
    stacks: bool = False

    def alike(self, config: Any) -> Hashable | None:
        """Return the settings that runs of a stack share; None for a run that cannot be stacked."""
        from hindcast.policies.offline.q_learning import double_dqn_stack

        if not self.stacks or not double_dqn_stack.stackable(config):
            return None
        return double_dqn_stack.alike(config)

    def stack(self, tasks: Sequence[Task], configs: Sequence[Any]) -> list[Learner]:
        """Return runs that take their steps together."""
        from hindcast.policies.offline.q_learning import double_dqn_stack

        return double_dqn_stack.learners(tasks, configs)

    def learner(self, task: Task, config: Any) -> Learner:
        """Return one training run, see `hindcast.policies.training.learner`.

        On a GPU, a run that can be stacked is a stack of one, if its log fits in the memory there.
        """
        if task.device.type != "cpu" and self.alike(config) is not None:
            from hindcast.policies.offline.q_learning.double_dqn_stack import fits

            if fits(task, config):
                return self.stack([task], [config])[0]
        from hindcast.policies.offline.q_learning.masked_q import (
            q_learner,  # silences d3rlpy's import
        )

        from d3rlpy import algos  # isort: skip

        make = getattr(algos, self.algorithm)
        if isinstance(config, CqlConfig | QuantileCqlConfig):
            make = partial(make, alpha=config.alpha)
        interval = config.target_update_interval if isinstance(config, DqnConfig) else 1
        quantiles = config.quantiles if isinstance(config, QuantileConfig) else 0
        return q_learner(make, task, config, interval=interval, quantiles=quantiles)


DQN: Final = QLearning(DqnConfig, "DQNConfig")
DOUBLE_DQN: Final = QLearning(DqnConfig, "DoubleDQNConfig", stacks=True)
NFQ: Final = QLearning(ValueSettings, "NFQConfig")
CQL: Final = QLearning(CqlConfig, "DiscreteCQLConfig")
QR_DQN: Final = QLearning(QuantileConfig, "DQNConfig")
QR_DQN_CQL: Final = QLearning(QuantileCqlConfig, "DiscreteCQLConfig")
