"""The schedule of a window under a policy as one Parquet file: a row per job, and its facts.

Columns, in this order:

    job               int64    row of the job in the workload, or its number in order of arrival
    name              string   what the log calls it; null if there is no log
    part              int64    number of the row among those of the job, from 0, where a scenario
                               places instances or tasks of a job apart; else null
    submit_s          float64  submission
    eligible_s        float64  moment from which it may start, at least submit_s
    start_s           float64  start; null if the job did not start
    end_s             float64  end, null without a start
    processors        int64    processors it holds, in parts of the unit, see `per_unit`
    ...               int64    further resources it holds: every other resource of `capacity`
    requested_s       float64  requested run time; null where the scenario has none
    user, queue, partition, account   string, null if unknown
    machine           list of int64   where it ran, null where the scenario places on no machine
    counted           bool     whether the outcomes of the scenario count it
    wait_s            float64  wait as the scenario counts it; null for jobs that do not start, and
                               for those that are not counted
    bounded_slowdown  float64  max(1, (wait + run) / max(run, 10 s)), null where wait_s is

Times are seconds on the clock of the log, or steps of a scenario that knows no seconds. In
`binpack` a row is an instance of a task; in `multicluster` it is the tasks of a run of an
application that a cluster launched at once.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import (
    local_copy,
    parse_json,
    read_parquet,
    table_writer,
    write_atomically,
)
from hindcast.pipeline.storage.json_values import a_count, a_table, a_text

FACTS: Final = "hindcast.schedule"  # key of the facts in the file's metadata
BEFORE: Final[Mapping[str, pl.DataType]] = {
    "job": pl.Int64(), "name": pl.String(), "part": pl.Int64(), "submit_s": pl.Float64(),
    "eligible_s": pl.Float64(), "start_s": pl.Float64(), "end_s": pl.Float64(),
    "processors": pl.Int64(),
}  # fmt: skip
BEHIND: Final[Mapping[str, pl.DataType]] = {
    "requested_s": pl.Float64(), "user": pl.String(), "queue": pl.String(),
    "partition": pl.String(), "account": pl.String(), "machine": pl.List(pl.Int64()),
    "counted": pl.Boolean(), "wait_s": pl.Float64(), "bounded_slowdown": pl.Float64(),
}  # fmt: skip
_ALWAYS: Final = ("job", "submit_s", "eligible_s", "processors", "counted")  # never null
_FARTHEST_S: Final = 1e11  # about 3,000 years
_EARLIEST_S: Final = -6e10  # Unix seconds, in the year 68; there is no date before the year 1
TAU_S: Final = 10.0  # run time below which slowdowns are bounded


@dataclass(frozen=True)
class Schedule:
    """The jobs of a window under a policy, and what they are of.

    Attributes:
        jobs: A row per job, see the module.
        facts: What the schedule is of. All keys are there:

            policy      name of the policy
            scenario    name of the scenario
            source      {"recipe" or "log": name, "digest": SHA-256}
            window      number of the window in the workload; null for the run of `whatif`
            seed        number of the play of a policy that draws; null for any other
            capacity    amount by resource, in parts of a unit as the columns; `processors` first
            per_unit    parts of a unit by resource: 1000 where a column holds thousandths
            unit        word for a unit of `processors`: "processors", "cores", "GPUs"
            levels      by resource whose capacity changes: [[from_s, amount], ...]; else {}
            machines    by resource, the amount of each machine; {} where there are none
            machine     word for a machine: "machine", "cluster", "server"; null where there are
                        none
            clock       unit of the clock: "s", or "step" or "arrival" without seconds
            from_s      beginning of the window
            to_s        moment at which the play stopped; jobs that ran then have later ends
            epoch       Unix seconds of second 0 of the clock; null if unknown
    """

    jobs: pl.DataFrame
    facts: Mapping[str, Any]

    @property
    def resources(self) -> tuple[str, ...]:
        """Resources of the jobs, `processors` first."""
        return tuple(self.facts["capacity"])

    @property
    def capacity(self) -> int:
        """Largest amount of the first resource at any time."""
        name = self.resources[0]
        levels = self.facts["levels"].get(name, ())
        return max(int(self.facts["capacity"][name]), *(int(amount) for _, amount in levels), 0)

    @property
    def on_machines(self) -> bool:
        """True if the schedule names the machine of every job that started."""
        amounts = self.facts["machines"].get(self.resources[0], ())
        placed = self.jobs.filter(pl.col("start_s").is_not_null())["machine"]
        return bool(amounts) and not placed.null_count()


def bounded(wait: NDArray[Any], run: NDArray[Any]) -> NDArray[np.float64]:
    """Return bounded slowdowns from waits and run times, (N,) each."""
    slowdowns: NDArray[np.float64] = np.maximum((wait + run) / np.maximum(run, TAU_S), 1.0)
    return slowdowns


def columns_of(resources: Sequence[str]) -> dict[str, pl.DataType]:
    """Return the columns of a schedule with these resources, of which the first is processors."""
    return {**BEFORE, **dict.fromkeys(resources[1:], pl.Int64()), **BEHIND}


def make_schedule(jobs: pl.DataFrame, facts: Mapping[str, Any]) -> Schedule:
    """Return a schedule with all columns, in order; columns that are not given are null."""
    schema = columns_of(tuple(facts["capacity"]))
    absent = [pl.lit(None).alias(name) for name in schema if name not in jobs.columns]
    whole = jobs.with_columns(absent)
    typed = [pl.col(name).cast(kind) for name, kind in schema.items()]
    return Schedule(whole.select(typed), dict(facts))


def file_name(policy: str) -> str:
    """Return the name of the file of a policy's schedule, without a suffix."""
    return re.sub(r"[^\w.@+-]", "-", policy)


