"""Cache of parsed traces: a log is parsed once, not by every command.

    <cache>/traces/KEY/       a workload folder, see hindcast.pipeline.workloads.folder

<cache> is $HINDCAST_CACHE, else $XDG_CACHE_HOME/hindcast, else ~/.cache/hindcast. If HINDCAST_CACHE
is set and empty, nothing is cached. KEY is a SHA-256 of the contents of the raw files, the name of
the one that is read first, the code of the readers and the versions of the libraries that they use,
so a changed log or reader is parsed.

An entry is written under a temporary name and renamed, so two processes cannot disturb each other.
A damaged entry is written again. Without a usable cache every command parses the log itself.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.storage.files import sha256_file, sha256_text
from hindcast.pipeline.storage.versions import package_versions
from hindcast.pipeline.traces import FORMATS, TraceFormat
from hindcast.pipeline.workloads.folder import load_workload, save_workload
from hindcast.pipeline.workloads.schema import SourceFile, Workload

LARGEST: Final = 2 << 30  # bytes of all entries; those that were not used for longest are removed
_MANIFEST: Final = "manifest.json"
_PACKAGES: Final = ("numpy", "polars")
_UNFINISHED: Final = ".partial-"


def cache_folder() -> Path | None:
    """Return the folder of parsed traces, or None if nothing is to be cached."""
    setting = os.environ.get("HINDCAST_CACHE")
    if setting == "":
        return None
    with suppress(RuntimeError):  # there is no home
        default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "hindcast"
        return (Path(setting) if setting else default).expanduser() / "traces"
    return None


def read_trace(format_name: str, path: Path, settings: Any = None) -> Workload:
    """Return the workload of a local trace, from the cache if it was parsed before.

    `settings` are those of the format's reader, None for its defaults.

    Raises TraceError as the reader of the format does.
    """
    form = FORMATS[format_name]
    folder = cache_folder()
    sources = None if folder is None else _sources(form, path)
    if folder is None or sources is None:
        return form.reading(path, settings)[0]
    entry = folder / _key(form, path, sources, settings)
    if (cached := _load(entry, sources)) is not None:
        return cached
    workload, _quarantine = form.reading(path, settings)
    if set(workload.provenance.files) <= set(sources):  # else a file changed while it was read
        with suppress(OSError, HindcastError):
            _store(workload, entry)
            _shrink(folder, keep=entry)
    return workload


def clear() -> tuple[int, int]:
    """Delete all entries; return their number and their bytes."""
    folder = cache_folder()
    entries = [] if folder is None else _entries(folder)
    for _, _, entry in entries:
        shutil.rmtree(entry)
    return len(entries), sum(size for _, size, _ in entries)


def _sources(form: TraceFormat, path: Path) -> list[SourceFile] | None:
    """Return the raw files that the reader may read, in order; None if they are not known.

    The code of a format that is not part of this package is not known, and so is not cached.
    """
    if form.files is None or form.read is None or not form.read.__module__.startswith("hindcast."):
        return None
    try:
        files = sorted({file for file in form.files(path) if file.is_file()})
        return [SourceFile(f.name, f.stat().st_size, sha256_file(f)) for f in files] or None
    except (OSError, HindcastError):
        return None  # the reader meets the same error and reports it


def _key(form: TraceFormat, path: Path, sources: Iterable[SourceFile], settings: Any) -> str:
    """Return the name of the entry of a trace, a SHA-256 in hexadecimal digits."""
    files = [(f.name, f.bytes, f.sha256) for f in sources]
    # Each table of a folder may have the others as sources; then the first one tells them apart.
    first = None if path.is_dir() else path.name
    parts: dict[str, Any] = {
        "format": form.name, "first": first, "files": files, "code": _code(form),
    }  # fmt: skip
    if settings is not None:
        parts["settings"] = repr(settings)
    return sha256_text(json.dumps({**parts, "versions": package_versions(_PACKAGES)}))


@cache
def _code(form: TraceFormat) -> str:
    """Return the digest of the source of the reader, of all others and of the workload's tables."""
    here = Path(__file__).parent
    files = [*sorted(here.rglob("*.py")), *sorted((here.parent / "workloads").glob("*.py"))]
    files += [Path(str(sys.modules[form.read.__module__].__file__))]
    return sha256_text("\n".join(sha256_file(file) for file in files))


def _load(entry: Path, sources: Iterable[SourceFile]) -> Workload | None:
    """Return the workload of an entry; None if there is none, or it is damaged."""
    try:
        if not (entry / _MANIFEST).is_file():
            return None
        workload = load_workload(entry)  # compares the SHA-256 of every table
        if not set(workload.provenance.files) <= set(sources):
            return None
        with suppress(OSError):
            os.utime(entry / _MANIFEST)  # `_shrink` removes what was not used for longest
    except (OSError, HindcastError):
        return None
    return workload


def _store(workload: Workload, entry: Path) -> None:
    """Write an entry, in place of a damaged one; another process may do the same."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=entry.parent))
    try:
        save_workload(workload, unfinished)
        if entry.exists():
            entry.replace(unfinished / "damaged")
        unfinished.replace(entry)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    shutil.rmtree(entry / "damaged", ignore_errors=True)


def _entries(folder: Path) -> list[tuple[float, int, Path]]:
    """Return the time of the last use, the bytes and the folder of every entry, oldest first."""
    entries = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            stats = [file.stat() for file in entry.iterdir() if file.is_file()]
            used = max((s.st_mtime for s in stats), default=entry.stat().st_mtime)
            entries.append((used, sum(s.st_size for s in stats), entry))
    return sorted(entries)


def _shrink(folder: Path, keep: Path) -> None:
    """Remove the entries that were not used for longest until all fit into LARGEST."""
    entries = _entries(folder)
    total = sum(size for _, size, _ in entries)
    for _, size, entry in entries:
        if total <= LARGEST:
            return
        if entry != keep:
            shutil.rmtree(entry, ignore_errors=True)
            total -= size
