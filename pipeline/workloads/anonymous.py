"""Anonymised workloads: pseudonyms by a key that stays with the owner of the log.

A name is replaced by the first bits of HMAC-SHA-256(key, column and name): with the same key, a
second log has the same pseudonyms, and without it a guessed name cannot be tested.

    users, groups, accounts, executables    numbers below 2^53
    jobs, and the jobs that they follow     numbers below 2^53, which are the names of the jobs
    queues, partitions, QOS, clusters       1, 2, ... in order of their pseudonyms, unless kept
    second 0 of the log                     moved by a number of whole weeks, up to ten years
    its time zone                           dropped; second 0 has the local time of day instead
    names and digests of the raw files, notes of the reader, names of machines, bad rows: removed

Hours and weekdays stay. Rules only compare the replaced names with each other, so schedules are the
same. What jobs asked for, how long they ran and when they came after each other stays as it
is, and can be compared with another record of the same jobs.
"""

import hmac
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import polars as pl

from hindcast.pipeline.errors import InputError, StorageError, unknown_name
from hindcast.pipeline.storage.files import storage_errors
from hindcast.pipeline.storage.location import is_remote
from hindcast.pipeline.workloads.caveats import CAUTION, NOTES
from hindcast.pipeline.workloads.log_names import KEPT_NAMES, names_note, names_of
from hindcast.pipeline.workloads.schema import Provenance, Workload

ANONYMISED: Final = "anonymised: names are pseudonyms, and times are moved by whole weeks"
_PEOPLE: Final = ("user", "group", "account", "executable")
_JOBS: Final = ("job_id", "preceding_job")
# Columns that may have the same names get the same pseudonyms.
_SAME_NAMES: Final = {"queue": "partition", "group": "account", "preceding_job": "job_id"}
_FEWEST_BYTES: Final = 16  # of a key
_BITS: Final = 53  # of a pseudonym: a whole number that every program reads exactly
_WEEK_S: Final = 604_800
_MOST_WEEKS: Final = 520
_EPOCH_S: Final = 1e8  # larger times are seconds since 1970, not since the first submission
_TIMES: Final = ("submit_s", "eligible_s", "deadline_s")
_ORIGIN, _ZONE = "UnixStartTime", "TimeZoneString"  # notes


@dataclass(frozen=True)
class Anonymised:
    """A workload without names, and what became of its columns.

    Attributes:
        workload: The workload.
        replaced: Columns whose names are pseudonyms.
        numbered: Columns of queues and the like -> number of names that became numbers.
        kept: Columns of queues and the like whose names are kept.
        unchanged: Other columns, with which jobs can still be recognised.
    """

    workload: Workload
    replaced: tuple[str, ...]
    numbered: Mapping[str, int]
    kept: tuple[str, ...]
    unchanged: tuple[str, ...]


def key_for(path: Path, out: Path) -> bytes | None:
    """Return the key in a file; None if there is no such file, so that a key is to be made.

    Raises InputError if the file is no file, can be read by others, is too short for a key, or lies
    in `out`, the folder that is to be published.
    """
    if not is_remote(out) and out.resolve() in path.resolve().parents:
        raise InputError(f"{path}: this key lies in {out}, and would be published with it")
    if not path.exists():
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent} for the key")
        return None
    if not path.is_file():
        raise InputError(f"{path}: this is a folder, expected the file of a key")
    with storage_errors(path):
        key = path.read_bytes().strip()
        mode = path.stat().st_mode & 0o077
    if len(key) < _FEWEST_BYTES:
        raise InputError(
            f"{path}: this file has {len(key)} bytes, expected a key of at least {_FEWEST_BYTES}; "
            "a file that does not exist is made with a new key"
        )
    if mode:
        raise InputError(
            f"{path}: other users can read this key, expected mode 600; `chmod 600 {path}`"
        )
    return key


def make_key(path: Path) -> bytes:
    """Write a new key to a file that only its owner can read, and return it.

    Raises StorageError if the file exists, or cannot be written.
    """
    key = secrets.token_hex(32).encode()
    with storage_errors(path):
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise StorageError(f"{path}: this file exists, and no key is overwritten") from error
        with os.fdopen(file, "wb") as out:
            out.write(key + b"\n")
            out.flush()
            os.fsync(out.fileno())
    return key


def check_kept(columns: Collection[str]) -> None:
    """Raise UnknownName for a column whose names cannot be kept."""
    for column in columns:
        if column not in KEPT_NAMES:
            raise unknown_name("column of names to keep", column, KEPT_NAMES)


