"""The log of a `hindcast whatif`: its machines, its plan, and the scopes that policies play."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.flows.runs import plays
from hindcast.flows.runs.plays import Machine, Part, Scope
from hindcast.pipeline.evaluation.evaluate import make_job
from hindcast.pipeline.recipes.proposals.proposal import second_zero
from hindcast.pipeline.recipes.recipe import Recipe, TraceSource
from hindcast.pipeline.report.whatif import plan as planning
from hindcast.pipeline.scenarios.queue.instances import usable
from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.storage.files import sha256_file
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.whatif import pools as pooling
from hindcast.pipeline.whatif.batch_systems.multifactor import Clock
from hindcast.pipeline.whatif.record import Array, Record, read_record
from hindcast.pipeline.whatif.resources.capacities import (
    Capacities,
    on_machine,
    parse_capacities,
    width_cautions,
    with_resources,
)
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.schema import Workload

WINDOWS, BEFORE, RUN = "windows", "before", "run"
RECIPES: Final = {
    WINDOWS: planning.RECIPE,
    BEFORE: planning.BEFORE,
    RUN: planning.RUN,
}  # scope -> recipe


def file_of(mine: str) -> Path:
    """Return the file of --mine: FILE, or that of FILE.py:function."""
    file, of_function, _ = mine.partition(".py:")
    return location(file + ".py" if of_function else file)


@dataclass(frozen=True)
class PlayedLog:
    """A log that is played, and what its plays share.

    Attributes:
        request: The request.
        out: The folder.
        source: The source of the log.
        workload: The log.
    """

    request: Any
    out: Path
    source: TraceSource
    workload: Workload

    @cached_property
    def whole(self) -> Record:
        """The record of all jobs."""
        return self._asked[0]

    @cached_property
    def _asked(self) -> tuple[Record, tuple[Caveat, ...]]:
        """The record of all jobs with what they ask for, and what the log does not say of it."""
        return with_resources(read_record(self.workload), self.workload, self.capacities)

    @cached_property
    def cautions(self) -> tuple[Caveat, ...]:
        """Caveats that limit conclusions about resources beside processors."""
        wide = width_cautions([machine.record for machine in self.machines])
        return (*self._asked[1], *wide)

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources beside processors."""
        return () if self.whole.resources is None else self.whole.resources.names[1:]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of `queue` for the resources of one machine; {} for processors or pools."""
        resources = self.machines[0].record.resources
        if resources is None or not self.is_whole:
            return {}
        amounts = (resources.capacity // resources.units).tolist()
        return {
            "resources": list(resources.names),
            "capacity": dict(zip(resources.names, amounts, strict=True)),
        }

    @cached_property
    def capacities(self) -> Capacities:
        """The capacities of --capacity."""
        return parse_capacities(self.request.capacity, [pool.name for pool in self.pools])

    @cached_property
    def pools(self) -> tuple[pooling.Pool, ...]:
        """The pools of --pools."""
        return pooling.parse_pools(self.request.pools) if self.request.pools else ()

    @cached_property
    def where(self) -> pooling.Where:
        """The conditions of --where."""
        return pooling.parse_where(self.request.where, self.second_zero)

    @cached_property
    def machines(self) -> tuple[Machine, ...]:
        """The machines: one, or the pools."""
        record = self.whole
        if not self.pools and pooling.selected(self.where, ()) is None:
            if self.capacities:
                record = on_machine(record, record.processors, self.capacities[""])
            return (Machine(record, np.arange(len(record.row))),)
        partition = pooling.labels(self.workload, record, "partition")
        chosen = pooling.selected(self.where, self.pools)
        records = (
            (pooling.select(record, chosen, partition, self.capacities),)
            if chosen is not None
            else pooling.split(record, self.pools, partition, self.capacities)
        )
        place = np.argsort(record.row)
        positions = [np.sort(place[of.row]) for of in records]
        kept = np.unique(np.concatenate(positions))
        return tuple(
            Machine(of, np.searchsorted(kept, position))
            for of, position in zip(records, positions, strict=True)
        )

    @cached_property
    def record(self) -> Record:
        """The record of the jobs of all machines."""
        if len(self.machines) == 1:
            return self.machines[0].record
        rows = np.concatenate([machine.record.row for machine in self.machines])
        return self.whole.take(np.flatnonzero(np.isin(self.whole.row, rows)))

    @property
    def rows(self) -> Array:
        """Place among the usable tasks of every job that runs count, (R,).

        The jobs that are too wide come last if there is one machine; those of pools have none.
        """
        wide = self.record.too_wide if len(self.machines) == 1 else None
        return self.record.row if wide is None else np.append(self.record.row, wide.row)

    @cached_property
    def plan(self) -> planning.Plan:
        """The plan of the log."""
        return planning.plan(self.record, pooling.part(self.where, self.record))

    @cached_property
    def users(self) -> Array:
        """The log's number of each user: runs count users from 0, (U,)."""
        tasks = self.workload.tasks.filter(usable(self.workload))
        if "user" not in tasks.columns:
            return np.zeros(0, np.int64)
        found: Array = tasks["user"].drop_nulls().unique().sort().cast(pl.Int64).to_numpy()
        return found

    @cached_property
    def content(self) -> list[str]:
        """SHA-256 of the files of the log: the digest of a recipe covers their paths alone."""
        return [file.sha256 for file in self.workload.provenance.files]

    @cached_property
    def second_zero(self) -> datetime | None:
        """The moment of second 0 of the log."""
        return second_zero(self.workload)[0]

    @cached_property
    def clock(self) -> Clock | None:
        """The clock of the log."""
        zero = self.second_zero
        return None if zero is None else Clock(int(zero.timestamp()), zero.tzinfo or UTC)

    @cached_property
    def identity(self) -> str:
        """Text that changes when the policy of --mine does."""
        return f"mine|{self.request.mine}|{sha256_file(file_of(self.request.mine))}"

    def parts(self, recipes: Mapping[str, Recipe]) -> list[Scope]:
        """Return the scopes that have jobs: before, run, windows."""
        plan, record = self.plan, self.record
        # Labels are strings of every job, so they are made only of what is asked for.
        columns = {name: pooling.labels(self.workload, record, name) for name in self.where.names}
        counts = pooling.counts(self.where, columns, len(record.row))
        windows = [(first, first + plan.jobs, plan.follow) for first in plan.test]
        bounds = {
            BEFORE: [(plan.before, plan.test_first, 0)],
            RUN: [(plan.test_first, plan.test_last, 0)],
            WINDOWS: windows,
        }
        scopes = []
        for name, of in bounds.items():
            found = (
                plays.part_of(
                    self.machines, (first, last), arrive=record.arrive, counts=counts,
                    follow=follow, warm=plan.warm, window=number,
                )
                for number, (first, last, follow) in enumerate(of)
                if first < last
            )  # fmt: skip
            kept = tuple(part for part in found if part is not None and self._has_record(part))
            if not kept:
                continue
            recipe, job = recipes.get(RECIPES[name]), None
            if recipe is not None and self.is_whole:
                job = replace(make_job(recipe, "test", self.out), workload=self.workload)
            scopes.append(Scope(name, kept, job))
        return scopes

    def _has_record(self, part: Part) -> bool:
        """Return whether a part can be compared with the record, if there is one."""
        known = ((run.counted & (run.start != NEVER)).any() for run in part.runs)
        return not self.plan.warm or any(known)

    @property
    def is_usual(self) -> bool:
        """True if the run is the last 30 % of the jobs, and all of its jobs count."""
        where = self.where
        return where.begin is None and where.end is None and not set(where.names) - {"partition"}

    @property
    def is_whole(self) -> bool:
        """True if all jobs of the log are played on one machine."""
        return len(self.machines) == 1 and not self.pools
