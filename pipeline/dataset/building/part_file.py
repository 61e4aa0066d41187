"""The Parquet file of a part: its columns, its compression, its dictionaries."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hindcast.pipeline.dataset.columns import part_schema
from hindcast.pipeline.simulation.spec import Spec

COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 3
_PAGE: Final = 8 << 20


def _few_valued(spec: Spec) -> list[str]:
    """Return the columns that get a dictionary.

    The values of other columns repeat over whole runs of rows, which zstd finds in large plain
    pages: this is a quarter smaller and faster than a dictionary for every column.
    """
    return [
        "episode",
        "choice",
        "propensity",
        "behaviour_probabilities.list.element",
        "reward",
        "elapsed_s",
        *(f"reward_terms.{name}" for name in spec.reward_terms),
        *(f"candidates.list.element.{f.name}" for f in spec.candidates if f.identifier),
    ]


def part_file(
    path: Path, spec: Spec, labels: Sequence[pa.Field] = (),
    few_valued: Sequence[str] | None = None, level: int = COMPRESSION_LEVEL,
) -> pq.ParquetWriter:  # fmt: skip
    """Open a Parquet file for writing, with the columns and the compression of a part.

    Columns of `labels`, whose values repeat from row to row, stand behind those of a part.
    `few_valued` are the columns that get a dictionary, by default those that repay it in parts
    that were recorded here.
    """
    few_valued = _few_valued(spec) if few_valued is None else few_valued
    return pq.ParquetWriter(
        path,
        pa.schema([*part_schema(spec), *labels]),
        compression=COMPRESSION,
        compression_level=level,
        data_page_size=_PAGE,
        use_dictionary=[*few_valued, *(field.name for field in labels)],
        column_encoding={"step": "DELTA_BINARY_PACKED"},
    )
