"""Tests of the grade: golden cases, good schedulers of every kind, and spoilt machines."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.whatif.batch_systems.mine import read_mine
from hindcast.pipeline.whatif.grade import grade
from hindcast.pipeline.whatif.orders import ASKED, EASY, Order
from hindcast.pipeline.whatif.pools import labels, parse_pools, split
from tests.pipeline.whatif.records import by_hand, golden, record, workload
from tests.pipeline.whatif.schedulers import (
    ALL,
    ORDERS,
    Multifactor,
    Scheduler,
    served,
    slice_of,
)  # fmt: skip

CASES = (
    "ctc-a", "ctc-b", "ctc-held", "kth-a", "kth-b", "kth-day", "kth-larger", "sdsc-a", "sdsc-b",
    "sdsc-halves",
)  # fmt: skip
LOGS = ("KTH-SP2-1996-2", "SDSC-SP2-1998-4", "CTC-SP2-1996-3")
HOUR_S, DAY_S = 3600, 86_400


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [c if c in ("kth-a", "kth-larger") else pytest.param(c, marks=pytest.mark.slow)
             for c in CASES]
)  # fmt: skip
def test_cases_of_known_schedulers_have_their_golden_grades(case):
    row = next(r for r in golden("cases/whatif/grade.csv").iter_rows(named=True)
               if r["case"] == case)  # fmt: skip
    found = grade([record(case)])
    for name, value in found.numbers.items():
        assert value == pytest.approx(row[name], rel=1e-9, abs=1e-12), name
    assert " ".join(f"{name}:{of}" for name, of in found.letters.items()) == row["letters"]
    assert found.nearest == row["best"]
    assert found.known == (row["best"] if row["explained"] >= 0.95 else None)
    assert found.letter == ("B" if case == "kth-day" else row["letter"])


@pytest.mark.slow
def test_a_closed_day_is_named_and_left_out_at_best_b():
    found = grade([record("kth-day")])
    assert max(found.letters.values()) == "D"
    [time] = json.loads(json.dumps(found.json))["closed"]
    assert (time["from"], time["to"], time["jobs"]) == (2_066_694, 2_160_000, 119)
    assert (found.letter, set(found.rest_letters.values())) == ("B", {"A"})
    assert round(found.rest["open"], 4) == 0.0003
    assert round(found.rest["explained"], 4) == 0.9997
    assert grade([record("kth-day")], stops=[(2_066_694, 2_160_000)]).rest == found.rest


@pytest.mark.slow
def test_halves_are_bad_as_one_machine_and_good_as_two():
    halves = record("sdsc-halves")
    names = labels(workload("sdsc-halves"), halves, "partition")
    pools = split(halves, parse_pools("1=64,2=64"), names)
    assert [grade([one]).letter for one in pools] == ["A", "A"]
    both = grade(pools)
    assert (both.letter, both.known, both.numbers["explained"]) == ("A", "fcfs easy", 1.0)
    assert both.numbers["starts"] == grade([halves]).numbers["starts"]


def test_nearly_no_wait_has_no_grade_and_unknown_starts_are_counted():
    jobs = [(100 * i, 100 * i, 50, 1) for i in range(20)]
    found = grade([by_hand(4, *jobs, (5, None, 150, 2))])
    assert (found.letter, found.unknown, found.jobs) == ("-", 1, 21)
    assert found.unknown_work == 300 / (300 + 20 * 50)
    assert (found.at_once, found.mean_wait_s, found.nearest) == (1.0, 0.0, "")
    nothing = grade([by_hand(4, (0, None, 10, 4))])
    assert (nothing.letter, nothing.unknown_work) == ("-", 1.0)


def test_eligible_times_are_what_a_job_waits_from():
    """Every job is held for an hour and starts when it is eligible."""
    jobs = by_hand(4, *[(100 * i, 100 * i, 50, 4) for i in range(300)])
    found = grade([replace(jobs, submit=jobs.arrive - HOUR_S)])
    assert (found.letter, found.mean_wait_s) == ("-", 0.0)


@pytest.mark.slow
def test_the_reader_s_own_order_is_one_of_the_family():
    """A Python function that orders by user is no member without `mine`."""
    kth = slice_of(record("KTH-SP2-1996-2"), 3000, 350)
    kth = replace(kth, user=kth.row % 7)

    def ask(now, jobs, arrive):
        return (kth.user[jobs] + 0.5 * (arrive[jobs] % 2)).astype(float)

    class Own:
        used = staticmethod(lambda job, now, sign: None)

        @staticmethod
        def key(now, waiting):
            return -ask(now, waiting, kth.arrive)

    served_so = served(kth, Scheduler(Own).starts(kth, kth.processors))
    mine = Order("mine", ASKED, ask=lambda _run, _ints, _floats: ask)
    assert grade([served_so]).known is None
    found = grade([served_so], (mine, EASY))
    assert (found.known, found.numbers["explained"], found.numbers["idle"]) == ("mine easy", 1, 0)
    assert len(found.members) == 21
    for own, count in ((replace(EASY, depth=500), 21), (replace(EASY, reservations=7), 22)):
        found = grade([served_so], (mine, own)).members
        assert (len(found), found[0].name, found[0].share) == (count, "mine easy", 1.0)


@pytest.mark.slow
def test_a_reader_s_slurm_conf_is_known_where_no_usual_order_is(tmp_path):
    """sdsc-a is served by multifactor priority with classic fair share."""
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "PriorityType=priority/multifactor\nPriorityFlags=NO_FAIR_TREE\nPriorityFavorSmall=YES\n"
        "PriorityWeightAge=1000\nPriorityMaxAge=7-0\nPriorityWeightJobSize=1000\n"
        "PriorityWeightFairshare=10000\nPriorityDecayHalfLife=7-0\n"
        "SchedulerParameters=bf_job_part_count_reserve=1\n"
    )
    jobs = record("sdsc-a")
    mine = read_mine(str(conf), jobs)
    found = grade([jobs], (mine.order, mine.mode))
    assert (found.known, found.numbers["explained"], found.numbers["idle"]) == ("mine easy", 1, 0)


def random_record(rng, size, logs):
    """Return jobs of a log that a scheduler of any kind has served, and what it was."""
    log = record(logs[rng.integers(len(logs))])
    jobs = slice_of(log, int(rng.integers(len(log.row) - size)), size)
    order = [*ORDERS, None, None][rng.integers(8)]
    weights = tuple(10.0 ** rng.uniform(1, 5, 3))
    reservations = int([0, 1, ALL, rng.integers(2, 30)][rng.integers(4)])
    cycle = int([1, 30, 60, 300, rng.integers(1, 301)][rng.integers(5)])
    scheduler = Scheduler(order or Multifactor(jobs, jobs.processors, weights), reservations, cycle)
    told = (order or weights, reservations, cycle)
    return served(jobs, scheduler.starts(jobs, jobs.processors)), told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "size", "logs"),
    [
        (0, 300, LOGS[:1]),
        *(pytest.param(seed, 1500, LOGS, marks=pytest.mark.nightly) for seed in range(1, 21)),
    ],
)
def test_schedulers_of_every_kind_on_their_machine_have_an_a(seed, size, logs):
    """Five of each seed: orders or random weights, 0 to all reservations, cycles to 300 s."""
    rng = np.random.default_rng(seed)
    for _ in range(5):
        jobs, told = random_record(rng, size, logs)
        found = grade([jobs])
        assert found.letter in ("A", "-"), (told, found.letters, found.numbers)
        order, reservations, _cycle = told
        mode = {0: "none", 1: "easy", ALL: "all"}.get(reservations)
        if found.letter == "A" and isinstance(order, str) and mode:
            share = next(m.share for m in found.members if m.name == f"{order} {mode}")
            assert share == found.numbers["explained"] == 1.0, told


def spoilt(log: str, first: int, size: int, order: str, reservations: int):
    """Yield records of machines that are not what their header says, by name."""
    jobs = slice_of(record(log), first, size)
    true, rng = jobs.processors, np.random.default_rng(first)
    scheduler = Scheduler(order, reservations)

    def fitting(processors):
        return jobs.take(np.flatnonzero(jobs.cpu <= processors))

    for more in (1.05, 1.1, 1.2):
        yield f"larger {more}", served(jobs, scheduler.starts(jobs, round(more * true)))
    for less in (0.95, 0.8, 0.5):
        left = fitting(int(less * true))
        yield f"smaller {less}", served(left, scheduler.starts(left, int(less * true)))
    for share in (0.02, 0.05, 0.25):
        hold = HOUR_S * (rng.random(size) < share)
        yield f"held {share}", served(jobs, scheduler.starts(jobs, true, hold))
    yield "all held", served(jobs, scheduler.starts(jobs, true, HOUR_S))
    begin = int(jobs.arrive[size // 2]) // DAY_S * DAY_S
    day = Scheduler(order, reservations, closed=(begin, begin + DAY_S))
    yield "closed day", served(jobs, day.starts(jobs, true))
    halves = fitting(true // 2)
    starts = np.zeros(len(halves.row), np.int64)
    for odd in (0, 1):
        mine = np.flatnonzero(halves.user % 2 == odd)
        starts[mine] = scheduler.starts(halves.take(mine), true // 2)
    yield "two pools", served(halves, starts)


@pytest.mark.nightly
def test_nearly_all_spoilt_machines_have_no_a():
    """Holds of 2 % of the jobs lie at the limits of A and may pass, no other fault."""
    found = {}
    for log, first, size, order, reservations in (
        (LOGS[0], 3000, 3000, "saf", 1), (LOGS[1], 6000, 3000, "fcfs", 1),
        (LOGS[2], 9000, 3000, "lxf", ALL), (LOGS[0], 15000, 3000, "unicef", 1),
    ):  # fmt: skip
        for name, jobs in spoilt(log, first, size, order, reservations):
            found[log, first, name] = grade([jobs]).letter
    good = [name for name, letter in found.items() if letter == "A"]
    assert len(found) == 48
    assert {name for *_, name in good} <= {"held 0.02"}
    assert len(good) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["held 0.25", "two pools"])
def test_a_spoilt_machine_has_no_a(name):
    found = dict(spoilt(LOGS[0], 3000, 700, "fcfs", 1))[name]
    assert grade([found]).letter in ("B", "C", "D")


@pytest.mark.slow
def test_unknown_starts_change_no_number():
    jobs = slice_of(record("KTH-SP2-1996-2"), 0, 1000)
    jobs = served(jobs, Scheduler().starts(jobs, jobs.processors))
    more = jobs.take(np.sort(np.r_[np.arange(1000), np.arange(0, 1000, 3)]))
    twice = np.flatnonzero(np.r_[False, more.row[1:] == more.row[:-1]])
    start = more.start.copy()
    start[twice] = NEVER
    found = grade([replace(more, start=start)])
    assert found.numbers == grade([jobs]).numbers
    assert found.unknown == len(twice)
