"""Changes of the world: what they say, what they do to a small run, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.scenarios.queue.layout import NEVER
from hindcast.pipeline.whatif.orders import ASKED, GREEDY, Mode, Order, order_of, policy_of
from hindcast.pipeline.whatif.outcomes import counted
from hindcast.pipeline.whatif.playing import play
from hindcast.pipeline.whatif.record import Record
from hindcast.pipeline.whatif.run import UNPLANNED, run_of
from hindcast.pipeline.whatif.shakes import shake, shaken, spread
from hindcast.pipeline.whatif.worlds import changed, compare, read_change

FCFS, EASY = policy_of("fcfs_easy")


def record_of(jobs, processors=4, waits=0) -> Record:
    """Return a record of jobs (submit, processors, run, requested), all of one user."""
    submit, cpu, run, requested = np.array(jobs, dtype=np.int64).T.copy()
    unknown = np.full(len(jobs), -1)
    key = np.unique(cpu * 10**9 + requested, return_inverse=True)[1].reshape(-1)
    return Record(
        processors=processors, row=np.arange(len(jobs)), submit=submit, arrive=submit, cpu=cpu,
        run=run, requested=requested, user=np.zeros(len(jobs), np.int64), key=key, queue=unknown,
        partition=unknown, qos=unknown, account=unknown, nodes=unknown, start=submit + waits,
    )  # fmt: skip


def played(jobs, change, processors=4, mode=EASY, order=FCFS):
    """Return the world of a cold run of all jobs, and the starts there."""
    record = record_of(jobs, processors)
    world = changed(read_change(change), record, run_of(record, 0, warm=False))
    return world, play(world.run, order, world.options(mode))


def test_halves_of_a_processor_are_rounded_up():
    for processors, change, expected in (
        (10, "+5%", 11), (10, "-5%", 10), (30, "+5%", 32), (128, "-10%", 115), (100, "+2.5%", 103),
        (8, "+4", 12), (8, "-4", 4), (8, "6", 6), (8, "=6", 6),
    ):  # fmt: skip
        record = record_of([(0, 1, 5, 5)], processors)
        run = run_of(record, 0, warm=False)
        world = changed(read_change(f"processors={change}"), record, run)
        assert world.run.processors == expected, change


def test_requests():
    runs, requests = (10, 10, 7, 1), (30, 4, 20, 9)
    record = record_of([(0, 1, run, r) for run, r in zip(runs, requests, strict=True)])
    for change, expected in (
        ("exact", [10, 10, 7, 1]), ("2x", [20, 20, 14, 2]), ("2x,capped", [20, 4, 14, 2]),
        ("1.5x", [15, 15, 11, 2]), ("error-20%", [26, 6, 18, 8]), ("error-50%", [20, 7, 14, 5]),
        ("error-100%", [10, 10, 7, 1]), ("error-0%", [30, 4, 20, 9]),
    ):  # fmt: skip
        run = changed(read_change(f"requests={change}"), record, run_of(record, 0, warm=False)).run
        assert run.requested.tolist() == expected, change


def test_jobs_too_wide_are_removed_and_running_ones_stay():
    record = record_of([(0, 4, 50, 50), (10, 4, 5, 5), (11, 2, 5, 9), (12, 1, 5, 5)])
    run = run_of(record, 1)
    world = changed(read_change("processors=-50%,refuse=8s"), record, run)
    assert (world.removed, world.run.running, world.run.row.tolist()) == (2, 1, [0, 3])
    starts = play(world.run, FCFS, EASY)
    assert starts.tolist() == [0, 50]  # free processors begin at -2
    values = compare(run, play(run, FCFS, EASY), world, starts, "wait")
    assert (values.jobs, values.mean, values.same_jobs) == (1, 38.0, 43.0)


def test_a_long_job_is_a_chain_whose_parts_follow_each_other():
    """25 s under a limit of 10 s: parts of 10, 10 and 5 s that ask for 10, 10 and 8.

    The second part comes at 10, behind the job that was submitted then, and waits for it.
    """
    world, starts = played([(0, 4, 25, 28), (10, 4, 3, 30), (15, 1, 2, 2)], "limit=10s")
    run = world.run
    assert world.chains == 1
    assert run.requested.tolist() == [10, 10, 2, 10, 8]
    assert run.run.tolist() == [10, 3, 2, 10, 5]
    assert (run.arrive == UNPLANNED).tolist() == [False, False, False, True, True]
    assert starts.tolist() == [0, 10, 23, 13, 25]
    jobs = counted(run, starts)
    assert jobs.wait.tolist() == [30 - 0 - 25, 0, 8]
    assert jobs.run.tolist() == [25, 3, 2]


def test_parts_of_one_second_come_in_order_of_their_chains():
    """Both jobs end their first part at 10; the chain of the earlier row goes first."""
    jobs = [(0, 2, 20, 20), (0, 2, 20, 20), (1, 3, 5, 5)]
    _, starts = played(jobs, "limit=10s", mode=Mode(0))
    assert starts.tolist() == [0, 0, 10, 15, 15]


def test_a_limit_cuts_requests_of_short_jobs_and_running_jobs_stay_whole():
    record = record_of([(0, 1, 90, 95), (10, 1, 5, 60)])
    world = changed(read_change("limit=30s"), record, run_of(record, 1))
    assert (world.run.requested.tolist(), world.chains) == ([95, 30], 0)


def test_requests_come_after_the_limit():
    world, _ = played([(0, 1, 25, 100)], "requests=exact,limit=10s")
    assert world.run.requested.tolist() == [10, 10, 5]


def test_depth_counts_the_head():
    """A hole of 2 processors beside the head; behind it a wide, a long and a short job."""
    jobs = [(0, 2, 50, 50), (1, 4, 10, 10), (2, 4, 10, 10), (3, 1, 5, 5), (3, 1, 5, 5)]
    for depth, expected in ((0, 70), (1, 70), (2, 70), (3, 3), (9, 3)):
        starts = played(jobs, f"depth={depth}")[1]
        assert starts[3] == expected, depth
    assert played(jobs, "depth=3")[1][4] == 8  # number 4 at second 3, and 3 at the next moment


def test_every_tested_job_reserves():
    """Job 3 fits beside the head's reservation, but would delay that of job 2."""
    jobs = [(0, 2, 10, 10), (1, 3, 10, 10), (2, 3, 10, 10), (3, 1, 30, 30), (4, 2, 9, 9)]
    easy, planned = played(jobs, "reservations=1")[1], played(jobs, "reservations=all")[1]
    assert easy.tolist() == [0, 10, 20, 3, 30]
    assert planned.tolist() == [0, 10, 20, 3, 30]
    jobs[3] = (3, 2, 30, 30)
    easy, planned = played(jobs, "reservations=1")[1], played(jobs, "reservations=all")[1]
    assert (easy[3], planned[3]) == (30, 30)