def write_schedule(schedule: Schedule, path: Path) -> None:
    """Write a schedule atomically; equal schedules give equal bytes."""
    text = json.dumps(schedule.facts, sort_keys=False, allow_nan=False, ensure_ascii=False)
    write_atomically(path, table_writer(schedule.jobs, metadata={FACTS: text}))


def read_schedule(path: Path) -> Schedule:
    """Return the schedule of a file; raise DatasetError if it is none, or damaged."""
    jobs = read_parquet(path)
    with local_copy(path) as copy:
        text = pl.read_parquet_metadata(copy).get(FACTS)
    if text is None:
        raise DatasetError(
            f"{path}: this table has no facts of a schedule ({FACTS} in its metadata), expected a "
            "file that `hindcast schedule` or `hindcast whatif` wrote"
        )
    try:
        facts = _read_facts(parse_json(text))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        named = f"{error} is missing" if isinstance(error, KeyError) else error
        raise DatasetError(f"{path}: the facts of this schedule are damaged ({named})") from error
    schema = columns_of(tuple(facts["capacity"]))
    if (found := dict(jobs.schema)) != schema:
        name = next((n for n in [*schema, *found] if schema.get(n) != found.get(n)), None)
        told = "its columns are in another order" if name is None else (
            f"column {name} is {found.get(name, 'missing')}, expected {schema.get(name, 'none')}"
        )  # fmt: skip
        raise DatasetError(f"{path}: this is no schedule ({told})")
    if (fault := _fault(jobs)) is not None:
        raise DatasetError(f"{path}: this schedule is damaged ({fault})")
    return Schedule(jobs, facts)


_NUMBERS: Final = ("from_s", "to_s", "epoch", "window", "seed")
_MAY_BE_NULL: Final = ("epoch", "window", "seed")


def _read_facts(value: Any) -> dict[str, Any]:
    """Return the facts of JSON; raise KeyError, TypeError or ValueError if they are damaged."""
    facts = a_table(value)
    for name in ("policy", "scenario", "unit", "clock"):
        a_text(facts[name])
    if facts["machine"] is not None:
        a_text(facts["machine"])
    for name in _NUMBERS:
        known = facts[name] is not None
        if (known or name not in _MAY_BE_NULL) and type(facts[name]) not in {int, float}:
            raise TypeError(f"{name} is {str(facts[name])[:40]!r}, expected a number")
    for name, kind in a_table(facts["source"]).items():
        a_text(kind)
        if name not in {"recipe", "log", "digest"}:
            raise ValueError(f"source has {name[:40]!r}, expected recipe, log and digest")
    capacity = a_table(facts["capacity"])
    if next(iter(capacity), None) != "processors":
        raise ValueError("the first resource of capacity is not processors")
    for amount in [*capacity.values(), *a_table(facts["per_unit"]).values()]:
        a_count(amount)
    for amounts in a_table(facts["machines"]).values():
        for amount in amounts:
            a_count(amount)
    if set(facts["per_unit"]) != set(capacity) or 0 in facts["per_unit"].values():
        raise ValueError("per_unit is not a number from 1 on for each resource of capacity")
    if facts["machines"] and set(facts["machines"]) != set(capacity):
        raise ValueError("machines are not of the resources of capacity")
    if len({len(amounts) for amounts in facts["machines"].values()}) > 1:
        raise ValueError("the resources of machines have different lengths")
    if max(abs(facts[name] or 0) for name in ("epoch", "from_s", "to_s")) > _FARTHEST_S:
        raise ValueError(f"a moment is farther than {_FARTHEST_S:g} s from second 0")
    if (facts["epoch"] or 0) + min(facts["from_s"], 0) < _EARLIEST_S:
        raise ValueError(f"epoch is {facts['epoch']:g}, which gives dates before the year 69")
    for steps in a_table(facts["levels"]).values():
        for since, amount in steps:
            if type(since) not in {int, float}:
                raise TypeError(f"levels begin at {str(since)[:40]!r}, expected a number")
            a_count(amount)
    return facts


def _fault(jobs: pl.DataFrame) -> str | None:
    """Return the first sign of damage in the table of jobs, or None."""
    for name in _ALWAYS:
        if jobs[name].null_count():
            return f"{name} has a missing value"
    times = jobs.select("submit_s", "eligible_s", "start_s", "end_s")
    if not times.select(pl.all_horizontal(pl.all().is_finite().fill_null(value=True)).all()).item():
        return "a time is not finite"
    if times.select(pl.any_horizontal(pl.all().abs().fill_null(0.0) > _FARTHEST_S).any()).item():
        return "a time is out of range"
    if (jobs["processors"] < 0).any():
        return "a job holds less than 0 processors"
    if (jobs["start_s"].is_null() != jobs["end_s"].is_null()).any():
        return "a job has one of start_s and end_s"
    if (jobs["end_s"] < jobs["start_s"]).any():
        return "a job ends before its start"
    return None
