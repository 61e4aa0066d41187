"""Hours of a grid: time zones, issued forecasts, zones and dates, and hours that are unknown."""

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import InputError, RecipeError, TraceError
from hindcast.pipeline.scenarios.deferrable import layout as m
from hindcast.pipeline.scenarios.deferrable.grid import features as f
from hindcast.pipeline.scenarios.deferrable.grid.instances import series_of
from hindcast.pipeline.simulation.environment import CompiledEnvironment
from hindcast.pipeline.storage import location
from hindcast.pipeline.traces.hourly.series import CARBON, PRICE, read_issued
from hindcast.pipeline.workloads.schema import Workload
from tests.pipeline.scenarios.deferrable.grid_windows import (
    GENERATED,
    LOG,
    NOTHING,
    SCENARIO,
    blocks_of,
    instance_of,
    log,
)


def test_the_hour_of_the_day_and_drawn_days_are_of_the_time_zone() -> None:
    """On the synthetic series, which begins at midnight UTC of 2022-01-01."""
    for zone, midnight in (("UTC", 0.0), ("Asia/Kolkata", 18.5), ("America/New_York", 5.0)):
        config = dataclasses.replace(GENERATED, time_zone=zone)
        instance = instance_of(config)
        environment = CompiledEnvironment(SCENARIO, config, "carbon", NOTHING, 0)
        context = environment.begin(instance).context
        expected = 0.5 if zone == "Asia/Kolkata" else 0.0
        angle = np.arctan2(context[f.MOMENT.hour_sin], context[f.MOMENT.hour_cos])
        assert angle * 12 / np.pi == pytest.approx(expected)
        carbon = series_of(config, np.random.default_rng(0)).values("carbon_g_per_kwh")
        first = np.flatnonzero(carbon == blocks_of(instance)[4][f.HISTORY])
        hours = {(hour - np.ceil(midnight)) % 24 for hour in first}
        assert hours & {0.0, 23.0}  # 23: New York in summer
    with pytest.raises(TraceError, match=r"config\.time_zone: there is no time zone 'Berlin'"):
        instance_of(dataclasses.replace(GENERATED, time_zone="Berlin"))


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["carbon", "both"])
def test_issued_forecasts_are_seen_from_their_issue_on(tmp_path: Path, objective: str) -> None:
    """Every 6 h, hours 3 to 14 after the issue are forecast; the others are those of level7."""
    series = series_of(GENERATED, np.random.default_rng(0))
    start = series.first_hour
    rows = [
        f"{issued},{issued + later},{issued % 97 + later},{later - 5}"
        for issued in range(start + 30, start + 8760, 6) for later in range(3, 15)
    ]  # fmt: skip
    head = "issued,hour,forecast_carbon_g_per_kwh,forecast_price_per_mwh"
    (tmp_path / "issued.csv").write_text("\n".join([head, *rows]))
    config = dataclasses.replace(
        GENERATED, forecast="file", forecast_series=str(tmp_path / "issued.csv")
    )
    plain = dataclasses.replace(GENERATED, forecast="level7")
    seen = []
    for each in (config, plain):
        instance = instance_of(each, objective)
        environment = CompiledEnvironment(SCENARIO, each, objective, NOTHING, 0)
        observation = environment.begin(instance)
        while environment._ints[m.SLOT] < 33:
            observation = environment.step(len(observation.feasible) - 1).observation
        ahead = int(instance.floats[f.LOOKED_AHEAD])
        at = int(instance.floats[f.SEEN_AT])
        seen.append(environment._floats[at : at + ahead].copy())
        slot = int(environment._ints[m.SLOT])
    carbon = series.values("carbon_g_per_kwh")
    window = blocks_of(instance)[4]
    first = next(i for i in range(8760) if np.array_equal(carbon[i : i + 200], window[:200]))
    now = start + first + f.HISTORY + slot
    issued = start + 30 + (now - start - 30) // 6 * 6
    for h in range(ahead):
        later = now + h - issued
        if h > 0 and 3 <= later < 15:
            expected = issued % 97 + later
            expected = expected if objective == "carbon" else expected / 10 + later - 5
            assert seen[0][h] == pytest.approx(expected)
        else:
            assert seen[0][h] == seen[1][h]
    with pytest.raises(RecipeError, match=r"config\.forecast_series: : no such file"):
        instance_of(dataclasses.replace(config, forecast_series=""))


