"""Rules of starts, forecasts and books on a grid: by hand, bounded, and without foresight."""

import numpy as np
import pytest

from hindcast.pipeline.errors import InputError
from hindcast.pipeline.grids.forecasts import FORECASTS, forecast
from hindcast.pipeline.grids.starts import RULES, Rule, Work, bound, integral, paused, starts
from hindcast.pipeline.traces.hourly.ingest import synthetic
from hindcast.pipeline.traces.hourly.series import CARBON
from hindcast.pipeline.workloads.log_columns import peak

ALL = [
    Rule(kind, seen, again)
    for kind in RULES
    for seen in (FORECASTS if kind in {"lowest_slot", "lowest_window", "carbon_time"} else ["day"])
    for again in (False, True)
]


def some_work(count: int = 400, seed: int = 0, hours: int = 900) -> Work:
    """Return drawn jobs, of minutes to days, with lengths that are known only about."""
    rng = np.random.default_rng(seed)
    run = rng.exponential(5.0, count) + 0.05
    submit = np.sort(rng.uniform(200, hours, count))
    known = run * rng.uniform(0.3, 3.0, count)
    return Work(submit, run, known, rng.choice([0.0, 6.0, 24.0], count), rng.integers(1, 9, count))


def carbon() -> np.ndarray:
    """Return two months of the synthetic series."""
    return synthetic(24 * 60).values(CARBON)


