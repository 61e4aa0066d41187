"""A part: one Parquet file of decisions. The layout of its columns, written and read.

    one row per decision, plus one closing row per episode
      step          0    1    2   ...  T-1    T
      observation   o0   o1   o2       oT-1   oT     next observation of row t is row t+1
      choice        c0   c1   c2       cT-1   null
      reward        r0   r1   r2       rT-1   null

Candidates are list<struct of float32>: one child column per feature compresses several times
better than rows of a fixed width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.errors import DatasetError
from pipeline.kernel import TERMINATED, TRUNCATED
from pipeline.record import (
    L_CHOICE,
    L_EPISODE,
    L_OFFSET,
    L_STATUS,
    L_STEP,
    N_ELAPSED,
    N_REWARD,
    N_TERMS,
    N_TIME,
    NO_CHOICE,
    Log,
)
from pipeline.schema import Spec

COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 3
_PAGE: Final = 8 << 20


def part_schema(spec: Spec) -> pa.Schema:
    """Columns of a part, in order."""
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


def _few_valued(spec: Spec) -> list[str]:
    """Columns for which a dictionary pays.

    The others repeat as whole runs of rows, which zstd finds in large plain pages: together this
    is a quarter smaller and faster than a dictionary for every column.
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


class PartWriter:
    """Writes logs as row groups of one Parquet file."""

    def __init__(self, path: Path, spec: Spec) -> None:
        self._spec = spec
        self._schema = part_schema(spec)
        self._writer = pq.ParquetWriter(
            path,
            self._schema,
            compression=COMPRESSION,
            compression_level=COMPRESSION_LEVEL,
            data_page_size=_PAGE,
            use_dictionary=_few_valued(spec),
            column_encoding={"step": "DELTA_BINARY_PACKED"},
        )
        self.rows = 0

    def write(self, log: Log) -> None:
        """One row group from all rows of the log."""
        table = _to_arrow(log, self._spec, self._schema)
        self._writer.write_table(table, row_group_size=max(1, log.rows))
        self.rows += log.rows

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _to_arrow(log: Log, spec: Spec, schema: pa.Schema) -> pa.Table:
    n = log.rows
    offsets = log.labels[L_OFFSET, : n + 1].astype(np.int32)
    v = int(offsets[-1])
    closing = log.labels[L_CHOICE, :n] == NO_CHOICE

    def lists(values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(offsets), values)

    def decided(values: NDArray[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, type=kind, mask=closing)

    columns = {
        "episode": pa.array(log.labels[L_EPISODE, :n]),
        "step": pa.array(log.labels[L_STEP, :n].astype(np.int32)),
        "time_s": pa.array(log.numbers[N_TIME, :n]),
        "context": pa.StructArray.from_arrays(
            [pa.array(log.context[c, :n]) for c in range(len(spec.context))],
            names=[f.name for f in spec.context],
        ),
        "candidates": lists(
            pa.StructArray.from_arrays(
                [pa.array(log.candidates[f, :v]) for f in range(len(spec.candidates))],
                names=[f.name for f in spec.candidates],
            )
        ),
        "feasible": lists(pa.array(log.feasible[:v])),
        "choice": decided(log.labels[L_CHOICE, :n].astype(np.int32)),
        "propensity": decided(log.propensity[:n]),
        "behaviour_probabilities": pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(log.probabilities[:v]), mask=pa.array(closing)
        ),
        "reward": decided(log.numbers[N_REWARD, :n]),
        "reward_terms": pa.StructArray.from_arrays(
            [pa.array(log.numbers[N_TERMS + k, :n]) for k in range(len(spec.reward_terms))],
            names=list(spec.reward_terms),
            mask=pa.array(closing),
        ),
        "elapsed_s": decided(log.numbers[N_ELAPSED, :n]),
        "terminated": decided(log.labels[L_STATUS, :n] == TERMINATED),
        "truncated": decided(log.labels[L_STATUS, :n] == TRUNCATED),
    }
    if spec.valued:
        columns["monte_carlo_value"] = decided(log.values[:n])
    if spec.image_shape:
        pixels = log.image.shape[1]
        flat = pa.array(log.image[:n].reshape(-1))
        columns["image"] = pa.FixedSizeListArray.from_arrays(flat, pixels)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