@pytest.mark.slow
def test_issued_forecasts_are_read_by_zone_and_time(tmp_path: Path) -> None:
    path = tmp_path / "issued.csv"
    head = "zone,issued,time,forecast_price_per_mwh\n"
    path.write_text(
        head + "a,2024-01-01T06:00Z,2024-01-01T08:00Z,5\nb,2024-01-01T06:00Z,2024-01-01T08:00Z,7\n"
    )
    assert read_issued(path, "b", [PRICE]).rows() == [(473358, 473360, 7.0)]
    path.write_text(path.read_text().replace("b,2024-01-01T06:00Z", "b,2024-01-01T06:01Z"))
    assert read_issued(path, "b", [PRICE]).rows() == [(473359, 473360, 7.0)]
    with pytest.raises(TraceError, match="there is no zone 'c'"):
        read_issued(path, "c", [PRICE])
    with pytest.raises(TraceError, match="no column 'forecast_carbon_g_per_kwh'"):
        read_issued(path, "a", [CARBON])
    path.write_text(head + "a,2024-01-01T06:00Z,2024-01-01T08:00Z,5\n" * 2)
    with pytest.raises(TraceError, match=r"line 2 and .*line 3 are of one issue and hour"):
        read_issued(path, "a", [PRICE])


def test_a_window_draws_its_day_and_a_calendar_needs_dates() -> None:
    days = {tuple(blocks_of(instance_of(LOG, seed=seed))[4][:3]) for seed in range(5)}
    assert len(days) > 1
    with pytest.raises(RecipeError, match="does not say when it began"):
        instance_of(dataclasses.replace(LOG, align="calendar"))
    with pytest.raises(RecipeError, match=r"config\.series: nowhere\.csv: no such file"):
        instance_of(dataclasses.replace(LOG, series="nowhere.csv"))
    with pytest.raises(RecipeError, match="expected one of a grid"):
        instance_of(LOG, "revenue")
    with pytest.raises(InputError, match="no stretch of"):
        instance_of(dataclasses.replace(GENERATED, longest_window=9000))


@pytest.mark.parametrize(
    ("header", "objective", "known", "unknown"),
    [
        ("price (EUR/MWh)", "price", "money", ("carbon_kg", "saved", "carbon_now_kg")),
        ("carbon (gCO2eq/kWh)", "carbon", "carbon_kg", ("money", "money_saved_per_mwh")),
    ],
)
def test_what_a_series_does_not_have_is_unknown(
    tmp_path: Path, header: str, objective: str, known: str, unknown: tuple[str, ...]
) -> None:
    """Unknown is not 0. Episodes on such a series are built, and hold when they are verified."""
    path = tmp_path / "series.csv"
    rows = [f"2022-{1 + d // 28:02}-{1 + d % 28:02}T{h:02}:00Z,{50 + (h * 7 + d) % 31}"
            for d in range(84) for h in range(24)]  # fmt: skip
    path.write_text("\n".join([f"time,{header}", *rows]))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'id = "hours"\ndescription = "x"\nscenario = "deferrable"\n'
        f'objective = "{objective}"\n'
        'level = "mixed"\nseed = 1\n[config]\njobs = "generated"\nhorizon = 24\n'
        f'series = "{path}"\n[trace]\nformat = "generated"\n'
        '[split]\ntrain = "0..1"\nvalidation = "2..2"\ntest = "3..3"\n'
        '[[behaviours]]\npolicy = "now"\nepsilon = 0.1\nepisodes = 1\n'
        '[evaluate]\npolicies = ["now", "latest"]\nreferences = ["now"]\n'
    )
    assert main(["build", str(recipe), "--out", str(tmp_path / "dataset"), "--direct"]) == 0
    episodes = pl.read_parquet(tmp_path / "dataset" / "episodes.parquet")
    for name in unknown:
        assert episodes[name].is_nan().all()
    assert (episodes[known] > 0).all()
    assert main(["verify", str(tmp_path / "dataset"), "--direct"]) == 0


def test_hours_that_an_objective_needs_are_known(tmp_path: Path) -> None:
    """Unknown hours are not free ones; with a bill for cores, prices of hours do not count."""
    times = [f"2022-01-{1 + t // 24:02}T{t % 24:02}:00Z" for t in range(24 * 28)]
    rows = [f"{time},{zone},{hour}" for zone, hour in (("DE", "300,"), ("FR", ",50"))
            for time in times]  # fmt: skip
    path = tmp_path / "zones.csv"
    path.write_text("\n".join(["time,zone,carbon (g/kWh),price (EUR/MWh)", *rows]))
    config = dataclasses.replace(GENERATED, horizon=24, series=str(path))
    of = {zone: dataclasses.replace(config, zone=zone) for zone in ("DE", "FR")}
    for objective, zone, lacks in (
        ("carbon", "FR", CARBON), ("both", "FR", CARBON),
        ("price", "DE", PRICE), ("both", "DE", PRICE),
    ):  # fmt: skip
        with pytest.raises(TraceError, match=f"zone '{zone}' has no known {lacks}"):
            instance_of(of[zone], objective)
    for objective in ("price", "both"):
        assert instance_of(dataclasses.replace(of["DE"], reserved=9), objective).capacity > 1
    assert instance_of(of["FR"], "price").capacity > 1


