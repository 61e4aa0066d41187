"""Tests that pandas, polars and DuckDB read the CSV tables with the values of the dataset."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from hindcast.pipeline.exports import export
from tests.pipeline.exports.padded import labelled
from tests.sample_datasets import LONG_STEPS


def decision_rows(source) -> pl.DataFrame:
    """Return the expected decisions.csv, from the Parquet files."""
    spec = source.dataset.spec
    value = ["monte_carlo_value"] if spec.valued else []
    terms = [pl.col("reward_terms").struct.field(t).alias(f"reward_terms.{t}")
             for t in spec.reward_terms]  # fmt: skip
    context = [pl.col("context").struct.field(f.name).alias(f"context.{f.name}")
               for f in spec.context]  # fmt: skip
    return labelled(source.rows, source.dataset).select(
        "episode", "step", "time_s", pl.col("feasible").list.len().alias("candidates"), "split",
        "window", "behaviour", "choice", "propensity", *value, "reward", "elapsed_s", "terminated",
        "truncated", "discount", *terms, *context,
    )  # fmt: skip


def candidate_rows(source) -> pl.DataFrame:
    """Return the expected candidates.csv."""
    long = (
        source.rows.with_columns(candidate=pl.int_ranges(0, pl.col("feasible").list.len()))
        .filter(pl.col("feasible").list.len() > 0)
        .explode("candidate", "feasible", "candidates")
        .with_columns(
            probability=pl.col("behaviour_probabilities").list.get("candidate", null_on_oob=True)
        )
    )
    features = [pl.col("candidates").struct.field(f.name).alias(f"candidates.{f.name}")
                for f in source.dataset.spec.candidates]  # fmt: skip
    return long.select(
        "episode", "step", "candidate", "feasible",
        (pl.col("candidate") == pl.col("choice")).alias("chosen"), "probability", *features,
    )  # fmt: skip


@pytest.mark.slow
def test_polars_finds_every_bit(source, tmp_path):
    export(source.folder, "csv", tmp_path / "x")
    for name, expected in (("decisions", decision_rows(source)),
                           ("candidates", candidate_rows(source))):  # fmt: skip
        path = tmp_path / "x" / f"{name}.csv"
        assert pl.read_csv(path, n_rows=0).columns == expected.columns
        found = pl.read_csv(path, schema=expected.schema)
        assert found.equals(expected, null_equal=True), name
    episodes = source.episodes.drop("behaviour_parameters")
    found = pl.read_csv(tmp_path / "x" / "episodes.csv", schema_overrides=episodes.schema)
    assert found.drop("behaviour_parameters").equals(episodes)
    cells = found["behaviour_parameters"].cast(pl.String).fill_null("").to_list()
    parameters = [[float(x) for x in cell.split()] for cell in cells]
    assert parameters == source.episodes["behaviour_parameters"].to_list()


@pytest.mark.slow
def test_pandas_finds_the_values(source, tmp_path):
    export(source.folder, "csv", tmp_path / "x")
    for name, expected in (("decisions", decision_rows(source)),
                           ("candidates", candidate_rows(source))):  # fmt: skip
        found = pd.read_csv(tmp_path / "x" / f"{name}.csv", low_memory=False)
        assert list(found.columns) == expected.columns
        for column, kind in expected.schema.items():
            if kind == pl.String:
                assert found[column].tolist() == expected[column].to_list()
                continue
            ours = expected[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()
            theirs = found[column].astype("float64").to_numpy()
            if kind == pl.Float32:
                ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
            np.testing.assert_array_equal(theirs, ours, err_msg=column)


@pytest.mark.slow
def test_duckdb_joins_the_tables(long, tmp_path):
    """The chosen candidate and its features are the rows of candidates.csv marked as chosen."""
    export(long.folder, "csv", tmp_path / "x")
    here = tmp_path / "x"
    found = duckdb.sql(
        f"SELECT d.episode, d.step, d.choice, c.candidate, c.probability, d.propensity "
        f"FROM '{here}/decisions.csv' d JOIN '{here}/candidates.csv' c USING (episode, step) "
        "WHERE c.chosen ORDER BY d.episode, d.step"
    ).pl()
    assert found.height == long.decisions.height
    assert (found["choice"] == found["candidate"]).all()
    assert (found["probability"] == found["propensity"]).all()
    assert found.filter(episode=0).height == LONG_STEPS


@pytest.mark.slow
def test_images_are_said_to_be_missing(images, thermal, tmp_path):
    assert export(images.folder, "csv", tmp_path / "a").notes == ("the tables hold no images",)
    assert export(thermal.folder, "csv", tmp_path / "b").notes == ()
