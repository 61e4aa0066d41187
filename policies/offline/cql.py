"""Conservative Q-learning: double DQN that keeps the values of choices nobody logged low.

    loss = loss of double DQN + alpha * mean (logsumexp_c Q(s, c) - Q(s, choice))

Source: Kumar, Zhou, Tucker & Levine, "Conservative Q-Learning for Offline Reinforcement Learning",
NeurIPS 2020, the variant CQL(H). d3rlpy's algorithm over masked candidates, see
`policies.offline.masked_q`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pipeline.decisions import Decisions
from pipeline.schema import Spec
from policies.checkpoint import Trained
from policies.offline import double_dqn


@dataclass(frozen=True)
class Config(double_dqn.Config):
    """Settings of CQL: those of double DQN and one more.

    alpha   weight of the conservative term. Rewards are scaled so that values are of order one, and
            candidates of one decision then differ by about one over the length of an episode; a
            weight that is not of that order turns CQL into cloning
    """

    alpha: float = 1e-3


def train(
    decisions: Decisions,
    spec: Spec,
    config: Config,
    *,
    steps: int,
    seed: int,
    validation: Decisions | None,
    progress: Callable[[int, int], None],
) -> Trained:
    """Train; called through `policies.offline.train_agent`, which checks what goes in."""
    from policies.offline.masked_q import train_q  # first: it keeps d3rlpy's import quiet

    from d3rlpy.algos import DiscreteCQLConfig  # isort: skip

    return train_q(
        "cql", partial(DiscreteCQLConfig, alpha=config.alpha), decisions, spec, config,
        steps=steps, seed=seed, validation=validation, progress=progress,
    )  # fmt: skip
