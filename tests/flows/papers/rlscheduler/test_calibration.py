"""Tests of RLScheduler's tables: the sequences, and every published number of a rule."""

import gzip
import itertools

import polars as pl
import pytest

from hindcast.flows.papers.rlscheduler.calibration import LEFT_OUT, calibrate, table_starts
from hindcast.flows.papers.rlscheduler.logs import LOGS
from hindcast.flows.papers.rlscheduler.published_tables import POLICIES, SETTINGS
from hindcast.flows.papers.rlscheduler.scenario.heuristics import HEURISTICS
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.recipes.loading import load_recipe
from tests.conftest import require_traces


def test_the_sequences_are_those_of_the_recipe_and_of_the_golden_files():
    assert table_starts() == load_recipe("queue-rlscheduler").config.starts
    assert table_starts(12, 256)[:4] == (9405, 8400, 1988, 8082)


@pytest.mark.slow
def test_every_published_number_of_a_rule_comes_out(tmp_path, monkeypatch):
    """Bounded slowdowns as printed; utilisations to their third decimal but for one cell."""
    source = require_traces("swf")
    (tmp_path / "swf").mkdir()
    for name in LOGS.values():
        packed = source / f"{name}.gz"
        with gzip.open(packed) if packed.exists() else (source / name).open("rb") as log:
            (tmp_path / "swf" / name).write_bytes(b"".join(itertools.islice(log, 12_000)))
    monkeypatch.setenv("HINDCAST_TRACES", str(tmp_path))
    table = calibrate(HEURISTICS)
    rules = len(POLICIES) - 1
    assert table.height == 2 * len(SETTINGS) * (len(POLICIES) + len(LEFT_OUT))
    both = table.drop_nulls(["ours", "paper"])
    slow = both.filter(metric="average_bounded_slowdown")
    assert slow.height == rules * len(SETTINGS)
    assert (slow["ours"].round(2) == slow["paper"]).all()
    used = both.filter(metric="utilisation_percent")
    assert used.height == rules * len(SETTINGS)
    other = used.filter((pl.col("ours") - pl.col("paper")).abs() > 0.05001)
    assert other.select("setting", "policy").rows() == [("SDSC-SP2, backfilling", "sjf")]
    assert set(LEFT_OUT) == set(table.filter(pl.col("paper").is_null())["policy"])


def test_one_sequence_has_no_standard_error():
    with pytest.raises(InputError, match="episodes is 1"):
        calibrate(HEURISTICS, episodes=1)
