"""Fixtures for all tests of policies: small logs to learn from, small problems to play."""

from tests.policies.logs import (
    bandit,
    imitated,
    noisy_episodes,
    share_of_best,
    spec,
    two_stages,
)
from tests.policies.play import (
    play_problem,
    policy_of,
    slot_net,
    slot_problem,
    slot_rollout,
    toy,
)

__all__ = [
    "bandit", "imitated", "noisy_episodes", "play_problem", "policy_of", "share_of_best",
    "slot_net", "slot_problem", "slot_rollout", "spec", "toy", "two_stages",
]  # fmt: skip