def test_the_integral_is_a_sum_over_minutes() -> None:
    x, rng = carbon(), np.random.default_rng(1)
    begin = rng.integers(0, 60_000, 50)
    length = rng.integers(1, 9_000, 50)
    plain = [x[np.arange(b, b + n) // 60].sum() / 60 for b, n in zip(begin, length, strict=True)]
    np.testing.assert_allclose(integral(x, begin / 60, (begin + length) / 60), plain, rtol=1e-9)
    assert np.isnan(integral(x, np.array([1439.0]), np.array([1441.0])))[0]
    assert integral(x, np.array([1439.0]), np.array([1440.0]))[0] == pytest.approx(x[-1])


def test_rules_by_hand() -> None:
    """A job of 2 h comes at 0:30 in hours of 5, 1, 4, 2, 0, 9, 9 and may wait for 4 h."""
    x = np.array([5.0, 1, 4, 2, 0, 9, 9, 9, 9])
    job = Work(*(np.array([value]) for value in (0.5, 2.0, 2.0, 4.0)), np.array([1]))
    # integrals from .5, 1.5, ... are 5.5, 5.5, 4, 6.5, 13.5
    expected = {"now": 0.5, "latest": 4.5, "lowest_slot": 4.0, "lowest_window": 2.5,
                "carbon_time": 2.5}  # fmt: skip
    for kind, start in expected.items():
        assert starts(job, x, Rule(kind, "perfect"))[0] == start
    again = Rule("lowest_window", "perfect", again=True)
    assert starts(job, x, again)[0] == 3.0  # on the hours of the clock: 2 + 0
    assert bound(job, x)[0] == 2.0
    assert paused(job, x, again)[0][0] == pytest.approx(1.0)  # hours 4 and 1


@pytest.mark.parametrize("rule", ALL, ids=lambda r: f"{r.kind}-{r.forecast}-{r.again}")
def test_no_start_is_early_late_or_better_than_the_bound(rule: Rule) -> None:
    x, work = carbon(), some_work()
    start = starts(work, x, rule)
    assert (start >= work.submit).all()
    assert (start <= work.submit + work.wait + 1e-9).all()
    assert (integral(x, start, start + work.run) >= bound(work, x) - 1e-6).all()


@pytest.mark.parametrize(
    "rule",
    [rule for rule in ALL if rule.forecast not in {"perfect", "noise"}],
    ids=lambda r: f"{r.kind}-{r.forecast}-{r.again}",
)
def test_changing_the_future_changes_no_earlier_choice(rule: Rule) -> None:
    x, work = carbon(), some_work()
    other = x.copy()
    other[500:] = np.random.default_rng(2).permutation(other[500:])
    first, second = starts(work, x, rule), starts(work, other, rule)
    decided = np.minimum(first, second) < 500 if rule.again else work.submit < 500
    if rule.kind == "threshold":
        decided = np.minimum(first, second) < 500
    assert decided.any()
    assert (first[decided] == second[decided]).all()


def test_known_lengths_and_perfect_forecasts_reach_the_bound_on_whole_hours() -> None:
    x, work = carbon(), some_work()
    whole = Work(np.floor(work.submit), np.ceil(work.run), np.ceil(work.run), work.wait, work.cores)
    start = starts(whole, x, Rule("lowest_window", "perfect"))
    np.testing.assert_allclose(integral(x, start, start + whole.run), bound(whole, x))


def test_pieces_at_a_perfect_forecast_are_the_cheapest_hours() -> None:
    x, work = carbon(), some_work(60)
    exact = Work(work.submit, work.run, work.run, work.wait, work.cores)
    found, end = paused(exact, x, Rule("now", "perfect"))
    assert (end <= exact.submit + exact.wait + exact.run + 1e-9).all()
    for job in range(60):
        begin, last = exact.submit[job], exact.submit[job] + exact.wait[job] + exact.run[job]
        edges = np.array([begin, *np.arange(np.floor(begin) + 1, last), last])
        parts = np.diff(edges)
        order = np.argsort(x[np.floor(edges[:-1]).astype(int)], kind="stable")
        taken = np.minimum(parts[order], np.maximum(exact.run[job] - (np.cumsum(parts[order]) - parts[order]), 0))  # fmt: skip  # noqa: E501
        assert found[job] == pytest.approx(taken @ x[np.floor(edges[:-1]).astype(int)][order])


def test_a_constant_series_saves_nothing_and_a_shift_changes_nothing() -> None:
    work = some_work()
    flat = np.full(1440, 7.0)
    x = carbon()
    later = Work(work.submit + 48, work.run, work.known, work.wait, work.cores)
    for rule in ALL:
        start = starts(work, flat, rule)
        np.testing.assert_allclose(integral(flat, start, start + work.run), 7.0 * work.run)
        if rule.forecast == "perfect":
            shifted = starts(later, np.concatenate([np.zeros(48), x]), rule) - 48
            np.testing.assert_allclose(shifted, starts(work, x, rule), atol=1e-9)


@pytest.mark.parametrize("crowding", [0.0, 1.0])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", RULES)
def test_lengths_that_are_seen_later_change_no_earlier_start(
    kind: str, again: bool, crowding: float
) -> None:
    """All that has ended by an hour is as it was; other jobs run for .3 to 3 times as long."""
    x, work, changed = carbon(), some_work(), 0
    rule = Rule(kind, again=again, capacity=24, crowding=crowding)
    first, longer = starts(work, x, rule), work.run * np.random.default_rng(5).uniform(0.3, 3, 400)
    for hour in range(250, 900, 50):
        later = first + work.run > hour
        run = np.where(later, np.maximum(longer, hour - first + 1e-6), work.run)
        second = starts(work._replace(run=run), x, rule)
        decided = np.minimum(first, second) < hour
        assert (first[decided] == second[decided]).all()
        changed += (first != second).sum()
    assert changed > 0


def test_a_chosen_start_waits_for_a_job_that_runs_longer_and_takes_no_early_end() -> None:
    """On two cores A is promised 10 to 12 and runs to 14; B, of both cores, and C choose 12 and 13.

    At 12, B waits for A until 14, and D, which comes then, takes the other core. Where A ends at
    11, which B and C do not know, B starts at 12.
    """
    x = np.full(40, 5.0)
    x[12] = 1.0
    x[13] = 2.0
    work = Work(
        np.array([10.0, 10.0, 10.0, 12.0]), np.array([4.0, 1.0, 1.0, 1.0]),
        np.array([2.0, 1.0, 1.0, 1.0]), np.array([0.0, 6.0, 6.0, 6.0]), np.array([1, 2, 1, 1]),
    )  # fmt: skip
    rule = Rule("lowest_window", "perfect", capacity=2)
    assert starts(work, x, rule).tolist() == [10.0, 14.0, 13.0, 12.0]
    early = work._replace(run=np.array([1.0, 1.0, 1.0, 1.0]))
    assert starts(early, x, rule).tolist() == [10.0, 12.0, 13.0, 13.0]


@pytest.mark.parametrize("again", [False, True])
def test_no_moment_has_more_cores_than_the_capacity(again: bool) -> None:
    x, work = carbon(), some_work()
    unlimited = starts(work, x, Rule("lowest_window", "day", again))
    for crowding in (0.0, 1.0):
        rule = Rule("lowest_window", "day", again, capacity=24, crowding=crowding)
        start = starts(work, x, rule)
        most, of_all = (peak(of, of + work.run, work.cores) for of in (start, unlimited))
        assert most <= 24 < of_all
    with pytest.raises(InputError, match="a job asks for 8 cores, but there are 7"):
        starts(work, x, Rule("now", capacity=7))


def test_forecasts_by_hand() -> None:
    x = np.arange(400.0) + 24 * (np.arange(400) % 24 == 0)
    seen = np.empty(30)
    forecast(x, 240, FORECASTS.index("day"), 0.0, 0, 30, seen)
    assert seen[[0, 1, 23, 24, 25]].tolist() == [264, 217, 239, 264, 217]
    forecast(x, 240, FORECASTS.index("week"), 0.0, 0, 30, seen)
    assert seen[[1, 24]].tolist() == [73, 120]
    forecast(x, 240, FORECASTS.index("mean7"), 0.0, 0, 30, seen)
    assert seen[1] == 217 - 3 * 24
    forecast(x, 240, FORECASTS.index("level7"), 0.0, 0, 30, seen)
    assert seen[2] == pytest.approx(218 - 72 + (264 - (240 - 4 * 24 + 24)) * 0.81)


def test_the_noise_is_standard_normal_and_that_of_its_seed() -> None:
    x, seen, again = np.ones(4000), np.empty(2), np.empty(2)
    drawn = []
    for t in range(3000):
        forecast(x, t, FORECASTS.index("noise"), 0.1, 7, 2, seen)
        forecast(x, t, FORECASTS.index("noise"), 0.1, 7, 2, again)
        assert (seen == again).all()
        drawn.append((seen[1] - 1) / 0.1 * np.sqrt(24))
    assert np.mean(drawn) == pytest.approx(0, abs=0.07)
    assert np.std(drawn) == pytest.approx(1, abs=0.05)
