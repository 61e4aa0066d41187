"""The parts of a dataset as Arrow tables, for formats that keep its columns."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.dataset import Dataset
from pipeline.dataset.columns import part_schema
from pipeline.errors import DatasetError
from pipeline.storage.guards import require_parquet


def read_tables(
    dataset: Dataset, part: int, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The row groups of a part, in order; of all columns or some.

    Raises DatasetError where the file is no Parquet file or has other columns.
    """
    path = dataset.folder / dataset.manifest.parts[part].path
    require_parquet(path, whole=False)
    try:
        with path.open("rb") as handle:
            file = pq.ParquetFile(handle)
            if not file.schema_arrow.equals(part_schema(dataset.spec)):
                raise DatasetError(f"{path}: columns differ from the spec of the manifest")
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path}: cannot be read as Parquet ({error})") from error
