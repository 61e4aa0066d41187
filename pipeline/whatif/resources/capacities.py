"""Capacities of a machine that a command is given, and what the jobs of a log ask of them.

    gpus=20   gpus:a100=8   memory=160GiB      of the machine
    batch:gpus=8   batch:memory=64GiB          of a pool, by its name in --pools

A capacity that nobody gave is not guessed: the resource is left out, and a caution has the most
that was held at once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import InputError, did_you_mean, unknown_name
from hindcast.pipeline.scenarios.queue.asks import (
    ANY_GPUS,
    GPUS,
    MEMORY,
    PROCESSORS,
    TYPE,
    check_names,
    in_order_of_capacity,
    left_out,
    named_types,
    read_asks,
    too_wide,
    units_of,
    unknown_asks,
)
from hindcast.pipeline.scenarios.queue.instances import usable
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.resources.amounts import Resources, asks_of
from hindcast.pipeline.workloads.caveats import Caveat, share_text
from hindcast.pipeline.workloads.schema import Workload

Capacities = Mapping[str, Mapping[str, int]]  # pool ("" for one machine) -> resource -> GPUs, MiB
_EXPECTED: Final = "gpus=20, gpus:a100=8, memory=160GiB, or batch:gpus=8 for a pool"
_BYTES: Final = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def parse_capacities(texts: Sequence[str], pools: Sequence[str]) -> Capacities:
    """Return the capacities of texts such as `gpus=20,memory=160GiB` or `batch:gpus=8`.

    Args:
        texts: The texts.
        pools: Names of the pools; none for one machine.
    """
    found: dict[str, dict[str, int]] = {}
    for text in (part.strip() for whole in texts for part in whole.split(",")):
        name, equals, value = (word.strip() for word in text.partition("="))
        pool, colon, rest = name.partition(":")
        if colon and (rest in {GPUS, MEMORY, PROCESSORS} or rest.startswith(TYPE)):
            name = rest
        else:
            pool = ""
        _check_name(text, name, pool, pools)
        of_pool = found.setdefault(pool, {})
        if not equals or name in of_pool:
            what = f"{name} stands there twice" if equals else "the amount is missing"
            raise InputError(f"--capacity {text!r}: {what}, expected {_EXPECTED}")
        of_pool[name] = _mib(text, value) if name == MEMORY else _whole(text, value)
    for pool in pools if found else ():
        for name in sorted({name for of in found.values() for name in of}):
            if name not in found.get(pool, {}):
                raise InputError(
                    f"--capacity: pool {pool} has no {name}, which another pool has; give "
                    f"{pool}:{name}=N, 0 if it has none"
                )
    return found


def _check_name(text: str, name: str, pool: str, pools: Sequence[str]) -> None:
    """Raise InputError for a resource or a pool that --capacity cannot set."""
    if name == PROCESSORS:
        raise InputError(
            f"--capacity {text!r}: the processors of the machine are --set processors=N, those of "
            "pools --pools NAME=N,..."
        )
    if name not in {GPUS, MEMORY} and (not name.startswith(TYPE) or name in {TYPE, ANY_GPUS}):
        known = did_you_mean(name, [GPUS, MEMORY, "gpus:TYPE"])
        raise InputError(f"--capacity {text!r}: unknown resource {name!r}; {known}")
    if pool and pool not in pools:
        raise unknown_name("pool of --capacity", pool, pools)
    if pools and not pool:
        raise InputError(
            f"--capacity {text!r}: with --pools, each pool has capacities of its own, as "
            f"{pools[0]}:{text}; the pools are {', '.join(pools)}"
        )


def _whole(text: str, value: str) -> int:
    if not re.fullmatch(r"\d{1,12}", value):
        raise InputError(f"--capacity {text!r}: expected a whole number of GPUs, as in {_EXPECTED}")
    return int(value)


def _mib(text: str, value: str) -> int:
    found = mib_of(value)
    if found is None:
        raise InputError(
            f"--capacity {text!r}: expected memory with a unit, such as 160GiB or 2TB, as in "
            f"{_EXPECTED}"
        )
    return found


def mib_of(text: str) -> int | None:
    """Return an amount of memory such as 160GiB in whole MiB; None if it is none.

    GB are of 1000 and GiB of 1024. G is a GiB, as in Slurm.
    """
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGTP])(i?B)?", text, re.IGNORECASE)
    if not found:
        return 0 if text == "0" else None
    base = 1000 if (found[3] or "").upper() == "B" else 1024
    return int(Fraction(found[1]) * base ** _BYTES[found[2].upper()] / 1024**2)


def with_resources(
    record: Record, workload: Workload, capacities: Capacities
) -> tuple[Record, tuple[Caveat, ...]]:
    """Return a record whose jobs have asks, and what the log does not say of them.

    Its resources are those of all machines together, on which every job of the record runs.
    """
    tasks = workload.tasks.filter(usable(workload))[record.row]
    if not capacities:
        return record, tuple(_left_out(record, workload, tasks, (PROCESSORS,)))
    total = {name: sum(of[name] for of in capacities.values())
             for name in next(iter(capacities.values()))}  # fmt: skip
    if any(name.startswith(TYPE) for name in total) and not named_types(workload.tasks):
        total = _without_types(total)
    names = in_order_of_capacity(total)
    check_names(names, "--capacity")
    units = units_of(workload.tasks, names)
    asks = read_asks(tasks, record.cpu, names, units)
    capacity = np.array([record.processors, *(total[name] for name in names[1:])]) * units
    found = (
        *unknown_asks(asks, names, record.run),
        *_left_out(record, workload, tasks, names),
    )
    return replace(record, resources=Resources(names, capacity, units), asks=asks.rows), found


def _left_out(
    record: Record, workload: Workload, tasks: pl.DataFrame, names: Sequence[str]
) -> Iterator[Caveat]:
    """Yield a caution for every resource that jobs asked for and that has no own capacity."""
    has_types = any(name.startswith(TYPE) for name in names)
    of_gpus = named_types(workload.tasks) if has_types else (GPUS,)
    known, named = record.known, named_types(tasks)
    if GPUS in names and len(named) > 1:
        n = int((tasks.select(pl.max_horizontal(named)).to_series() > 0).sum())
        text = (
            f"{n:,} jobs asked for {', '.join(named)}, but all GPUs are played as one type: "
            f"--capacity with {' and '.join(f'{name}=N' for name in named[:2])} tells types apart"
        )
        yield Caveat("types_as_one", text, {"jobs": n})
    yield from left_out(
        (name for name in (*of_gpus, MEMORY) if name not in names), tasks.filter(known),
        record.start[known], record.run[known], " (--capacity {})",
    )  # fmt: skip


def width_cautions(machines: Sequence[Record]) -> Iterator[Caveat]:
    """Yield a caution for every resource in which jobs are too wide for their machine."""
    work = float(sum((of.cpu * of.run).sum() for of in machines))
    found: dict[str, list[float]] = {}
    for machine in machines:
        wide, resources = machine.too_wide, machine.resources
        if wide is None or resources is None:
            continue
        work += float((wide.cpu * wide.run).sum())
        first = too_wide(asks_of(wide.asks), resources.capacity, resources.shape)
        for k, name in enumerate((*resources.names, ANY_GPUS)):
            sums = found.setdefault(name, [0.0, 0.0])
            sums[0] += int((first == k).sum())
            sums[1] += float((wide.cpu * wide.run)[first == k].sum())
    for name, (jobs, of_jobs) in found.items():
        if jobs:
            share = of_jobs / work
            text = (
                f"{jobs:,.0f} jobs ({share_text(share)} of the work) ask for more {name} than "
                "their machine has and are left out"
            )
            yield Caveat("too_wide", text, {"jobs": jobs, "work_share": share})


def _without_types(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts in which GPUs of all types are one resource."""
    others = {name: of for name, of in amounts.items() if not name.startswith(TYPE)}
    return others | {GPUS: sum(of for name, of in amounts.items() if name.startswith(TYPE))}


def on_machine(
    record: Record, processors: int, amounts: Mapping[str, int], name: str = "machine"
) -> Record:
    """Return the record of a machine: jobs that ask for more than it has are kept apart.

    Args:
        record: The jobs, with their asks.
        processors: Processors of the machine.
        amounts: Its GPUs and MiB by name.
        name: What it is called in the message if no job fits on it.
    """
    resources = record.resources
    assert resources is not None
    if GPUS in resources.names and GPUS not in amounts:
        amounts = _without_types(amounts)
    found = [processors, *(amounts[name] for name in resources.names[1:])]
    own = replace(resources, capacity=np.array(found) * resources.units)
    wide = too_wide(asks_of(record.asks), own.capacity, own.shape)
    record = replace(record, processors=processors, resources=own)
    if (wide >= 0).all():
        raise InputError(f"{name}: no job fits into the processors and capacities that are given")
    return replace(
        record.take(np.flatnonzero(wide < 0)), too_wide=record.take(np.flatnonzero(wide >= 0))
    )
