"""Fixtures for all tests of policies: small logs to learn from, small problems to play.

Torch uses one thread in all tests.
"""

from collections.abc import Iterator

import pytest
import torch

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
    toy,
)

__all__ = [
    "bandit", "imitated", "noisy_episodes", "play_problem", "policy_of", "share_of_best",
    "spec", "toy", "two_stages",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one thread for learners that tests drive step by step, as a training does.

    With more, threads of workers that run side by side wait for each other: networks are so small
    that waiting takes several times as long as the steps.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
