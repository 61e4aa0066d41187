"""Tables that stages of a protocol write as CSV."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from hindcast.pipeline.errors import DatasetError


def read_csv(path: Path, columns: Sequence[str] = ()) -> pl.DataFrame:
    """Return a CSV of `hindcast calibrate --out`.

    Raises DatasetError if it cannot be read, or lacks one of `columns`.
    """
    try:
        table = pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DatasetError(f"{path}: this table cannot be read ({reason})") from error
    if missing := [name for name in columns if name not in table.columns]:
        raise DatasetError(f"{path}: there is no column {missing[0]!r}, expected {list(columns)}")
    return table
