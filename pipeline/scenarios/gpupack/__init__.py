"""`gpupack`: pods that ask for shares of GPUs, placed on the nodes of a Kubernetes cluster.

A node has CPUs, memory and up to 16 equal GPUs. Pods arrive one at a time. A pod asks for CPU,
memory, and no GPU, a share of one GPU in thousandths, or whole GPUs, and may accept only some
models. It is put on a node that can take it, or refused for good if there is none. There is no
clock: time is the load, the GPUs that pods have asked for in percent of the cluster's, and an
episode ends at a load (1.3 as published). Outcome: the allocated share of the GPUs.

    feasible    free CPU and memory suffice, the model is accepted, and enough GPUs have room for
                the pod's share of each
    rows        the distinct places of the arriving pod: (node, GPU) for a share, else the node;
                places in equal states are one row with a count, in the order of (rank, GPU)
    fragments   F(node) = sum over typical pods k of w_k u_k(node), where u_k are the free GPUs that
                k could not use there: all if k does not fit or asks for no GPU, else the GPUs with
                less room than k's share
    starved     max(0, free GPUs - free CPU / kappa), where kappa is CPU per GPU of the workload

    allocated   r = GPUs of the placed pod / GPUs of the cluster    sum of r == allocated share
    shortfall   r = -GPUs of a refused pod * (load at the end - load now)

A pod that no node can take asks no decision. Its reward is paid with the last placement. The
typical pods are the most frequent requests, for 95 % of the workload.

`seeds` gives the orders of arrival of the published simulator, drawn as Go's math/rand does, and
`compat = "simulator"` its ranks of nodes, by which it breaks ties. Without it, ties are drawn anew
for every pod, as Kubernetes does.
"""

from typing import Final

from hindcast.pipeline.scenarios.gpupack import dynamics as kernel
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.features import NODE_SCARCITY, OBJECTIVES, spec
from hindcast.pipeline.scenarios.gpupack.instances import instance, windows
from hindcast.pipeline.scenarios.gpupack.observation import observe
from hindcast.pipeline.scenarios.gpupack.outcomes import outcome
from hindcast.pipeline.scenarios.gpupack.picture import picture
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
    picture=picture,
    added={NODE_SCARCITY.name: "node_scarcity"},
    bound="placed_bound",
    bound_kind="upper",
    source=(
        'Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with '
        'Fragmentation Gradient Descent", USENIX ATC 2023, and its simulator '
        "hkust-adsl/kubernetes-scheduler-simulator at 8f3d641."
    ),
    differences=(
        (
            "Equal scores go to a node that is drawn for every pod, as in Kubernetes; the "
            "published simulator goes by a fixed order of the nodes (`compat`)."
        ),
        (
            "A decision is a distinct place of the pod, which includes the GPU of a share. The "
            "published rules score nodes."
        ),
        (
            "`random` draws a node, and then a GPU with room, both uniformly. The published one "
            "depends on a race of threads."
        ),
        "Pods may leave (`ends`). In the published experiments they stay.",
        "Times in seconds are the load in percent: the published experiments have no clock.",
        "Nodes without GPU may be given. The published experiments leave them out.",
    ),
)
