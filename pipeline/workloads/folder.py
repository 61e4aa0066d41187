"""Workload folders: writing a workload as a folder, and reading it back.

    OUT/
      tasks.parquet         the canonical tasks (hindcast.pipeline.workloads.schema.TASK_COLUMNS)
      machines.parquet      the machines, if the trace has them
      quarantine.parquet    the bad rows: file, line, reason, text
      manifest.json         written last: sources, rows left out, SHA-256 of all files above

A folder is a workload once it has its manifest; without one it is an interrupted ingestion, which
may be repeated in place. The same input gives the same bytes.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.errors import DatasetError, StorageError
from hindcast.pipeline.storage import files
from hindcast.pipeline.workloads.schema import (
    MACHINE_COLUMNS,
    QUARANTINE_COLUMNS,
    TASK_COLUMNS,
    Provenance,
    Workload,
    damage,
    empty_quarantine,
    read_provenance,
    wrong_columns,
)

KIND: Final = "workload"
VERSION: Final = 1
_MANIFEST: Final = "manifest.json"
_TASKS: Final = "tasks.parquet"
_MACHINES: Final = "machines.parquet"
_QUARANTINE: Final = "quarantine.parquet"
_COLUMNS: Final[Mapping[str, Mapping[str, pl.DataType]]] = {
    _TASKS: TASK_COLUMNS,
    _MACHINES: MACHINE_COLUMNS,
    _QUARANTINE: QUARANTINE_COLUMNS,
}


def save_workload(workload: Workload, out: Path, quarantine: pl.DataFrame | None = None) -> None:
    """Write a workload folder, in place of an older one.

    Raises StorageError if the folder holds anything else than a workload.
    """
    refuse_foreign(out)
    files.make_folder(out)
    files.remove_partials(out)
    tables = {
        _TASKS: workload.tasks,
        _MACHINES: workload.machines,
        _QUARANTINE: empty_quarantine() if quarantine is None else quarantine,
    }
    written = []
    with files.written_together() as write, files.storage_errors(out):
        for name, table in tables.items():
            if table is not None:
                stored = write(out / name, files.table_writer(table, compression_level=3))
                written.append({"name": name, "rows": table.height, **asdict(stored)})
        manifest = _manifest(workload.provenance, written)
        write(out / _MANIFEST, files.text_writer(files.json_text(manifest)))
        # Without its manifest the folder is no workload: a crash from here on leaves no mixture.
        (out / _MANIFEST).unlink(missing_ok=True)
        for name in (name for name, table in tables.items() if table is None):
            (out / name).unlink(missing_ok=True)


def _manifest(provenance: Provenance, written: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "kind": KIND,
        "version": VERSION,
        "provenance": asdict(provenance),
        "files": written,
    }


def refuse_foreign(out: Path) -> None:
    """Raise StorageError if `out` holds anything but a workload, whole or interrupted."""
    if not out.exists():
        return
    if not out.is_dir():
        raise StorageError(
            f"{out}: this is a file, expected a folder for the workload; choose another --out"
        )
    if (out / _MANIFEST).exists():
        try:
            manifest = files.read_json(out / _MANIFEST)
        except DatasetError as error:
            raise StorageError(f"{error}; choose an empty or a new folder") from error
        kind = manifest.get("kind") if isinstance(manifest, dict) else None
        if kind == KIND:
            return
        raise StorageError(
            f"{out}: this folder holds a {kind or 'manifest without kind'}, not a workload; "
            "choose an empty or a new folder"
        )
    present = sorted(entry.name for entry in out.iterdir())
    if foreign := [name for name in present if name not in _COLUMNS and not files.is_partial(name)]:
        raise StorageError(
            f"{out}: this folder is not empty and not a workload (it has {foreign[0]!r}); "
            "choose an empty or a new folder"
        )


def check_folder(folder: Path, workload: Workload) -> None:
    """Raise DatasetError if a folder differs from one that `save_workload` writes, no quarantine.

    `workload` is what `load_workload` read from it. The manifest must be that of the files, byte
    for byte, and there are no other files.
    """
    tables = {_TASKS: workload.tasks, _MACHINES: workload.machines, _QUARANTINE: empty_quarantine()}
    tables_of = {name: table for name, table in tables.items() if table is not None}
    for path in sorted(folder.iterdir()):
        if path.name not in {_MANIFEST, *tables_of}:
            raise DatasetError(f"{path}: this file is not in the manifest of the workload")
    written = []
    for name, table in tables_of.items():
        files.require_file(folder / name)
        stored = files.Stored((folder / name).stat().st_size, files.sha256_file(folder / name))
        written.append({"name": name, "rows": table.height, **asdict(stored)})
    expected = files.json_text(_manifest(workload.provenance, written))
    if (folder / _MANIFEST).read_bytes() != expected.encode():
        raise DatasetError(
            f"{folder / _MANIFEST}: this manifest differs from the one that a build writes for "
            "these files"
        )


def load_workload(folder: Path, sha256: str | None = None) -> Workload:
    """Read a workload folder after checking every file against its manifest.

    For the workload inside a dataset, `sha256` is the SHA-256 of the workload's manifest.json that
    the manifest of the dataset states.

    Raises DatasetError if the folder or its manifest is missing, if the manifest is of another kind
    or version, or if a file is missing or changed or has other columns. With `sha256`, also if the
    folder is a symbolic link or its manifest has another digest.
    """
    if sha256 is not None and folder.is_symlink():
        raise DatasetError(
            f"{folder}: this is a symbolic link, which is not followed inside a dataset; copy the "
            "files themselves (cp -rL)"
        )
    manifest = files.read_manifest(folder, KIND, (VERSION,), "ingest")
    if sha256 is not None and files.sha256_file(folder / _MANIFEST) != sha256:
        raise DatasetError(
            f"{folder}: this workload has another SHA-256 than the dataset's manifest says; see "
            "`hindcast verify`"
        )
    entries = manifest.get("files")
    if not isinstance(entries, list):
        raise DatasetError(f"{folder / _MANIFEST}: the list 'files' is missing")
    tables = {}
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in _COLUMNS:
            raise DatasetError(
                f"{folder / _MANIFEST}: file {name!r} is not part of a workload, "
                f"expected {', '.join(_COLUMNS)}"
            )
        tables[name] = files.read_listed(folder / name, entry)
        if fault := wrong_columns(tables[name], _COLUMNS[name]):
            raise DatasetError(f"{folder / name}: {fault}")
    if _TASKS not in tables:
        raise DatasetError(f"{folder / _MANIFEST}: {_TASKS} is missing from 'files'")
    if fault := damage(tables[_TASKS], tables.get(_MACHINES)):
        raise DatasetError(f"{folder / _TASKS}: {fault}")
    try:
        provenance = read_provenance(manifest.get("provenance"))
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(
            f"{folder / _MANIFEST}: the key 'provenance' is damaged ({error})"
        ) from error
    return Workload(tables[_TASKS], provenance, tables.get(_MACHINES))


def is_saved(workload: Workload, folder: Path) -> bool:
    """Return whether a folder holds this workload; raise DatasetError as `load_workload` does."""
    saved = load_workload(folder)
    if workload.provenance != saved.provenance or not workload.tasks.equals(saved.tasks):
        return False
    if workload.machines is None or saved.machines is None:
        return workload.machines is saved.machines
    return workload.machines.equals(saved.machines)
