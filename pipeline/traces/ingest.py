"""Ingestion: conversion of a raw trace to a workload folder."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import TraceError, UnknownName, unknown_name
from hindcast.pipeline.storage.files import local_folder, make_folder
from hindcast.pipeline.storage.location import is_remote
from hindcast.pipeline.storage.locks import one_writer
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.workloads.anonymous import Anonymised, anonymised, key_for, make_key
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.folder import refuse_foreign, save_workload
from hindcast.pipeline.workloads.log_caveats import reader_caveats
from hindcast.pipeline.workloads.log_names import remembered_names
from hindcast.pipeline.workloads.schema import Workload, damage

_STEPS: Final = 2

Progress = Callable[[int, int, str], None]  # steps done, steps in total, current step in words


@dataclass(frozen=True)
class IngestResult:
    """Result of an ingestion.

    Attributes:
        folder: Folder of the workload.
        workload: The workload.
        quarantined: Number of rows in the quarantine of the folder. An anonymised workload has
            none, since its rows would have names; its provenance counts them too.
        anonymised: What became of the columns, if the workload was anonymised.
        key_made: Whether the key of the pseudonyms was made now.
    """

    folder: Path
    workload: Workload
    quarantined: int
    anonymised: Anonymised | None = None
    key_made: bool = False

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Facts about the trace that limit the results on the workload."""
        return reader_caveats(self.workload)


@one_writer
def ingest(
    format_name: str,
    path: Path,
    out: Path,
    progress: Progress | None = None,
    settings: Any = None,
    anonymise: Path | None = None,
    keep: Collection[str] = (),
) -> IngestResult:
    """Read the trace at `path` as `format_name` and write it to the folder `out`.

    `settings` are those of the format's reader, None for its defaults. With `anonymise`, the file
    of a key, which is made if there is none, the workload has pseudonyms in place of all names but
    those of the columns `keep`, see hindcast.pipeline.workloads.anonymous.

    Nothing in `out` changes until the trace has been read. Raises UnknownName for the format,
    TraceError for the trace, and StorageError if `out` cannot be written or holds something else.
    """
    if format_name not in FORMATS:
        raise unknown_name("trace format", format_name, FORMATS)
    form = FORMATS[format_name]
    if form.read is None:
        raise UnknownName(
            f"the format {format_name!r} holds decisions, not jobs: expected a trace of jobs; "
            "`hindcast ingest` makes a dataset of it"
        )
    report_step = progress or (lambda _done, _total, _what: None)
    refuse_foreign(out)
    if is_remote(out):
        make_folder(out)
    report_step(0, _STEPS, f"reading {path.name} as {format_name}")
    key = None if anonymise is None else key_for(anonymise, out)
    with local_folder(path, form.files) as copy, remembered_names() as names:
        workload, quarantine = form.reading(copy, settings)
        workload = with_notes(workload, form.notes_on(copy))
    if fault := damage(workload.tasks, workload.machines):
        raise TraceError(f"{path}: this trace gives no sound workload: {fault}")
    result = IngestResult(folder=out, workload=workload, quarantined=quarantine.height)
    if anonymise is not None:
        made = anonymised(workload, key or make_key(anonymise), names, keep)
        result = IngestResult(out, made.workload, 0, anonymised=made, key_made=key is None)
        quarantine = quarantine.clear()
    report_step(1, _STEPS, f"writing {workload.tasks.height:,} tasks")
    save_workload(result.workload, out, quarantine)
    report_step(_STEPS, _STEPS, "done")
    return result


def with_notes(workload: Workload, notes: tuple[str, ...]) -> Workload:
    """Return a workload with further notes on where it is from."""
    provenance = workload.provenance
    return replace(workload, provenance=replace(provenance, notes=(*provenance.notes, *notes)))
