"""Tests of training curves over seeds: means and intervals that can be checked by hand."""

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.report.curves import by_agent, over_seeds, training_part, training_runs


def write(folder, values, metric="return"):
    folder.mkdir(parents=True)
    rows = [(step, metric, float(value)) for step, value in values.items()]
    columns = ["step", "metric", "value"]
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(folder / "metrics.parquet")
    return folder


def curve(values):
    return np.array(list(values), np.float64), np.array(list(values.values()), np.float64)


def test_the_band_is_students_interval_over_seeds():
    """Values 1, 2, 3 have mean 2 and deviation 1, so +- 4.303 / sqrt(3).

    Equal seeds have no spread.
    """
    found = over_seeds([curve({5: 1, 10: 7}), curve({5: 2, 10: 7}), curve({5: 3, 10: 7})])
    assert found.seeds == 3
    assert found.steps.tolist() == [5, 10]
    assert found.mean.tolist() == [2, 7]
    half = 4.303 / np.sqrt(3)
    assert found.low == pytest.approx([2 - half, 7])
    assert found.high == pytest.approx([2 + half, 7])


def test_one_seed_has_no_interval_and_steps_are_those_of_all_seeds():
    alone = over_seeds([curve({1: 4, 2: 6})])
    assert alone.mean.tolist() == [4, 6]
    assert np.isnan(alone.low).all()
    both = over_seeds([curve({1: 4, 2: 6, 3: 0}), curve({2: 8, 3: 2, 4: 9})])
    assert both.steps.tolist() == [2, 3]
    assert both.mean.tolist() == [7, 1]


def test_long_curves_are_averaged_seed_by_seed():
    steps = range(1000)
    found = over_seeds([curve({s: s for s in steps}), curve({s: s + 2 for s in steps})])
    assert len(found.steps) == 200
    assert found.mean == pytest.approx(found.steps + 1)
    assert (found.high - found.low) == pytest.approx(2 * 12.706 * np.sqrt(2) / np.sqrt(2))


def test_seeds_of_an_agent_are_one_line_and_those_of_another_run_are_not(tmp_path):
    names = ("cql-seed0", "cql-seed1", "iql-seed0")
    runs = [write(tmp_path / f"{place}/agents/{n}", {1: 0}) for place in ("x", "y") for n in names]
    assert {n: len(f) for n, f in by_agent(runs).items()} == {
        "cql (1)": 2, "iql (1)": 1, "cql (2)": 2, "iql (2)": 1,
    }  # fmt: skip
    assert list(by_agent(runs[:3])) == ["cql", "iql"]


@pytest.mark.slow
def test_the_part_draws_bands_and_puts_the_headline_first(tmp_path):
    for seed in range(3):
        run = write(tmp_path / f"runs/a-seed{seed}", {1: seed, 2: seed + 1}, "loss")
        table = pl.read_parquet(run / "metrics.parquet")
        other = table.with_columns(pl.lit("makespan_s").alias("metric"))
        pl.concat([table, other]).write_parquet(run / "metrics.parquet")
    runs = training_runs([tmp_path])
    assert len(runs) == 3
    page = training_part(runs, ["return", "makespan_s"])
    assert "3 runs of 1 agent" in page["text"]
    assert "bands 95 % intervals of single steps" in page["text"]
    assert page["plot"].index("makespan_s") < page["plot"].index("loss")
    assert "bands" not in training_part(runs[:1])["text"]
