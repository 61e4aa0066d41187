"""`gpupack`: pods that ask for shares of GPUs, placed on the nodes of a Kubernetes cluster."""

from typing import Final

from hindcast.pipeline.scenarios.gpupack import dynamics as kernel
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.features import OBJECTIVES, spec
from hindcast.pipeline.scenarios.gpupack.instances import instance, windows
from hindcast.pipeline.scenarios.gpupack.observation import observe
from hindcast.pipeline.scenarios.gpupack.outcomes import outcome
from hindcast.pipeline.simulation.scenario import Scenario

SCENARIO: Final = Scenario(
    name="gpupack",
    config=GpupackConfig,
    objectives=OBJECTIVES,
    spec=spec,
    windows=windows,
    instance=instance,
    observe=observe,
    step=kernel.step,
    outcome=outcome,
    bound="placed_bound",
    bound_kind="upper",
)
