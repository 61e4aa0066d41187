"""Tests that pages which decode to more than they declare, or to gigabytes, are not decoded."""

import io
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.storage.files import require_parquet
from hindcast.pipeline.storage.parquet_pages import DamagedPage, check_chunk
from tests.pipeline.hostile.tampering import (
    PART,
    mend,
)


def varint(value: int) -> bytes:
    """Return an unsigned number as Thrift's compact protocol writes it."""
    content = b""
    while value > 127:
        content += bytes([value & 127 | 128])
        value >>= 7
    return content + bytes([value])


def page_that_lies(path: Path) -> None:
    """Write a column of 1000 numbers whose data page declares eight times as many.

    Two thousand million would fit as well; this number moves nothing else in the file.
    """
    pq.write_table(
        pa.table({"a": pa.array([7] * 1000, pa.int64())}), path,
        use_dictionary=False, compression="none", write_statistics=False,
    )  # fmt: skip
    content = path.read_bytes()
    honest = varint(1000 << 1)
    start = content.index(honest, 4)
    assert content[start - 2 : start] == b"\x2c\x15"  # the inner header's first field
    lie = varint(8000 << 1)
    assert len(lie) == len(honest)
    path.write_bytes(content[:start] + lie + content[start + len(honest) :])


def test_a_page_that_promises_more_than_the_footer_is_refused(tmp_path):
    page_that_lies(tmp_path / "x.parquet")
    with pytest.raises(DatasetError, match="differ from the footer"):
        require_parquet(tmp_path / "x.parquet")


@pytest.mark.slow
def test_honest_files_of_all_kinds_pass(tmp_path):
    """Sound files pass: versions, encodings, compressions, nesting, small pages, no rows."""
    path = tmp_path / "x.parquet"
    table = pa.table(
        {
            "whole": pa.array(range(5000)),
            "text": [f"{i}" * (i % 9) for i in range(5000)],
            "list": [[i, None] if i % 3 else None for i in range(5000)],
            "struct": [{"a": i, "b": [{"c": 1.0}] * (i % 4)} for i in range(5000)],
            "fixed": pa.array([[1, 2]] * 5000, pa.list_(pa.uint8(), 2)),
            "flag": [i % 2 == 0 for i in range(5000)],
            "none": pa.nulls(5000),
        }
    )
    for version in ("1.0", "2.0"):
        for compression in ("none", "zstd", "snappy", "gzip"):
            for size in (1000, 1 << 20):
                pq.write_table(
                    table, path, data_page_version=version, compression=compression,
                    data_page_size=size, row_group_size=2000, write_page_checksum=True,
                )  # fmt: skip
                assert require_parquet(path).num_rows == 5000
    pq.write_table(table.slice(0, 0), path)
    assert require_parquet(path).num_rows == 0
    pl.from_arrow(table).write_parquet(path, row_group_size=777, data_page_size=500)
    assert require_parquet(path).num_rows == 5000


def test_a_page_header_that_is_damaged_is_never_more_than_an_error(tmp_path):
    """Changing any byte of the page headers of a small file causes an error at most."""
    path = tmp_path / "x.parquet"
    table = pa.table({"a": list(range(50)), "s": ["x", "y"] * 25})
    pq.write_table(table, path)
    metadata, content = pq.read_metadata(path), path.read_bytes()
    rng = np.random.default_rng(1)
    for column in range(2):
        chunk = metadata.row_group(0).column(column)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        for at in range(start, min(start + chunk.total_compressed_size, len(content))):
            broken = bytearray(content)
            broken[at] = int(rng.integers(256))
            path.write_bytes(broken)
            with path.open("rb") as handle, suppress(DamagedPage):
                assert check_chunk(handle, chunk, len(content)) < 1 << 20


BOMBS = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {root!r})
import pyarrow as pa, pyarrow.parquet as pq
from hindcast.pipeline import dataset as ds
from hindcast.pipeline.storage import files
from hindcast.pipeline.errors import InputError, VerificationFailed
from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.dataset.part import read_blocks
from hindcast.pipeline.dataset.verification.verify import verify
files.LARGEST_GROUP = files.LARGEST_TABLE = 32 << 20
spec = read_manifest(Path({sound!r})).spec
list(read_blocks(Path({sound!r}) / "data/part-00000.parquet", spec))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for folder in {bombs!r}:
    folder = Path(folder)
    for read in (
        lambda: verify(folder), lambda: ds.open(folder),
        lambda: list(read_blocks(folder / "data/part-00000.parquet", spec)),
    ):
        try:
            read()
        except (InputError, VerificationFailed) as error:
            print("refused", str(error)[:60])