def anonymised(
    workload: Workload,
    key: bytes,
    names: Mapping[str, Sequence[str]] | None = None,
    keep: Collection[str] = (),
) -> Anonymised:
    """Return a workload with pseudonyms in place of its names.

    Args:
        workload: The workload.
        key: The key, at least 16 bytes.
        names: Names of the columns that the reader numbered, in order of number from 1. Other
            numbers are those of the log, and stand for themselves.
        keep: Columns of KEPT_NAMES whose names stay.

    Returns:
        The anonymised workload, and what became of its columns.

    Raises:
        InputError: If two jobs get one pseudonym, which another key mends.
    """
    check_kept(keep)
    known = {column: list(of) for column, of in (names or {}).items()}
    for column in KEPT_NAMES:  # a workload that was read from its folder has these names only
        known.setdefault(column, list(names_of(workload, column).values()))
    tasks, notes = workload.tasks, []
    texts = [name for name, kind in tasks.schema.items() if kind == pl.String]
    replaced = [
        name
        for name in tasks.columns
        if name in {*_PEOPLE, *_JOBS, *texts}
        and tasks[name].is_not_null().any()
        and (name != "task_id" or tasks[name].n_unique() > 1)
    ]
    numbered: dict[str, int] = {}
    kept = [name for name in KEPT_NAMES if name in tasks.columns and name in keep]
    for name in replaced:
        numbers = _pseudonyms(key, name, _names(tasks[name], known.get(name, [])))
        kind = pl.String() if name in texts else pl.Int64()
        tasks = tasks.with_columns(_mapped(tasks[name], numbers, kind))
    if tasks["job_id"].n_unique() < workload.tasks["job_id"].n_unique():
        raise InputError("two jobs have one pseudonym; anonymise the log with another key")
    for name in (n for n in KEPT_NAMES if n in tasks.columns and n not in keep):
        of = _pseudonyms(key, name, _names(tasks[name], known.get(name, [])))
        ranks = {value: rank for rank, value in enumerate(sorted(set(of.values())), 1)}
        tasks = tasks.with_columns(
            _mapped(tasks[name], {value: ranks[p] for value, p in of.items()}, pl.Int64())
        )
        if ranks:
            numbered[name] = len(ranks)
            prefix = _SAME_NAMES.get(name, name)
            notes.append(names_note(name, [f"{prefix}-{p:014x}" for p in ranks]))
    notes += [names_note(name, known[name]) for name in kept if known[name]]
    tasks, clock = _moved(tasks, workload.provenance, key)
    changed = {*replaced, *numbered, *kept, "job", "task", "task_id"}
    return Anonymised(
        workload=Workload(
            tasks=tasks,
            provenance=_provenance(workload.provenance, [*notes, *clock]),
            machines=_unnamed(workload.machines),
        ),
        replaced=tuple(replaced),
        numbered=numbered,
        kept=tuple(kept),
        unchanged=tuple(
            name
            for name in tasks.columns
            if name not in changed and tasks[name].is_not_null().any()
        ),
    )


def _names(column: pl.Series, names: Sequence[str]) -> dict[object, str]:
    """Return the name of each value of a column."""
    values = column.drop_nulls().unique().sort().to_list()
    if not names:
        return {value: str(value) for value in values}
    return {value: names[int(value) - 1] for value in values}


def _pseudonyms(key: bytes, column: str, names: Mapping[object, str]) -> dict[object, int]:
    """Return the pseudonym of each value of a column, by its name."""
    domain = _SAME_NAMES.get(column, column)
    return {value: _number(key, f"{domain}\0{name}") for value, name in names.items()}


def _number(key: bytes, text: str) -> int:
    return int.from_bytes(hmac.digest(key, text.encode(), "sha256")[:7]) & ((1 << _BITS) - 1)


def _mapped(column: pl.Series, numbers: Mapping[object, int], kind: pl.DataType) -> pl.Series:
    values = pl.Series(list(numbers), dtype=column.dtype)
    return column.replace_strict(
        values, pl.Series(numbers.values(), dtype=pl.Int64).cast(kind), default=None,
        return_dtype=kind,
    )  # fmt: skip


def _moved(tasks: pl.DataFrame, told: Provenance, key: bytes) -> tuple[pl.DataFrame, list[str]]:
    """Return tasks that begin at second 0, and the note of that moment: moved, as local time.

    A clock of the log that begins anywhere, without a note of the moment, stays as it is.
    """
    noted = told.noted
    origin = int(noted[_ORIGIN]) if noted.get(_ORIGIN, "").isdigit() else 0
    first = float(np.floor(tasks["submit_s"].to_numpy().min())) if tasks.height else 0.0
    if origin + first < _EPOCH_S:
        return tasks, []
    if first >= _EPOCH_S:  # seconds since 1970
        moved = [name for name in _TIMES if name in tasks.columns]
        tasks = tasks.with_columns((pl.col(name) - first).round(6) for name in moved)
        origin += int(first)
    try:
        zone = ZoneInfo(noted.get(_ZONE, "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = ZoneInfo("UTC")
    wall = datetime.fromtimestamp(origin, zone).replace(tzinfo=UTC)
    weeks = _number(key, "weeks\0") % (2 * _MOST_WEEKS) - _MOST_WEEKS
    shift = weeks if weeks < 0 else weeks + 1  # never 0
    second_zero = int(wall.timestamp())
    if second_zero + shift * _WEEK_S < _EPOCH_S:  # no moment before 1973, which others read as none
        shift = -shift
    return tasks, [f"{_ORIGIN}: {second_zero + shift * _WEEK_S}"]


def _unnamed(machines: pl.DataFrame | None) -> pl.DataFrame | None:
    if machines is None:
        return None
    return machines.with_columns(machine_id=pl.col("machine").cast(pl.String))


def _provenance(told: Provenance, notes: Sequence[str]) -> Provenance:
    """Return a provenance without files and names; keep notes that decide what a result means."""
    bad = told.left_out.get("quarantined", 0)
    others = sum(told.left_out.values()) - bad
    left_out = {"other rows that are no jobs": others, "quarantined": bad}
    decide = [n for n in told.notes if n.removeprefix(CAUTION).startswith(tuple(NOTES))]
    return replace(
        told,
        files=(),
        left_out={why: count for why, count in left_out.items() if count},
        notes=(ANONYMISED, *notes, *decide),
    )
