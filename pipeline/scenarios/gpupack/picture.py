"""Picture of `gpupack`: how full the cluster is, and what a pod would leave on the nodes."""

from hindcast.pipeline.simulation.picture import Panel
from hindcast.pipeline.simulation.spec import Spec


def picture(_spec: Spec) -> tuple[Panel, ...]:
    """Return shares of the cluster, and the places of the pod by what stays free on the node."""
    return (
        Panel("Places by what they leave free: GPU/1000 across, CPU/1000 up; size is the number of "
              "nodes, shade their fragments", "points",
              of={"x": "free_gpu", "y": "free_cpu", "size": "count", "shade": "fragments"}),
        Panel("Shares of the cluster", "bars",
              ("allocated_gpu", "allocated_cpu", "allocated_memory", "fragment_ratio",
               "starved_ratio")),
        Panel("What the pod asks for: GPUs", "bars", ("pod_gpus",)),
        Panel("What the pod asks for of each GPU, in thousandths", "bars", ("pod_milli",)),
    )  # fmt: skip
