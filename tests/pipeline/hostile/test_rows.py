"""Tests of Parquet files with false rows, episodes and workloads but fitting sizes and digests."""

import struct
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.dataset.padding import pad
from hindcast.pipeline.dataset.verification.verify import verify
from hindcast.pipeline.storage.files import read_json, sha256_file, write_json
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.policies.registry import behaviours
from tests.pipeline.hostile.tampering import (
    PART,
    at,
    learn,
    mend,
    read_all,
    refused,
    rewrite,
    use,
    with_column,
)
from tests.sample_datasets import make_padded

NULLS = [
    "episode", "step", "time_s", "context", "candidates", "feasible", "propensity",
    "behaviour_probabilities", "reward", "reward_terms", "elapsed_s", "terminated", "truncated",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NULLS)
def test_a_null_where_a_value_belongs_is_no_zero(folder, name):
    """A null reward is refused. Read as 0, it would pass where the simulator gives 0."""
    rewrite(folder / PART, with_column(name, at(2, None)))
    mend(folder)
    said = refused(lambda: verify(folder))
    assert f"column {name!r}" in said or (name in {"candidates", "feasible"} and "differ" in said)
    if name not in {"time_s", "behaviour_probabilities", "reward_terms", "truncated"}:
        refused(lambda: learn(folder))  # this reads the other columns only


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("context", dict.fromkeys),
        ("candidates", lambda c: [None, *c[1:]]),
        ("candidates", lambda c: [dict.fromkeys(c[0]), *c[1:]]),
        ("feasible", lambda f: [None, *f[1:]]),
        ("behaviour_probabilities", lambda p: [None, *p[1:]]),
        ("reward_terms", dict.fromkeys),
        ("candidates", lambda c: c[:-1]),
        ("candidates", lambda c: [*c, c[0]]),
        ("candidates", lambda _c: []),
        ("feasible", lambda f: f * 1000),
        ("behaviour_probabilities", lambda p: p[:-1]),
        ("behaviour_probabilities", lambda p: [*p, 0.0]),
        ("choice", -1),
        ("choice", -(2**31)),
        ("choice", 2**31 - 1),
        ("choice", None),
        ("step", -(2**31)),
        ("step", 2**31 - 1),
        ("episode", -1),
        ("episode", 2**62),
        ("candidates", lambda c: [dict.fromkeys(c[0], float("nan")), *c[1:]]),
        ("propensity", float("nan")),
        ("behaviour_probabilities", lambda p: [float("nan")] * len(p)),
        ("reward", float("nan")),
        ("time_s", float("inf")),
        ("propensity", -1.0),
    ],
    ids=range(26),
)
def test_a_row_that_lies_is_found_and_harms_no_reader(folder, name, change, tmp_path):
    rewrite(folder / PART, with_column(name, at(1, change)))
    mend(folder)
    refused(lambda: verify(folder))
    refused(lambda: verify(folder, behaviours(read_manifest(folder).recipe)))
    use(folder, tmp_path / "out")


def test_probabilities_of_the_right_number_in_the_wrong_rows_are_found(folder):
    """Probability lists of wrong lengths in two rows are found although their sum is right."""

    def shift(values: list[Any]) -> list[Any]:
        rows = [i for i, v in enumerate(values) if v is not None and len(v) > 1]
        one, two = rows[0], rows[1]
        values[two] = [values[one][-1], *values[two]]
        values[one] = values[one][:-1]
        return values

    rewrite(folder / PART, with_column("behaviour_probabilities", shift))
    mend(folder)
    assert "differ in length" in refused(lambda: verify(folder))


