"""Folders of series, and the synthetic series.

    OUT/series.parquet    the table of hindcast.pipeline.traces.hourly.series.Series
    OUT/manifest.json     written last: sources, settings, counts, gaps and remarks

No series of a publisher comes with Hindcast. The synthetic one has a solar dip, an evening peak and
weekends, and is for examples and tests only.
"""

import os
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from hindcast.pipeline.errors import DatasetError, StorageError
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.traces.first_look import source_file
from hindcast.pipeline.traces.hourly.readings import judged
from hindcast.pipeline.traces.hourly.series import (
    CARBON,
    DEFAULTS,
    PRICE,
    WARNING,
    Series,
    SeriesSettings,
    read_series,
)

KIND: Final = "series"
VERSION: Final = 1
SYNTHETIC: Final = "synthetic"
_TABLE: Final = "series.parquet"
_MANIFEST: Final = "manifest.json"
_FIRST_HOUR: Final = 455832  # 2022-01-01T00:00Z


def ingest(path: Path, out: Path, settings: SeriesSettings | None = None) -> dict[str, Any]:
    """Read a series and write its folder; return counts, gaps, remarks and warnings.

    Raises TraceError for the series, and StorageError if `out` holds something else.
    """
    _refuse_foreign(out)
    settings = settings or DEFAULTS
    series = _read(path, settings)
    read = sorted(path.iterdir()) if path.is_dir() else [path]
    files.make_folder(out)
    with files.written_together() as write, files.storage_errors(out):
        stored = write(out / _TABLE, files.table_writer(series.table, compression_level=3))
        manifest = {
            "kind": KIND, "version": VERSION,
            "sources": [asdict(source_file(each)) for each in read if each.is_file()],
            "settings": asdict(settings), "zones": series.zones, "counts": dict(series.counts),
            "gaps_h": list(series.gaps_h), "remarks": list(series.remarks),
            "files": [{"name": _TABLE, "rows": series.table.height, **asdict(stored)}],
        }  # fmt: skip
        write(out / _MANIFEST, files.text_writer(files.json_text(manifest)))
    return {
        "series": str(out), "zones": series.zones,
        "first_hour": int(series.table["hour"].min()), "last_hour": int(series.table["hour"].max()),  # type: ignore[arg-type]
        "counts": dict(series.counts), "gaps_h": list(series.gaps_h),
        "remarks": [each for each in series.remarks if not each.startswith(WARNING)],
        "warnings": series.warnings,
    }  # fmt: skip


def _read(path: Path, settings: SeriesSettings) -> Series:
    """Return the series of raw files with all its remarks."""
    series = read_series(path, settings)
    return replace(series, remarks=(*series.remarks, *judged(series)))


def _refuse_foreign(out: Path) -> None:
    """Raise StorageError if a folder holds anything but a series."""
    if not out.exists():
        return
    names = {_TABLE, _MANIFEST}
    if (
        not out.is_dir()
        or {each.name for each in out.iterdir() if not files.is_partial(each.name)} - names
    ):
        raise StorageError(f"{out}: expected a new or empty folder, or that of a series")
    if (out / _MANIFEST).exists():
        files.read_manifest(out, KIND, (VERSION,), "ingest series")


def open_series(given: str | os.PathLike[str], settings: SeriesSettings = DEFAULTS) -> Series:
    """Return the series of a folder that `ingest` wrote, of raw files, or "synthetic".

    Raises TraceError or DatasetError.
    """
    if given == SYNTHETIC:
        return synthetic()
    path = location(given)
    if not (path / _MANIFEST).exists():
        return _read(path, settings)
    manifest = files.read_manifest(path, KIND, (VERSION,), "ingest series")
    table = files.read_parquet(path / _TABLE)
    if not {"zone", "hour"} <= set(table.columns) or table.height != manifest["files"][0]["rows"]:
        raise DatasetError(f"{path / _TABLE}: this table is not the one of its manifest")
    return Series(table, manifest["counts"], tuple(manifest["gaps_h"]), tuple(manifest["remarks"]))


@lru_cache(maxsize=1)
def synthetic(hours: int = 8760) -> Series:
    """Return drawn hours from 2022-01-01 on: a zone with solar noons, its carbon and price."""
    rng = np.random.default_rng(1)
    t = np.arange(hours)
    season = np.cos(2 * np.pi * (t / 8766 - 0.03))  # 1 in midwinter
    sun = np.maximum(np.sin(2 * np.pi * (t % 24 - 6) / 24), 0.0) * (1.0 - 0.5 * season)
    evening = np.exp(-(((t % 24 - 19) / 2.5) ** 2))
    weekend = (t // 24 + 5) % 7 < 2
    wind = np.empty(hours)
    shocks = rng.standard_normal(hours)
    state = 0.0
    for hour in range(hours):
        state = wind[hour] = 0.98 * state + 0.2 * shocks[hour]
    carbon = 320.0 - 170.0 * sun + 70.0 * evening + 40.0 * season - 70.0 * wind - 20.0 * weekend
    price = 0.28 * carbon - 20.0 + 25.0 * evening + 6.0 * rng.standard_normal(hours)
    table = pl.DataFrame({
        "zone": SYNTHETIC, "hour": _FIRST_HOUR + t, CARBON: np.clip(carbon, 15.0, 1200.0).round(2),
        PRICE: price.round(2), "currency": "EUR",
    })  # fmt: skip
    return Series(table, {"rows": hours, "hours": hours})
