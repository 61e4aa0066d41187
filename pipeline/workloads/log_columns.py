"""Columns of a log of jobs as arrays, and numbers of jobs with their shares."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.workloads.caveats import share_text
from hindcast.pipeline.workloads.schema import Workload

_DERIVED: Final = "requested_s from duration_s"  # a count of the readers
_Numbers: TypeAlias = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]
HOUR_S: Final = 3600
_DAY_S: Final = 86_400


@dataclass(frozen=True)
class LogColumns:
    """Columns of a log, each (J,), and what its reader counted."""

    workload: Workload

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """Jobs of the log, one a row."""
        return self.workload.tasks

    @cached_property
    def run(self) -> NDArray[np.float64]:
        """Run times in s."""
        return self.tasks["duration_s"].to_numpy()

    @cached_property
    def submit(self) -> NDArray[np.float64]:
        """Times of submission in s."""
        return self.tasks["submit_s"].to_numpy()

    @cached_property
    def cpu(self) -> NDArray[np.float64]:
        """Processors that jobs held; where the log does not know, those they requested."""
        cpu = pl.col("cores") * pl.col("instances")
        if {"allocated_cores", "requested_cores"} <= set(self.tasks.columns):
            known = [pl.col("allocated_cores"), pl.col("requested_cores")]
            cpu = pl.coalesce(*(pl.when(column > 0).then(column) for column in known), cpu)
        return self.tasks.select(cpu.cast(pl.Float64)).to_series().to_numpy()

    @cached_property
    def work(self) -> NDArray[np.float64]:
        """Processors times run time, in s."""
        return self.cpu * self.run

    @cached_property
    def requested(self) -> NDArray[np.float64]:
        """Time limits in s; the run times if the log has no such column."""
        if "requested_s" not in self.tasks.columns:
            return self.run
        return self.tasks["requested_s"].fill_null(strategy="zero").to_numpy()

    @cached_property
    def derived(self) -> NDArray[np.bool_]:
        """Mask of the requests that may be run times; all are, if `n_derived` is as many."""
        if (self.requested == self.run).all():
            return np.ones(len(self.run), bool)
        if "request_unknown" in self.tasks.columns:
            return self.tasks["request_unknown"].to_numpy()
        if not self.n_counted:
            return np.zeros(len(self.run), bool)
        same: NDArray[np.bool_] = self.requested == self.run
        return same

    @property
    def n_counted(self) -> int:
        """Number of requests that the reader says to be run times."""
        return self.workload.provenance.counts.get(_DERIVED, 0)

    @property
    def n_derived(self) -> int:
        """Number of requests that are run times, at most those of `derived`."""
        marked = int(self.derived.sum())
        if marked == len(self.run) or "request_unknown" in self.tasks.columns:
            return marked
        return min(self.n_counted, marked)

    @cached_property
    def processors(self) -> float:
        """Processors of the machine; 0 if the log has none."""
        machines = self.workload.machines
        return 0.0 if machines is None else float(machines["cores"].sum())

    @cached_property
    def span(self) -> float:
        """Time from the first submission to the last end, in s."""
        return float((self.submit + self.run).max() - self.submit.min())

    @cached_property
    def load(self) -> float:
        """Work of the jobs by what the machine can do in the time of the log; 0 if unknown."""
        return float(self.work.sum()) / (self.processors * self.span) if self.processors else 0.0

    @cached_property
    def queues_are_partitions(self) -> bool:
        """True if the queue of every job is its partition."""
        tasks = self.tasks
        return {"queue", "partition"} <= set(tasks.columns) and tasks["queue"].equals(
            tasks["partition"]
        )

    def unknown(self, name: str) -> NDArray[np.bool_]:
        """Return the mask of the jobs whose value in a column is not known."""
        if name not in self.tasks.columns:
            return np.ones(len(self.run), bool)
        return self.tasks[name].is_null().to_numpy()

    def shares(self, jobs: NDArray[np.bool_]) -> tuple[int, float, float]:
        """Return the number of some jobs, their share of the jobs, and their share of the work."""
        n = int(jobs.sum())
        return n, n / max(len(jobs), 1), float(self.work[jobs].sum() / self.work.sum())

    def groups(self, name: str) -> list[tuple[int, float, float]]:
        """Return the number, share of the jobs and of the work of each group, the largest first."""
        if name not in self.tasks.columns:
            return []
        groups = (
            pl.DataFrame({"group": self.tasks[name], "work": self.work})
            .drop_nulls()
            .group_by("group")
            .agg(jobs=pl.len() / len(self.run), work=pl.col("work").sum() / self.work.sum())
            .sort("work", "group", descending=[True, False])
        )
        return [(int(group), jobs, work) for group, jobs, work in groups.iter_rows()]


def peak(begin: _Numbers, end: _Numbers, amounts: _Numbers) -> float:
    """Return the most that jobs hold at one moment, (N,) each; a job holds nothing at its end."""
    change = np.concatenate([-amounts, amounts])
    order = np.argsort(np.concatenate([end, begin]), kind="stable")  # ends before begins
    return float(np.cumsum(change[order]).max(initial=0))


def job_count(n: int, jobs: float, work: float) -> str:
    """Return a number of jobs with shares: `12 jobs (3.1% of them, 20% of the work)`."""
    noun = "job" if n == 1 else "jobs"
    return f"{n:,} {noun} ({share_text(jobs)} of them, {share_text(work)} of the work)"


def span_text(seconds: float) -> str:
    """Return a time span in days, hours or seconds."""
    for size, unit in ((_DAY_S, "days"), (HOUR_S, "h")):
        if seconds >= 2 * size:
            number = seconds / size
            return f"{number:,.3g} {unit}" if number < 100 else f"{number:,.0f} {unit}"
    return f"{seconds:,.0f} s"
