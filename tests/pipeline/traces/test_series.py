"""Series of a grid: clocks, zones, units, steps and gaps, by hand and on published files."""

import csv
from pathlib import Path

import numpy as np
import pytest

from hindcast.pipeline.errors import StorageError, TraceError
from hindcast.pipeline.grids.logs import aim
from hindcast.pipeline.traces.hourly.ingest import ingest, open_series, synthetic
from hindcast.pipeline.traces.hourly.readings import best_lag, judged
from hindcast.pipeline.traces.hourly.series import (
    CAPACITY,
    CARBON,
    POWER,
    PRICE,
    Series,
    SeriesSettings,
    read_series,
)
from tests.conftest import require_traces


def read(folder: Path, text: str, name: str = "DE.csv", **settings: object) -> Series:
    """Return the series of a file with this text."""
    (folder / name).write_text(text)
    return read_series(folder / name, SeriesSettings(**settings))  # type: ignore[arg-type]


def hours(*values: object, unit: str = "gCO2/kWh", first: int = 0) -> str:
    """Return a file of hours of 2 January 2024 (UTC)."""
    rows = [f"2024-01-02T{first + n:02d}:00Z,{value}" for n, value in enumerate(values)]
    return "\n".join([f"time,carbon ({unit})", *rows])


def test_an_hour_counts_from_1970_and_the_zone_is_the_name_of_the_file(tmp_path: Path) -> None:
    series = read(tmp_path, hours(300, 310))
    assert series.zones == ["DE"]
    assert series.first_hour == 473376  # 19,724 days
    assert series.values(CARBON).tolist() == [300, 310]


@pytest.mark.slow
def test_a_time_without_a_zone_is_refused_and_the_message_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"line 2: the time '2024-01-02 00:00'.*time_zone=UTC"):
        read(tmp_path, "time,carbon\n2024-01-02 00:00,300\n")
    assert read(tmp_path, "Datetime (UTC),carbon\n2024-01-02 00:00,300\n").first_hour == 473376
    berlin = read(tmp_path, "time,carbon\n2024-01-02 00:00,300\n", time_zone="Europe/Berlin")
    assert berlin.first_hour == 473375


@pytest.mark.slow
def test_clock_changes_lose_no_hour_and_double_none(tmp_path: Path) -> None:
    """Spring: 02:30 does not exist. Autumn: of two 02:00 the first is the earlier."""
    spring = "time,price (EUR/MWh)\n2024-03-31 01:00,1\n2024-03-31 02:00,2\n2024-03-31 03:00,3\n"
    found = read(tmp_path, spring, time_zone="Europe/Berlin")
    assert found.values(PRICE).tolist() == [1, 3]
    assert found.counts["nonexistent"] == 1
    autumn = "time,price (EUR/MWh)\n" + "".join(
        f"2024-10-27 {hour:02d}:00,{value}\n" for hour, value in ((1, 1), (2, 2), (2, 3), (3, 4))
    )
    assert read(tmp_path, autumn, time_zone="Europe/Berlin").values(PRICE).tolist() == [1, 2, 3, 4]
    one = autumn.replace("2024-10-27 02:00,3\n", "")
    found = read(tmp_path, one, time_zone="Europe/Berlin")
    assert found.values(PRICE).tolist() == [1, 2, 3, 4]  # the missing hour is filled by a line
    assert found.gaps_h == (1,)


@pytest.mark.parametrize(
    ("unit", "value"),
    [("g/kWh", 300), ("kg/MWh", 300), ("kgCO2eq/kWh", 0.3), ("t/MWh", 0.3), ("lb/MWh", 661.3866)],
)
def test_units_of_carbon(tmp_path: Path, unit: str, value: float) -> None:
    assert read(tmp_path, hours(value, unit=unit)).values(CARBON)[0] == pytest.approx(300, abs=1e-3)


@pytest.mark.parametrize(
    ("unit", "value", "currency"),
    [("EUR/MWh", 50, "EUR"), ("USD/kWh", 0.05, "USD"), ("ct/kWh", 5, ""), ("p/kWh", 5, "GBP")],
)
def test_units_of_price_and_no_currency_is_converted(
    tmp_path: Path, unit: str, value: float, currency: str
) -> None:
    found = read(tmp_path, f"time,price ({unit})\n2024-01-02T00:00Z,{value}\n")
    assert found.values(PRICE)[0] == pytest.approx(50)
    assert (found.table["currency"][0] or "") == currency