@dataclass(frozen=True)
class Block:
    """Rows of a part as arrays; closing rows have choice -1 and zeros where the file has nulls.

    episode, step, choice (R,) int64; time_s, reward, elapsed_s (R,) float64; propensity (R,)
    float32; terminated, truncated (R,) bool; terms (R, K) float64; context (R, C) float32;
    offsets (R + 1,) int64 into candidates (V, F) float32, feasible (V,), probabilities (V,);
    image (R, P) uint8 or None; value (R,) float64 or None
    """

    episode: NDArray[np.int64]
    step: NDArray[np.int64]
    time_s: NDArray[np.float64]
    context: NDArray[np.float32]
    offsets: NDArray[np.int64]
    candidates: NDArray[np.float32]
    feasible: NDArray[np.bool_]
    choice: NDArray[np.int64]
    propensity: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    reward: NDArray[np.float64]
    terms: NDArray[np.float64]
    elapsed_s: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    image: NDArray[np.uint8] | None = None
    value: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.episode)


def read_blocks(path: Path, spec: Spec) -> Iterator[Block]:
    """The row groups of a part, one Block each.

    Raises DatasetError where the file is no Parquet file or has other columns.
    """
    try:
        file = pq.ParquetFile(path)
        expected = part_schema(spec)
        if not file.schema_arrow.equals(expected):
            raise DatasetError(f"{path}: columns differ from the spec of the manifest")
        for group in range(file.num_row_groups):
            yield _to_block(file.read_row_group(group), spec, path)
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path}: cannot be read as Parquet ({error})") from error


def _to_block(table: pa.Table, spec: Spec, path: Path) -> Block:
    def column(name: str) -> pa.Array:
        return table.column(name).combine_chunks()

    def plain(name: str, empty: float | None = None) -> NDArray[Any]:
        # a copy: Arrow's own memory is read-only, which compiled code takes for another type
        values = column(name)
        if empty is None:
            empty = False if pa.types.is_boolean(values.type) else 0
        return np.array(values.fill_null(empty).to_numpy(zero_copy_only=False))

    def struct(array: pa.StructArray) -> NDArray[Any]:
        children = [c.fill_null(0).to_numpy(zero_copy_only=False) for c in array.flatten()]
        return np.stack(children, axis=1) if children else np.zeros((len(array), 0))

    lists = column("candidates")
    offsets = lists.offsets.to_numpy().astype(np.int64)
    feasible, probabilities = column("feasible"), column("behaviour_probabilities")
    if not np.array_equal(feasible.offsets.to_numpy(), offsets):
        raise DatasetError(f"{path}: candidates and feasible differ in length")
    choice = plain("choice", NO_CHOICE).astype(np.int64)
    full = np.zeros(int(offsets[-1]), np.float32)
    full[_of_decisions(offsets, choice)] = probabilities.flatten().to_numpy()
    return Block(
        episode=plain("episode"),
        step=plain("step").astype(np.int64),
        time_s=plain("time_s"),
        context=struct(column("context")),
        offsets=offsets,
        candidates=struct(lists.values),
        feasible=np.array(feasible.values.to_numpy(zero_copy_only=False)),
        choice=choice,
        propensity=plain("propensity"),
        probabilities=full,
        reward=plain("reward"),
        terms=struct(column("reward_terms")),
        elapsed_s=plain("elapsed_s"),
        terminated=plain("terminated"),
        truncated=plain("truncated"),
        image=np.array(column("image").flatten().to_numpy()).reshape(len(table), -1)
        if spec.image_shape
        else None,
        value=plain("monte_carlo_value") if spec.valued else None,
    )


def _of_decisions(offsets: NDArray[np.int64], choice: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which candidates belong to a decision; those of closing rows have no probability."""
    return np.repeat(choice != NO_CHOICE, np.diff(offsets))
