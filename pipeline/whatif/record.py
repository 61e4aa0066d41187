"""The record: what a log says about its jobs and their starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.scenarios.queue.instances import read_log, usable
from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.whatif.resources.amounts import Resources
from hindcast.pipeline.workloads.log_names import KEPT_NAMES, names_of
from hindcast.pipeline.workloads.schema import Workload

Array = NDArray[np.int64]
BEGINS: Final = 0.7  # share of the jobs before the run
_OF_MACHINE: Final = ("processors", "names", "resources", "too_wide")


@dataclass(frozen=True)
class Record:
    """The N usable jobs of a log in order of arrival; ties keep the order of submission.

    Attributes:
        processors: Processors of the machine.
        row: Number of each job in order of submission, (N,): its place in the usable tasks.
        submit: Submission by the user in s, (N,).
        arrive: Moment in s at which the scheduler may start the job, (N,): when it was eligible,
            and the submission where that is unknown or earlier.
        cpu: Processors of each job, (N,).
        run: Run time in s, at least 1, (N,).
        requested: Requested time in s, at least 1, (N,).
        user: Number of the user, -1 if unknown, (N,).
        key: Number of the triple (user, cpu, requested), -1 if the user is unknown, (N,).
        queue, partition, qos, account: Numbers, -1 if unknown, (N,).
        nodes: Nodes of each job, -1 if unknown, (N,).
        start: Recorded start in s, NEVER if it is unknown, (N,).
        names: Names by number of queue, partition and qos; {} where the numbers are the log's own.
        resources: Resources of the machine; None for processors alone.
        asks: What each job asks for, (N, K + 1): amounts by name, then GPUs of any type; (N, 0)
            without resources.
        too_wide: The jobs that ask for more than the machine has. Some may run when a run begins;
            the others never arrive. None without resources.
    """

    processors: int
    row: Array
    submit: Array
    arrive: Array
    cpu: Array
    run: Array
    requested: Array
    user: Array
    key: Array
    queue: Array
    partition: Array
    qos: Array
    account: Array
    nodes: Array
    start: Array
    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    resources: Resources | None = None
    asks: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    too_wide: "Record | None" = None

    def __post_init__(self) -> None:
        """Give jobs no asks beside processors on a machine without resources."""
        if self.resources is None:
            object.__setattr__(self, "asks", np.zeros((len(self.row), 0), np.int64))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Mask of the jobs whose start is known, (N,)."""
        return np.asarray(self.start != NEVER)

    @property
    def first(self) -> int:
        """The first job of the run."""
        return int(BEGINS * len(self.submit))

    def take(self, jobs: Array) -> "Record":
        """Return the record of some of the jobs, or of all in another order."""
        arrays = {
            field.name: getattr(self, field.name)[jobs]
            for field in fields(self)
            if field.name not in _OF_MACHINE
        }
        return replace(self, **arrays)


def read_record(workload: Workload) -> Record:
    """Return the record of a workload, which must be usable by scenario `queue`."""
    log, tasks = read_log(workload), workload.tasks.filter(usable(workload))
    start = np.where(log.known, log.start, NEVER)
    order = np.argsort(log.arrive, kind="stable")
    numbers: dict[str, Any] = {name: _numbers(tasks, name)[order] for name in _NUMBERED}
    return Record(
        processors=log.processors, row=order, submit=log.submit[order], arrive=log.arrive[order],
        cpu=log.cpu[order], run=log.run[order], requested=log.requested[order],
        user=log.user[order], key=log.key[order], start=start[order], **numbers,
        names={name: names_of(workload, name) for name in KEPT_NAMES},
    )  # fmt: skip


_NUMBERED: Final = ("queue", "partition", "qos", "account", "nodes")


def _numbers(tasks: pl.DataFrame, name: str) -> Array:
    """Return a column of whole numbers, -1 where it is unknown or the log lacks it."""
    if name not in tasks.columns:
        return np.full(tasks.height, -1)
    values: Array = tasks[name].cast(pl.Float64).fill_null(-1).to_numpy().astype(np.int64)
    return values