@pytest.mark.slow
def test_parts_of_an_hour_are_their_mean_and_the_capacity_their_least(tmp_path: Path) -> None:
    text = "time,solar (MW)\n" + "".join(
        f"2024-01-02T{q // 4:02d}:{q % 4 * 15:02d}Z,{value}\n"
        for q, value in enumerate([4, 0, 4, 4, 8, 8, 8, 8])
    )
    assert read(tmp_path, text).values(POWER).tolist() == [3000, 8000]
    assert read(tmp_path, text, hourly_capacity="min").values(POWER).tolist() == [0, 8000]
    text = "time,cores\n2024-01-02T03:00Z,5\n2024-01-02T06:00Z,7\n"
    assert read(tmp_path, text).values(CAPACITY).tolist() == [5, 5, 5, 7, 7, 7]


def test_the_end_of_an_interval_can_be_its_stamp(tmp_path: Path) -> None:
    found = read(tmp_path, hours(1, 2), stamp="end")
    assert found.first_hour == 473375


def test_gaps_are_filled_by_a_line_by_the_day_before_or_not(tmp_path: Path) -> None:
    text = "time,carbon\n" + "".join(
        f"2024-01-{2 + t // 24:02d}T{t % 24:02d}:00Z,{t}\n"
        for t in range(24 * 9)
        if not (t in (30, 31) or 50 <= t < 60 or 100 <= t < 130)
    )
    found = read(tmp_path, text)
    values = found.values(CARBON)
    assert values[[30, 31]].tolist() == [30, 31]
    assert values[50:60].tolist() == list(range(26, 36))
    assert np.isnan(values[100:130]).all()
    assert found.gaps_h == (2, 10, 30)
    assert found.counts["null"] == 30


