"""Nodes in classes of one state, and the pods that they take and give back."""

from hindcast.pipeline.scenarios.gpupack import layout as m
from hindcast.pipeline.scenarios.gpupack.fragments import fragments, starved
from hindcast.pipeline.scenarios.gpupack.layout import KINDS, WHOLE, G, U
from hindcast.pipeline.simulation.kernel import Floats, Ints, compiled

_FACTOR = 0x2545F4914F6CDD1D  # odd, so that products lose nothing modulo 2^64


@compiled()
def _mixed(key: int, value: int) -> int:
    """Return a hash of a key and one more value."""
    key = (key ^ value) * _FACTOR
    return key ^ (key >> 29)


@compiled()
def _rank_of(ints: Ints, one: int) -> int:
    """Return the rank of the first node of a class."""
    return ints[U(ints[m.RANK_AT] + ints[U(ints[m.HEAD_AT] + one)])]  # type: ignore[no-any-return]


@compiled()
def _position(ints: Ints, rank: int) -> int:
    """Return the place in the order of the first class whose first node has at least this rank."""
    low, high = 0, ints[m.CLASSES]
    while low < high:
        middle = (low + high) // 2
        if _rank_of(ints, ints[U(ints[m.ORDER_AT] + middle)]) < rank:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def _take_out(ints: Ints, one: int) -> None:
    """Remove a class from the order, by the rank of its first node."""
    at = ints[m.ORDER_AT]
    ints[m.CLASSES] -= 1
    for i in range(_position(ints, _rank_of(ints, one)), ints[m.CLASSES]):
        ints[U(at + i)] = ints[U(at + i + 1)]


@compiled()
def _put_in(ints: Ints, one: int) -> None:
    """Insert a class into the order, by the rank of its first node."""
    at, place = ints[m.ORDER_AT], _position(ints, _rank_of(ints, one))
    for i in range(ints[m.CLASSES], place, -1):
        ints[U(at + i)] = ints[U(at + i - 1)]
    ints[U(at + place)] = one
    ints[m.CLASSES] += 1


@compiled()
def _leave(ints: Ints, node: int) -> None:
    """Remove a node from its class; a class without nodes becomes unused."""
    one = ints[U(ints[m.CLASS_AT] + node)]
    head, following = U(ints[m.HEAD_AT] + one), ints[m.NEXT_AT]
    ints[U(ints[m.COUNT_AT] + one)] -= 1
    if ints[head] != node:
        before = ints[head]
        while ints[U(following + before)] != node:
            before = ints[U(following + before)]
        ints[U(following + before)] = ints[U(following + node)]
        return
    _take_out(ints, one)
    if ints[U(ints[m.COUNT_AT] + one)] > 0:
        ints[head] = ints[U(following + node)]
        _put_in(ints, one)
    else:
        ints[head] = ints[m.UNUSED]
        ints[m.UNUSED] = one


@compiled()
def _same(ints: Ints, one: int, node: int, at: int) -> bool:
    """Return whether a class has the model, CPU, memory and shares (at ints[at]) of a node."""
    other = ints[U(ints[m.HEAD_AT] + one)]
    for block in (m.NODE_MODEL_AT, m.FREE_CPU_AT, m.FREE_MEMORY_AT, m.NODE_GPUS_AT):
        if ints[U(ints[block] + other)] != ints[U(ints[block] + node)]:
            return False
    for i in range(ints[U(ints[m.NODE_GPUS_AT] + node)]):
        if ints[U(ints[m.SORTED_AT] + one * G + i)] != ints[U(at + i)]:
            return False
    return True


