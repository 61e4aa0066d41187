"""Tables of what could be saved at most: by hand, against a plain search, and as published."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline.grids.optimum import optima, table_of
from hindcast.pipeline.traces.hourly.series import CARBON, Series, read_series
from tests.conftest import require_traces


def plain(x: np.ndarray, job: int, slack: int) -> np.ndarray:
    """Return the three costs of every row by trying all starts."""
    size = len(x)
    rows = size - job + 1 if slack >= size else size - job
    found = []
    for i in range(rows):
        window = x[i : min(i + slack + job, size)]
        sums = [window[s : s + job].sum() for s in range(len(window) - job + 1)]
        found.append([sums[0], min(sums), np.sort(window)[:job].sum()])
    return np.array(found).reshape(-1, 3)


def test_an_optimum_by_hand() -> None:
    """A job of 2 h in hours 5 1 4 2: the best start is 1 (1 + 4), the best hours are 1 and 2."""
    assert optima(np.array([5.0, 1, 4, 2]), 2, 99).tolist() == [[6, 5, 3], [5, 5, 3], [6, 6, 6]]
    assert optima(np.array([5.0, 1, 4, 2]), 2, 1).tolist() == [[6, 5, 5], [5, 5, 3]]


@pytest.mark.slow
@pytest.mark.parametrize(("job", "slack"), [(1, 0), (1, 24), (5, 3), (24, 24), (7, 500), (499, 9)])
def test_costs_are_those_of_a_plain_search(job: int, slack: int) -> None:
    rng = np.random.default_rng(job)
    for x in (rng.integers(0, 50, 500) / 100.0, rng.normal(size=500)):
        np.testing.assert_allclose(optima(x, job, slack), plain(x, job, slack), atol=1e-9)


def test_no_row_reaches_an_unknown_hour() -> None:
    x = np.array([3.0, 2, np.nan, 1, 5, 4])
    assert np.isnan(optima(x, 1, 1)).any(axis=1).tolist() == [False, True, True, False, False]


def test_a_constant_series_saves_nothing_and_a_free_one_is_unknown() -> None:
    hours = pl.DataFrame({"zone": "A", "hour": range(100), CARBON: 7.0})
    for row in table_of(Series(hours), (1, 6, 24), (24, 168)):
        assert row["saved_percent"] == row["saved_g_per_kwh"] == 0
    free = hours.with_columns(pl.lit(0.0).alias(CARBON))
    assert table_of(Series(free), (1,), (24,))[0]["saved_percent"] is None


@pytest.mark.slow
def test_published_tables_of_two_zones() -> None:
    hours = pl.read_parquet(require_traces("grids/carbon_2022.parquet"))
    hours = hours.filter(pl.col("zone").is_in(["AU-SA", "PE"]))
    _published(Series(hours.with_columns(pl.col("zone").cast(pl.String))))


@pytest.mark.nightly
def test_published_tables_of_all_zones() -> None:
    _published(read_series(require_traces("grids/carbon_2022.parquet")))


def _published(series: Series) -> None:
    golden = require_traces("../golden/grids")
    keys = ("zone", "job_h", "slack_h")
    rows = pl.read_csv(golden / "optimum_rows_2022.csv").partition_by(*keys, as_dict=True)
    sums = pl.read_csv(golden / "optimum_sums_2022.csv")
    for zone in series.zones:
        x = series.only(zone).values(CARBON)
        for want in sums.filter(zone=zone).rows(named=True):
            found = optima(x, want["job_h"], want["slack_h"])
            assert len(found) == want["rows"]
            golden_sums = [want[name] for name in ("now_sum", "start_sum", "hours_sum")]
            np.testing.assert_allclose(found.sum(axis=0), golden_sums, rtol=0, atol=0.005)
            for row in rows[tuple(want[key] for key in keys)].rows(named=True):
                golden_row = [row["now"], row["start"], row["hours"]]
                np.testing.assert_allclose(found[row["hour"]], golden_row, rtol=0, atol=0.006)


def test_the_command_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "grid.csv"
    words = ["grid", "synthetic", "--jobs", "1,6", "--slack", "24", "--out", str(out)]
    assert cli.main(words) == 0
    table = pl.read_csv(out)
    assert table.columns == [
        "zone", "job_h", "slack_h", "rows", "now_sum", "start_sum", "hours_sum", "saved_percent",
        "saved_g_per_kwh",
    ]  # fmt: skip
    assert table["rows"].to_list() == [8759, 8754]
    assert "synthetic: 6 h within 24 h" in capsys.readouterr().out
    for zone in ("DE", "FR"):
        rows = [f"2024-01-{1 + t // 24:02d}T{t % 24:02d}:00Z,{300 + t}\n" for t in range(60)]
        (tmp_path / "zones").mkdir(exist_ok=True)
        (tmp_path / "zones" / f"{zone}.csv").write_text(
            f"datetime,carbon_intensity_avg\n{''.join(rows)}"
        )
    words = ["grid", str(tmp_path / "zones"), "--jobs", "6", "--slack", "24", "--out", str(out)]
    assert cli.main(words) == 0
    assert pl.read_csv(out)["zone"].to_list() == ["DE", "FR"]
    times = [f"2024-01-{1 + t // 24:02d}T{t % 24:02d}:00Z" for t in range(60)]
    lines = [f"{time},{zone},{hour}\n" for zone, hour in (("DE", "300,"), ("FR", ",50"))
             for time in times]  # fmt: skip
    mixed = tmp_path / "mixed.csv"
    mixed.write_text(f"time,zone,carbon (g/kWh),price (EUR/MWh)\n{''.join(lines)}")
    capsys.readouterr()
    assert cli.main(["grid", str(mixed), *words[2:]]) == 0
    assert "FR: 6 h within 24 h: unknown (0 starts)" in capsys.readouterr().out
    assert pl.read_csv(out)["rows"].to_list() == [54, 0]
    assert cli.main(["grid", "synthetic", "--jobs", "0", "--out", str(out)]) == 2
    assert cli.main(["grid", "synthetic", "--zone", "DE", "--out", str(out)]) == 2
