"""Changed worlds and shakes of the last 30 % of real logs: numbers of an independent program."""

from dataclasses import replace
from functools import cache

import polars as pl
import pytest

from hindcast.pipeline.traces import swf
from hindcast.pipeline.whatif.orders import ALL, EASY, Mode, order_of, policy_of
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
# Slowdown and wait in h where the first 500 jobs of the order reserve; the last row is EASY with
# priorities that are seen every 300 s.
RESERVING = {
    "fcfs": ((60.4, 1.47), (167.4, 12.49)),
    "sjf": ((27.0, 0.84), (221.6, 30.87)),
    "saf": ((23.9, 0.64), (160.1, 34.94)),
    "lxf": ((36.3, 1.02), (124.5, 12.27)),
    "wfp3": ((38.2, 1.04), (138.0, 12.83)),
    "unicef": ((30.2, 0.95), (127.0, 14.08)),
    "lxf seen late": ((32.3, 0.92), (85.7, 8.83)),
}


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
        values = found[rule] = shake([run(log)], *policy_of(rule), row["draws"])
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


@pytest.mark.nightly
@pytest.mark.parametrize("name", RESERVING)
def test_orders_under_the_options_of_slurm(name):
    order, mode = order_of(name.split()[0]), Mode(ALL, 500)
    if "late" in name:
        order, mode = replace(order, refresh_s=300), EASY
    for log, expected in zip(FILES, RESERVING[name], strict=False):
        found = outcomes(run(log), play(run(log), order, mode))
        hours = round(found["mean_wait_s"] / 3600, 2)
        assert (round(found["mean_bounded_slowdown"], 1), hours) == expected
