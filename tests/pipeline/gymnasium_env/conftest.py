"""Fixtures: an environment of every scenario with episodes of a test's size."""

import gymnasium
import pytest

from hindcast.pipeline.gymnasium_env.registration import register_envs

# Arguments of gymnasium.make by id.
SMALL = {
    "hindcast/Binpack-v0": {
        "overrides": (
            "trace.settings.n_jobs=60", "trace.settings.instances_scale=0.05",
            "config.jobs_per_window=3", "config.machines=2", 'split.train="0..5"',
        ),
        "candidates": 24,
    },
    "hindcast/Deferrable-v0": {"overrides": ("config.horizon=24",)},
    "hindcast/Multicluster-v0": {"overrides": ("config.applications=20",)},
    "hindcast/Slots-v0": {"overrides": ("config.steps=12",)},
    "hindcast/Thermal-v0": {"overrides": ("config.jobs=60", "config.steps=80")},
}  # fmt: skip


@pytest.fixture(params=SMALL)
def small(request):
    """Return the id of each scenario in turn, and arguments that make its episodes short."""
    register_envs()
    return request.param, SMALL[request.param]


@pytest.fixture
def make(small):
    """Return a function that makes an environment of each scenario in turn."""
    name, arguments = small
    return lambda **more: gymnasium.make(name, **arguments, **more)
