"""Logs of jobs on the hours of a grid: laid by their dates or week after week, and compared."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.grids.logs import BEST, Laid, cautions, compare, conclusion, lay
from hindcast.pipeline.traces.hourly.ingest import synthetic
from hindcast.pipeline.traces.hourly.series import CARBON, PRICE, Series
from hindcast.pipeline.workloads.schema import Provenance, Workload
from tests.conftest import require_traces


def log(
    submit_h: list[float],
    run_h: list[float],
    requested_h: list[float] | None = None,
    zero: int | None = None,
) -> Workload:
    """Return a log of jobs of one core; `zero` is the moment of its second 0."""
    count = len(submit_h)
    columns = {
        "job": range(count), "task": [0] * count, "job_id": map(str, range(count)),
        "task_id": ["0"] * count, "submit_s": [3600.0 * h for h in submit_h],
        "duration_s": [3600.0 * h for h in run_h], "cores": [1.0] * count,
        "memory": [0.0] * count, "instances": [1] * count,
    }  # fmt: skip
    if requested_h:
        columns["requested_s"] = [3600.0 * h for h in requested_h]
    notes = () if zero is None else (f"UnixStartTime: {zero}",)
    return Workload(pl.DataFrame(columns, strict=False), Provenance("table", notes=notes))


def rows_of(laid: Laid, series: Series) -> dict[str, dict[str, object]]:
    """Return the comparison by rule."""
    return {row["rule"]: row for row in compare(laid, series)}


def test_a_log_with_the_dates_of_the_series_lies_where_it_was() -> None:
    series = synthetic(24 * 30)
    zero = series.first_hour * 3600 + 7200  # second 0 is at 02:00 of the first day
    laid = lay(log([0.5, 300.0, 900.0], [1, 1, 1], zero=zero), series, (6, 24))
    assert laid.work.submit.tolist() == [2.5, 302.0]
    assert laid.outside == 1
    assert "dates in common" in laid.note


def test_a_log_of_other_dates_keeps_its_hour_of_the_day_and_goes_round() -> None:
    series = synthetic(24 * 60)
    zero = 946684800 + 3600 * 5
    laid = lay(log([0.5, 24 * 50.0], [1, 1], zero=zero), series, (6, 24))
    assert (laid.work.submit % 24).tolist() == [5.5, 5.0]
    assert (laid.work.submit // (24 * 60)).tolist() == [0, 1]
    assert laid.turns == 2
    assert "no date in common" in laid.note
    with pytest.raises(InputError, match="three weeks more than the jobs last"):
        lay(log([0.5], [1]), synthetic(24 * 10), (6, 24))


def test_requests_are_what_is_known_and_give_the_slack() -> None:
    laid = lay(log([0, 1], [1, 1], [1.5, 30]), synthetic(24 * 60), (6, 24))
    assert laid.work.known.tolist() == [1.5, 30]
    assert laid.work.wait.tolist() == [6, 24]
    assert laid.known == "lengths as requested"


def test_requests_that_are_run_times_are_said_to_be_known() -> None:
    """A log without time limits has run times as requests, with which a rule looks ahead."""
    series, hours = synthetic(24 * 120), np.arange(0, 24 * 40, 5.0)
    run = [2.0, 3.0] * (len(hours) // 2)
    laid = lay(log(hours.tolist(), run, run), series, (6, 24))
    assert laid.known == "lengths as they were, since the log has no requests"
    assert any("knows how long each job runs" in s for s in conclusion(compare(laid, series), laid))
    asked = log(hours.tolist(), run, [2.0, 9.0] * (len(hours) // 2))
    some = Provenance("table", counts={"requested_s from duration_s": 7})
    laid = lay(Workload(asked.tasks, some), series, (6, 24))
    assert laid.known.startswith("lengths as requested, and as they were for 7 of all jobs")
    said = conclusion(compare(laid, series), laid)
    assert not any("knows how long" in sentence for sentence in said)
    marked = asked.tasks.with_columns(
        requested_s=pl.when(pl.col("job") == 1).then(None).otherwise("requested_s"),
        request_unknown=pl.col("job") == 0,
    )
    laid = lay(Workload(marked, Provenance("table")), series, (6, 24))
    assert "as they were for 2 of all jobs" in laid.known


def test_jobs_outside_of_the_series_are_said_first_if_they_are_many() -> None:
    series = synthetic(24 * 60)
    work = log(np.arange(0, 24 * 80, 4.0).tolist(), [1.0] * 480, zero=series.first_hour * 3600)
    laid = lay(work, series, (6, 24))
    first, *others = conclusion(compare(laid, series), laid)
    assert first.startswith(f"Only {len(laid.begins)} of 480 jobs are counted")
    assert not any("not counted, since" in line for line in others)


def test_what_a_log_does_not_know_is_a_caution() -> None:
    tasks = log([0, 1, 2], [1, 1, 1], [2, 2, 2]).tasks
    known = tasks.with_columns(wait_s=pl.Series([0.0, 0.0, 0.0]))
    assert cautions(Workload(known, Provenance("slurm"))) == ()
    notes = ("times without an offset from UTC are read as UTC; set time_zone if not so",)
    bad = Provenance("slurm", counts={"rows_read": 9}, left_out={"quarantined": 6}, notes=notes)
    some = tasks.with_columns(wait_s=pl.Series([0.0, None, 0.0]))
    texts = [caveat.text for caveat in cautions(Workload(some, bad))]
    assert "jobs lie on wrong hours of the series" in texts[0]
    assert texts[1].startswith("the starts of 1 of 3 jobs are unknown")
    assert texts[2].startswith("6 of 9 rows of jobs (67%) could not be used")


def test_rows_are_ordered_by_what_they_know() -> None:
    rng = np.random.default_rng(3)
    work = log(sorted(rng.uniform(0, 24 * 40, 300).tolist()), rng.exponential(4, 300).tolist())
    series = synthetic(24 * 120)
    laid = lay(work, series, (6, 24))
    rows = rows_of(laid, series)
    assert rows["as it happened"]["saved_percent"] == 0
    best, best_start = rows[BEST], rows["best start"]
    assert 0 < best["low"] < best["saved_percent"] < best["high"]  # type: ignore[operator]
    assert best["saved_percent"] < best_start["saved_percent"]  # type: ignore[operator]
    assert best_start["saved_percent"] < rows["best hours in pieces"]["saved_percent"]  # type: ignore[operator]
    limited = next(row for name, row in rows.items() if name.startswith(f"{BEST}, on"))
    assert limited["peak_cores"] == rows["as it happened"]["peak_cores"]
    lines = conclusion(list(rows.values()), laid)
    assert f"{best['saved_percent']:.1f} %" in lines[0]


def test_a_constant_grid_shows_nothing_and_few_weeks_have_no_interval() -> None:
    hours = pl.DataFrame({"zone": "A", "hour": np.arange(2000), CARBON: 300.0})
    series = Series(hours)
    work = log(np.arange(0, 1000, 7.0).tolist(), [2.0] * 143)
    laid = lay(work, series, (6, 24))
    rows = compare(laid, series)
    assert max(abs(row["saved_percent"]) for row in rows) < 1e-9
    assert conclusion(rows, laid)[0].startswith("Not shown")
    laid = lay(log([0, 9], [1, 1]), series, (6, 24))
    assert "Fewer than 4 weeks" in conclusion(compare(laid, series), laid)[0]


def test_a_loss_is_said_as_one() -> None:
    series = synthetic(24 * 60)
    laid = lay(log([1.0, 30.0], [2, 3]), series, (6, 24))
    rows = compare(laid, series)
    best = next(row for row in rows if row["rule"] == BEST)
    best |= {"saved_percent": -23.14, "low": -30.0, "high": -10.0, "saved_g_per_kwh": -5.0}
    limited = next(row for row in rows if row["rule"].startswith(f"{BEST}, on"))
    limited["saved_percent"] = -3.21
    found = conclusion(rows, laid)
    assert not any("Not shown" in line for line in found)
    assert any("cores it costs 3.2 % more, with starts" in line for line in found)
    said = "would have cost 23.1 % (10.0 to 30.0, 95 % over weeks) more of the carbon, 5.0 g/kWh"
    assert any(said in line for line in found)


def test_unknown_prices_are_left_out_of_what_is_saved() -> None:
    """Jobs of all hours save the same per MWh where half of the days have no price."""
    t = np.arange(24 * 60)
    hours = pl.DataFrame({"zone": "A", "hour": t, CARBON: 100.0 + t % 24, PRICE: 10.0 + t % 24})
    unknown = (t // 24 >= 10) & (t // 24 < 40)
    some = hours.with_columns(pl.when(pl.lit(~unknown)).then(PRICE).alias(PRICE))
    work = log(np.arange(0, 24 * 50, 6.0).tolist(), [1.0] * 200)
    laid = lay(work, Series(hours), (12, 12))
    saved, of_known = (rows_of(laid, Series(each))[BEST]["saved_per_mwh"] for each in (hours, some))
    assert saved == pytest.approx(of_known, rel=0.1)


def test_a_series_of_prices_alone_is_asked_about_money() -> None:
    """The price has the shape of the carbon, so the shares are equal; money below 0 has none."""
    series = synthetic()
    hours = np.arange(800.0)
    laid = lay(log(hours.tolist(), [3.0] * len(hours)), series, (6.0, 24.0))
    of_carbon = rows_of(laid, series)
    shape = pl.col(CARBON).alias(PRICE)
    prices = Series(series.table.select("zone", "hour", shape, "currency"), remarks=())
    of_price = rows_of(lay(log(hours.tolist(), [3.0] * len(hours)), prices, (6.0, 24.0)), prices)
    for rule, row in of_price.items():
        assert row["saved_percent"] == pytest.approx(of_carbon[rule]["saved_percent"])
        assert row["saved_per_mwh"] == pytest.approx(of_carbon[rule]["saved_g_per_kwh"])
        assert row["saved_g_per_kwh"] is None
    said = conclusion(list(of_price.values()), laid)
    assert any("of the money for electricity" in line for line in said)
    assert not any("arbon" in line for line in said)
    below = Series(prices.table.with_columns(pl.col(PRICE) - 2000.0))
    rows = compare(laid, below)
    assert all(row["saved_percent"] is None for row in rows)
    assert "cost nothing or less" in conclusion(rows, laid)[0]


@pytest.mark.slow
def test_the_command_writes_a_page_and_refuses_what_it_does_not_play(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kth = next(require_traces("swf").glob("KTH*"))
    words = ["whatif", str(kth), "--grid", "synthetic", "--out", str(tmp_path / "out")]
    assert cli.main(words) == 0
    assert "Starting later by" in capsys.readouterr().out
    table = pl.read_csv(tmp_path / "out" / "grid.csv")
    assert {"saved_g_per_kwh", "peak_cores", "wait_h_per_core_hour"} <= set(table.columns)
    assert cli.main([*words, "--policy", "sjf_easy"]) == 2
    assert cli.main([*words, "--slack", "1,2,3"]) == 2
    assert cli.main([*words, "--slack", "long"]) == 2
