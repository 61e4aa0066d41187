"""Reading a part: one Parquet file of decisions.

    one row per decision, plus one closing row per episode
      step          0    1    2   ...  T-1    T
      observation   o0   o1   o2       oT-1   oT     next observation of row t is row t+1
      choice        c0   c1   c2       cT-1   null
      reward        r0   r1   r2       rT-1   null

In a dataset without closing rows (version 2 of the standard), an episode of one decision that ended
with it has one row. It is read as if its closing row were there: the observation once more.

Candidates are list<struct of float32>: one child column per feature compresses several times better
than rows of a fixed width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hindcast.pipeline.dataset.columns import NO_CHOICE, part_schema
from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import require_parquet
from hindcast.pipeline.storage.location import is_remote


@dataclass(frozen=True)
class Block:
    """Rows of a part as arrays; closing rows have choice -1, and zeros for the nulls of the file.

    episode, step, choice (R,) int64; time_s, reward, elapsed_s (R,) float64; propensity (R,)
    float32; terminated, truncated (R,) bool; terms (R, K) float64; context (R, C) float32; offsets
    (R + 1,) int64 into candidates (V, F) float32, feasible (V,), probabilities (V,); image (R, P)
    uint8 or None; value (R,) float64 or None. The array of a SKIPPABLE column that was not read has
    no rows.
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


def read_blocks(path: Path, spec: Spec, without: frozenset[str] = frozenset()) -> Iterator[Block]:
    """Yield the row groups of a part, one Block each, without those columns of SKIPPABLE.

    Every episode has its closing row, also where the file leaves it out. Raises DatasetError if the
    file is not a Parquet file or has other columns.
    """
    file = open_part(path, spec)
    for group in range(file.num_row_groups):
        yield _closed(read_block(file, group, path, spec, without), spec)


def read_block(
    file: pq.ParquetFile,
    group: int,
    path: Path,
    spec: Spec,
    without: frozenset[str] = frozenset(),
    *,
    first: bool = False,
    threads: bool = True,
) -> Block:
    """Return one row group of a part that was opened with `open_part`, with the rows of the file.

    With `first`, the others than the first row are not decoded. See `read_blocks` for `without`,
    and `ends_alone` for rows that no closing row follows.
    """
    columns = [name for name in part_schema(spec).names if name not in without]
    with part_errors(path):
        if first:
            [*row] = islice(file.iter_batches(1, [group], columns, use_threads=threads), 1)
            return _to_block(pa.Table.from_batches(row), spec, path)
        return _to_block(file.read_row_group(group, columns, use_threads=threads), spec, path)


def ends_alone(
    step: NDArray[np.integer[Any]], terminated: NDArray[np.bool_], spec: Spec
) -> NDArray[np.bool_]:
    """Return which rows (R,) are whole episodes: no closing row follows them in the part."""
    return np.asarray(terminated & (step == 0) & (not spec.closing_rows))


def _closed(block: Block, spec: Spec) -> Block:
    """Return the block with the closing rows that its part leaves out."""
    alone = ends_alone(block.step, block.terminated, spec)
    if not alone.any():
        return block
    rows = np.repeat(np.arange(len(block)), 1 + alone)
    added = np.zeros(len(rows), np.bool_)
    added[(np.cumsum(1 + alone) - 1)[alone]] = True
    sizes = np.diff(block.offsets)[rows]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    inside = np.arange(offsets[-1]) + np.repeat(block.offsets[rows] - offsets[:-1], sizes)
    columns: dict[str, NDArray[Any]] = {}
    for name in (f.name for f in fields(Block)):
        values = getattr(block, name)
        if values is not None and len(values):
            columns[name] = np.take(values, inside if name in _OF_CANDIDATES else rows, axis=0)
    for name in _EMPTY_IN_CLOSING_ROWS & columns.keys():
        columns[name][added] = NO_CHOICE if name == "choice" else 0
    if "probabilities" in columns:
        columns["probabilities"][np.repeat(added, sizes)] = 0
    columns["step"][added] = 1
    return replace(block, **{**columns, "offsets": offsets})


def open_part(path: Path, spec: Spec, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Open a part; raise DatasetError if it is not a Parquet file or has other columns.

    `footer` is that of an earlier call: with it the page headers are not checked again.
    """
    with part_errors(path):
        if footer is None:
            require_parquet(path, whole=False)
        file = pq.ParquetFile(path.open("rb") if is_remote(path) else path, metadata=footer)
        if not file.schema_arrow.equals(part_schema(spec)):
            raise DatasetError(
                f"{path}: the columns differ from the manifest's spec; see `hindcast verify`"
            )
        return file


@contextmanager
def part_errors(path: Path) -> Iterator[None]:
    """Turn errors of Arrow and of the system about a part into DatasetError."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path}: this part cannot be read as Parquet ({error})") from error


