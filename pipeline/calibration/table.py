"""The columns that every calibration table has."""

from collections.abc import Mapping
from typing import Final, TypeAlias

import polars as pl

# ours with its standard error, the spec's prototype, ours from it in percent, the paper's number
COLUMNS: Final[Mapping[str, type[pl.DataType]]] = {
    "setting": pl.String,
    "policy": pl.String,
    "metric": pl.String,
    "ours": pl.Float64,
    "standard_error": pl.Float64,
    "spec": pl.Float64,
    "difference_percent": pl.Float64,
    "paper": pl.Float64,
}

Row: TypeAlias = tuple[
    str, str, str, float | None, float | None, float | None, float | None, float | None
]