print("grown", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def inflated(table: pa.Table, path: Path, rows: int) -> None:
    """Return a part in which one row has very many equal candidates: few bytes, much memory."""
    zeros = pa.array(np.zeros(rows, np.float32))
    kind = table.schema.field("candidates").type.value_type
    offsets = pa.array([0, rows], pa.int32())
    structs = pa.StructArray.from_arrays(
        [zeros] * kind.num_fields, fields=[kind.field(i) for i in range(kind.num_fields)]
    )
    row = table.slice(0, 1)
    for name, values in (
        ("candidates", structs),
        ("feasible", pa.array(np.ones(rows, np.bool_))),
        ("behaviour_probabilities", zeros),
    ):
        at = table.schema.get_field_index(name)
        lists = pa.ListArray.from_arrays(offsets, values)
        row = row.set_column(at, table.schema.field(at), lists)
    pq.write_table(row, path, compression="zstd")


@pytest.mark.slow
def test_what_decodes_to_gigabytes_is_not_decoded(tiny_dataset, tmp_path):
    """Long lists and tables of zeros, kilobytes that decode to 150 MB or more, are refused.

    The limits are made smaller for this test, so that the bombs can be smaller.
    """
    sound = str(tiny_dataset)
    bombs = []
    for name in ("lists", "rows"):
        folder = Path(shutil.copytree(tiny_dataset, tmp_path / name))
        bombs.append(str(folder))
    inflated(pq.read_table(tiny_dataset / PART), Path(bombs[0]) / PART, 2_000_000)
    episodes = Path(bombs[1]) / "episodes.parquet"
    table = pq.read_table(episodes)
    column = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(1_000_000, np.int32)), pa.array([7], pa.int64())
    )
    pq.write_table(pa.table(dict.fromkeys(table.column_names[:30], column)), episodes)
    for folder in map(Path, bombs):
        mend(folder)
        assert sum(p.stat().st_size for p in folder.rglob("*.parquet")) < 500_000
    script = BOMBS.format(root=str(Path(__file__).parents[3]), sound=sound, bombs=bombs)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.count("refused") >= 4, done.stdout
    assert int(done.stdout.split("grown")[1]) < 60, done.stdout  # MiB


@pytest.mark.slow
@settings(derandomize=True, max_examples=300, deadline=None)
@given(content=st.binary(max_size=80), values=st.integers(0, 2**40))
def test_bytes_in_the_place_of_pages_are_no_more_than_damage(content, values):
    """Any bytes in the place of a column's pages cause an error or decode to a bounded size."""
    chunk = SimpleNamespace(
        path_in_schema="x", file_path="", data_page_offset=4, has_dictionary_page=False,
        total_compressed_size=len(content), total_uncompressed_size=1 << 20, num_values=values,
        physical_type="INT64",
    )  # fmt: skip
    handle = io.BytesIO(b"PAR1" + content)
    with suppress(DamagedPage):
        assert check_chunk(handle, chunk, 4 + len(content)) <= (1 << 20) + 12 * values


Fields = list[tuple[int, "int | Fields"]]


def compact(fields: Fields) -> bytes:
    """Return a struct in Thrift's compact protocol, with numbers written in full."""
    content = b""
    for number, value in fields:
        kind, written = (5, varint(value << 1)) if isinstance(value, int) else (12, compact(value))
        content += bytes([kind]) + varint(number << 1) + written
    return content + b"\0"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([(1, 3), (5, [(1, 10)]), (8, [(1, 2000)])], "differ from the footer"),
        ([(1, 0), (5, [(1, 2000)]), (8, [(1, 10)])], "differ from the footer"),
        ([(1, 2), (5, [(1, 10)]), (7, [(1, 2000)])], "more values than bytes"),
        ([(1, 3), (5, [(1, 10)])], "without a count"),
        ([(1, 1), (5, [(1, 10)])], "without a count"),
        ([(9, 0), (5, [(1, 10)])], "without a type"),
        ([(1, 3), (8, [(1, 2000), (1, 10)])], "a field twice"),
    ],
)
def test_the_header_that_belongs_to_the_type_of_a_page_counts(fields, message):
    """Decoders choose a header by the type of the page and ignore the others."""
    page = compact([fields[0], (2, 100), (3, 0), *fields[1:]])
    column = SimpleNamespace(
        path_in_schema="a", file_path="", data_page_offset=4, has_dictionary_page=False,
        total_compressed_size=len(page), total_uncompressed_size=100, num_values=10,
        physical_type="DOUBLE",
    )  # fmt: skip
    with pytest.raises(DamagedPage, match=message):
        check_chunk(io.BytesIO(b"PAR1" + page), column, 4 + len(page))
