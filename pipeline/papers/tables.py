"""Tables that stages of a protocol write as CSV."""

from pathlib import Path

import polars as pl

from pipeline.errors import DatasetError


def read_csv(path: Path) -> pl.DataFrame:
    """Return a CSV of `hindcast calibrate --out`; DatasetError if it cannot be read."""
    try:
        return pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DatasetError(f"{path}: this table cannot be read ({reason})") from error