@pytest.mark.slow
def test_rows_that_come_twice_do_not_overflow_what_they_are_put_in(folder, tmp_path):
    """Training does not overflow its arrays, which are sized by the steps of episodes.parquet."""
    rewrite(folder / PART, lambda t: pa.concat_tables([t, *[t.slice(0, 1)] * (t.num_rows - 1)]))
    rewrite(folder / PART, lambda t: t.slice(0, t.num_rows // 2 * 2))
    mend(folder)
    refused(lambda: verify(folder))
    refused(lambda: learn(folder))
    use(folder, tmp_path / "out")


def test_compiled_code_is_not_led_outside():
    """Offsets, rows and capacity are compared before the compiled loop runs."""
    rng = np.random.default_rng(0)
    offsets, candidates = np.array([0, 2, 4]), np.zeros((4, 3), np.float32)
    feasible, rows = np.ones(4, np.bool_), np.array([0, 1])
    choice = np.array([0, -1])
    pad(offsets, candidates, feasible, rows, choice, rng, make_padded(2, 2, 3))
    for wrong in (
        {"rows": np.array([0, 2])},
        {"rows": np.array([-1, 0])},
        {"out": make_padded(1, 2, 3)},
        {"offsets": np.array([0, 2, 5])},
        {"choice": np.array([0])},
    ):
        given = {
            "offsets": offsets, "candidates": candidates, "feasible": feasible, "rows": rows,
            "choice": choice, "rng": rng, "out": make_padded(2, 2, 3), **wrong,
        }  # fmt: skip
        with pytest.raises(IndexError):
            pad(**given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("steps", 2**62), ("steps", -1), ("first_part", 99), ("last_part", -1), ("episode", 5),
        ("steps", None), ("window", None), ("behaviour", None), ("window", 2**62), ("seed", -1),
        ("split", "x" * 100_000), ("behaviour_parameters", []), ("behaviour_parameters", None),
        ("behaviour_parameters", [None]), ("behaviour_parameters", [0.0] * 10_000),
        ("elapsed_s", 1.0), ("return", float("nan")), ("truncated", True),
    ],
)  # fmt: skip
def test_a_hostile_table_of_episodes_is_refused(folder, column, value, tmp_path):
    path = folder / "episodes.parquet"
    frame = pl.read_parquet(path)
    row = next(i for i, p in enumerate(frame["behaviour_parameters"]) if len(p))
    values = frame[column].to_list()
    values[row] = value
    frame.with_columns(pl.Series(column, values, frame.schema[column])).write_parquet(path)
    mend(folder)
    refused(lambda: verify(folder, behaviours(read_manifest(folder).recipe)))
    use(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("instances", 2**62), ("instances", 0), ("instances", -5), ("instances", None),
        ("cores", float("nan")), ("cores", 0.0), ("cores", -1.0), ("cores", 1e300),
        ("duration_s", 0.0), ("duration_s", float("inf")), ("duration_s", 1e18),
        ("memory", -1.0), ("submit_s", float("nan")), ("submit_s", -1e16), ("job", 2**62),
        ("job", -1), ("job_id", None),
    ],
)  # fmt: skip
def test_a_hostile_workload_is_refused(folder, column, value):
    """Numbers that size a simulator's arrays are checked, as its loops have no bounds checks."""
    path = folder / "workload" / "tasks.parquet"
    frame = pl.read_parquet(path)
    values = frame[column].to_list()
    values[3] = value
    frame.with_columns(pl.Series(column, values, frame.schema[column])).write_parquet(path)
    manifest = read_json(folder / "workload" / "manifest.json")
    for entry in manifest["files"]:
        file = folder / "workload" / entry["name"]
        entry["bytes"], entry["sha256"] = file.stat().st_size, sha256_file(file)
    write_json(folder / "workload" / "manifest.json", manifest)
    mend(folder)
    assert "tasks.parquet" in refused(lambda: load_workload(folder / "workload"))
    assert "tasks.parquet" in refused(lambda: verify(folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"PAR1" * 3, b"PAR1" + bytes(64) + b"PAR1", b"PARE" + bytes(64) + b"PARE",
     b"PAR1" + b"\x15" * 60 + struct.pack("<I", 60) + b"PAR1",
     b"PAR1" + struct.pack("<I", 2**31) + b"PAR1", b"ARROW1\0\0" + bytes(64), b"\x1f\x8b\x08"],
    ids=range(9),
)  # fmt: skip
@pytest.mark.parametrize("name", [PART, "episodes.parquet"])
def test_what_is_no_parquet_is_refused(folder, name, content):
    """Garbage, an encrypted footer and other formats are refused although sizes and digests fit."""
    (folder / name).write_bytes(content)
    mend(folder)
    for read in read_all(folder):
        if name == "episodes.parquet" or "open" not in read.__code__.co_names:
            refused(read)  # opening a dataset reads no part


def test_other_columns_are_refused(folder):
    rewrite(folder / PART, lambda t: t.drop_columns(["time_s"]))
    mend(folder)
    assert "columns differ" in refused(lambda: verify(folder))
    assert "columns differ" in refused(lambda: learn(folder))
