"""Tests of forecasts on made logs with a known law of run times, and of what they stand beside."""

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.forecast import forecasts as f
from hindcast.pipeline.forecast import plays
from hindcast.pipeline.forecast.calibration import LEVELS, quantiles_of
from hindcast.pipeline.whatif.orders import policy_of
from tests.pipeline.forecast.made_past import made_record, scheduled

EASY = policy_of("fcfs_easy")


@pytest.fixture(scope="module")
def past():
    return f.simulated(made_record(3000, gap_s=1100.0), EASY)


@pytest.mark.slow
def test_where_the_law_is_known_intervals_cover_what_they_say(past):
    """Run times follow one law per user, so calibrated plays beat requested times and past waits.

    With 250 jobs, three standard errors of a share of one half are .1.
    """
    found = f.check(past, EASY, 250, seed=0, draws=30)
    drawn = found.scores["draws"]
    for percent, coverage in drawn.coverage.items():
        error = np.sqrt(percent * (100 - percent) / found.jobs) / 100
        assert coverage == pytest.approx(percent / 100, abs=3 * error + 0.02)
    for name in ("requested", "reservation", "past"):
        assert drawn.loss_h < 0.9 * found.scores[name].loss_h
    waits = past.record.start - past.record.arrive
    assert found.at_once == pytest.approx((waits[past.record.first :] == 0).mean())


def test_a_forecast_depends_on_its_own_job_alone(past):
    """And the same seed gives the same numbers, another seed others."""
    jobs = f.waited(past)[200:205]
    all_at_once = f.forecasts_of(past, EASY, jobs, 3, draws=10)
    for name in f.PLAYED:
        alone = f.forecasts_of(past, EASY, jobs[2:3], 3, draws=10).quantiles[name]
        np.testing.assert_array_equal(alone[0], all_at_once.quantiles[name][2])
    other = f.forecasts_of(past, EASY, jobs, 4, names=("draws",), draws=10)
    assert (other.quantiles["draws"] != all_at_once.quantiles["draws"]).any()


@pytest.mark.slow
def test_forecasts_are_calibrated_on_jobs_that_have_started(past):
    jobs = f.waited(past)[100:400]
    made = f.forecasts_of(past, EASY, jobs, 0, names=("draws",), draws=5)
    now = int(made.moment[200])
    before = made.start <= now
    assert 39 < before.sum() < len(jobs)
    kept = f.Forecasts(*(of[before] for of in (made.job, made.moment, made.start, made.wait)),
                       {"draws": made.quantiles["draws"][before]})  # fmt: skip
    np.testing.assert_array_equal(made.shifts("draws", now), kept.shifts("draws", 1 << 60))
    chosen = f.earlier_jobs(past, now, np.random.default_rng(0))
    assert (past.record.start[chosen] <= now).all()
    assert len(chosen) == min(300, (past.record.start[f.waited(past)] <= now).sum())


def test_the_reservation_is_the_first_gap_and_requested_times_are_played():
    """One job holds all processors for 100 s; two wait, of which the short one is second."""
    record = made_record(40)
    past = plays.past_of(scheduled(record, "fcfs_easy"))
    now = int(record.arrive[-1])
    moment = plays.moment_of(past, now, EASY[0])
    columns = {
        "cpu": [16, 16, 4], "requested": [100, 50, 20], "arrive": [now - 40, now - 9, now - 5],
        "start": [now - 40, -1, -1], "user": [0, 0, 0], "key": [0, 0, 0],
    }  # fmt: skip
    values = {name: np.array(of, np.int64) for name, of in columns.items()}
    rest = {name: np.full(3, -1) for name in plays.OF_JOB if name not in values}
    made = type(moment)(**{**vars(moment), **values, **rest, "running": 1, "row": np.arange(3),
                           "counted": np.arange(3) > 0, "chain": np.full(3, -1)})  # fmt: skip
    asked = np.array([1, 2])
    assert {k: v.tolist() for k, v in f.plan(past, made, EASY, asked).items()} == {
        "requested": [60, 110], "reservation": [60, 110],
    }  # fmt: skip
    by_length = f.plan(past, made, policy_of("sjf_easy"), asked)
    assert by_length["requested"].tolist() == [80, 60]


def test_past_waits_are_those_of_jobs_of_like_area_in_a_like_queue(past):
    record, waits = past.record, past.record.start - past.record.arrive
    job = int(f.waited(past)[-1])

    def label(one):
        queue = ((record.arrive <= record.arrive[one]) & (record.start > record.arrive[one])).sum()
        area = int(record.requested[one] * record.cpu[one])
        return (area.bit_length() - 1) // 2, int(max(queue, 1)).bit_length() - 1

    before = [
        one for one in f.waited(past).tolist()
        if record.start[one] <= record.arrive[job] and label(one) == label(job)
    ]  # fmt: skip
    last = sorted(before, key=lambda one: (record.start[one], one))[-500:]
    assert len(last) >= 30
    want = quantiles_of(waits[last][:, None])[0]
    np.testing.assert_array_equal(f.past_waits(past, np.array([job]))[0], want)
    first = f.past_waits(past, f.waited(past)[:1])
    assert first.shape == (1, len(LEVELS))


def test_a_log_in_which_nobody_waits_cannot_be_checked():
    idle = f.simulated(made_record(50, gap_s=50_000.0), EASY)
    with pytest.raises(InputError, match="no job waited"):
        f.check(idle, EASY, 10, 0)
