"""A second `gpupack` in plain Python: a loop over nodes, rules as the specification words them."""

import math
from dataclasses import dataclass, field


@dataclass
class PlainNode:
    """A node; `held` are the numbers of pods by kind: -1 for a share, else the number of GPUs."""

    cpu: int
    memory: int
    gpus: list[int]
    model: str
    rank: int
    held: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PlainPod:
    """A pod: CPU and GPU share in thousandths, memory in MiB, accepted models."""

    cpu: int
    memory: int
    milli: int
    number: int
    spec: str

    @property
    def is_share(self):
        return self.number == 1 and self.milli < 1000

    @property
    def kind(self):
        return -1 if self.is_share else self.number

    def accepts(self, model):
        return not self.spec or model in self.spec.split("|")


def places(nodes, pod):
    """Return every (node, GPU) that can take a pod, by rank; GPU -1 unless it is a share."""
    found = []
    for node in sorted(nodes, key=lambda n: n.rank):
        if node.cpu < pod.cpu or node.memory < pod.memory:
            continue
        if not pod.number:
            found.append((node, -1))
        elif pod.accepts(node.model):
            room = [g for g, free in enumerate(node.gpus) if free >= pod.milli]
            if pod.is_share:
                found += [(node, g) for g in room]
            elif len(room) >= pod.number:
                found.append((node, -1))
    return found


def put(node, pod, gpu):
    """Return the node after a pod."""
    gpus = list(node.gpus)
    taken = [gpu] if gpu >= 0 else [g for g, free in enumerate(gpus) if free == 1000][: pod.number]
    for g in taken:
        gpus[g] -= pod.milli
    held = dict(node.held)
    held[pod.kind] = held.get(pod.kind, 0) + 1
    return PlainNode(
        node.cpu - pod.cpu, node.memory - pod.memory, gpus, node.model, node.rank, held
    )


def unusable(node, k):
    """Return the idle thousandths of GPUs that a typical pod k cannot use, and the reason."""
    idle = sum(node.gpus)
    has_cpu = node.cpu >= k.cpu
    if k.number == 0:
        return idle, 3 if has_cpu else 4
    if not k.accepts(node.model):
        return idle, 5
    enough = sum(free >= k.milli for free in node.gpus) >= k.number
    if not enough:
        return idle, 1 if has_cpu else 0
    if not has_cpu:
        return idle, 2
    return sum(free for free in node.gpus if free < k.milli), 1


def fragments(node, typical):
    """Return F of a node: six sums by reason, and then their sum."""
    sums = [0.0] * 6
    for k, weight in typical:
        u, reason = unusable(node, k)
        sums[reason] += weight * u
    return sum(sums[1:], sums[0])


def tightest(node, pod):
    """Return the GPU of a share with the least sufficient room, of the lowest index."""
    return min((free, g) for g, free in enumerate(node.gpus) if free >= pod.milli)[1]


def score(rule, node, pod, gpu, typical, largest_cpu, largest_gpu):
    """Return the score of a place by a published rule, larger is better."""
    free, request = sum(node.gpus), pod.number * pod.milli
    if rule == "dot_product":
        product = (node.cpu / largest_cpu) * (pod.cpu / largest_cpu)
        product += (free / largest_gpu) * (request / largest_gpu)
        return int(100 * (1 - product / 2))
    if rule == "best_fit":
        left = 0.5 * (node.cpu - pod.cpu) / largest_cpu + 0.5 * (free - request) / largest_gpu
        return int(100 * (1 - left))
    if rule == "fgd":
        change = fragments(node, typical) - fragments(put(node, pod, gpu), typical)
        return int(100 * (1 / (1 + math.exp(-change / 1000))))
    if not pod.number:
        return 0
    if rule == "clustering":
        same = node.held.get(pod.kind, 0) > 0
        others = any(n > 0 for kind, n in node.held.items() if kind not in {pod.kind, 0})
        habit = 75 if same and not others else 50 if same else 0 if others else 25
        return 25 * (largest_gpu - free) // largest_gpu + habit
    assert rule == "packing"
    if all(g == 1000 for g in node.gpus):
        return max(33 - len(node.gpus), len(node.gpus))
    if not pod.is_share:
        return max(50 - pod.number, 33)
    room = node.gpus[tightest(node, pod)]
    return 49 if room == 1000 else max(100 - (100 * room // 1000) // 10, 50)


def choose(rule, nodes, pod, typical):
    """Return the place that a rule takes, or None; ties go to the lowest rank and index."""
    largest_cpu, largest_gpu = nodes.largest
    best = None
    for node, gpu in places(nodes.all, pod):
        if rule != "fgd" and pod.is_share and gpu != tightest(node, pod):
            continue
        value = score(rule, node, pod, gpu, typical, largest_cpu, largest_gpu)
        if best is None or value > best[0]:
            best = value, node, gpu
    return best and best[1:]


class PlainCluster:
    """Nodes, of which the largest sizes are kept."""

    def __init__(self, nodes):
        self.all = list(nodes)
        self.largest = max(n.cpu for n in self.all), 1000 * max(len(n.gpus) for n in self.all)

    def index(self, node):
        return next(i for i, one in enumerate(self.all) if one is node)
