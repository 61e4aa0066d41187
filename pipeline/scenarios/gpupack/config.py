"""Settings of `gpupack`."""

from dataclasses import dataclass, field
from typing import Literal

from hindcast.pipeline.settings.ranges import SEED, number, ranged
from hindcast.pipeline.simulation.scenario import LEFT_OUT_WHEN_DEFAULT, ONE_PER_WINDOW


@dataclass(frozen=True)
class GpupackConfig:
    """Settings of `gpupack`.

    Attributes:
        nodes: Kinds of nodes, each as COUNTxCPUSxMEMORYxGPUS:MODEL, such as "40x64x96Gx8:A100"; or
            "published" alone for the 1,213 nodes of the published experiments.
        every: Keep every n-th node, in the order of GPUs, model and CPUs; the pods are drawn to
            the size that is left.
        load: GPUs that pods have asked for at the end of an episode, as a share of the cluster's;
            0 for every pod of the workload once.
        seeds: Seeds of the published simulator, one a window, for its order of arrivals; empty to
            draw the orders.
        compat: "simulator" for the published simulator, in which ties go to the node of the lowest
            rank in a fixed order; the number of a window is its seed if `seeds` is empty. "" draws
            ties anew for every pod.
        ends: When pods leave: "never", as published; "recorded" for arrivals and ends at the times
            of the trace, without `load` and seeds; or "drawn" for exponential lifetimes.
        demand: GPUs that running pods would hold on average if none were refused, as a share of
            the cluster's, if `ends` is "drawn".
        node_scarcity: Whether rows have the column `node_scarcity`.
    """

    nodes: tuple[str, ...] = ("published",)
    every: int = number(1, "from 1 to 100,000")
    load: float = number(1.3, "from 0 to 100")
    seeds: tuple[int, ...] = field(default=(), metadata={**ONE_PER_WINDOW, **ranged(SEED)})
    compat: Literal["", "simulator"] = ""
    ends: Literal["never", "recorded", "drawn"] = "never"
    demand: float = number(1.0, "above 0, at most 100")
    node_scarcity: bool = field(default=False, metadata=LEFT_OUT_WHEN_DEFAULT)
