"""Expected content of padded exports, computed from the Parquet files with polars and numpy."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.dataset import Dataset


def expected_rows(dataset: Dataset, k: int) -> dict[str, NDArray[Any]]:
    """Return all rows, with choice -1 in closing rows and candidates in the first of K places."""
    spec = dataset.spec
    rows = pl.read_parquet([dataset.folder / p.path for p in dataset.manifest.parts], glob=False)
    sizes = rows["feasible"].list.len().to_numpy()
    assert sizes.max() <= k
    place = np.arange(k) < sizes[:, None]

    def padded(values: NDArray[Any], there: NDArray[np.bool_] = place) -> NDArray[Any]:
        out = np.zeros((rows.height, k, *values.shape[1:]), values.dtype)
        out[there] = values
        return out

    listed = rows["candidates"].explode(empty_as_null=False, keep_nulls=False)
    decided = rows["choice"].is_not_null().to_numpy()
    found = {
        "candidates": padded(_matrix(listed, [f.name for f in spec.candidates])),
        "mask": padded(rows["feasible"].explode(empty_as_null=False, keep_nulls=False).to_numpy()),
        "probabilities": padded(
            rows["behaviour_probabilities"].explode(empty_as_null=False, keep_nulls=False)
            .to_numpy(),
            place & decided[:, None],
        ),
        "context": _matrix(rows["context"], [f.name for f in spec.context]),
        "terms": _matrix(rows["reward_terms"], list(spec.reward_terms)),
        "choice": rows["choice"].fill_null(-1).to_numpy().astype(np.int64),
    }  # fmt: skip
    for name in ("terminated", "truncated"):
        found[name] = rows[name].fill_null(value=False).to_numpy()
    for name in ("episode", "step", "time_s", "propensity", "reward", "elapsed_s"):
        found[name] = rows[name].to_numpy()
    labels = labelled(rows, dataset)
    found |= {name: labels[name].to_numpy() for name in ("split", "window", "behaviour")}
    found["discount"] = labels["discount"].fill_null(float("nan")).to_numpy()
    if spec.valued:
        found["value"] = rows["monte_carlo_value"].to_numpy()
    if spec.image_shape:
        found["image"] = rows["image"].to_numpy().reshape(-1, *spec.image_shape)
    return found


def labelled(rows: pl.DataFrame, dataset: Dataset) -> pl.DataFrame:
    """Return rows with the labels of their episodes behind their columns."""
    episodes = pl.read_parquet(dataset.folder / dataset.manifest.episodes.path)
    discount = pl.when("terminated").then(0.0).otherwise(dataset.spec.discount)
    return rows.join(
        episodes.select("episode", "split", "window", "behaviour"), "episode", maintain_order="left"
    ).with_columns(
        pl.when(pl.col("choice").is_not_null()).then(discount).cast(pl.Float32).alias("discount")
    )


def _matrix(structs: pl.Series, names: list[str]) -> NDArray[Any]:
    return structs.struct.unnest().select(names).to_numpy()
