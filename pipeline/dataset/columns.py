"""Columns of a dataset: the schemas of its parts and of its table of episodes."""

from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from hindcast.pipeline.simulation.spec import Spec


def episodes_schema(spec: Spec) -> dict[str, pl.DataType]:
    """Return the columns of episodes.parquet: what was played, its results, and its parts."""
    return {
        "episode": pl.Int64(),
        "split": pl.String(),
        "behaviour": pl.String(),
        "seed": pl.Int64(),
        "window": pl.Int64(),
        "steps": pl.Int64(),
        "return": pl.Float64(),
        "elapsed_s": pl.Float64(),
        "truncated": pl.Boolean(),
        **{o.name: pl.Float64() for o in spec.outcomes},
        "behaviour_parameters": pl.List(pl.Float64()),
        "first_part": pl.Int64(),
        "last_part": pl.Int64(),
    }


# Columns that a block can be read without: most learners need none of them, and reading them
# takes a third of the time.
SKIPPABLE: Final = frozenset(
    {"time_s", "behaviour_probabilities", "reward_terms", "truncated", "image"}
)


def part_schema(spec: Spec) -> pa.Schema:
    """Return the columns of a part, in order."""
    fields = [
        ("episode", pa.int64()),
        ("step", pa.int32()),
        ("time_s", pa.float64()),
        ("context", pa.struct([(f.name, pa.float32()) for f in spec.context])),
        ("candidates", pa.list_(pa.struct([(f.name, pa.float32()) for f in spec.candidates]))),
        ("feasible", pa.list_(pa.bool_())),
        ("choice", pa.int32()),
        ("propensity", pa.float32()),
        ("behaviour_probabilities", pa.list_(pa.float32())),
        ("reward", pa.float64()),
        ("reward_terms", pa.struct([(name, pa.float64()) for name in spec.reward_terms])),
        ("elapsed_s", pa.float64()),
        ("terminated", pa.bool_()),
        ("truncated", pa.bool_()),
    ]
    if spec.valued:
        fields.insert(9, ("monte_carlo_value", pa.float64()))
    if spec.image_shape:
        fields.insert(4, ("image", pa.list_(pa.uint8(), int(np.prod(spec.image_shape)))))
    return pa.schema(fields)


def rows_by_episode(episodes: pl.DataFrame, spec: Spec) -> pl.Series:
    """Return the number of rows of each episode in its part: decisions and a closing row."""
    closed = pl.lit(spec.closing_rows) | (pl.col("steps") != 1) | pl.col("truncated")
    return episodes.select(pl.col("steps") + closed).to_series()


def row_count(episodes: pl.DataFrame, spec: Spec) -> int:
    """Return the number of rows of episodes in their parts."""
    return int(rows_by_episode(episodes, spec).sum())


NO_CHOICE: Final = -1  # the choice of a closing row
