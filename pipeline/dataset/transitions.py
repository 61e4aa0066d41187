"""Decisions with their next observations as a lazy table: `Dataset.transitions`.

row group            t0  t1  t2 | t3  t4  end
its decisions        t0  t1  t2   t3  t4
next observations    t1  t2  t3   t4  end       of t2: the first row of the next row group

A row that is a whole episode, without a closing row, is its own next observation.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from hindcast.pipeline.dataset.columns import part_schema
from hindcast.pipeline.dataset.folder import DatasetFolder
from hindcast.pipeline.dataset.part import ends_alone, open_part, part_errors
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.simulation.spec import Spec

_OBSERVED: Final = ("time_s", "context", "image", "candidates", "feasible")
_NEXT: Final = "next_"


def transitions(dataset: DatasetFolder, split: str | None) -> pl.LazyFrame:
    """Return the lazy table of `Dataset.transitions`.

    It is a custom source: with `shift` polars would have to hold whole columns, and its readers
    cannot read the stores of `hindcast.pipeline.storage.location`.
    """
    episodes = dataset.episodes(split)
    numbers = episodes["episode"].implode()
    parts = sorted({*episodes["first_part"], *episodes["last_part"]})
    columns = dict(_to_polars(part_schema(dataset.spec).empty_table()).schema)
    columns |= {f"{_NEXT}{name}": columns[name] for name in _OBSERVED if name in columns}

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        del batch_size  # batches are row groups
        wanted = list(columns) if with_columns is None else with_columns
        left = n_rows
        for part in parts:
            for frame in _decisions(dataset, part, wanted):
                found = frame.filter(pl.col("episode").is_in(numbers))
                if left is not None:
                    found = found.head(left)
                    left -= found.height
                if predicate is not None:
                    found = found.filter(predicate)
                yield found.select(wanted)
                if left == 0:
                    return

    return register_io_source(read, schema=columns, validate_schema=True, is_pure=True)


def _decisions(dataset: DatasetFolder, part: int, wanted: list[str]) -> Iterator[pl.DataFrame]:
    """Yield the decisions of each row group of a part, with these columns and the episode."""
    path, spec = dataset.part(part), dataset.spec
    following = [name for name in _OBSERVED if f"{_NEXT}{name}" in wanted]
    ends = () if spec.closing_rows else ("step", "terminated")
    needed = {"episode", "choice", *ends, *following, *wanted}
    read = sorted(needed & set(part_schema(spec).names))
    with part_errors(path), closing(open_part(path, spec)) as file:
        for group in range(file.num_row_groups):
            rows = _to_polars(file.read_row_group(group, read))
            now, after = rows, rows.select(following)
            if following:
                alone = _alone(rows, spec)
                if not (rows["choice"].tail(1).is_null().all() or alone[-1]):
                    after = pl.concat([after, _first_row(file, group + 1, following, path)])
                if alone.any():
                    places = np.arange(1, rows.height + 1) - alone
                    after = after[np.minimum(places, after.height - 1)]
                else:
                    after = after.slice(1)
                now = rows.head(after.height)
            after = after.rename({name: f"{_NEXT}{name}" for name in following})
            yield now.hstack(after).filter(pl.col("choice").is_not_null())


def _alone(rows: pl.DataFrame, spec: Spec) -> NDArray[np.bool_]:
    """Return which rows (R,) are their own next observation, in place of a closing row."""
    if spec.closing_rows:
        return np.zeros(rows.height, np.bool_)
    terminated = rows["terminated"].fill_null(value=False).to_numpy()
    return ends_alone(rows["step"].to_numpy(), terminated, spec)


def _first_row(file: pq.ParquetFile, group: int, columns: list[str], path: Path) -> pl.DataFrame:
    if group == file.num_row_groups:
        raise DatasetError(
            f"{path}: this part ends in the middle of an episode; see `hindcast verify`"
        )
    return _to_polars(pa.Table.from_batches([next(file.iter_batches(1, [group], columns))]))


def _to_polars(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
