"""Estimated propensities beside the data of a dataset, never among it.

    DATASET/estimated_propensities/model.json           the model, and the digest of the dataset
    DATASET/estimated_propensities/estimates.parquet    episode, step, propensity

A dataset of recorded decisions does not say how they were drawn. A behaviour model says how likely
it finds each of them. Such numbers are estimates: no column of the dataset holds them, and they are
read only where a caller asks for them. `propensity` is null for a decision that the model does not
cover, such as waiting.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import (
    make_folder,
    read_json,
    read_parquet,
    require_file,
    write_json,
    write_parquet,
)

FOLDER: Final = "estimated_propensities"
MODEL: Final = "model.json"
ESTIMATES: Final = "estimates.parquet"
_SCHEMA: Final = pl.Schema({"episode": pl.Int64, "step": pl.Int64, "propensity": pl.Float64})


def write_estimates(
    folder: Path, manifest: mf.Manifest, table: pl.DataFrame, model: Mapping[str, Any]
) -> Path:
    """Write estimates of a dataset's propensities and the model that they come from.

    `table` has the columns episode, step and propensity. Older estimates are replaced. Returns the
    folder of the estimates.
    """
    place = make_folder(folder / FOLDER)
    write_parquet(place / ESTIMATES, table.select(_SCHEMA.names()).cast(_SCHEMA))
    write_json(place / MODEL, {"dataset": manifest.digest, **model})
    return place


def read_estimates(folder: Path, manifest: mf.Manifest) -> pl.DataFrame:
    """Return episode, step and estimated propensity of a dataset's decisions.

    Raises DatasetError if there are none, if they are of another dataset, or damaged.
    """
    place = folder / FOLDER
    for name in (MODEL, ESTIMATES):
        if not (place / name).is_file():
            raise DatasetError(
                f"{place / name}: no such file; `hindcast behaviour {folder}` estimates the "
                "propensities of a dataset"
            )
        require_file(place / name)
    model = read_json(place / MODEL)
    if not isinstance(model, dict) or model.get("dataset") != manifest.digest:
        raise DatasetError(
            f"{place / MODEL}: these propensities were estimated for another dataset; run "
            f"`hindcast behaviour {folder}` again"
        )
    table = read_parquet(place / ESTIMATES)
    if table.schema != _SCHEMA:
        raise DatasetError(
            f"{place / ESTIMATES}: the columns are {', '.join(table.columns)[:200]}, expected "
            f"{', '.join(_SCHEMA.names())}"
        )
    known = table["propensity"].drop_nulls()
    if not known.is_between(0.0, 1.0).all():
        raise DatasetError(f"{place / ESTIMATES}: a propensity is not between 0 and 1")
    return table