def test_a_window_of_other_dates_than_the_series_says_both() -> None:
    config = dataclasses.replace(LOG, align="calendar", horizon=24)
    hour = series_of(config, np.random.default_rng(0)).first_hour + 24
    begin, since = (np.datetime64(h, "h").astype(str) for h in (hour - 168, hour - 24))
    jobs, notes = log(), (f"UnixStartTime: {hour * 3600}",)
    workload = Workload(jobs.tasks, dataclasses.replace(jobs.provenance, notes=notes))
    with pytest.raises(InputError) as error:
        SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(0))
    said = str(error.value).replace(" ", "T")
    assert f"hoursTareT{begin}:00Tto" in said
    assert f"theTseriesTisT{since}:00Tto" in said


def test_slots_of_a_calendar_begin_with_the_hours_of_the_series() -> None:
    """A log that begins at 12:20 with jobs 20 minutes earlier is the log that begins at 12:00."""
    config = dataclasses.replace(LOG, align="calendar", horizon=24)
    hour = series_of(config, np.random.default_rng(0)).first_hour + 24 * 30 + 12
    made = []
    for late_s in (0, 1200):
        jobs = log()
        tasks = jobs.tasks.filter(pl.col("submit_s") >= 1200).with_columns(
            pl.col("submit_s").round() - late_s
        )
        notes = (f"UnixStartTime: {hour * 3600 + late_s}",)
        workload = Workload(tasks, dataclasses.replace(jobs.provenance, notes=notes))
        made.append(SCENARIO.instance(config, "carbon", workload, 0, np.random.default_rng(0)))
    first, second = [m.block(one.ints, m.EARLIEST_AT, int(one.ints[m.JOBS])) for one in made]
    n = min(len(first), len(second))  # the windows end 20 minutes apart
    assert n > 20
    assert np.array_equal(first[:n], second[:n])
    assert np.array_equal(blocks_of(made[0])[4][:24], blocks_of(made[1])[4][:24])


@pytest.mark.parametrize("is_set", [False, True])
def test_a_series_is_found_in_the_folder_of_traces(
    is_set: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "__file__", str(tmp_path / "checkout/pipeline/storage/here.py"))
    monkeypatch.delenv("HINDCAST_TRACES", raising=False)
    traces = tmp_path / "shared" / "traces"
    if is_set:
        traces = tmp_path / "other"
        monkeypatch.setenv("HINDCAST_TRACES", str(traces))
    traces.mkdir(parents=True)
    rows = [f"2024-01-01T{hour:02}:00:00Z,a,{hour + 100}\n" for hour in range(24)]
    (traces / "hours.csv").write_text("time,zone,carbon_g_kwh\n" + "".join(rows))
    config = dataclasses.replace(GENERATED, series="hours.csv")
    assert series_of(config, np.random.default_rng(0)).zones == ["a"]


def test_a_window_draws_its_zone_and_only_days_that_are_used(tmp_path: Path) -> None:
    rows = [f"2024-01-0{day}T{hour:02}:00:00Z,{zone},{100 * day + hour}\n"
            for zone in ("a", "b", "c") for day in (1, 2, 3) for hour in range(24)]  # fmt: skip
    file = tmp_path / "hours.csv"
    file.write_text("time,zone,carbon_g_kwh\n" + "".join(rows))
    config = dataclasses.replace(
        GENERATED, series=str(file), zone="a, c", first_day="2024-01-02", last_day="2024-01-02"
    )
    found = [series_of(config, np.random.default_rng(seed)) for seed in range(8)]
    assert {name for series in found for name in series.zones} == {"a", "c"}
    assert list(found[0].values("carbon_g_per_kwh")) == [200.0 + hour for hour in range(24)]
    with pytest.raises(TraceError, match=r"config\.zone: there is no zone 'd'"):
        series_of(dataclasses.replace(config, zone="a,d"), np.random.default_rng(0))
    with pytest.raises(RecipeError, match=r"config\.last_day is '2\.1\.24', expected a day as"):
        series_of(dataclasses.replace(config, last_day="2.1.24"), np.random.default_rng(0))
    late = dataclasses.replace(config, first_day="2030-01-01", last_day="")
    with pytest.raises(RecipeError, match="no hour of '2030-01-01' to '', expected days from "):
        series_of(late, np.random.default_rng(0))
