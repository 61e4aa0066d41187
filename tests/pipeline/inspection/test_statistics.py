"""Tests of the statistics of features: they are those that polars computes from the parts."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline import dataset as datasets
from hindcast.pipeline.inspection.statistics import BINS, feature_statistics, values_of
from hindcast.pipeline.simulation.spec import Feature


@pytest.fixture(scope="module")
def tiny(tiny_dataset):
    return datasets.open(tiny_dataset)


def columns_by_polars(dataset, every):
    """Return the values of every feature with their splits: [(values, split), ...]."""
    paths = [dataset.folder / part.path for part in dataset.manifest.parts]
    rows = pl.read_parquet(paths, glob=False).filter(pl.col("choice").is_not_null())
    rows = rows.gather_every(every).join(dataset.episodes().select("episode", "split"), "episode")
    found = []
    for name in ("context", "candidates"):
        table = rows.select(name, "split")
        table = table.explode(name) if name == "candidates" else table
        fields = table[name].struct.unnest().cast(pl.Float64)
        found += [(column, table["split"]) for column in fields]
    return found


@pytest.mark.parametrize("numbers", [10**9, 5_000])
def test_statistics_are_those_of_polars(tiny, numbers):
    """Of a dataset with more numbers than may be held, they are of every k-th decision."""
    told = feature_statistics(tiny, numbers)
    assert (told.every == 1) == (numbers == 10**9)
    assert told.total == tiny.manifest.counts["decisions"]
    assert told.decisions == -(-told.total // told.every)
    wanted = columns_by_polars(tiny, told.every)
    assert len(told.features) == len(wanted) == len(tiny.spec.context + tiny.spec.candidates)
    for one, (values, split) in zip(told.features, wanted, strict=True):
        quartiles = [values.quantile(q, "linear") for q in (0.0, 0.25, 0.5, 0.75, 1.0)]
        assert one.feature.name == values.name
        assert one.quartiles == pytest.approx(quartiles, rel=1e-12)
        assert one.mean == pytest.approx(values.mean(), rel=1e-9)
        assert one.missing == 0.0
        for name, mean in zip(told.splits, one.means, strict=True):
            assert mean == pytest.approx(values.filter(split == name).mean(), rel=1e-9)
        if one.kind == "constant":
            assert values.n_unique() == 1
            assert one.counts == ()
            continue
        place = ((values - values.min()) / (values.max() - values.min()) * BINS).floor()
        counts = place.clip(0, BINS - 1).cast(pl.Int64).value_counts().sort(values.name)
        assert dict(counts.rows()) == {i: n for i, n in enumerate(one.counts) if n}


def test_missing_values_count_as_missing_alone():
    feature, nan = Feature("load", "1", 0, 1, "a load"), np.nan
    values = np.array([nan, 1.0, 0.0, nan, 1.0], np.float32)
    split = np.array([0, 0, 0, 1, 1])
    one = values_of(feature, "decision", values, split, 3)
    assert (one.missing, one.kind, one.mean) == (0.4, "flag", pytest.approx(2 / 3))
    assert one.quartiles == (0.0, 0.5, 1.0, 1.0, 1.0)
    assert one.means == (0.5, 1.0, None)
    unknown = values_of(feature, "decision", values[[0, 3]], split[[0, 3]], 3)
    assert (unknown.kind, unknown.quartiles, unknown.mean) == ("missing", None, None)
    endless = values_of(feature, "decision", np.array([np.inf, 1], np.float32), split[:2], 3)
    assert (endless.counts, endless.mean) == ((), np.inf)
    assert (endless.quartiles[0], endless.quartiles[4]) == (1.0, np.inf)
    assert np.isnan(endless.quartiles[1:4]).all()
    both = values_of(feature, "decision", np.array([np.inf, -np.inf], np.float32), split[:2], 3)
    assert np.isnan(both.mean)
    assert np.isnan(both.means[0])
