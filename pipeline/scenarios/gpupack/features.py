"""Names of the features, reward terms and outcomes of `gpupack`, and their indices in arrays."""

from typing import Final

import numpy as np

from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.simulation.spec import Feature, Outcome, Spec, columns

OBJECTIVES: Final = ("allocated", "shortfall")
LOADS: Final = (20, 50, 70, 80, 90, 95, 100, 110, 120, 130)  # percent, of the published tables


def _feature(
    name: str, unit: str, scale: float, description: str, *, low: float = 0.0, high: float = np.inf
) -> Feature:
    return Feature(name, unit, low, high, description, scale=scale)


def _share(name: str, description: str) -> Feature:
    return _feature(name, "fraction", 1.0, description, high=1.0)


CANDIDATES: Final = (
    _feature("free_cpu", "CPU/1000", 32e3, "free CPU of the node afterwards"),
    _feature("free_memory", "MiB", 262144.0, "free memory of the node afterwards"),
    _feature("free_gpu", "GPU/1000", 2e3, "free GPUs of the node afterwards, with shares"),
    _feature("idle_gpus", "GPUs", 2.0, "GPUs of the node that nobody uses afterwards"),
    _feature("left", "GPU/1000", 300.0, "left of the GPU of a share; 0 for other pods"),
    _share("opens", "whether a share takes a GPU that nobody uses"),
    _share("first", "whether nobody uses a GPU of the node before"),
    _feature("gpus", "GPUs", 8.0, "GPUs of the node"),
    _feature("cpu", "CPU/1000", 96e3, "CPU of the node"),
    _feature("scarcity", "1", 0.3, "GPUs of the node's model that pods bound to models ask for in "
             "the workload, as a share of those there are"),
    _share("bound", "whether the pod accepts only some models"),
    _feature("delta_fragments", "GPUs", 0.5, "change of the node's fragments", low=-np.inf),
    _feature("fragments", "GPUs", 1.0, "fragments of the node afterwards"),
    _feature("points", "1", 50.0, "int(100 sigmoid(-delta_fragments)), the score of fgd",
             high=100.0),
    _feature("delta_starved", "GPUs", 0.5, "change of starved", low=-np.inf),
    _feature("starved", "GPUs", 1.0, "idle GPUs for which the node has no CPU afterwards, at the "
             "CPU per GPU of the workload"),
    _feature("spare_cpu", "CPU/1000", 16e3, "free CPU that idle GPUs do not need afterwards"),
    _share("holds_same", "whether the node holds a pod of this kind (share, 1, 2, ... GPUs)"),
    _share("holds_other", "whether the node holds a pod with GPUs of another kind"),
    _feature("count", "nodes", 10.0, "nodes in this state"),
    _feature("weight", "1", 10.0, "count times the node's share of GPUs in this state among those "
             "with room: relative probability of `random`"),
    _share("tightest", "whether no GPU of the node has less room that suffices"),
    Feature("rank", "index", 0.0, np.inf, "rank of the node in a fixed order", identifier=True),
)  # fmt: skip
# Column of config.node_scarcity, behind all others.
NODE_SCARCITY: Final = _feature(
    "node_scarcity", "1", 1.0, "GPUs that pods of the workload ask for, each spread over the nodes "
    "that could take it if they were empty, as a share of the node's GPUs",
)  # fmt: skip
CONTEXT: Final = (
    _share("allocated_gpu", "allocated GPUs of the cluster"),
    _share("allocated_cpu", "allocated CPU of the cluster"),
    _share("allocated_memory", "allocated memory of the cluster"),
    _feature("idle_gpus_total", "GPUs", 1000.0, "GPUs that nobody uses"),
    _share("fragment_ratio", "fragments of the cluster by its idle GPUs"),
    _share("starved_ratio", "starved GPUs of the cluster by its idle GPUs"),
    _feature("pod_cpu", "CPU/1000", 8e3, "CPU that the pod asks for"),
    _feature("pod_memory", "MiB", 32768.0, "memory that the pod asks for"),
    _feature("pod_gpus", "GPUs", 1.0, "number of GPUs that the pod asks for"),
    _feature("pod_milli", "GPU/1000", 1e3, "share of each of its GPUs that the pod asks for"),
    _share("pod_models", "GPUs of the models that the pod accepts, by those of the cluster"),
    _share("pod_weight", "weight of the pod's kind among the typical pods"),
    _feature("feasible_nodes", "nodes", 500.0, "nodes that can take the pod"),
    _feature("largest_cpu", "CPU/1000", 128e3, "CPU of the largest node"),
    _feature("largest_gpu", "GPU/1000", 8e3, "GPUs of the node with the most"),
)  # fmt: skip

_REFUSED: Final = {  # by what pods ask for
    "none": "without GPU", "share": "with a share of a GPU", "one": "with 1 GPU",
    "two": "with 2 GPUs", "four": "with 3 or 4 GPUs", "eight": "with more GPUs",
}  # fmt: skip
_FIXED: Final = (
    Outcome("placed", "percent", "GPUs of all placed pods by those of the cluster; if no pod "
            "leaves, the allocated share at the end", "higher"),
    Outcome("placed_bound", "percent", "what no policy can exceed: the GPUs of the models that "
            "pods accept, or all they ask for if pods leave", "neither"),
    Outcome("allocated_peak", "percent", "largest allocated share of the GPUs at any arrival",
            "higher"),
    Outcome("refused", "percent", "GPUs of refused pods by those of all pods"),
    Outcome("load_at_first_percent", "percent", "load at which refused pods have asked for 1 % of "
            "all GPUs asked for; the last load if they never do", "higher"),
    *(Outcome(f"refused_{name}", "pods", f"refused pods {kind}")
      for name, kind in _REFUSED.items()),
)  # fmt: skip
_SHORTFALL: Final = Outcome(
    "shortfall", "percent", "min(load, 100) less allocated, mean over whole loads from 80 on, or "
    "the last one if it is below 80",
)  # fmt: skip


def _at(load: int) -> tuple[Outcome, ...]:
    return (
        Outcome(f"allocated_{load}", "percent", f"allocated GPUs at a load of {load}, as the "
                "published tables group and round them", "higher"),
        Outcome(f"fragments_{load}", "percent", f"fragments at a load of {load}, by the cluster's "
                "GPUs, as published"),
        Outcome(f"fragment_ratio_{load}", "percent", f"fragments by idle GPUs at a load of {load}, "
                "as published", "neither"),
    )  # fmt: skip


def outcomes(load: float) -> tuple[Outcome, ...]:
    """Return the outcomes of an episode that ends at a load; those of later loads are left out."""
    return (*_FIXED, _SHORTFALL, *(one for at in LOADS if at <= 100 * load for one in _at(at)))


MOMENT: Final = columns(CONTEXT)
ROW: Final = columns((*CANDIDATES, NODE_SCARCITY))
TERM: Final = columns(OBJECTIVES)
OUT: Final = columns(outcomes(np.inf))
AT: Final = len(_FIXED) + 1  # first outcome of the first load
PER_LOAD: Final = 3


def spec(config: GpupackConfig, objective: str) -> Spec:
    """Return the names of the observation, the reward terms and the outcomes."""
    return Spec(
        scenario="gpupack",
        objective=objective,
        context=CONTEXT,
        candidates=CANDIDATES + (NODE_SCARCITY,) * config.node_scarcity,
        reward_terms=OBJECTIVES,
        outcomes=outcomes(config.load) if config.ends == "never" else _FIXED,
    )