def test_conservative_is_fcfs_with_all_reservations():
    rng = np.random.default_rng(0)
    jobs = [(int(rng.integers(0, 99)), int(rng.integers(1, 5)), int(r), int(r * rng.integers(1, 4)))
            for r in rng.integers(1, 40, 80)]  # fmt: skip
    jobs.sort()
    one = played(jobs, "reservations=all")[1]
    record = record_of(jobs)
    other = play(run_of(record, 0, warm=False), *policy_of("conservative"))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("processor=+5%", "unknown change 'processor'; did you mean 'processors'?"),
        ("capped", "unknown change 'capped'"),
        ("processors=5%", r"processors=5%: expected \+10%, -10%, \+8, -8 or 128"),
        ("processors=1.5", "processors=1.5: expected"),
        ("requests=exactly", "requests=exactly: expected exact, 2x, 2x,capped or error-20%"),
        ("requests=0x", "requests=0x: expected"),
        ("requests=error-101%", "expected exact"),
        ("limit=12", None),
        ("limit=12 parsecs", "limit=12 parsecs: expected a time such as 12h"),
        ("refuse=0", "refuse=0: expected a time"),
        ("depth=-1", "depth=-1: expected a whole number"),
        ("reservations=0", "reservations=0: expected all, or a whole number of jobs from 1 on"),
        ("depth=3,depth=4", "depth stands there twice"),
        ("", "unknown change ''"),
        ("requests=99999999999999999999x", "2x,capped or error-20%, of nine digits and six"),
        ("requests=10001x", "requests=10001x: expected"),
        ("requests=1.0000000000001x,capped", "expected exact"),
        ("limit=99999999999999999999h", "expected a time such as 12h"),
        ("processors=+99999999999999999999", "expected"),
        ("processors=+99999999999999999999%", "expected"),
        ("depth=99999999999999999999", "expected a whole number"),
        ("reservations=99999999999999999999", "expected all"),
    ],
)
def test_what_is_no_change_is_refused(text, message):
    if message is None:
        assert read_change(text).parts == {"limit": "12"}
        return
    with pytest.raises(InputError, match=message):
        read_change(text)


