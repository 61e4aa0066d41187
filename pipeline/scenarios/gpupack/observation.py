"""Observations of `gpupack`: one row per distinct place of the arriving pod."""

from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.features import MOMENT, ROW
from hindcast.pipeline.scenarios.gpupack.fragments import fragments, points, starved
from hindcast.pipeline.scenarios.gpupack.layout import WHOLE, G, U
from hindcast.pipeline.simulation import kernel as k
from hindcast.pipeline.simulation.kernel import Floats, Image, Ints, Mask, Rows, compiled


@compiled()
def _after(ints: Ints, one: int, milli: int, number: int, room: int) -> int:
    """Fill the sorted shares of a class after a pod, behind those of the classes; return where."""
    at, to = ints[m.SORTED_AT] + one * G, ints[m.SORTED_AT] + ints[m.NODES] * G
    gpus = ints[U(ints[m.NODE_GPUS_AT] + ints[U(ints[m.HEAD_AT] + one)])]
    if number == 0:
        return at  # type: ignore[no-any-return]
    if milli == WHOLE:  # the idle GPUs are the last ones
        for i in range(number):
            ints[U(to + i)] = 0
        for i in range(gpus - number):
            ints[U(to + number + i)] = ints[U(at + i)]
        return to  # type: ignore[no-any-return]
    left, taken, j = room - milli, 0, 0
    while j < gpus - 1:
        taken |= ints[U(at + j)] == room
        ints[U(to + j)] = ints[U(at + j + taken)]
        j += 1
    while j > 0 and ints[U(to + j - 1)] > left:
        ints[U(to + j)] = ints[U(to + j - 1)]
        j -= 1
    ints[U(to + j)] = left
    return to  # type: ignore[no-any-return]


@compiled()
def _write_row(ints: Ints, floats: Floats, row: int, candidates: Rows) -> None:
    """Write the features of a row: the arriving pod on a class of equal nodes."""
    pod = U(ints[U(ints[m.POD_AT] + ints[m.NOW])])
    milli, number = ints[U(ints[m.MILLI_AT]) + pod], ints[U(ints[m.GPUS_AT]) + pod]
    one, gpu = ints[U(ints[m.ROW_CLASS_AT] + row)], ints[U(ints[m.ROW_GPU_AT] + row)]
    node = ints[U(ints[m.HEAD_AT] + one)]
    at, gpus = ints[m.SORTED_AT] + one * G, ints[U(ints[m.NODE_GPUS_AT] + node)]
    model = ints[U(ints[m.NODE_MODEL_AT] + node)]
    cpu_before, idle_before = ints[U(ints[m.FREE_CPU_AT] + node)], ints[U(ints[m.SUM_AT] + one)]
    cpu = cpu_before - ints[U(ints[m.CPU_AT]) + pod]
    idle = idle_before - milli * number
    room = ints[U(ints[m.FREE_AT] + node * G + gpu)] if gpu >= 0 else WHOLE
    whole = with_room = alike = 0
    tightest = 1.0
    for i in range(gpus):
        share = ints[U(at + i)]
        whole += share == WHOLE
        if gpu >= 0 and share >= milli:
            with_room += 1
            alike += share == room
            if share < room:
                tightest = 0.0
    opens = gpu >= 0 and room == WHOLE
    used = number if gpu < 0 else int(opens)
    before = floats[U(ints[m.CLASS_FRAGMENTS_AT] + one)]
    after = fragments(ints, floats, model, cpu, _after(ints, one, milli, number, room), gpus)
    held, kind = ints[U(ints[m.HOLDS_AT] + one)], ints[U(ints[m.KIND_AT]) + pod]
    many = ints[U(ints[m.COUNT_AT] + one)]
    lacks = starved(floats, cpu, idle)
    candidates[row, ROW.free_cpu] = cpu
    memory = ints[U(ints[m.FREE_MEMORY_AT] + node)]
    candidates[row, ROW.free_memory] = memory - ints[U(ints[m.MEMORY_AT]) + pod]
    candidates[row, ROW.free_gpu] = idle
    candidates[row, ROW.idle_gpus] = whole - used
    candidates[row, ROW.left] = room - milli if gpu >= 0 else 0
    candidates[row, ROW.opens] = opens
    candidates[row, ROW.first] = whole == gpus
    candidates[row, ROW.gpus] = gpus
    candidates[row, ROW.cpu] = ints[U(ints[m.NODE_CPU_AT] + node)]
    candidates[row, ROW.scarcity] = floats[U(ints[m.SCARCITY_AT] + node)]
    candidates[row, ROW.bound] = ints[U(ints[m.BOUND_AT]) + pod]
    candidates[row, ROW.delta_fragments] = (after - before) / WHOLE
    candidates[row, ROW.fragments] = after / WHOLE
    candidates[row, ROW.points] = points(before, after)
    lacked = starved(floats, cpu_before, idle_before)
    candidates[row, ROW.delta_starved] = lacks / WHOLE - lacked / WHOLE
    candidates[row, ROW.starved] = lacks / WHOLE
    candidates[row, ROW.spare_cpu] = max(0.0, cpu - floats[m.KAPPA] * idle)
    candidates[row, ROW.holds_same] = 1.0 if (held >> kind) & 1 and kind > 0 else 0.0
    candidates[row, ROW.holds_other] = 1.0 if held & ~(1 << kind) else 0.0
    candidates[row, ROW.count] = many
    candidates[row, ROW.weight] = many * alike / with_room if gpu >= 0 else many
    candidates[row, ROW.tightest] = tightest
    candidates[row, ROW.rank] = ints[U(ints[m.RANK_AT] + node)]
    if candidates.shape[1] > ROW.node_scarcity:
        candidates[row, ROW.node_scarcity] = floats[U(ints[m.NODE_SCARCITY_AT] + node)]


