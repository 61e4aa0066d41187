"""Asks of jobs for several resources: processors, GPUs by type, and memory.

Resources have names and a fixed order: `processors` first, then `gpus` or GPU types `gpus:TYPE`
side by side in the order in which a job that takes any type tries them, and `memory`. Amounts are
whole numbers: processors; GPUs, or thousandths of them if a job of the log asks for a fraction; MiB
of the job. A job asks for GPU types by name, or for GPUs of any type, which are then all of one
type. Where types are not told apart, named and any GPUs add up.

An ask that the log does not tell is taken as 0 and counted, see `unknown_asks`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.scenarios.queue.fitting import Shape
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.log_caveats import UNKNOWN_ASKS
from hindcast.pipeline.workloads.log_columns import peak

Ints = NDArray[np.int64]

PROCESSORS: Final = "processors"
GPUS: Final = "gpus"
MEMORY: Final = "memory"
TYPE: Final = "gpus:"  # followed by the name of a GPU type
ANY_GPUS: Final = "gpus:any"  # what is too wide if no type has enough GPUs
_COLUMN: Final = {MEMORY: "memory_mib"}  # of the tasks, where it has another name
_UNITS: Final = {MEMORY: "MiB", PROCESSORS: "processors"}
_THOUSANDTHS: Final = 1000
_LARGEST: Final = 1 << 62
_MANY: Final = 0.05  # share of the processor-seconds with unknown asks that rules out a conclusion


@dataclass(frozen=True)
class Asks:
    """Asks of N jobs for K resources.

    Attributes:
        asked: Amount of each resource by name, (N, K).
        any_gpus: GPUs of any type, (N,); 0 without types.
        unknown: Whether the log does not tell the ask, (N, K). The GPUs of a job are known or
            unknown together, as those of the first type.
    """

    asked: Ints
    any_gpus: Ints
    unknown: NDArray[np.bool_]

    def take(self, jobs: NDArray[np.int64] | NDArray[np.bool_]) -> "Asks":
        """Return the asks of some of the jobs."""
        return Asks(*(getattr(self, field.name)[jobs] for field in fields(self)))

    def joined(self, other: "Asks") -> "Asks":
        """Return the asks of these jobs and then of others."""
        names = [field.name for field in fields(self)]
        return Asks(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in names))

    @property
    def rows(self) -> Ints:
        """The asks as compiled functions read them, (N, K + 1): the vector, then any GPUs."""
        return np.concatenate([self.asked, self.any_gpus[:, None]], axis=1)


def shape_of(names: Sequence[str]) -> Shape:
    """Return the numbers of resources."""
    types = [k for k, name in enumerate(names) if name.startswith(TYPE)]
    return Shape(len(names), types[0], types[-1] + 1) if types else Shape(len(names), 0, 0)


def check_names(names: Sequence[str], where: str) -> None:
    """Raise InputError unless these are resources in an order that is allowed."""
    kinds = [TYPE if name.startswith(TYPE) and name not in {TYPE, ANY_GPUS} else name
             for name in names]  # fmt: skip
    for name, kind in zip(names, kinds, strict=True):
        if kind not in {PROCESSORS, GPUS, TYPE, MEMORY} or name == TYPE:
            known = (PROCESSORS, GPUS, MEMORY, "gpus:TYPE")
            raise InputError(f"{where}: unknown resource {name!r}; {did_you_mean(name, known)}")
        if names.count(name) > 1:
            raise InputError(f"{where} has {name!r} twice")
    if not names or names[0] != PROCESSORS:
        raise InputError(f"{where} is {list(names)!r}, expected {PROCESSORS!r} first")
    if GPUS in kinds and TYPE in kinds:
        raise InputError(f"{where} has {GPUS!r} and types of GPUs, expected one or the other")
    shape = shape_of(names)
    if TYPE in kinds and kinds.count(TYPE) != shape.last_type - shape.first_type:
        raise InputError(f"{where} is {list(names)!r}, expected the types of GPUs side by side")


def in_order_of_capacity(capacity: Mapping[str, int]) -> tuple[str, ...]:
    """Return resources in the default order: of GPU types the greatest first, ties by name."""
    types = sorted((n for n in capacity if n.startswith(TYPE)), key=lambda n: (-capacity[n], n))
    others = [name for name in (GPUS, MEMORY) if name in capacity]
    return (PROCESSORS, *types, *others)


def named_types(tasks: pl.DataFrame) -> tuple[str, ...]:
    """Return the GPU types that jobs of a workload ask for by name, as resources."""
    return tuple(
        name for name in tasks.columns if name.startswith(TYPE) and (tasks[name] > 0).any()
    )


def column_of(name: str) -> str:
    """Return the column of the tasks that has the asks of a resource other than processors."""
    return _COLUMN.get(name, name)


def unit_of(name: str) -> str:
    """Return the unit in which people give amounts of a resource."""
    return _UNITS.get(name, "GPUs")


def units_of(tasks: pl.DataFrame, names: Sequence[str]) -> Ints:
    """Return how many units of the simulation one unit of each resource is, (K,): 1 or 1000.

    GPUs are in thousandths if any job of the log asks for a fraction of one.
    """
    columns = [name for name in tasks.columns if name == GPUS or name.startswith(TYPE)]
    fraction = any((_thousandths(tasks, name) % _THOUSANDTHS).any() for name in columns)
    gpus = _THOUSANDTHS if fraction else 1
    return np.array([gpus if name == GPUS or name.startswith(TYPE) else 1 for name in names])


def read_asks(tasks: pl.DataFrame, cpu: Ints, names: Sequence[str], units: Ints) -> Asks:
    """Return what jobs ask for.

    Args:
        tasks: The N jobs, with columns gpus, gpus:TYPE, memory_mib as far as the log has them.
        cpu: Processors of each job, (N,).
        names: The resources.
        units: Units of each resource, from `units_of` the whole log.

    Raises:
        InputError: The log has no column for a resource.
    """
    size, shape = len(cpu), shape_of(names)
    asked, any_gpus = np.zeros((size, len(names)), np.int64), np.zeros(size, np.int64)
    unknown = np.zeros(asked.shape, bool)
    asked[:, 0] = cpu
    for k, name in enumerate(names[1:], 1):
        if name.startswith(TYPE):
            if name in tasks.columns:
                asked[:, k] = _whole_up(tasks, name, int(units[k]))
            continue
        if column_of(name) not in tasks.columns:
            raise InputError(
                f"the log does not say what jobs ask for of {name} (no column "
                f"{column_of(name)!r}); leave {name!r} out of the resources"
            )
        asked[:, k] = _whole_up(tasks, column_of(name), int(units[k]))
        unknown[:, k] = tasks[column_of(name)].is_null().to_numpy()
    if shape.first_type < shape.last_type:
        every = [name for name in tasks.columns if name.startswith(TYPE)]
        if GPUS not in tasks.columns:
            raise InputError(
                "the log does not say what jobs ask for of GPUs (no column 'gpus'); leave the "
                "types of GPUs out of the resources"
            )
        unit = int(units[shape.first_type])
        named = sum((_whole_up(tasks, name, unit) for name in every), np.zeros(size, np.int64))
        any_gpus = np.maximum(_whole_up(tasks, GPUS, unit) - named, 0)
        unknown[:, shape.first_type] = tasks[GPUS].is_null().to_numpy() & (named == 0)
    return Asks(asked, any_gpus, unknown)


def _thousandths(tasks: pl.DataFrame, name: str) -> Ints:
    """Return a column in thousandths, rounded up; 0 where it is unknown."""
    values = tasks[name].cast(pl.Float64).fill_null(0.0).fill_nan(0.0).to_numpy()
    # A decimal such as 0.07 is not exact: 1000 times it is a little above 70.
    thousandths: Ints = np.ceil(np.round(values * _THOUSANDTHS, 3)).astype(np.int64)
    return thousandths


def _whole_up(tasks: pl.DataFrame, name: str, unit: int) -> Ints:
    """Return a column in 1 / unit of its own unit, rounded up; 0 where it is unknown."""
    if unit == _THOUSANDTHS:
        return _thousandths(tasks, name)
    values = tasks[name].cast(pl.Float64).fill_null(0.0).fill_nan(0.0).to_numpy()
    whole: Ints = np.ceil(values).astype(np.int64)
    return whole


def too_wide(asks: Asks, capacity: Ints, shape: Shape) -> Ints:
    """Return the first resource in which each job is wider than a machine, (N,).

    -1 for a job that is not; K if no GPU type has enough for its GPUs of any type.
    """
    wide = asks.asked > capacity
    first = np.where(wide.any(axis=1), wide.argmax(axis=1), -1)
    types = slice(shape.first_type, shape.last_type)
    fits = (asks.asked[:, types] + asks.any_gpus[:, None] <= capacity[types]).any(axis=1)
    return np.where((first < 0) & (asks.any_gpus > 0) & ~fits, shape.resources, first)


def equivalents(asks: Asks, capacity: Ints, shape: Shape) -> Ints:
    """Return the equivalent processors of each job in thousandths, E, (N,).

    E = max over resources of ceil(1000 ask C_0 / C_k). GPUs of any type count at the type, of those
    that have enough, at which E is least.
    """
    shares = _equivalent(asks.asked, capacity)
    equivalent = shares.max(axis=1)
    types = slice(shape.first_type, shape.last_type)
    if not asks.any_gpus.any():
        return np.asarray(equivalent)
    together = asks.asked[:, types] + asks.any_gpus[:, None]
    at_type = np.maximum(_equivalent(together, capacity, types), equivalent[:, None])
    enough = together <= capacity[types]
    enough |= ~enough.any(axis=1, keepdims=True)  # jobs that run at the beginning may be too wide
    least = np.where(enough, at_type, _LARGEST).min(axis=1)
    return np.asarray(np.where(asks.any_gpus > 0, least, equivalent))


def _equivalent(asked: Ints, capacity: Ints, of: slice = slice(None)) -> Ints:
    """Return ceil(1000 ask C_0 / C_k) for each resource, or for some of them."""
    scale = _THOUSANDTHS * int(capacity[0])
    if int(asked.max(initial=0)) > _LARGEST // scale:
        asked = asked.astype(object)  # whole numbers of any size
    shares: Ints = (-(-asked * scale // capacity[of])).astype(np.int64)
    return shares


def wide_jobs(asks: Asks, capacity: Ints, shape: Shape, share: int = 4) -> NDArray[np.bool_]:
    """Return which jobs ask for 1 / share of a resource or more, (N,).

    GPUs of any type count against the largest type.
    """
    wide = (share * asks.asked >= capacity).any(axis=1)
    if shape.first_type < shape.last_type:
        largest = capacity[shape.first_type : shape.last_type].max()
        wide |= (asks.any_gpus > 0) & (share * asks.any_gpus >= largest)
    return np.asarray(wide)


def left_out(
    names: Iterable[str], tasks: pl.DataFrame, start: Ints, run: Ints, how: str = ""
) -> Iterator[Caveat]:
    """Yield a caveat for each resource that jobs held and that nobody gave a capacity.

    Args:
        names: The resources; those of which the log has no column are passed over.
        tasks: The N jobs whose start is known.
        start, run: Their starts and run times, (N,).
        how: Option that gives a capacity, with {} in place of the resource and its amount.
    """
    for name in names:
        if column_of(name) not in tasks.columns:
            continue
        unit = int(units_of(tasks, (name,))[0])
        held = tasks[column_of(name)].cast(pl.Float64).fill_null(0.0).to_numpy()
        amounts = np.ceil(np.round(held * unit, 3)).astype(np.int64)
        most = peak(start, start + run, amounts) / unit
        if most > 0:
            text = (
                f"{name} is left out, since its capacity is not known: at least {most:,.10g} "
                f"{unit_of(name)} were held at once; give the capacity of {name}"
            )
            text += how.format(f"{name}={'SIZE' if name == MEMORY else 'N'}")
            yield Caveat("resource_left_out", text, {"peak": most})


def unknown_asks(asks: Asks, names: Sequence[str], run: Ints) -> Iterator[Caveat]:
    """Yield a caveat for each resource of which asks are unknown and taken as 0.

    run (N,) are the run times of the jobs. Types of GPUs are named `gpus`.
    """
    work = asks.asked[:, 0].astype(np.float64) * run
    whole = max(float(work.sum()), 1.0)
    for name, missing in zip(names, asks.unknown.T, strict=True):
        if missing.any():
            jobs, share = int(missing.sum()), float(work[missing].sum()) / whole
            text = (
                f"{GPUS if name.startswith(TYPE) else name}: {jobs:,} jobs ({share:.1%} of the "
                "processor-seconds) do not say what they ask for; it is taken as 0"
            )
            code = UNKNOWN_ASKS if share > _MANY else "some_unknown_asks"
            yield Caveat(code, text, {"jobs": jobs, "share": share})
