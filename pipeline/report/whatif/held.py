"""Sentences of the page about machines with GPUs and memory beside their processors."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from hindcast.pipeline.report.whatif.material import Material
from hindcast.pipeline.report.whatif.numbers import UTILISATION
from hindcast.pipeline.report.whatif.words import share
from hindcast.pipeline.scenarios.queue.asks import ANY_GPUS, GPUS, MEMORY, TYPE
from hindcast.pipeline.whatif import verdict as v
from hindcast.pipeline.whatif.grade import SEVERAL
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.resources.amounts import Resources

NODES: Final = (
    "Nodes are not simulated: a job starts when enough processors, GPUs and memory are free "
    "anywhere. Real waits of jobs that need many GPUs on one node are longer."
)
_WHOLE: Final = 4  # GPUs of a node from which a job is hard to place
_SMALL: Final = 0.0005  # share of the waiting that is worth a word
_STOPS: Final = {
    "": "by {} alone", ANY_GPUS: "by GPUs of every type", SEVERAL: "by several resources together",
}  # fmt: skip


def amount_text(name: str, amount: float) -> str:
    """Return an amount of a resource in words: `20 GPUs`, `8 GPUs of type a100`, `160 GiB`."""
    if name == MEMORY:
        size, unit = (1024**2, "TiB") if amount >= 4 * 1024**2 else (1024, "GiB")
        return f"{amount / size:,.4g} {unit} of memory"
    if name == GPUS or name.startswith(TYPE):
        kind = f" of type {name.removeprefix(TYPE)}" if name.startswith(TYPE) else ""
        return f"{amount:,.10g} GPU{'' if amount == 1 else 's'}{kind}"
    return f"{amount:,.0f} {name}"


def machine_text(resources: Resources) -> str:
    """Return what a machine has in words, GPU types in the order in which any type is tried."""
    amounts = (resources.capacity / resources.units).tolist()
    return v.listed([amount_text(*of) for of in zip(resources.names, amounts, strict=True)])


def resource_facts(material: Material) -> Iterator[str]:
    """Yield what stopped jobs, what the candidate holds, and what is not simulated."""
    resources = material.resources
    if resources is None:
        return
    if material.grade is not None and material.grade.stopped:
        yield _stops(material.grade.stopped)
    means = material.run.means[material.cast.candidate]
    parts = [f"{share(means[UTILISATION + name].value)} of the {_plain(name)}"
             for name in resources.names if UTILISATION + name in means]  # fmt: skip
    if parts:
        yield f"Under {material.cast.candidate}, jobs of the run hold {v.listed(parts)}."
    if resources.shape.last_type > resources.shape.first_type:
        types = resources.names[resources.shape.first_type : resources.shape.last_type]
        order = ", ".join(name.removeprefix(TYPE) for name in types)
        yield (
            f"GPUs of any type are all of one type, the first that suffices of {order}: the "
            "greatest capacity first."
        )
    yield NODES
    if material.whole_nodes is not None:
        yield (
            f"Jobs with {_WHOLE} or more GPUs on a node have {share(material.whole_nodes)} of the "
            "GPU-seconds whose nodes are known."
        )


def _plain(name: str) -> str:
    if name.startswith(TYPE):
        return f"GPUs of type {name.removeprefix(TYPE)}"
    return "GPUs" if name == GPUS else name


def _stops(stopped: Mapping[str, float]) -> str:
    """Return the shares of the recorded waiting by what kept jobs from starting."""
    parts = [
        f"{share(of)} {_STOPS.get(name, _STOPS['']).format(_plain(name))}"
        for name, of in sorted(stopped.items(), key=lambda one: -one[1])
        if of >= _SMALL
    ]
    fitted = 1.0 - sum(stopped.values())
    if fitted >= _SMALL:
        parts.append(f"{share(fitted)} by nothing that is simulated, since the job fitted")
    return v.sentence_of(f"what stops the waiting jobs of the log: {v.listed(parts)}")


def whole_nodes(record: Record) -> float | None:
    """Return the share of the GPU-seconds by jobs with four or more GPUs on a node.

    None if no job with GPUs says its nodes, or the machine counts no GPUs.
    """
    resources = record.resources
    if resources is None:
        return None
    of_gpus = [k for k, name in enumerate(resources.names) if name == GPUS or name.startswith(TYPE)]
    if not of_gpus:
        return None
    held = (record.asks[:, of_gpus].sum(axis=1) + record.asks[:, -1]) / resources.units[of_gpus[0]]
    known = (held > 0) & (record.nodes > 0)
    if not known.any():
        return None
    seconds = (held * record.run)[known]
    per_node = held[known] / record.nodes[known]
    return float(seconds[per_node >= _WHOLE].sum() / np.sum(seconds))
