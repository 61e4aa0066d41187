"""Problem instances of `gpupack`: the arrivals of a run on an empty cluster."""

import numpy as np

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.arrivals import draw_arrivals
from hindcast.pipeline.scenarios.gpupack.bounds import placed_bound
from hindcast.pipeline.scenarios.gpupack.classes import count, enter
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.dynamics import advance
from hindcast.pipeline.scenarios.gpupack.features import OBJECTIVES, TERM
from hindcast.pipeline.scenarios.gpupack.layout import KINDS, WHOLE, G
from hindcast.pipeline.scenarios.gpupack.nodes import nodes_of
from hindcast.pipeline.scenarios.gpupack.requests import kind_of, read_requests
from hindcast.pipeline.settings.ranges import check_ranges
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.scenario import DRAWN_WINDOWS, Instance, make_memory, require_room
from hindcast.pipeline.workloads.schema import Workload


def windows(config: GpupackConfig, workload: Workload) -> int:
    """Return the number of runs: one per seed, or recorded list, or any number if drawn."""
    check_ranges(config, "config")
    if config.ends == "recorded":
        return workload.tasks["list"].n_unique() if "list" in workload.tasks.columns else 1
    return len(config.seeds) or DRAWN_WINDOWS


def instance(
    config: GpupackConfig, objective: str, workload: Workload, window: int,
    rng: np.random.Generator,
) -> Instance:  # fmt: skip
    """Return the arrivals of one run on an empty cluster, at the first pod that a node can take."""
    check_ranges(config, "config")
    nodes = nodes_of(config)
    requests = read_requests(workload, nodes, window)
    if config.seeds and window >= len(config.seeds):
        raise InputError(
            f"window {window} has no seed; config.seeds lists {len(config.seeds)}, one a window"
        )
    seed = config.seeds[window] if config.seeds else window if config.compat else None
    gpus = sum(node.gpus for node in nodes)
    arrivals = draw_arrivals(config, requests, gpus, len(nodes), seed, rng)
    a, n, kinds = len(arrivals.pods), len(nodes), len(requests.cpu)
    capacity = max(gpus, n)
    require_room(6.0 * a + n * (2.0 * G + KINDS + 20) + 2.0 * capacity)
    pods = requests.of_pod[arrivals.pods]
    models = np.array([1 << requests.bit_of[node.model] if node.gpus else 0 for node in nodes])
    node_gpus = np.array([node.gpus for node in nodes])
    cpu, memory = (np.array([node[i] for node in nodes]) for i in (0, 1))
    typical_cpu, typical_milli, typical_gpus, typical_models = requests.typical
    free = np.where(np.arange(G) < node_gpus[:, None], WHOLE, 0).ravel()
    types = len(requests.typical_weight)
    shares, share_of = np.unique(typical_milli, return_inverse=True)
    int_blocks = (
        (m.CPU_AT, kinds, requests.cpu), (m.MEMORY_AT, kinds, requests.memory),
        (m.MILLI_AT, kinds, requests.milli), (m.GPUS_AT, kinds, requests.gpus),
        (m.MODELS_AT, kinds, requests.models),
        (m.KIND_AT, kinds, kind_of(requests.milli, requests.gpus)),
        (m.BOUND_AT, kinds, requests.bound),
        (m.T_CPU_AT, types, typical_cpu), (m.T_SHARE_AT, types, share_of),
        (m.T_GPUS_AT, types, typical_gpus), (m.T_MODELS_AT, types, typical_models),
        (m.SHARES_AT, len(shares), shares),
        (m.LESS_AT, len(shares), 0), (m.CRUMBS_AT, len(shares), 0),
        (m.POD_AT, a + 1, np.append(pods, 0)), (m.NODE_AT, a, -1),
        *((at, a, 0) for at in (m.TAKEN_AT, m.USED_AT, m.FRAGMENTS_AT)),
        (m.ENDS_FROM_AT, a + 1, arrivals.ends_from),
        (m.ENDS_AT, len(arrivals.ends), arrivals.ends),
        (m.FREE_CPU_AT, n, cpu), (m.FREE_MEMORY_AT, n, memory), (m.FREE_AT, n * G, free),
        (m.HELD_AT, n * KINDS, 0), (m.RANK_AT, n, arrivals.ranks), (m.NEXT_AT, n, -1),
        (m.NODE_CPU_AT, n, cpu), (m.NODE_GPUS_AT, n, node_gpus), (m.NODE_MODEL_AT, n, models),
        (m.HEAD_AT, n, np.append(np.arange(1, n), -1)), (m.SORTED_AT, (n + 1) * G, 0),
        *((at, n, 0) for at in (m.CLASS_AT, m.COUNT_AT, m.HASH_AT, m.HOLDS_AT, m.SUM_AT)),
        *((at, n, 0) for at in (m.ORDER_AT, m.FOUND_AT)),
        (m.ROW_CLASS_AT, capacity, 0), (m.ROW_GPU_AT, capacity, 0),
    )  # fmt: skip
    scarcity = [requests.scarcity.get(node.model, 0.0) for node in nodes]
    float_blocks = (
        (m.T_WEIGHT_AT, types, requests.typical_weight), (m.SCARCITY_AT, n, scarcity),
        (m.NODE_SCARCITY_AT, n, requests.scarcity_of(nodes) if config.node_scarcity else 0.0),
        (m.POD_WEIGHT_AT, kinds, requests.weight), (m.POD_MODELS_AT, kinds, requests.accepted),
        (m.CLASS_FRAGMENTS_AT, n, 0.0),
    )  # fmt: skip
    ints, floats = make_memory(m.INT_HEADER, int_blocks, m.FLOAT_HEADER, float_blocks)
    ints[m.ARRIVALS], ints[m.NODES], ints[m.TYPICAL] = a, n, types
    ints[m.SHARES] = len(shares)
    ints[m.OBJECTIVE] = OBJECTIVES.index(objective)
    ints[m.DRAWN], ints[m.TIE_SEED] = not config.compat, rng.integers(1 << 62)
    ints[m.CLUSTER_CPU], ints[m.CLUSTER_MEMORY] = cpu.sum(), memory.sum()
    ints[m.CLUSTER_GPU] = WHOLE * gpus
    ints[m.LARGEST_CPU], ints[m.LARGEST_GPU] = cpu.max(), WHOLE * node_gpus.max()
    ints[m.USED_CPU], ints[m.USED_MEMORY] = cpu.sum(), memory.sum()  # what is free is taken off
    ints[m.USED_GPU] = WHOLE * gpus
    asked = requests.asked[pods]
    ints[m.ASKED] = asked.sum()
    floats[m.KAPPA] = requests.kappa
    bits = sorted(requests.bit_of, key=requests.bit_of.__getitem__)
    of_model = [WHOLE * sum(v.gpus for v in nodes if v.model == model) for model in bits]
    floats[m.BOUND] = (
        placed_bound(asked, requests.models[pods], np.array(of_model))
        if config.ends == "never"
        else asked.sum()
    )
    for node in range(n):
        enter(ints, floats, node)
        count(ints, floats, node, 1)
    carried = floats[m.CARRIED : m.CARRIED + len(TERM)]
    if advance(ints, floats, carried) != k.RUNNING:
        raise InputError("no node of config.nodes can take any pod, so nothing is decided")
    floats[m.CARRIED + len(TERM)] = floats[k.TIME]
    return Instance(ints, floats, capacity=capacity)
