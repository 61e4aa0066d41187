"""Pods of a workload by kind, and a scheduler's knowledge of the workload as a whole."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.gpupack.nodes import Node
from hindcast.pipeline.scenarios.gpupack.typical_pods import typical_pods
from hindcast.pipeline.traces.pods import WHOLE
from hindcast.pipeline.workloads.schema import Workload

_TYPICAL: Final = 0.95  # share of the pods that the typical kinds cover
ALL_MODELS: Final = -1  # every bit
_COLUMNS: Final = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")

Ints64 = NDArray[np.int64]
Floats64 = NDArray[np.float64]


@dataclass(frozen=True)
class Requests:
    """Kinds of requests (P), the pods that have them (W), and the workload's typical pods (T).

    Attributes:
        of_pod: Kind of every pod, in the order of names, (W,).
        cpu, memory: Thousandths of a CPU, and MiB, (P,).
        milli, gpus: Thousandths of each GPU, and number of GPUs, (P,).
        models: Accepted models as bits of `bit_of`, ALL_MODELS for any, (P,).
        bound: Whether the kind accepts only some models, (P,).
        accepted: GPUs of the accepted models, by those of the cluster, (P,).
        weight: Weight among the typical pods, (P,).
        typical: cpu, milli, gpus and models of the typical pods, (4, T).
        typical_weight: Their weights, (T,).
        kappa: CPU per GPU over the pods with GPUs.
        scarcity: GPUs that bound pods ask for by those there are, by model, at a load of 1.
        bit_of: Bit of every model of the cluster.
        submit, lasted: Arrival and duration of the pods in seconds, (W,); NaN if not known.
    """

    of_pod: Ints64
    cpu: Ints64
    memory: Ints64
    milli: Ints64
    gpus: Ints64
    models: Ints64
    bound: NDArray[np.bool_]
    accepted: Floats64
    weight: Floats64
    typical: Ints64
    typical_weight: Floats64
    kappa: float
    scarcity: dict[str, float]
    bit_of: dict[str, int]
    submit: Floats64
    lasted: Floats64

    @property
    def asked(self) -> Ints64:
        """Thousandths of GPUs that each kind asks for, (P,)."""
        return self.milli * self.gpus

    def fit(self, node: Node) -> NDArray[np.bool_]:
        """Return which kinds an empty node can take, (P,)."""
        bit = 1 << self.bit_of[node.model] if node.gpus else 0
        there = (self.cpu <= node.cpu) & (self.memory <= node.memory) & (self.gpus <= node.gpus)
        return np.asarray(there & ((self.gpus == 0) | (self.models & bit != 0)))

    def scarcity_of(self, nodes: Sequence[Node]) -> Floats64:
        """Return the GPUs asked for by those there are, of every node, at a load of 1, (N,).

        What a pod asks for is spread over the GPUs of all nodes that could take it if empty.
        """
        kinds = sorted(set(nodes))
        count, takes = Counter(nodes), np.array([self.fit(kind) for kind in kinds])
        gpus = np.array([count[kind] * kind.gpus for kind in kinds])
        asked = np.bincount(self.of_pod, minlength=len(self.cpu)) * self.asked
        per_gpu = takes @ (asked / np.maximum(gpus @ takes, 1)) * gpus.sum() / asked.sum()
        of_kind = dict(zip(kinds, per_gpu.tolist(), strict=True))
        return np.array([of_kind[node] for node in nodes])


def read_requests(workload: Workload, nodes: Sequence[Node], window: int = 0) -> Requests:
    """Return the requests of a workload of pods, or of typical pods if it is generated.

    Of several lists, windows play one each in turn. Raises InputError for a workload of other jobs.
    """
    tasks = typical_pods() if workload.provenance.format == "generated" else workload.tasks
    if missing := [name for name in (*_COLUMNS, "ends") if name not in tasks.columns]:
        raise InputError(
            f"the workload has no column {missing[0]}, expected pods, as the trace format `pods` "
            "reads them"
        )
    if "list" in tasks.columns:
        lists = tasks["list"].unique().sort()
        tasks = tasks.filter(pl.col("list") == lists[window % len(lists)])
    tasks = tasks.sort("job_id")  # by bytes, as the published simulator sorts them
    kinds = tasks.select(_COLUMNS).unique(maintain_order=True).with_row_index("kind")
    of_pod = tasks.select(_COLUMNS).join(kinds, on=_COLUMNS, how="left", maintain_order="left")
    cpu, memory, gpus, milli = (kinds[name].to_numpy() for name in _COLUMNS[:4])
    specs = kinds["gpu_spec"].to_list()
    pods = np.bincount(of_pod["kind"].to_numpy(), minlength=kinds.height)
    asked = float(pods @ (gpus * milli))
    if not asked:
        raise InputError("no pod of the workload asks for a GPU, so nothing is decided about GPUs")
    of_model: Counter[str] = Counter()
    for node in nodes:
        of_model[node.model] += node.gpus
    bit_of = {model: i for i, model in enumerate(sorted(filter(None, of_model)))}
    there, total = np.array([of_model[model] for model in bit_of], np.int64), of_model.total()
    bound = np.array([bool(spec) for spec in specs])
    accepts = np.array([[model in {*spec.split("|")} for model in bit_of] for spec in specs])
    accepted = np.where(bound, accepts @ there, total)
    masks = np.where(bound, accepts @ (1 << np.arange(len(bit_of))), ALL_MODELS)
    spread = (pods * gpus * milli)[:, None] * accepts * there / np.maximum(accepted, 1)[:, None]
    scarcity = np.cumsum(spread, axis=0)[-1] * total / (there * asked)
    typical = _typical(kinds, pods)
    weights = dict(typical)
    mask_of = dict(zip(specs, masks.tolist(), strict=True))
    keys = list(zip(cpu.tolist(), milli.tolist(), gpus.tolist(), specs, strict=True))
    lasted = tasks["duration_s"].to_numpy().copy()
    lasted[~tasks["ends"].to_numpy()] = np.nan
    return Requests(
        of_pod=of_pod["kind"].to_numpy().astype(np.int64),
        cpu=cpu, memory=memory, milli=milli, gpus=gpus,
        models=masks, bound=bound, accepted=accepted / total,
        weight=np.array([weights.get(key, 0.0) for key in keys]),
        typical=np.array([(c, m, n, mask_of[spec]) for (c, m, n, spec), _ in typical]).T.copy(),
        typical_weight=np.array([weight for _, weight in typical]),
        kappa=max(float(pods @ (cpu * (gpus > 0))) / asked, 1e-9),
        scarcity=dict(zip(bit_of, scarcity.tolist(), strict=True)), bit_of=bit_of,
        submit=tasks["submit_s"].to_numpy(), lasted=lasted,
    )  # fmt: skip


def _typical(kinds: pl.DataFrame, pods: Ints64) -> list[tuple[tuple[int, int, int, str], float]]:
    """Return the typical kinds of pods and their weights: the most frequent, for _TYPICAL of all.

    A kind is (CPU, thousandths, GPUs, accepted models as written). Of equally frequent kinds the
    largest come first.
    """
    counts: Counter[tuple[int, int, int, str]] = Counter()
    named = kinds.select("cpu_milli", "gpu_milli", "num_gpu", "gpu_spec").iter_rows()
    for key, count in zip(named, pods.tolist(), strict=True):
        counts[key] += count
    ordered = sorted(((count, key) for key, count in counts.items()), reverse=True)
    total, kept, n = int(pods.sum()), 0, 0
    while kept < _TYPICAL * total:
        kept += ordered[n][0]
        n += 1
    scale = kept / total if kept < total else 1.0
    return [(key, count / total / scale) for count, key in ordered[:n]]


def kind_of(milli: Ints64, gpus: Ints64) -> Ints64:
    """Return the kind of a request: 0 no GPU, 1 a share, then 1, 2, up to 4, and more GPUs."""
    whole = np.searchsorted([1, 2, 4], gpus) + 2
    return np.where(gpus == 0, 0, np.where(milli < WHOLE, 1, whole))
