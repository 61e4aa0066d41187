"""Settings that `init` proposes for series: read with them, each gives the hours it was made of."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from hindcast.flows import cli
from hindcast.pipeline.traces.hourly.proposal import ZONE, SeriesProposal, propose
from hindcast.pipeline.traces.hourly.series import PRICE, SeriesSettings, read_series

FIRST = datetime(2025, 3, 4, 23, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
HOURS = [FIRST + timedelta(hours=n) for n in range(5900)]  # both changes of the clock
PRICES = np.random.default_rng(0).normal(60, 40, len(HOURS)).round(2)


def proposed(folder: Path, header: str, rows: list[str], name: str = "mine.csv") -> SeriesProposal:
    """Return what is proposed for a file."""
    (folder / name).write_text("\n".join([header, *rows]) + "\n")
    found = propose(folder / name)
    assert found is not None
    return found


def _comma(numbers: list[str]) -> list[str]:
    """Return numbers with a decimal comma; # becomes the point of thousands."""
    return [each.replace(".", ",").replace("#", ".") for each in numbers]


def read_again(folder: Path, found: SeriesProposal, **settings: str) -> pl.DataFrame:
    """Return the series of that file by the settings that were proposed."""
    return read_series(
        folder / "mine.csv", SeriesSettings(**{**found.settings, **settings})
    ).table.drop_nulls("hour")


@pytest.mark.slow
def test_a_semicolon_file_with_decimal_commas_and_local_days(tmp_path: Path) -> None:
    """The clock changes on the days on which Berlin's does, so the zone is found."""
    rows = [
        f"{t.astimezone(BERLIN):%d.%m.%Y %H:%M};{_comma([str(p)])[0]}"
        for t, p in zip(HOURS, PRICES, strict=True)
    ]
    found = proposed(tmp_path, "Zeit;Preis (EUR/MWh)", rows)
    assert found.settings == {"time_zone": "Europe/Berlin"}
    assert any("clock changes as in Europe/Berlin" in each for each in found.unsure)
    table = read_again(tmp_path, found)
    assert table["hour"][0] == FIRST.timestamp() // 3600
    assert np.array_equal(table[PRICE].to_numpy(), PRICES)


@pytest.mark.slow
def test_a_column_for_each_market_and_one_for_the_end_of_the_hour(tmp_path: Path) -> None:
    rows = []
    for t, p in zip(HOURS, np.abs(PRICES), strict=True):
        begin, end = (f"{u.astimezone(BERLIN):%d.%m.%Y %H:%M}" for u in (t, t + timedelta(hours=1)))
        rows.append(f"{begin};{end};1#{p:06.2f};{p:.2f}")
    rows = [";".join([*r.split(";")[:2], *_comma(r.split(";")[2:])]) for r in rows]
    found = proposed(tmp_path, "Datum von;Datum bis;A [€/MWh];B [€/MWh]", rows)
    assert found.settings == {
        "wide": True, "value": "price", "price_unit": "EUR/MWh", "time_zone": "Europe/Berlin",
    }  # fmt: skip
    assert found.not_read == ["Datum bis"]
    table = read_again(tmp_path, found)
    of_a, of_b = (table.filter(zone=f"{z} [€/MWh]")[PRICE].to_numpy() for z in "AB")
    assert np.allclose(of_b, np.abs(PRICES))
    assert np.allclose(of_a, 1000 + np.abs(PRICES))
    assert set(table["currency"]) == {"EUR"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("header", "form", "settings", "unsure"),
    [
        ("ts,price_eur_per_kwh", "epoch", {"time": "ts"}, "stamp=end"),
        ("Time Stamp,LBMP ($/MWh)", "%m/%d/%Y %H:%M",
         {"time_format": "%m/%d/%Y %H:%M", "time_zone": "UTC"}, "no summer time"),
        ("period_end,spot", "%Y-%m-%dT%H:%M:%SZ",
         {"time": "period_end", "stamp": "end", "price_unit": "XXX/MWh"}, "XXX stands for it"),
        ("day,x,price EUR/MWh", "%Y/%m/%d %H:%M",
         {"time": "day", "time_format": "%Y/%m/%d %H:%M", "time_zone": "UTC"}, "no summer time"),
    ],
)  # fmt: skip
def test_times_and_units_of_many_publishers(
    tmp_path: Path, header: str, form: str, settings: dict[str, str], unsure: str
) -> None:
    per_kwh = "kwh" in header
    rows = []
    for t, p in zip(HOURS, PRICES, strict=True):
        said = f"{t.timestamp():.0f}" if form == "epoch" else f"{t:{form}}"
        cells = [
            said,
            *(["text"] if ",x," in header else []),
            f"{p / (1000 if per_kwh else 1):.5f}",
        ]
        rows.append(",".join(cells))
    found = proposed(tmp_path, header, rows)
    assert found.settings == settings
    assert any(unsure in each for each in found.unsure)
    table = read_again(tmp_path, found)
    first = FIRST.timestamp() // 3600 - ("stamp" in settings)
    assert table["hour"][0] == first
    assert np.allclose(table[PRICE].to_numpy(), PRICES, atol=0.006)


