"""Fixtures of the tests of policies: small logs to learn from, small problems to play."""

from tests.policies.conftest import (
    _one_thread,
    bandit,
    imitated,
    noisy_episodes,
    play_problem,
    policy_of,
    share_of_best,
    spec,
    toy,
    two_stages,
)

__all__ = [
    "_one_thread", "bandit", "imitated", "noisy_episodes", "play_problem", "policy_of",
    "share_of_best", "spec", "toy", "two_stages",
]  # fmt: skip
