"""Tests of columns of a large log that lie in temporary files: they read as those in memory."""

import resource

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.decisions.batch import Batch, concat, take
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.record import same_log
from hindcast.pipeline.errors import StorageError
from hindcast.pipeline.storage import gathering
from hindcast.pipeline.storage.gathering import Gathered, release, stored
from tests.pipeline.decisions.decision_cases import ROWS, long_table


def batches():
    """Three batches: x is a number in two and a category in one, y is missing in the second."""
    texts = pl.Series(["a", None, "b", "a"], dtype=pl.Categorical)
    features = [
        pl.DataFrame({"x": [1.0, 2.0, np.nan, 4.0], "y": [0.5, np.inf, 1.5, 2.5], "kind": texts}),
        pl.DataFrame({"x": [5.0, 6.5, 7.0], "kind": texts[1:]}),
        pl.DataFrame({"x": texts[:2], "y": [8.0, 9.0], "kind": texts[:2]}),
    ]
    for number, frame in enumerate(features):
        known = pl.Series([0.5] + [None] * (frame.height - 1), dtype=pl.Float64)
        yield Batch(
            pl.DataFrame({"id": [f"d{number}"]}), pl.DataFrame(),
            pl.DataFrame({"feasible": [True] * frame.height, "probability": known}), frame,
            np.array([frame.height]),
        )  # fmt: skip


def parts(batch):
    return batch.decisions, batch.context, batch.candidates, batch.features


@pytest.mark.parametrize("large", [1, 5])
def test_columns_in_files_are_those_in_memory(monkeypatch, large):
    """With `large` = 5 the first batch waits in memory and is written with the second."""
    memory = concat(batches(), float("nan"))
    monkeypatch.setattr(gathering, "_LARGE", large)
    mapped = concat(batches(), float("nan"))
    release()
    assert len(gathering._MAPS) >= 2  # kind and probability are in every batch
    for one, other in zip(parts(memory), parts(mapped), strict=True):
        assert one.schema == other.schema
        assert one.equals(other, null_equal=True)
    rows = np.array([2, 0])
    for one, other in zip(parts(take(memory, rows)), parts(take(mapped, rows)), strict=True):
        assert one.equals(other, null_equal=True)
    assert concat(iter(()), 0.0) is None


def test_stored_columns_are_those_in_memory(monkeypatch):
    """Texts in place and longer ones, slices, columns of nulls, and types that stay in memory."""
    long = [None, "a text of more than twelve characters", "short", "", "é" * 9, "twelve chars"]
    frame = pl.DataFrame({
        "text": long, "number": [1.5, None, np.nan, np.inf, 0.0, -2.0], "flag": [True, None] * 3,
        "count": pl.Series([3, None, 5, 6, 7, 8], dtype=pl.UInt64), "list": [[1.0], []] * 3,
        "kind": pl.Series(["a", "b", None] * 2, dtype=pl.Categorical),
        "unknown": pl.Series([None] * 6, dtype=pl.String),
        "lost": pl.Series([None] * 6, dtype=pl.Int32),
    })  # fmt: skip
    frames = [frame[1:4], frame[:2].drop("count"), frame.clear(), frame[3:]]
    memory = pl.concat(frames, how="diagonal_relaxed")
    for large in (1, 4, 100):
        monkeypatch.setattr(gathering, "_LARGE", large)
        held = Gathered(None)
        for one in frames:
            held.add(one, one.height)
        found = held.frame()
        release()
        assert found.schema == memory.schema
        assert found.equals(memory, null_equal=True)
        assert (found["text"] == found["text"][::-1].reverse()).drop_nulls().all()
        assert found["unknown"].null_count() == found["lost"].null_count() == memory.height
        assert found["text"].filter(found["text"].str.len_chars() > 12).to_list() == [long[1]] * 2


def test_a_file_is_mapped_once_however_many_pieces_it_has(monkeypatch):
    """Also if a frame lacks the column, or has it as another type, so that there are two files."""
    monkeypatch.setattr(gathering, "_LARGE", 1)
    mapped, column = [], gathering._File.column
    monkeypatch.setattr(
        gathering._File, "column", lambda file, held: mapped.append(file) or column(file, held)
    )
    held = Gathered(0.0)
    for number in range(20):
        held.add(pl.DataFrame({"x": [number if number % 2 else float(number)]}), 1)
    held.add(pl.DataFrame({"y": [1.0]}), 1)
    assert held.frame()["x"].to_list() == [*range(20), 0]
    assert len(mapped) == len(set(mapped)) == 3


@pytest.mark.parametrize("rows", [200, 10_000])
def test_a_full_disk_is_one_error(monkeypatch, rows):
    """Errors come from a write, or from what waits in a buffer until the column is mapped."""
    monkeypatch.setattr(gathering, "_LARGE", 1)
    frame = pl.DataFrame({"x": np.zeros(rows)})
    held, usual = Gathered(0.0, rows), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, usual[1]))
    try:
        for write in (lambda: stored(frame), lambda: (held.add(frame, rows), held.frame())):
            with pytest.raises(StorageError, match="ulimit"):
                write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_a_log_in_files_is_the_log_in_memory(monkeypatch):
    """Also if its decisions are not in the order of their times, and some are quarantined."""
    table = long_table(40, np.random.default_rng(6))
    table = table.with_columns(chosen=pl.when(pl.col("id") != "d3").then("chosen").otherwise(0))
    table = table.with_columns(pl.col("id").str.slice(1).cast(pl.Int64).mod(7).alias("order"))
    shuffled = table.sort("order", maintain_order=True).drop("order")
    memory = read_log(shuffled, ROWS)
    monkeypatch.setattr(gathering, "_LARGE", 10)
    monkeypatch.setattr(gathering, "_TAKEN", 9)
    monkeypatch.setattr("hindcast.pipeline.decisions.batch._FEW", 7)
    mapped = read_log(shuffled, ROWS)
    assert mapped.quarantine.height == 1
    assert same_log(memory, mapped) == ""