@compiled()
def observe(
    ints: Ints, floats: Floats, context: Floats, image: Image, candidates: Rows, feasible: Mask
) -> int:
    """Write the distinct places of the present pod in the order of ties, and the moment."""
    ints[k.FRESH] = 1
    for row in range(ints[m.ROWS]):
        _write_row(ints, floats, row, candidates)
        feasible[row] = True
    pod = U(ints[U(ints[m.POD_AT] + ints[m.NOW])])
    idle = ints[m.CLUSTER_GPU] - ints[m.USED_GPU]
    context[MOMENT.allocated_gpu] = ints[m.USED_GPU] / ints[m.CLUSTER_GPU]
    context[MOMENT.allocated_cpu] = ints[m.USED_CPU] / max(ints[m.CLUSTER_CPU], 1)
    context[MOMENT.allocated_memory] = ints[m.USED_MEMORY] / max(ints[m.CLUSTER_MEMORY], 1)
    context[MOMENT.idle_gpus_total] = ints[m.IDLE_GPUS]
    context[MOMENT.fragment_ratio] = min(max(floats[m.FRAGMENTS] / max(idle, 1), 0.0), 1.0)
    context[MOMENT.starved_ratio] = min(max(floats[m.STARVED] / max(idle, 1), 0.0), 1.0)
    context[MOMENT.pod_cpu] = ints[U(ints[m.CPU_AT]) + pod]
    context[MOMENT.pod_memory] = ints[U(ints[m.MEMORY_AT]) + pod]
    context[MOMENT.pod_gpus] = ints[U(ints[m.GPUS_AT]) + pod]
    context[MOMENT.pod_milli] = ints[U(ints[m.MILLI_AT]) + pod]
    context[MOMENT.pod_models] = floats[U(ints[m.POD_MODELS_AT]) + pod]
    context[MOMENT.pod_weight] = floats[U(ints[m.POD_WEIGHT_AT]) + pod]
    context[MOMENT.feasible_nodes] = ints[m.FOUND]
    context[MOMENT.largest_cpu] = ints[m.LARGEST_CPU]
    context[MOMENT.largest_gpu] = ints[m.LARGEST_GPU]
    return ints[m.ROWS]  # type: ignore[no-any-return]