def test_a_world_without_jobs_or_machine_is_refused():
    for change, message in (
        ("refuse=5s", "no job is left"), ("processors=-9", "at least 1"),
        ("processors=+999999999999", "at most 1,000,000,000,000 after the change"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            played([(0, 1, 9, 9)], change)


def test_similar_jobs_are_those_of_the_changed_requests():
    """The same user's runs of 10 and 40 s: exact requests tell them apart, those of the log not."""
    record = record_of([(0, 1, 10, 60), (0, 1, 40, 60), (100, 1, 10, 60), (100, 1, 40, 60)])
    run = run_of(record, 2)
    assert run.similar[run.key].tolist() == [40, 40]
    exact = changed(read_change("requests=exact"), record, run).run
    assert exact.similar[exact.key].tolist() == [10, 40]


@pytest.mark.parametrize("name", ["aged_expected_easy", "wsept_greedy"])
def test_run_times_are_learned_from_the_changed_requests(name):
    """A world is the run of a log that had these requests from its beginning."""
    rng = np.random.default_rng(3)
    run = rng.integers(1, 4000, 160)
    jobs = np.stack([np.sort(rng.integers(0, 60_000, 160)), rng.integers(1, 5, 160), run,
                     run * rng.integers(1, 40, 160)], axis=1)  # fmt: skip
    record = replace(record_of(jobs, waits=300), user=rng.integers(-1, 3, 160))
    record = replace(record, key=np.where(record.user < 0, -1, record.key))
    other = jobs.copy()
    other[:, 3] = run
    exact = replace(record_of(other, waits=300), user=record.user)
    order, mode = policy_of(name)
    world = changed(read_change("requests=exact"), record, run_of(record, 60)).run
    starts = play(world, order, mode)
    wanted = play(replace(run_of(exact, 60), key=world.key, similar=world.similar), order, mode)
    np.testing.assert_array_equal(starts, wanted)
    assert (starts != play(run_of(record, 60), order, mode)).any()
    chained = changed(read_change("limit=20min"), record, run_of(record, 60)).run
    assert (play(chained, order, mode)[chained.counted] != NEVER).all()


def test_the_shifts_are_those_of_the_definition():
    jobs = [(0, 4, 1000, 1000), *((500, 1, 10, 20) for _ in range(5))]
    run = run_of(record_of(jobs), 1)
    for draw, shifts in ((0, [51, 38, 31, 16, 18]), (1, [28, 31, 46, 57, 2])):
        moved = shaken(run, draw)
        assert moved.submit.tolist() == [0, *(500 + s for s in sorted(shifts))]
        assert moved.row.tolist() == [0, *(1 + np.argsort(shifts, kind="stable"))]
        assert (moved.now, moved.running) == (500, 1)


def test_carried_jobs_are_not_moved_and_pairs_are_drawn_together():
    record = record_of([(0, 4, 50, 50), (5, 1, 7, 9), (20, 2, 9, 9), (21, 3, 9, 12)], waits=0)
    record = replace(record, start=np.array([0, 50, 60, 70]))
    run = run_of(record, 2)
    assert (run.carried, shaken(run, 0).submit[1]) == (1, 5)
    one, other = (shake([run], *policy_of(name), 4) for name in ("fcfs_easy", "sjf_easy"))
    pair = other - one
    assert pair.wait.tolist() == [b - a for a, b in zip(one.wait, other.wait, strict=True)]
    assert spread(pair.wait) == pytest.approx(np.std(pair.wait, ddof=1))


def test_priorities_per_job_and_handicaps():
    jobs = [(0, 4, 10, 10), (1, 4, 10, 10), (2, 4, 10, 10), (3, 4, 10, 10)]
    run = run_of(record_of(jobs), 0, warm=False)
    given = Order("given", 2, numbers=lambda run: np.array([9.0, 1.0, 3.0, 2.0]))
    assert play(run, given, EASY).tolist() == [0, 30, 10, 20]
    later = Order("handicap", 3, numbers=lambda run: np.array([0.0, 1.5, 0.0, 0.0]))
    assert play(run, later, EASY).tolist() == [0, 20, 10, 30]


def test_whole_minutes_are_what_the_scheduler_sees():
    """61 s are two minutes: the job no longer fits before the reservation at 100 s."""
    jobs = [(0, 3, 100, 100), (1, 4, 9, 9), (2, 1, 61, 61)]
    run = run_of(record_of(jobs), 0, warm=False)
    assert play(run, FCFS, EASY)[2] == 2
    minutes = replace(FCFS, minutes=True)
    assert play(run, minutes, EASY)[2] == 109


def test_jobs_after_the_counted_ones_need_not_start():
    run = run_of(record_of([(0, 1, 10, 10), (1, 1, 10, 10)]), 0, 1, follow=1, warm=False)
    assert play(run, order_of("fcfs"), Mode(GREEDY)).tolist() == [0, NEVER]


def test_a_job_wider_than_the_machine_is_refused():
    run = run_of(record_of([(0, 5, 10, 10)]), 0, warm=False)
    with pytest.raises(InputError, match=r"needs 5 processors .* at most the 4 of the machine"):
        play(run, FCFS, EASY)


def test_a_function_that_is_asked_tells_how_far_it_is():
    """A priority from Python orders the jobs, and an interruption has its turn between slices."""
    jobs = [(i, 4, 3, 3) for i in range(3000)]
    run, told = run_of(record_of(jobs), 0, warm=False), []
    newest = Order("newest", ASKED, ask=lambda *_: lambda now, jobs, arrive: arrive[jobs] * 1.0)
    starts = play(run, newest, EASY, told.append)
    assert starts[:4].tolist() == [0, 8997, 8994, 3]
    assert told == sorted(told)
    assert 0 < told[0] < 1