def test_contradicting_rows_are_refused_and_equal_ones_dropped(tmp_path: Path) -> None:
    row = "2024-01-02T00:00Z"
    assert read(tmp_path, f"time,carbon\n{row},300\n{row},300\n").counts["duplicates"] == 1
    with pytest.raises(TraceError, match=r"line 2 and line 3 of zone 'DE'"):
        read(tmp_path, f"time,carbon\n{row},300\n{row},301\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when,carbon\n1,2\n", "no column is a time"),
        ("time,weather\n2024-01-02T00:00Z,2\n", "no column is a carbon intensity"),
        ("time,carbon\n2024-01-02T00:00Z,dirty\n", "line 2: carbon: 'dirty' is no number"),
        ("time,carbon\nyesterday,3\n", "line 2: time: 'yesterday' is no time"),
        ("time,carbon (oz/kWh)\n2024-01-02T00:00Z,3\n", "no known unit, expected g/kwh"),
        ("time,carbon\n2024-01-02T00:00Z,3\n2024-01-02T00:07Z,4\n", "rows are 420 s apart"),
        ("time,carbon a,carbon b\n2024-01-02T00:00Z,3,4\n", "several columns could be the carbon"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_line_and_column(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        read(tmp_path, text)


def test_wide_files_and_files_without_times(tmp_path: Path) -> None:
    text = "time,DE,FR\n2024-01-02T00:00Z,300,50\n2024-01-02T01:00Z,310,60\n"
    found = read(tmp_path, text, wide=True)
    assert found.zones == ["DE", "FR"]
    assert found.only("FR").values(CARBON).tolist() == [50, 60]
    with pytest.raises(TraceError, match="did you mean 'FR'"):
        found.only("FRA")
    found = read(tmp_path, "carbon_intensity\n300\n310\n", start="2024-01-02")
    assert found.first_hour == 473376


def test_a_wide_file_may_have_a_column_of_the_currency(tmp_path: Path) -> None:
    text = "time,DE,currency\n2024-01-02T00:00Z,.05,EUR\n"
    found = read(tmp_path, text, wide=True, value="price", price_unit="EUR/kWh")
    assert found.values(PRICE).tolist() == pytest.approx([50])
    assert found.zones == ["DE"]


def test_times_and_numbers_of_other_habits(tmp_path: Path) -> None:
    text = "Datum von;Preis DE [€/MWh]\n02.01.2024 00:00 - 02.01.2024 01:00;1,5\n"
    found = read(tmp_path, text, time="Datum von", time_zone="Europe/Berlin")
    assert found.values(PRICE).tolist() == [1.5]
    assert found.table["currency"][0] == "EUR"
    assert found.first_hour == 473375
    text = "Time Stamp,LBMP ($/MWHr)\n01/02/2024 00:00,20\n"
    found = read(tmp_path, text, time_format="%m/%d/%Y %H:%M", time_zone="UTC")
    assert found.first_hour == 473376
    assert found.values(PRICE).tolist() == [20]
    with pytest.raises(TraceError, match="has no offset from UTC"):
        read(tmp_path, text, time_format="%m/%d/%Y %H:%M")


@pytest.mark.slow
def test_implausible_units_name_the_unit_that_would_fit(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is it kg/kWh"):
        judged(read(tmp_path, hours(0.3, 0.4, unit="g/kWh")))
    with pytest.raises(TraceError, match="is it per kWh"):
        judged(read(tmp_path, "time,price (EUR/MWh)\n2024-01-02T00:00Z,.05\n"))
    assert judged(read(tmp_path, "time,price (ZAR/MWh)\n2024-01-02T00:00Z,.05\n"))
    assert "constant" in judged(read(tmp_path, hours(300, 300)))[0]


def test_a_clock_that_is_wrong_by_eight_hours_is_found() -> None:
    series = synthetic(24 * 60)
    price, carbon = series.values(PRICE), series.values(CARBON)
    assert best_lag(price, carbon) == 0
    assert best_lag(np.roll(price, 8), carbon) == -8


def test_a_folder_of_a_series_is_read_again_and_no_other_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "DE.csv").write_text(hours(300, 310))
    result = ingest(tmp_path / "DE.csv", tmp_path / "out")
    assert result["counts"]["hours"] == 2
    first = (tmp_path / "out" / "manifest.json").read_bytes()
    assert open_series(tmp_path / "out").values(CARBON).tolist() == [300, 310]
    ingest(tmp_path / "DE.csv", tmp_path / "out")
    assert (tmp_path / "out" / "manifest.json").read_bytes() == first
    with pytest.raises(StorageError, match="expected a new or empty folder"):
        ingest(tmp_path / "DE.csv", tmp_path)


@pytest.mark.slow
def test_published_files_read_as_they_must() -> None:
    folder = require_traces("grids/as_published")
    golden = require_traces("../golden/grids/as_published.csv")
    for row in csv.DictReader(golden.read_text().splitlines()):
        given = dict(word.split("=") for word in row["settings"].split())
        found = read_series(folder / row["file"], SeriesSettings(**given))  # type: ignore[arg-type]
        assert [found.counts[name] for name in ("rows", "nonexistent", "duplicates")] == [
            int(row[name]) for name in ("rows", "nonexistent", "duplicates")
        ]
        ends = [int(row["first_hour"]), int(row["last_hour"])]
        assert found.table["hour"][[0, -1]].to_list() == ends
        assert sorted(found.gaps_h) == sorted(map(int, row["gaps_h"].split()))


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    """Names that the reader uses for its own columns are names as any other."""
    text = "place,second,early,late,line,time,price EUR/MWh\n1,2,3,4,5,2024-01-01T00:00Z,50\n"
    assert read(tmp_path, text).values(PRICE).tolist() == [50]
    wide = "value,place,zone\n2024-01-01T00:00Z,300,310\n2024-01-01T01:00Z,320,330\n"
    found = read(tmp_path, wide, wide=True, time="value")
    assert found.zones == ["place", "zone"]
    assert found.values(CARBON).tolist() == [300, 320, 310, 330]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("time", "said"),
    [("1e305", "is no time"), ("-1e300", "is no time"), ("5000-01-01T00:00Z", "is a time wrong?")],
)
def test_times_that_are_far_away_are_refused(tmp_path: Path, time: str, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        read(tmp_path, f"time,price EUR/MWh\n2024-01-01T00:00Z,50\n{time},50\n")


@pytest.mark.slow
def test_carbon_below_0_may_be_a_price_and_a_price_has_a_known_unit(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-01T{n:02d}:00Z,{40 - 10 * n}\n" for n in range(9))
    (tmp_path / "x.csv").write_text(f"time,carbon\n{rows}")
    with pytest.raises(TraceError, match="is it a price"):
        judged(read_series(tmp_path / "x.csv"))
    with pytest.raises(TraceError, match="'EUR' has no known unit"):
        read(tmp_path, f"time,price\n{rows}", price_unit="EUR")
    read(tmp_path, f"time,price\n{rows}".replace("0\n", "000\n"), price_unit="EUR/GWh")


def test_zones_may_have_different_columns(tmp_path: Path) -> None:
    """A zone with prices alone is asked about money, and only its unknown prices are named."""
    hours = [f"2022-01-{1 + t // 24:02}T{t % 24:02}:00Z" for t in range(24 * 20)]
    rows = [f"{time},DE,{300 + t % 24}," for t, time in enumerate(hours)]
    rows += [f"{time},FR,,{50 + t % 24}" for t, time in enumerate(hours)]
    path = tmp_path / "zones.csv"
    path.write_text("\n".join(["time,zone,carbon (g/kWh),price (EUR/MWh)", *rows]))
    series = open_series(str(path))
    assert aim(series.only("DE")) == CARBON
    assert aim(series.only("FR")) == PRICE
    of_price = series.only("FR").remarks
    assert "zone 'FR': no hour has a known carbon_g_per_kwh" in of_price
    assert any("median of 61.5 EUR/MWh" in remark for remark in of_price)
    assert not any("hours are unknown" in remark for remark in of_price)
