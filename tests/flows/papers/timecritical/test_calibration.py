"""Tests of the calibration table of `multicluster`: every number that the spec prints has a row."""

import polars as pl
import pytest

from hindcast.flows.papers.timecritical.calibration import PAPER, SETTINGS, SPEC, calibrate
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.policies.heuristics.multicluster import HEURISTICS


def test_every_printed_number_has_a_row_beside_ours():
    told = []
    table = calibrate(HEURISTICS, episodes=3, progress=lambda *x: told.append(x))
    assert table.columns[:4] == ["setting", "policy", "metric", "ours"]
    assert {"spec", "paper", "standard_error"} < set(table.columns)
    assert told[-1] == (3 * len(SETTINGS), 3 * len(SETTINGS))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    for (setting, policy), numbers in SPEC.items():
        rows = table.filter((pl.col("setting") == setting) & (pl.col("policy") == policy)).head(2)
        assert rows["spec"].to_list() == list(numbers)
        assert rows["ours"].null_count() == rows["standard_error"].null_count() == 0
        # three episodes test the shape only
        assert (rows["ours"] / rows["spec"]).is_between(0.3, 3.0).all()
    assert table.filter(policy="sf_e", metric="tmdl")["paper"].to_list() == [
        tmdl for tmdl, _ in PAPER.values()
    ]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_table():
    assert calibrate(HEURISTICS, episodes=2).equals(calibrate(HEURISTICS, episodes=2))


def test_one_episode_has_no_standard_error():
    with pytest.raises(InputError, match="episodes is 1"):
        calibrate(HEURISTICS, episodes=1)


@pytest.mark.parametrize("arrivals", ["bernoulli", "uniform", "beta"])
def test_the_recipes_spell_out_the_constants_that_were_calibrated(arrivals):
    name = f"multicluster-{arrivals}-v1"
    assert load_recipe(name).config == SETTINGS[arrivals]
    stressed = load_recipe(name, ["config.setting=stressed"]).config
    assert stressed.setting == "stressed"
