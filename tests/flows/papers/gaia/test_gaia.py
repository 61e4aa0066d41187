"""GAIA: the printed cells as text, the prototype's windows, and the order of a heap."""

import csv
import heapq

import numpy as np
import polars as pl
import pytest

from hindcast.flows.papers.gaia.cells import (
    CARBON_TIME,
    FIRST_HOUR,
    HOURS,
    NOW,
    WAIT_AWHILE,
    ZONE,
    cells,
)
from hindcast.flows.papers.gaia.protocol import PROTOCOL, read_jobs, work_of
from hindcast.flows.papers.gaia.simulator import HOUR, Jobs, Policy, Run, _pop, _rise, jobs_of, play
from hindcast.flows.protocols import Setting
from hindcast.pipeline.grids.starts import Rule, integral, starts
from tests.conftest import require_traces

POLICIES = {
    "now": NOW,
    "lowest_slot": Policy("carbon", "lowest"),
    "lowest_window": Policy("carbon", "waiting"),
    "carbon_time": CARBON_TIME,
    "lowest_window*": Policy("carbon", "oracle"),
    "carbon_time*": Policy("carbon", "cst_oracle"),
    "ecovisor": Policy("suspend-resume-threshold", "oracle"),
    "wait_awhile": Policy("suspend-resume", "oracle"),
    "latest": Policy("cost", "oracle"),
}


def year(zone: str) -> np.ndarray:
    """Return the hours of carbon of 2022."""
    table = pl.read_parquet(require_traces("grids/carbon_2022.parquet"))
    return table.filter(pl.col("zone") == zone)["carbon_g_per_kwh"].to_numpy().copy()


def week() -> Jobs:
    """Return GAIA's jobs of one week."""
    return read_jobs(require_traces("grids/gaia_pai_1k.csv"))


def hours_of_waiting(jobs: Jobs, of: Run) -> float:
    """Return the hours from arrival to end less the length, mean over jobs."""
    last = np.zeros(len(jobs.arrival), np.int64)
    np.maximum.at(last, of.job, of.start + of.length)
    return float((last - jobs.arrival - jobs.length).mean() / HOUR)


@pytest.mark.slow
def test_the_cells_are_the_printed_texts() -> None:
    """173 shared numbers of Figures 8 to 12 are equal to the last printed digit."""
    golden = require_traces("../golden/grids/gaia_cells.csv").read_text().splitlines()
    found = cells(week(), year(ZONE)[FIRST_HOUR : FIRST_HOUR + HOURS])
    texts = {tuple(str(v) for v in row.values())[:-1]: row["printed"] for row in found}
    assert len(texts) == 251
    for row in csv.DictReader(golden):
        assert texts[tuple(row.values())[:-2]] == row["printed"], row


@pytest.mark.slow
def test_the_published_row_of_wait_awhile_needs_the_defect() -> None:
    jobs, x = week(), year(ZONE)[FIRST_HOUR : FIRST_HOUR + HOURS]
    now = play(jobs, x, NOW).carbon.sum()
    assert play(jobs, x, WAIT_AWHILE).carbon.sum() / now == pytest.approx(0.607509, abs=5e-7)
    released = play(jobs, x, POLICIES["wait_awhile"])
    assert released.carbon.sum() / now == pytest.approx(0.546196, abs=5e-7)
    assert released.wait_h == pytest.approx(8.964, abs=5e-4)


@pytest.mark.nightly
@pytest.mark.parametrize("zone", ["AU-SA", "PE"])
def test_windows_are_those_of_the_prototype(zone: str) -> None:
    golden = pl.read_csv(require_traces("../golden/grids/gaia_windows_prototype.csv"))
    jobs, x = week(), year(zone)
    chosen = golden.filter((pl.col("zone") == zone) & (pl.col("first_hour") == 2500))
    assert chosen.height == len(POLICIES)
    for row in chosen.rows(named=True):
        of = play(jobs, x[2500 : 2500 + HOURS], POLICIES[row["policy"]])
        assert of.carbon.sum() == pytest.approx(row["carbon"], rel=1e-9)
        assert hours_of_waiting(jobs, of) == pytest.approx(row["delay_h"], abs=1e-6)


@pytest.mark.slow
def test_the_general_rules_are_gaias_where_there_are_no_reserved_cores() -> None:
    jobs, x = week(), year(ZONE)
    work = work_of(jobs, FIRST_HOUR)
    for name in ("lowest_slot", "lowest_window", "carbon_time"):
        of = play(jobs, x[FIRST_HOUR : FIRST_HOUR + HOURS], POLICIES[name])
        start = starts(work, x, Rule(name, "perfect"))
        carbon = integral(x, start, start + work.run) @ work.cores
        assert carbon / 1e3 == pytest.approx(of.carbon.sum(), rel=1e-9)


def test_ties_leave_the_heap_as_pythons_does() -> None:
    class Item:
        def __init__(self, number: int) -> None:
            self.number = number

        def __lt__(self, other: "Item") -> bool:
            return bool(priority[self.number] < priority[other.number])

    rng = np.random.default_rng(0)
    priority = rng.integers(0, 4, 60)
    expected: list[Item] = []
    heap = np.empty(60, np.int64)
    for number in range(60):
        heapq.heappush(expected, Item(number))
        heap[number] = number
        _rise(heap, priority, number)
    order = [_pop(heap, priority, size) for size in range(60, 0, -1)]
    assert order == [heapq.heappop(expected).number for _ in range(60)]


def test_a_day_by_hand() -> None:
    """A job of an hour on two cores, in hours of 500, 300, 100 g/kWh and a wait of 6 h.

    On the reserved cores it costs nothing itself; these cost .4 of the price until its start.
    """
    jobs = jobs_of(np.array([0.0]), np.array([3600.0]), np.array([2]))
    x = np.array([500.0, 300, 100, 200, 200, 200, 200, 200])
    of = play(jobs, x, Policy("carbon", "lowest"))
    assert of.start.tolist() == [2 * HOUR]
    assert of.carbon.sum() == pytest.approx(2 * 0.1)
    assert of.bill == pytest.approx(2 * 0.0624)
    of = play(jobs, x, Policy("carbon", "lowest", reserved=2))
    assert of.bill == pytest.approx(2 * 0.4 * 2 * 0.0624)
    assert play(jobs, x, Policy("cost", "oracle", reserved=2)).start.tolist() == [0]
    assert play(jobs, x, Policy("cost", "oracle", reserved=1)).start.tolist() == [6 * HOUR]


@pytest.mark.nightly
def test_the_page_is_made(tmp_path) -> None:
    require_traces("grids/carbon_2022.parquet")
    about = {
        "kind": "reproduction", "paper": "gaia", "title": PROTOCOL.title,
        "source": PROTOCOL.source, "setting": {"seeds": [0], "quick": True}, "stages": [],
        "provenance": {},
    }  # fmt: skip
    setting = Setting((0,), quick=True)
    (tmp_path / "gaia").mkdir()
    page = PROTOCOL.publish(tmp_path / "gaia", setting, about)
    assert "Nothing is trained" in page.read_text()
    assert pl.read_csv(tmp_path / "cells.csv").height == 251
