"""Ingestion: a raw trace becomes a workload folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.errors import UnknownName, unknown_name
from pipeline.storage.files import local_folder, make_folder
from pipeline.storage.location import is_remote
from pipeline.traces import FORMATS
from pipeline.workloads.folder import refuse_foreign, save_workload
from pipeline.workloads.schema import Workload

_STEPS: Final = 2

Progress = Callable[[int, int, str], None]  # steps done, steps in all, what is done now


@dataclass(frozen=True)
class IngestResult:
    """What an ingestion wrote: the folder, its workload and the rows kept in quarantine."""

    folder: Path
    workload: Workload
    quarantined: int


def ingest(
    format_name: str, path: Path, out: Path, progress: Progress | None = None
) -> IngestResult:
    """Read the trace at `path` as `format_name` and write it to the folder `out`.

    Raises UnknownName for the format, TraceError for the trace, StorageError where `out` cannot be
    written or holds something else. Until the trace has been read, `out` is left as it is.
    """
    if format_name not in FORMATS:
        raise unknown_name("trace format", format_name, FORMATS)
    read = FORMATS[format_name].read
    if read is None:
        raise UnknownName(f"{format_name} holds decisions, not jobs: it makes a dataset")
    tell = progress or (lambda _done, _total, _what: None)
    refuse_foreign(out)
    if is_remote(out):
        make_folder(out)
    tell(0, _STEPS, f"reading {path.name} as {format_name}")
    with local_folder(path) as copy:
        workload, quarantine = read(copy)
    tell(1, _STEPS, f"writing {workload.tasks.height:,} tasks")
    save_workload(workload, out, quarantine)
    tell(_STEPS, _STEPS, "done")
    return IngestResult(folder=out, workload=workload, quarantined=quarantine.height)