@compiled()
def enter(ints: Ints, floats: Floats, node: int) -> None:
    """Add a node to the class of its state, which is made if there is none."""
    new = ints[m.UNUSED]
    at, free = ints[m.SORTED_AT] + new * G, ints[m.FREE_AT] + node * G
    gpus, idle = ints[U(ints[m.NODE_GPUS_AT] + node)], 0
    for i in range(gpus):
        share, j = ints[U(free + i)], i
        idle += share
        while j > 0 and ints[U(at + j - 1)] > share:
            ints[U(at + j)] = ints[U(at + j - 1)]
            j -= 1
        ints[U(at + j)] = share
    holds = 0
    for kind in range(1, KINDS):
        holds |= (ints[U(ints[m.HELD_AT] + node * KINDS + kind)] > 0) << kind
    key = _mixed(ints[U(ints[m.NODE_MODEL_AT] + node)], holds)
    key = _mixed(key, ints[U(ints[m.FREE_CPU_AT] + node)])
    key = _mixed(key, ints[U(ints[m.FREE_MEMORY_AT] + node)])
    for i in range(gpus):
        key = _mixed(key, ints[U(at + i)])
    following = ints[m.NEXT_AT]
    for i in range(ints[m.CLASSES]):
        one = ints[U(ints[m.ORDER_AT] + i)]
        if ints[U(ints[m.HASH_AT] + one)] != key or ints[U(ints[m.HOLDS_AT] + one)] != holds:
            continue
        if not _same(ints, one, node, at):
            continue
        ints[U(ints[m.COUNT_AT] + one)] += 1
        ints[U(ints[m.CLASS_AT] + node)] = one
        head = U(ints[m.HEAD_AT] + one)
        rank = ints[U(ints[m.RANK_AT] + node)]
        if rank < _rank_of(ints, one):
            _take_out(ints, one)
            ints[U(following + node)] = ints[head]
            ints[head] = node
            _put_in(ints, one)
            return
        before = ints[head]
        after = ints[U(following + before)]
        while after >= 0 and ints[U(ints[m.RANK_AT] + after)] < rank:
            before, after = after, ints[U(following + after)]
        ints[U(following + before)], ints[U(following + node)] = node, after
        return
    ints[m.UNUSED] = ints[U(ints[m.HEAD_AT] + new)]
    ints[U(ints[m.HEAD_AT] + new)] = node
    ints[U(following + node)] = -1
    ints[U(ints[m.CLASS_AT] + node)] = new
    ints[U(ints[m.COUNT_AT] + new)] = 1
    ints[U(ints[m.HASH_AT] + new)], ints[U(ints[m.HOLDS_AT] + new)] = key, holds
    ints[U(ints[m.SUM_AT] + new)] = idle
    floats[U(ints[m.CLASS_FRAGMENTS_AT] + new)] = fragments(
        ints, floats, ints[U(ints[m.NODE_MODEL_AT] + node)],
        ints[U(ints[m.FREE_CPU_AT] + node)], at, gpus,
    )  # fmt: skip
    _put_in(ints, new)


@compiled()
def count(ints: Ints, floats: Floats, node: int, sign: int) -> None:
    """Add what is free on a node to the sums of the cluster, or take it away (sign -1)."""
    one = ints[U(ints[m.CLASS_AT] + node)]
    cpu, idle = ints[U(ints[m.FREE_CPU_AT] + node)], ints[U(ints[m.SUM_AT] + one)]
    floats[m.FRAGMENTS] += sign * floats[U(ints[m.CLASS_FRAGMENTS_AT] + one)]
    floats[m.STARVED] += sign * starved(floats, cpu, idle)
    ints[m.USED_CPU] -= sign * cpu
    ints[m.USED_MEMORY] -= sign * ints[U(ints[m.FREE_MEMORY_AT] + node)]
    ints[m.USED_GPU] -= sign * idle
    at, gpus = ints[m.SORTED_AT] + one * G, ints[U(ints[m.NODE_GPUS_AT] + node)]
    for i in range(gpus):
        ints[m.IDLE_GPUS] += sign * (ints[U(at + i)] == WHOLE)


@compiled()
def change(ints: Ints, floats: Floats, arrival: int, sign: int) -> None:
    """Let the node of an arrival hold its pod (sign 1), or let the pod leave (sign -1)."""
    pod = U(ints[U(ints[m.POD_AT] + arrival)])
    node, taken = ints[U(ints[m.NODE_AT] + arrival)], ints[U(ints[m.TAKEN_AT] + arrival)]
    count(ints, floats, node, -1)
    _leave(ints, node)
    ints[U(ints[m.FREE_CPU_AT] + node)] -= sign * ints[U(ints[m.CPU_AT]) + pod]
    ints[U(ints[m.FREE_MEMORY_AT] + node)] -= sign * ints[U(ints[m.MEMORY_AT]) + pod]
    milli = ints[U(ints[m.MILLI_AT]) + pod]
    for i in range(ints[U(ints[m.NODE_GPUS_AT] + node)]):
        if (taken >> i) & 1:
            ints[U(ints[m.FREE_AT] + node * G + i)] -= sign * milli
    ints[U(ints[m.HELD_AT] + node * KINDS + ints[U(ints[m.KIND_AT]) + pod])] += sign
    enter(ints, floats, node)
    count(ints, floats, node, 1)
