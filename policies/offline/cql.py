"""Conservative Q-learning: double DQN that keeps the values of choices nobody logged low.

    loss = loss of double DQN + alpha * mean (logsumexp_c Q(s, c) - Q(s, choice))

Source: Kumar, Zhou, Tucker & Levine, "Conservative Q-Learning for Offline Reinforcement Learning",
NeurIPS 2020, the variant CQL(H). d3rlpy's algorithm over masked candidates, see
`policies.offline.masked_q`.
"""

from dataclasses import dataclass
from functools import partial

import torch

from pipeline.decisions import Decisions
from pipeline.schema import Spec
from policies.offline import dqn
from policies.offline.learner import Learner


@dataclass(frozen=True)
class Config(dqn.Config):
    """Settings of CQL: those of DQN and one more.

    alpha   weight of the conservative term. Rewards are scaled so that values are of order one, and
            candidates of one decision then differ by about one over the length of an episode; a
            weight that is not of that order turns CQL into cloning
    """

    alpha: float = 1e-3


def learner(
    decisions: Decisions,
    spec: Spec,
    config: Config,
    *,
    steps: int,  # noqa: ARG001
    seed: int,
    validation: Decisions | None,
    device: torch.device,
) -> Learner:
    """One training run, see `policies.offline.learner`."""
    from policies.offline.masked_q import q_learner  # first: it keeps d3rlpy's import quiet

    from d3rlpy.algos import DiscreteCQLConfig  # isort: skip

    return q_learner(
        partial(DiscreteCQLConfig, alpha=config.alpha), decisions, spec, config,
        interval=config.target_update_interval, seed=seed, validation=validation, device=device,
    )  # fmt: skip