def _to_block(table: pa.Table, spec: Spec, path: Path) -> Block:
    """Return a table of a part as arrays; raise DatasetError if its lists differ in length."""

    def column(name: str) -> pa.Array:
        return _whole(table.column(name))

    def plain(name: str, empty: float | None = None) -> NDArray[Any]:
        """Return a column, `empty` (else 0 or False) in place of nulls; no rows if it is absent."""
        # a copy: Arrow's own memory is read-only, and a read-only array has another type for numba
        if name not in table.column_names:
            return np.zeros(0)
        values = column(name)
        if empty is None:
            empty = False if pa.types.is_boolean(values.type) else 0
        return np.array(values.fill_null(empty).to_numpy(zero_copy_only=False))

    def struct(array: pa.StructArray) -> NDArray[Any]:
        # fill_null copies even if there is nothing to fill
        children = [c.fill_null(0) if c.null_count else c for c in array.flatten()]
        found = [c.to_numpy(zero_copy_only=False) for c in children]
        return np.stack(found, axis=1) if found else np.zeros((len(array), 0))

    lists = column("candidates")
    offsets = lists.offsets.to_numpy().astype(np.int64)
    feasible = column("feasible")
    if not np.array_equal(feasible.offsets.to_numpy(), offsets):
        raise DatasetError(f"{path}: the lists candidates and feasible differ in length")
    choice = plain("choice", NO_CHOICE).astype(np.int64)
    closing = column("choice").is_null().to_numpy(zero_copy_only=False)
    _check_nulls(table, closing, path)
    _check_choices(choice, np.diff(offsets), closing, path)
    full = np.zeros(0, np.float32)
    if "behaviour_probabilities" in table.column_names:
        probabilities = column("behaviour_probabilities")
        lengths = probabilities.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        if not np.array_equal(lengths, np.where(closing, 0, np.diff(offsets))):
            raise DatasetError(
                f"{path}: the lists candidates and behaviour_probabilities differ in length"
            )
        full = np.zeros(int(offsets[-1]), np.float32)
        full[np.repeat(~closing, np.diff(offsets))] = probabilities.flatten().to_numpy()
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
        terms=struct(column("reward_terms"))
        if "reward_terms" in table.column_names
        else np.zeros((0, len(spec.reward_terms))),
        elapsed_s=plain("elapsed_s"),
        terminated=plain("terminated"),
        truncated=plain("truncated"),
        image=np.array(column("image").flatten().to_numpy()).reshape(len(table), -1)
        if "image" in table.column_names
        else None,
        value=plain("monte_carlo_value") if spec.valued else None,
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array; without a copy if it is one already, as is usual."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


_DECIDED: Final = frozenset(
    {"choice", "propensity", "behaviour_probabilities", "reward", "reward_terms", "elapsed_s",
     "terminated", "truncated", "monte_carlo_value"}
)  # fmt: skip


_OF_CANDIDATES: Final = frozenset({"candidates", "feasible", "probabilities"})
_EMPTY_IN_CLOSING_ROWS: Final = frozenset(
    {"choice", "propensity", "reward", "terms", "elapsed_s", "terminated", "truncated", "value"}
)


def _check_nulls(table: pa.Table, closing: NDArray[np.bool_], path: Path) -> None:
    """Raise DatasetError unless decision columns are null in closing rows, and only there.

    A null is read as zero, which would be a reward, a step or a feature that was never recorded.
    """
    for name in table.column_names:
        array = _whole(table.column(name))
        expected = closing if name in _DECIDED else np.zeros_like(closing)
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        if not np.array_equal(nulls, expected) or _nulls_inside(array):
            raise DatasetError(
                f"{path}: the column {name!r} has a null in place of a value, or a value in a "
                "closing row"
            )


def _nulls_inside(array: pa.Array) -> bool:
    """Return whether a struct or list that is not null has a null inside."""
    if isinstance(array, pa.StructArray):
        return any(child.null_count != array.null_count for child in array.flatten())
    if isinstance(array, pa.ListArray | pa.FixedSizeListArray):
        values = array.flatten()
        return bool(values.null_count) or _nulls_inside(values)
    return False


def _check_choices(
    choice: NDArray[np.int64], n: NDArray[np.int64], closing: NDArray[np.bool_], path: Path
) -> None:
    """Raise DatasetError for a choice outside its row's candidates: compiled code would use it.

    All have the shape (R,): the choices, the numbers `n` of candidates, and which rows are closing
    ones, which have no choice.
    """
    outside = ~closing & ((choice < 0) | (choice >= n))
    if outside.any():
        row = int(np.argmax(outside))
        raise DatasetError(
            f"{path}: the choice is not feasible: row {row} of a row group chose {choice[row]}, "
            f"expected one of {n[row]} candidates, numbered from 0"
        )
