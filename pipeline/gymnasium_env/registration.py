"""Ids of the environments for `gymnasium.make` and `gymnasium.make_vec`.

An id names a scenario and has a recipe by default. `hindcast/Recipe-v0` takes a recipe of any
scenario, also of one that a plug-in adds. Gymnasium keeps the places of the classes as text, so the
simulators are loaded when an environment is made.
"""

from collections.abc import Mapping
from typing import Any, Final

from hindcast.pipeline.plugins import Registry

SINGLE: Final = "hindcast.pipeline.gymnasium_env.single:SchedulingEnv"
VECTOR: Final = "hindcast.pipeline.gymnasium_env.vector:SchedulingVectorEnv"
# Arguments of the environments by id. `recipe` can be replaced, `scenario` is its scenario.
ENVIRONMENTS: Final = Registry[Mapping[str, Any]]("environments", {
    "hindcast/Binpack-v0": {"scenario": "binpack", "recipe": "binpack-synthetic-v1"},
    "hindcast/Deferrable-v0": {"scenario": "deferrable", "recipe": "deferrable-base-v1"},
    "hindcast/Gpupack-v0": {"scenario": "gpupack", "recipe": "gpupack-typical-v1"},
    "hindcast/Multicluster-v0": {"scenario": "multicluster", "recipe": "multicluster-uniform-v1"},
    "hindcast/Queue-v0": {"scenario": "queue", "recipe": "queue-lublin1-v1"},
    "hindcast/Slots-v0": {"scenario": "slots", "recipe": "slots-deeprm-v1"},
    "hindcast/Thermal-v0": {"scenario": "thermal", "recipe": "thermal-default-v1"},
    "hindcast/Recipe-v0": {},
})  # fmt: skip


def register_envs() -> None:
    """Register all ids with Gymnasium; an id that is registered already stays as it is."""
    import gymnasium

    for name, arguments in ENVIRONMENTS.installed():
        if name not in gymnasium.registry:
            gymnasium.register(
                name, entry_point=SINGLE, vector_entry_point=VECTOR, kwargs=dict(arguments)
            )
