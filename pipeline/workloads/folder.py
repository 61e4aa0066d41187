"""Ingestion: a raw trace becomes a workload folder, and a workload folder becomes a Workload.

    OUT/
      tasks.parquet         the canonical tasks (pipeline.workloads.schema.TASK_COLUMNS)
      machines.parquet      the machines, where the trace has them
      quarantine.parquet    the bad rows: file, line, reason, text
      manifest.json         written last: what went in, what was left out, SHA-256 of all above

A folder is a workload when its manifest is there; without one it is an interrupted ingestion,
which may be repeated in place. The same input gives the same bytes.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from pipeline.errors import DatasetError, StorageError
from pipeline.storage.files import (
    is_partial,
    make_folder,
    read_json,
    read_parquet,
    remove_partials,
    sha256_file,
    storage_errors,
    write_atomically,
    write_json,
)
from pipeline.storage.guards import a_count, a_list, a_sha256, a_table, a_text, require_file
from pipeline.workloads.schema import (
    MACHINE_COLUMNS,
    QUARANTINE_COLUMNS,
    TASK_COLUMNS,
    Provenance,
    SourceFile,
    Workload,
    damage,
    empty_quarantine,
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
_COMPRESSION_LEVEL: Final = 3


def save_workload(workload: Workload, out: Path, quarantine: pl.DataFrame | None = None) -> None:
    """Write a workload folder; an older one is replaced, anything else raises StorageError."""
    refuse_foreign(out)
    make_folder(out)
    remove_partials(out)
    tables = {
        _TASKS: workload.tasks,
        _MACHINES: workload.machines,
        _QUARANTINE: empty_quarantine() if quarantine is None else quarantine,
    }
    written = []
    with storage_errors(out):
        # Without its manifest the folder is no workload: a crash from here on leaves no mixture.
        (out / _MANIFEST).unlink(missing_ok=True)
        for name, table in tables.items():
            if table is None:
                (out / name).unlink(missing_ok=True)
                continue
            write_atomically(out / name, partial(_write, table))
            written.append(_entry(out / name, table.height))
    manifest = {
        "kind": KIND,
        "version": VERSION,
        "provenance": asdict(workload.provenance),
        "files": written,
    }
    write_json(out / _MANIFEST, manifest)


def _write(table: pl.DataFrame, path: Path) -> None:
    table.write_parquet(path, compression="zstd", compression_level=_COMPRESSION_LEVEL)


def _entry(path: Path, rows: int) -> dict[str, Any]:
    return {
        "name": path.name,
        "rows": rows,
        "bytes": path.stat().st_size,
        "sha256": sha256_file(path),
    }


def refuse_foreign(out: Path) -> None:
    """Raise StorageError where `out` holds anything but a workload, whole or interrupted."""
    if not out.exists():
        return
    if not out.is_dir():
        raise StorageError(f"{out}: is a file, expected a folder to write a workload to")
    if (out / _MANIFEST).exists():
        try:
            manifest = read_json(out / _MANIFEST)
        except DatasetError as error:
            raise StorageError(f"{error}; give an empty or a new folder") from error
        kind = manifest.get("kind") if isinstance(manifest, dict) else None
        if kind == KIND:
            return
        raise StorageError(
            f"{out}: holds a {kind or 'manifest without kind'}, not a workload; "
            "give an empty or a new folder"
        )
    foreign = sorted(entry.name for entry in out.iterdir() if not _is_ours(entry.name))
    if foreign:
        raise StorageError(
            f"{out}: is not empty and not a workload (it has {foreign[0]!r}); "
            "give an empty or a new folder"
        )


def _is_ours(name: str) -> bool:
    return name in _COLUMNS or is_partial(name)


def load_workload(folder: Path) -> Workload:
    """Read a workload folder after checking every file against its manifest.

    Raises DatasetError that says what is wrong: no folder, no manifest, another kind or version,
    a file missing or changed, a table with other columns.
    """
    manifest = _manifest(folder)
    entries = manifest.get("files")
    if not isinstance(entries, list):
        raise DatasetError(f"{folder / _MANIFEST}: lacks the list 'files'")
    tables = {}
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in _COLUMNS:
            raise DatasetError(
                f"{folder / _MANIFEST}: file {name!r} is not part of a workload, "
                f"expected {', '.join(_COLUMNS)}"
            )
        tables[name] = _table(folder / name, entry)
    if _TASKS not in tables:
        raise DatasetError(f"{folder / _MANIFEST}: lists no {_TASKS}")
    if fault := damage(tables[_TASKS], tables.get(_MACHINES)):
        raise DatasetError(f"{folder / _TASKS}: {fault}")
    return Workload(
        tasks=tables[_TASKS],
        provenance=_provenance(folder, manifest.get("provenance")),
        machines=tables.get(_MACHINES),
    )


def _manifest(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise DatasetError(f"{folder}: {what}, expected a workload folder")
    path = folder / _MANIFEST
    if not path.exists():
        raise DatasetError(
            f"{folder}: is not a workload: it has no {_MANIFEST}; "
            "write one with `hindcast ingest`, or repeat it if it was interrupted"
        )
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        kind = manifest.get("kind") if isinstance(manifest, dict) else None
        raise DatasetError(f"{path}: kind is {kind!r}, expected {KIND!r}")
    if manifest.get("version") != VERSION:
        raise DatasetError(f"{path}: version is {manifest.get('version')!r}, expected {VERSION}")
    return manifest


def _table(path: Path, entry: Mapping[str, Any]) -> pl.DataFrame:
    if not path.exists() and not path.is_symlink():
        raise DatasetError(f"{path}: is missing, its manifest lists it")
    require_file(path)
    digest = sha256_file(path)
    if digest != entry.get("sha256"):
        raise DatasetError(
            f"{path}: was changed: its SHA-256 is {digest}, the manifest says {entry.get('sha256')}"
        )
    try:
        table = read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DatasetError(f"{path}: is not a Parquet file ({error})") from error
    expected = _COLUMNS[path.name]
    found = dict(list(table.schema.items())[: len(expected)])
    if list(found.items()) != list(expected.items()):
        raise DatasetError(f"{path}: has the columns {_shown(found)}, expected {_shown(expected)}")
    if table.height != entry.get("rows"):
        raise DatasetError(
            f"{path}: has {table.height} rows, its manifest says {entry.get('rows')!r}"
        )
    return table


def _shown(columns: Mapping[str, pl.DataType]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _provenance(folder: Path, value: Any) -> Provenance:
    try:
        return Provenance(
            format=a_text(value["format"]),
            files=tuple(
                SourceFile(a_text(file["name"]), a_count(file["bytes"]), a_sha256(file["sha256"]))
                for file in a_list(value["files"])
            ),
            counts={k: a_count(v) for k, v in a_table(value["counts"]).items()},
            left_out={k: a_count(v) for k, v in a_table(value["left_out"]).items()},
            notes=tuple(map(a_text, a_list(value["notes"]))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DatasetError(f"{folder / _MANIFEST}: 'provenance' is damaged ({error})") from error
