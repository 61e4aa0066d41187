"""Changed worlds and shakes of the last 30 % of real logs: numbers of an independent program."""

from functools import cache

import polars as pl
import pytest

from hindcast.pipeline.traces import swf
from hindcast.pipeline.whatif.orders import policy_of
from hindcast.pipeline.whatif.outcomes import outcomes
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import read_record
from hindcast.pipeline.whatif.run import run_of
from hindcast.pipeline.whatif.shakes import shake, spread
from hindcast.pipeline.whatif.worlds import changed, compare, read_change
from tests.conftest import require_traces

FILES = {
    "KTH-SP2": "KTH-SP2-1996-2.swf.gz",
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln.swf.gz",
}
QUICK = "KTH-SP2"


def near(value):
    return pytest.approx(value, rel=1e-9)


@cache
def record(log: str):
    return read_record(swf.read(require_traces("swf") / FILES[log])[0])


@cache
def run(log: str):
    return run_of(record(log), record(log).first)


@cache
def unchanged(log: str, rule: str):
    return play(run(log), *policy_of(rule))


def golden(name: str) -> pl.DataFrame:
    return pl.read_csv(require_traces("../golden/whatif") / name)


def check_world(row) -> None:
    log, (order, mode) = row["log"], policy_of(row["rule"])
    began = unchanged(log, row["rule"])
    if row["change"] == "none":
        found = outcomes(run(log), began)
        assert found["counted"] == row["jobs"]
        assert found["mean_wait_s"] == row["mean_wait_s"]
        assert found["mean_bounded_slowdown"] == near(row["mean_bounded_slowdown"])
        return
    world = changed(read_change(row["change"]), record(log), run(log))
    assert world.run.processors == row["processors"]
    assert (world.removed, world.chains) == (row["removed"], row["chains"])
    starts = play(world.run, order, world.options(mode))
    wait = compare(run(log), began, world, starts, "wait")
    assert (wait.jobs, wait.mean) == (row["jobs"], row["mean_wait_s"])
    assert wait.same_jobs == row["same_jobs_unchanged_wait_s"]
    slowdown = compare(run(log), began, world, starts)
    assert slowdown.mean == near(row["mean_bounded_slowdown"])
    assert slowdown.same_jobs == near(row["same_jobs_unchanged_slowdown"])
    assert slowdown.difference.value == near(slowdown.mean - slowdown.same_jobs)
    assert slowdown.difference.low <= slowdown.difference.value <= slowdown.difference.high


@pytest.mark.slow
def test_a_tenth_fewer_processors():
    rows = golden("changes.csv").filter(
        pl.col("log") == QUICK, pl.col("rule") == "saf_easy", pl.col("change") == "processors=-10%"
    )
    for row in rows.iter_rows(named=True):
        check_world(row)
    assert rows.height == 1


@pytest.mark.nightly
@pytest.mark.parametrize("log", FILES)
def test_every_golden_world(log):
    rows = golden("changes.csv").filter(pl.col("log") == log)
    if rows.is_empty():
        pytest.skip(f"no golden worlds of {log}")
    for row in rows.iter_rows(named=True):
        check_world(row)


@pytest.mark.nightly
@pytest.mark.parametrize("log", FILES)
def test_every_golden_draw_of_the_shakes(log):
    rows = golden("shake.csv").filter(pl.col("log") == log)
    if rows.is_empty():
        pytest.skip(f"no golden shakes of {log}")
    draws, found = golden("shake_draws.csv").filter(pl.col("log") == log), {}
    for row in rows.iter_rows(named=True):
        rule = row["rule"]
        values = found[rule] = shake(run(log), *policy_of(rule), row["draws"])
        of_rule = draws.filter(pl.col("rule") == rule).sort("draw")
        assert values.slowdown == near(of_rule["mean_bounded_slowdown"].to_numpy())
        assert values.wait.tolist() == of_rule["mean_wait_s"].to_list()
        assert values.slowdown.mean() == near(row["slowdown_mean"])
        assert spread(values.slowdown) == near(row["slowdown_sd"])
        assert (values.slowdown.min(), values.slowdown.max()) == near(
            (row["slowdown_min"], row["slowdown_max"])
        )
    for row in golden("shake_pairs.csv").filter(pl.col("log") == log).iter_rows(named=True):
        pair = found[row["policy"]] - found[row["reference"]]
        assert pair.slowdown.mean() == near(row["slowdown_difference_mean"])
        assert spread(pair.slowdown) == near(row["slowdown_difference_sd"])
        assert spread(pair.wait) == near(row["wait_s_difference_sd"])