@pytest.mark.slow
def test_an_american_clock_leaves_the_zone_to_the_reader(tmp_path: Path) -> None:
    """Four zones change their clocks on one day and at one local hour."""
    new_york = ZoneInfo("America/New_York")
    rows = [
        f"{t.astimezone(new_york):%Y-%m-%d %H:%M},{p}" for t, p in zip(HOURS, PRICES, strict=True)
    ]
    found = proposed(tmp_path, "time,price USD/MWh", rows)
    assert found.settings == {"time_zone": ZONE}
    assert any("America/New_York, America/Chicago" in each for each in found.unsure)
    table = read_again(tmp_path, found, time_zone="America/New_York")
    assert np.array_equal(table[PRICE].to_numpy(), PRICES)


@pytest.mark.slow
def test_a_column_whose_values_tell_the_rows_of_an_hour_apart_is_the_zone(tmp_path: Path) -> None:
    pairs = zip(HOURS[:50], PRICES, strict=False)
    rows = [f"{t:%Y-%m-%dT%H:%MZ},SE{n + 1},{p + n:.2f}" for t, p in pairs for n in (0, 1)]
    found = proposed(tmp_path, "time,bidding_area,price_eur_mwh", rows)
    assert found.settings == {"zone": "bidding_area"}
    table = read_again(tmp_path, found)
    assert table["zone"].unique(maintain_order=True).to_list() == ["SE1", "SE2"]
    assert np.allclose(table.filter(zone="SE2")[PRICE].to_numpy(), PRICES[:50] + 1)


@pytest.mark.slow
def test_life_cycle_emissions_are_taken_and_rows_of_jobs_are_no_series(tmp_path: Path) -> None:
    found = proposed(
        tmp_path, "Datetime (UTC),Carbon gCO₂eq/kWh (direct),Carbon gCO₂eq/kWh (LCA)",
        [f"2024-01-01 {n:02d}:00:00,{200 + n},{250 + n}" for n in range(24)],
    )  # fmt: skip
    assert found.columns["carbon"].endswith("(LCA)")
    assert not found.settings
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("submit,cores\n" + "".join(f"{n * n},{n % 4 + 1}\n" for n in range(50)))
    assert propose(jobs) is None
    assert propose(tmp_path / "none.csv") is None


@pytest.mark.slow
def test_a_row_or_two_are_a_series_by_their_names(tmp_path: Path) -> None:
    for rows in (["2024-01-01 00:00,5"], ["2024-01-01 00:00,5", "2024-01-01 00:00,6"]):
        found = proposed(tmp_path, "time,price EUR/MWh", rows)
        assert found.settings == {"time_zone": ZONE}
    (tmp_path / "two.csv").write_text("time,cores\n2024-01-01 00:00,5\n2024-01-02 00:00,6\n")
    assert propose(tmp_path / "two.csv") is None


@pytest.mark.slow
def test_the_command_prints_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written. A series of something else is refused with its columns of numbers."""
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{t.astimezone(BERLIN):%Y-%m-%d %H:%M},{p}" for t, p in zip(HOURS, PRICES, strict=True)
    ]
    proposed(tmp_path, "time,price EUR/MWh", rows)
    assert cli.main(["init", "mine.csv"]) == 0
    assert capsys.readouterr().out.endswith(
        "Then:\n  hindcast ingest series mine.csv --set time_zone=Europe/Berlin --out series\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]
    (tmp_path / "air.csv").write_text(
        "time,celsius\n" + "".join(f"2024-01-01T{n:02d}:00Z,{n}\n" for n in range(24))
    )
    assert cli.main(["init", "air.csv"]) == 2
    assert "columns of numbers are celsius" in capsys.readouterr().err
