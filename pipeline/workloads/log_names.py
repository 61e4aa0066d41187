"""Names of queues, partitions, QOS and clusters of a log, whose columns hold numbers.

The reader of a log leaves a note for each of these columns, with its names in order of number:

    partition: names by number, from 1: ["batch", "debug"]

Logs that number them themselves, such as SWF logs, have no such note: a name there is a number.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import polars as pl

from hindcast.pipeline.errors import InputError, unknown_name
from hindcast.pipeline.workloads.schema import Workload

KEPT_NAMES: Final = ("queue", "partition", "qos", "cluster")
_MOST: Final = 200  # names that are kept; a column with more is none of queues
_LONGEST: Final = 80  # characters
_NUMBERED: Final = ": names by number, from 1: "
_NAMES: Final[ContextVar[dict[str, list[str]] | None]] = ContextVar("names", default=None)


@contextmanager
def remembered_names() -> Iterator[Mapping[str, Sequence[str]]]:
    """Give the names that readers number inside, by column and in order of number."""
    names: dict[str, list[str]] = {}
    token = _NAMES.set(names)
    try:
        yield names
    finally:
        _NAMES.reset(token)


def remember(column: str, names: Sequence[str]) -> None:
    """Tell `remembered_names` the names of a column that a reader numbers."""
    if (known := _NAMES.get()) is not None:
        known[column] = list(names)


def names_note(column: str, names: Sequence[str]) -> str:
    """Return the note of a column with its names, in order of number."""
    if len(names) > _MOST:
        return f"{column}: {len(names):,} names became numbers; too many to keep the names"
    cut = json.dumps([name[:_LONGEST] for name in names], ensure_ascii=False)
    return f"{column}{_NUMBERED}{cut}"


def names_of(workload: Workload, column: str) -> Mapping[int, str]:
    """Return the names of a column by number; {} if its numbers are the log's own."""
    for note in workload.provenance.notes:
        head, found, names = note.partition(_NUMBERED)
        if found and head == column:
            try:
                return dict(enumerate(map(str, json.loads(names)), 1))
            except ValueError:  # a note that no reader writes
                return {}
    return {}


def number_of(workload: Workload, column: str, name: str) -> int:
    """Return the number of a queue, partition, QOS or cluster by its name, or by the log's number.

    Raises InputError, which names the nearest one, if the log has none of this name.
    """
    tasks, names = workload.tasks, names_of(workload, column)
    numbers: list[int] = []
    if column in tasks.columns:
        numbers = tasks[column].cast(pl.Int64).drop_nulls().unique().sort().to_list()
    known = {names.get(number, str(number)): number for number in numbers}
    if not known:
        raise InputError(f"{column} {name!r}: the log does not say the {column} of its jobs")
    if name not in known:
        raise unknown_name(column, name, known)
    return known[name]
