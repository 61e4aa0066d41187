"""Order of arrivals, ranks of nodes and ends of pods."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.gpupack import go_random
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.scenarios.gpupack.requests import Requests
from hindcast.pipeline.simulation.kernel import Ints, compiled
from hindcast.pipeline.simulation.scenario import require_room

_OTHERS: int = 10  # values that the published simulator draws for its watchers before the ranks


@dataclass(frozen=True)
class Arrivals:
    """Pods in the order of arrival, and the ends before each of them.

    Attributes:
        pods: Pods by their place in the order of names, (A,).
        ends: Arrivals that end, in the order of their ends, (E,).
        ends_from: First of the ends before every arrival, (A + 1,).
        ranks: Rank of every node, (M,).
    """

    pods: NDArray[np.int64]
    ends: NDArray[np.int64]
    ends_from: NDArray[np.int64]
    ranks: NDArray[np.int64]


@compiled()
def _to_load(stream: Ints, order: Ints, asked: Ints, milli: Ints, target: float, out: Ints) -> int:
    """Fill an order that is cut or drawn to a load; return its length, or -1 if `out` is too short.

    `asked` and `milli` are the requests of the pods and those for one of their GPUs.
    """
    total, length = 0, len(order)
    for i in range(length):
        out[i] = order[i]
        total += asked[order[i]]
    while total > target:
        at = go_random.below(stream, length)
        total -= asked[out[at]]
        length -= 1
        out[at:length] = out[at + 1 : length + 1].copy()
    if length < len(order):
        return length
    while length < len(out):
        pod = go_random.below(stream, len(order))
        if total + milli[pod] > target:
            return length
        out[length] = pod
        total += asked[pod]
        length += 1
    return -1


def draw_arrivals(
    config: GpupackConfig, requests: Requests, gpus: int, nodes: int, seed: int | None,
    rng: np.random.Generator,
) -> Arrivals:  # fmt: skip
    """Return the arrivals of an episode on a cluster of `gpus` and `nodes`.

    With a seed they are those of the published simulator, whose stream is in
    hindcast.pipeline.scenarios.gpupack.go_random; else the same procedure is drawn from `rng`.
    """
    if config.ends == "recorded":
        return _recorded(requests, nodes)
    asked, milli = requests.asked[requests.of_pod], requests.milli[requests.of_pod]
    stream = go_random.seeded(int(rng.integers(1 << 31)) if seed is None else seed)
    go_random.draw(stream)  # a line of the simulator's log
    order = np.arange(len(asked))
    go_random.shuffle(stream, order)
    target = (config.load * gpus * 1000) if config.load else float(asked.sum())
    room = len(order) + int(3 * target / max(float(asked.mean()), 1.0)) + 1000
    require_room(6.0 * room)
    out = np.zeros(room, np.int64)
    out[: len(order)] = order
    length = _to_load(stream, order, asked, milli, target, out) if config.load else len(order)
    assert length >= 0
    for _ in range(_OTHERS):
        go_random.draw(stream)
    ranks = np.zeros(nodes, np.int64)
    go_random.permute(stream, ranks)
    pods = out[:length]
    if config.ends == "never":
        return Arrivals(pods, np.zeros(0, np.int64), np.zeros(length + 1, np.int64), ranks)
    begin = np.cumsum(asked[pods]) / 1000.0
    lasted = rng.exponential(config.demand * gpus, length)
    return _with_ends(pods, begin, lasted, ranks)


def _recorded(requests: Requests, nodes: int) -> Arrivals:
    """Return the pods in the order and with the durations of the trace."""
    if unknown := int(np.isnan(requests.lasted).sum()):
        raise InputError(
            f'config.ends is "recorded", but {unknown:,} of {len(requests.lasted):,} pods have no '
            "known duration, expected creation_time and a later deletion_time for every pod"
        )
    order = np.argsort(requests.submit, kind="stable")
    return _with_ends(
        order, requests.submit[order], requests.lasted[order], np.arange(nodes, dtype=np.int64)
    )


def _with_ends(
    pods: NDArray[np.int64], begin: NDArray[np.float64], lasted: NDArray[np.float64],
    ranks: NDArray[np.int64],
) -> Arrivals:  # fmt: skip
    """Return arrivals with ends; pods that end when another arrives leave before it."""
    end = begin + lasted
    # a pod cannot end before it has arrived, also if the clock stands still between arrivals
    before = np.maximum(np.searchsorted(begin, end, side="left"), np.arange(len(pods)) + 1)
    ends = np.lexsort((np.arange(len(pods)), end, before))
    counts = np.bincount(before, minlength=len(pods) + 1)[: len(pods)]
    return Arrivals(pods, ends, np.concatenate([[0], np.cumsum(counts)]), ranks)
