"""Tests of the measurements of a record: golden numbers, and small records by hand."""

import numpy as np
import pytest

from hindcast.pipeline.whatif.closed import closed_times, without
from hindcast.pipeline.whatif.measures import delta_of, measure, pooled
from tests.pipeline.whatif.records import by_hand, golden, record

CASES = "cases/whatif/grade.csv"
REAL = "golden/whatif/real.csv"


def values(found):
    longest = np.sort(found.stretches[2])[-3:].sum()
    return {
        "over": found.over / max(found.held, 1),
        "open": found.open / max(found.waiting, 1),
        "passed": found.passed / max(found.twins, 1),
        "twins": found.twins,
        "odd": found.odd / max(found.starts, 1),
        "starts": found.starts,
        "reaction": found.reaction,
        "delta": found.delta,
        "alone": len(found.alone),
        "in_longest": longest / max(found.stretches[2].sum(), 1),
        "fitting": found.fitting / max(found.waiting, 1),
    }


@pytest.mark.parametrize("case", ["sdsc-halves", "ctc-held", "kth-day", "kth-larger", "sdsc-a"])
def test_cases_of_known_schedulers_have_their_golden_measurements(case):
    row = next(r for r in golden(CASES).iter_rows(named=True) if r["case"] == case)
    for name, value in values(measure(record(case))).items():
        if name in row:
            assert value == pytest.approx(row[name], rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize(
    "log",
    [
        "KTH-SP2-1996-2",
        pytest.param("SDSC-SP2-1998-4", marks=pytest.mark.slow),
        pytest.param("SDSC-BLUE-2000-4", marks=pytest.mark.nightly),
    ],
)
def test_real_logs_have_their_golden_measurements(log):
    row = next(r for r in golden(REAL).iter_rows(named=True) if r["log"] == log)
    for name, value in values(measure(record(log))).items():
        if name in row:
            assert value == pytest.approx(row[name], rel=1e-9, abs=1e-12), name


def test_waiting_beside_a_job_that_does_not_fit_is_not_open():
    """Job 1 wants the whole machine, job 2 one processor: only 100 s after job 1 began counts."""
    found = measure(by_hand(4, (0, 0, 1000, 3), (0, 1000, 1000, 4), (0, 5000, 10, 1)))
    assert found.waiting == 1000 + 5000
    assert found.stretches.tolist() == [[2000], [5000], [3000]]
    assert found.open == 3000 - 60
    assert (found.odd, found.starts) == (1, 2)


def test_processors_beyond_the_machine_are_counted_by_seconds():
    longer = measure(by_hand(4, (0, 0, 100, 3), (0, 0, 10, 3), (0, 50, 1, 1)))
    assert (longer.over, longer.held) == (2 * 10, 3 * 50 + 3 * 10)


def test_a_later_twin_that_starts_first_is_passed_and_unknown_users_have_no_twins():
    jobs = [(0, 0, 100, 4), (1, 300, 100, 4), (2, 100, 100, 4), (400, 400, 100, 4)]
    found = measure(by_hand(4, *jobs))
    assert (found.passed, found.twins) == (1, 1)
    assert measure(by_hand(4, *jobs, user=[-1] * 4)).twins == 0
    assert measure(by_hand(4, *jobs, queue=[1, 1, 2, 2])).twins == 0


def test_a_start_is_odd_only_long_after_the_last_event():
    """Jobs 1 and 2 fit all the time; job 2 starts 60 s after an event, which is not odd."""
    jobs = [(0, 0, 10_000, 1), (10, 1_000, 10_000, 1), (20, 1_060, 10_000, 1)]
    assert measure(by_hand(4, *jobs)).odd == 1
    assert measure(by_hand(4, *jobs, (940, 940, 1, 1))).odd == 0


def test_jobs_of_unknown_start_are_not_there():
    jobs = [(0, 0, 1000, 3), (0, 1000, 1000, 4), (5, 5000, 10, 1)]
    known, found = measure(by_hand(4, *jobs)), measure(by_hand(4, *jobs, (7, None, 99, 4)))
    assert values(known) == values(found)


def test_the_reaction_is_the_median_of_jobs_that_came_alone():
    jobs = [(10_000 * i, 10_000 * i + 100 + i, 10, 1) for i in range(31)]
    found = measure(by_hand(4, *jobs))
    assert (found.reaction, found.delta, len(found.alone)) == (115, 230, 31)
    assert measure(by_hand(4, *jobs[:29])).reaction == 0
    assert delta_of(np.full(30, 3600)) == 600


def test_sums_of_pools_are_those_of_the_parts():
    halves = [
        measure(by_hand(4, (0, 0, 100, 3), (0, start, 10, 3), (0, 500, 1, 1)))
        for start in (50, 100)
    ]
    both = pooled(halves)
    assert both.over == halves[0].over > 0
    assert both.waiting == halves[0].waiting + halves[1].waiting


def test_a_closed_day_is_found_to_the_second_and_left_out():
    day = record("kth-day")
    [time] = closed_times(day, measure(day))
    assert (time.begin, time.end, time.jobs, time.share) == (2_066_694, 2_160_000, 119, 1.0)
    rest = measure(without(day, [time]))
    assert round(rest.open / rest.waiting, 4) == 0.0003
    assert rest.odd == 0
    halves = record("sdsc-halves")
    assert closed_times(halves, measure(halves)) == ()


def test_a_stretch_in_which_jobs_start_after_their_wait_is_no_closed_time():
    """Every job is held for an hour, so that some job always waits although it fits."""
    jobs = by_hand(4, *[(900 * i, 900 * i + 3600, 10, 1) for i in range(200)])
    assert measure(jobs).stretches.shape == (3, 1)
    assert closed_times(jobs, measure(jobs)) == ()
